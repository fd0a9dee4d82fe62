/* Goal: graphs become tasks: cohorts are as wide as allowed, no task waits for itself, and
 * edges and keys describe what a task depends on. */
#include "flow/lower.h"

#include <string.h>
#include <time.h>

#include "gy_test.h"

#define NAMED(dag, name, ins, outs)                                                            \
    gy_dag_vertex(                                                                             \
        (dag), &(gy_vertex_options){.function = (name), .inputs = (ins), .outputs = (outs)})

typedef struct fixture {
    gy_dag *dag;
    gy_lowering lowering;
    gy_growth growth;
    size_t cut;
} fixture;

/* A prototype's key is its name; NULL: results of "loose" are not memoised. */
static void name_key(void *arg, const gy_dag *dag, uint32_t proto, gy_key *key, bool *is_kept,
                     int64_t *bytes)
{
    (void)arg;
    const char *name = dag->protos[proto].function;
    key->high = gy_hash(name, strlen(name), 0);
    key->low = 0;
    *is_kept = strcmp(name, "loose") != 0;
    *bytes = 1000;
}

/* "at h1" must run there, "near h1" prefers it. */
static const char *name_places(void *arg, const gy_dag *dag, uint32_t proto, bool *is_pinned)
{
    (void)arg;
    const char *name = dag->protos[proto].function;
    *is_pinned = strncmp(name, "at ", 3) == 0;
    return *is_pinned ? name + 3 : strncmp(name, "near ", 5) == 0 ? name + 5 : NULL;
}

static const gy_lower_source names = {name_key, NULL, name_places};

/* Commands have no names. */
static void stage_key(void *arg, const gy_dag *dag, uint32_t proto, gy_key *key, bool *is_kept,
                      int64_t *bytes)
{
    (void)arg;
    *key = (gy_key){.high = dag->protos[proto].stage};
    *is_kept = true;
    *bytes = 0;
}

static gy_status lower(fixture *f, uint32_t width_max)
{
    gy_flow_growth_free(&f->growth);
    GY_TRY(gy_flow_lower_check(&f->lowering, f->dag));
    GY_TRY(gy_flow_lower_cohorts(&f->lowering, f->dag, width_max, &f->cut));
    return gy_flow_lower_growth(&f->lowering, f->dag, &names, &f->growth);
}

static fixture begin(void)
{
    fixture f = {.dag = NULL};
    assert_ok(gy_dag_new(NULL, "lower", &f.dag));
    assert_non_null(f.dag);
    return f;
}

static void end(fixture *f)
{
    gy_flow_growth_free(&f->growth);
    gy_lowering_fini(&f->lowering);
    gy_dag_free(f->dag);
}

GY_TEST(vertices_on_files_are_tasks_of_one)
{
    fixture f = begin();
    gy_part map = gy_part_clone(NAMED(f.dag, "map", 0, 2), 3);
    gy_part reduce = gy_part_clone(NAMED(f.dag, "reduce", GY_PORTS_ANY, 1), 2);
    gy_part_output(gy_part_bipartite(map, reduce, GY_CHANNEL_FILE), "out");
    assert_ok(lower(&f, 4));
    assert_int_equal(f.growth.task_count, 5);
    assert_int_equal(f.growth.edge_count, 6);
    for (uint32_t t = 0; t < 5; t++) {
        const gy_sched_task *task = &f.growth.tasks[t];
        assert_int_equal(task->width, 1);
        assert_int_equal(task->stage, t < 3 ? 0 : 1);
        assert_int_equal(task->input_count, t < 3 ? 0 : 3);
        assert_int_equal(task->output_count, t < 3 ? 2 : 1);
        assert_int_equal(task->flags, t < 3 ? 0 : GY_TASK_FINAL);
        assert_int_equal(task->input_bytes, 1000);
    }
    for (uint32_t e = 0; e < 6; e++) { /* reduce j: output j of map 0, 1, 2 */
        assert_int_equal(f.growth.edges[e].from, e % 3);
        assert_int_equal(f.growth.edges[e].output, e / 3);
    }
    size_t first = 0, count = 0;
    gy_flow_lower_finals(f.dag, 4, &first, &count);
    assert_int_equal(count, 1);
    assert_int_equal(f.dag->finals[first].number, 1);
    gy_flow_lower_finals(f.dag, 2, &first, &count);
    assert_int_equal(count, 0);
    end(&f);
}

GY_TEST(pipes_and_fifos_make_cohorts)
{
    fixture f = begin();
    gy_part a = NAMED(f.dag, "a", 0, 2), b = NAMED(f.dag, "b", 1, 1),
            c = NAMED(f.dag, "c", 1, 1);
    gy_part join = NAMED(f.dag, "join", 2, 1), sink = NAMED(f.dag, "sink", 1, 0);
    gy_part both = gy_part_merge(b, c);
    gy_part diamond =
        gy_part_pointwise(gy_part_pointwise(a, both, GY_CHANNEL_FIFO), join, GY_CHANNEL_PIPE);
    (void)gy_part_clone(gy_part_pointwise(diamond, sink, GY_CHANNEL_FILE), 3);
    assert_ok(lower(&f, 4));
    assert_int_equal(f.cut, 0);
    assert_int_equal(f.growth.task_count, 6);
    assert_int_equal(f.growth.edge_count, 3);
    for (uint32_t t = 0; t < 6; t++) {
        assert_int_equal(f.growth.tasks[t].width, t % 2 == 0 ? 4 : 1);
        assert_int_equal(f.growth.tasks[t].output_count, t % 2 == 0 ? 5 : 0);
    }
    /* the sink reads the output of the fourth member, after 2 + 1 + 1 outputs of the others */
    assert_int_equal(f.growth.edges[1].from, 2);
    assert_int_equal(f.growth.edges[1].output, 4);
    assert_int_equal(gy_flow_lower_member(&f.lowering, 8), 3);
    assert_int_equal(gy_flow_lower_member(&f.lowering, 3), 3);
    assert_int_equal(gy_flow_lower_member(&f.lowering, 4), 0);
    assert_memory_not_equal(&f.growth.tasks[0].key, &f.growth.tasks[2].key, sizeof(gy_key));
    end(&f);
}

/* A chain of `count` vertices connected by FIFOs; the pipe after `cheap` has the fewest
 * bytes. */
static void add_chain(fixture *f, int count, int cheap)
{
    gy_part chain = {f->dag, -1};
    for (int i = 0; i < count; i++) {
        gy_part next =
            gy_dag_vertex(f->dag, &(gy_vertex_options){.function = "link",
                                                       .inputs = i > 0,
                                                       .outputs = i + 1 < count,
                                                       .output_bytes = i == cheap ? 1 : 1000});
        chain = i == 0 ? next : gy_part_pointwise(chain, next, GY_CHANNEL_FIFO);
    }
}

GY_TEST(wide_cohorts_lose_their_cheapest_pipes)
{
    for (int cheap = 0; cheap < 5; cheap++) {
        fixture f = begin();
        add_chain(&f, 6, cheap);
        assert_ok(lower(&f, 5));
        assert_int_equal(f.cut, 1);
        assert_int_equal(f.growth.task_count, 2);
        assert_int_equal(f.growth.tasks[0].width, cheap + 1);
        assert_int_equal(f.growth.edge_count, 1);
        end(&f);
    }
    fixture f = begin();
    add_chain(&f, 6, 9);
    assert_ok(lower(&f, 1)); /* too narrow for any cohort */
    assert_int_equal(f.cut, 5);
    assert_int_equal(f.growth.task_count, 6);
    end(&f);
}

GY_TEST(of_equal_pipes_the_fewest_become_files)
{
    /* of 16 pipes a 2 by 2 square stays; a star of four would keep only 3 */
    fixture f = begin();
    gy_part a = gy_part_clone(NAMED(f.dag, "a", 0, 4), 4);
    gy_part b = gy_part_clone(NAMED(f.dag, "b", 4, 0), 4);
    (void)gy_part_bipartite(a, b, GY_CHANNEL_FIFO);
    assert_ok(lower(&f, 4));
    assert_int_equal(f.cut, 12);
    assert_int_equal(f.growth.task_count, 5);
    end(&f);
    f = begin(); /* too many pipes to weigh: the cohorts are still within the width */
    a = gy_part_clone(NAMED(f.dag, "a", 0, 40), 40);
    b = gy_part_clone(NAMED(f.dag, "b", 40, 0), 40);
    (void)gy_part_bipartite(a, b, GY_CHANNEL_FIFO);
    assert_ok(lower(&f, 4));
    for (uint32_t t = 0; t < f.growth.task_count; t++) {
        assert_in_range(f.growth.tasks[t].width, 1, 4);
    }
    end(&f);
}

GY_TEST(many_tied_cohorts_do_not_cost_their_square)
{
    enum { COPIES = 50000 };
    fixture f = begin();
    gy_part a = NAMED(f.dag, "a", 0, GY_PORTS_ANY), b = NAMED(f.dag, "b", 1, 1);
    gy_part c = NAMED(f.dag, "c", GY_PORTS_ANY, 0);
    gy_part pair = gy_part_pointwise(a, c, GY_CHANNEL_FIFO);
    gy_part around =
        gy_part_pointwise(gy_part_pointwise(a, b, GY_CHANNEL_FILE), c, GY_CHANNEL_FILE);
    (void)gy_part_clone(gy_part_merge(pair, around), COPIES);
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    assert_ok(lower(&f, 2));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    assert_int_equal(f.cut, COPIES);
    assert_int_equal(f.growth.task_count, 3 * COPIES);
    assert_true(to.tv_sec - from.tv_sec < 5);
    end(&f);
}

/* The cohorts of random graphs of pipes and files are within bounds, and the tasks are
 * acyclic. */
GY_TEST(random_cohorts_fit_and_have_an_order)
{
    gy_random random = {.key = gy_test_seed()};
    for (long n = 0; n < gy_test_cases(400); n++) {
        fixture f = begin();
        enum { SIZE = 24 };
        gy_part all[SIZE];
        for (int i = 0; i < SIZE; i++) {
            all[i] = gy_dag_vertex(
                f.dag,
                &(gy_vertex_options){.function = "any",
                                     .inputs = GY_PORTS_ANY,
                                     .outputs = GY_PORTS_ANY,
                                     .output_bytes = (int64_t)gy_random_below(&random, 3)});
            for (int k = (int)gy_random_below(&random, 3); i > 0 && k > 0; k--) {
                const int from = (int)gy_random_below(&random, (uint64_t)i);
                (void)gy_part_pointwise(all[from], all[i],
                                        (gy_channel)gy_random_below(&random, 3));
            }
        }
        const uint32_t width = 1 + (uint32_t)gy_random_below(&random, 6);
        assert_ok(lower(&f, width));
        uint32_t component[SIZE] = {0}, cycles = 0;
        f.lowering.vertex_floor = f.lowering.task_count = 0; /* check all of them again */
        assert_ok(
            gy_flow_lower_cycles(&f.lowering, f.dag, f.lowering.task, component, &cycles));
        assert_int_equal(cycles, 0);
        for (uint32_t t = 0; t < f.growth.task_count; t++) {
            assert_in_range(f.growth.tasks[t].width, 1, width);
        }
        for (size_t e = 0; e < f.dag->edge_count; e++) {
            const gy_dag_edge *edge = &f.dag->edges[e];
            const bool is_within = f.lowering.task[edge->from] == f.lowering.task[edge->to];
            assert_int_equal(is_within, edge->channel != GY_CHANNEL_FILE);
        }
        end(&f);
    }
}

GY_TEST(cohorts_that_wait_for_themselves_become_files)
{
    fixture f = begin();
    gy_part a = NAMED(f.dag, "a", 0, GY_PORTS_ANY), b = NAMED(f.dag, "b", 1, 1);
    gy_part c = NAMED(f.dag, "c", GY_PORTS_ANY, 0);
    (void)gy_part_pointwise(a, c, GY_CHANNEL_FIFO);
    (void)gy_part_pointwise(gy_part_pointwise(a, b, GY_CHANNEL_FILE), c, GY_CHANNEL_FILE);
    assert_ok(lower(&f, 8));
    assert_int_equal(f.cut, 1);
    assert_int_equal(f.growth.task_count, 3);
    end(&f);
    f = begin(); /* a file parallel to a FIFO */
    a = NAMED(f.dag, "a", 0, 2);
    c = NAMED(f.dag, "c", GY_PORTS_ANY, 0);
    gy_dag_join(f.dag, (uint32_t[]){0, 0}, (uint32_t[]){1, UINT32_MAX}, GY_CHANNEL_FIFO);
    gy_dag_join(f.dag, (uint32_t[]){0, 1}, (uint32_t[]){1, UINT32_MAX}, GY_CHANNEL_FILE);
    assert_ok(lower(&f, 8));
    assert_int_equal(f.cut, 1);
    assert_int_equal(f.growth.task_count, 2);
    end(&f);
}

GY_TEST(keys_tell_tasks_apart_and_stay)
{
    gy_key keys[2][6];
    for (int run = 0; run < 2; run++) {
        fixture f = begin();
        (void)gy_part_clone(NAMED(f.dag, "a", 0, 0), 2);
        (void)NAMED(f.dag, "b", 0, 0);
        gy_part pair = gy_part_pointwise(NAMED(f.dag, "c", 0, 1), NAMED(f.dag, "d", 1, 0),
                                         run == 0 ? GY_CHANNEL_FIFO : GY_CHANNEL_PIPE);
        (void)pair;
        (void)NAMED(f.dag, "loose", 0, 0);
        assert_ok(lower(&f, 2));
        assert_int_equal(f.growth.task_count, 5);
        for (int t = 0; t < 5; t++) {
            keys[run][t] = f.growth.tasks[t].key;
            for (int u = 0; u < t; u++) {
                assert_memory_not_equal(&keys[run][t], &keys[run][u], sizeof(gy_key));
            }
            assert_int_equal((f.growth.tasks[t].flags & GY_TASK_NO_MEMO) != 0, t == 4);
        }
        end(&f);
    }
    for (int t = 0; t < 5; t++) { /* the channels inside the cohort are part of its key */
        assert_int_equal(memcmp(&keys[0][t], &keys[1][t], sizeof(gy_key)) == 0, t != 3);
    }
}

static void no_growth(gy_refinement *refinement, gy_dag *dag, gy_part outputs)
{
    (void)refinement, (void)dag, (void)outputs;
}

GY_TEST(growth_is_lowered_alone)
{
    fixture f = begin();
    gy_part map = gy_part_clone(NAMED(f.dag, "map", 0, 1), 4);
    gy_part_refine(
        map, &(gy_refine_options){.work = no_growth, .stages = (const char *[]){"sum", NULL}});
    assert_ok(lower(&f, 2));
    assert_int_equal(f.growth.task_count, 4);
    gy_part sum = NAMED(f.dag, "sum", GY_PORTS_ANY, 1);
    gy_part_output(gy_part_pointwise(map, sum, GY_CHANNEL_FILE), "sum");
    assert_ok(lower(&f, 2));
    assert_int_equal(f.growth.task_count, 1);
    assert_int_equal(f.growth.edge_count, 4);
    assert_int_equal(f.growth.edges[3].from, 3);
    assert_int_equal(f.lowering.task[4], 4);
    assert_int_equal(f.lowering.task_count, 5);
    /* connecting to a finished part is refused, also a pipe from it */
    gy_part late = NAMED(f.dag, "late", 0, 1);
    gy_dag_join(f.dag, (uint32_t[]){5, 0}, (uint32_t[]){4, UINT32_MAX}, GY_CHANNEL_FILE);
    assert_status(lower(&f, 2), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "sum[0], which is done"));
    (void)late;
    end(&f);
}

GY_TEST(a_million_tasks_are_lowered_quickly)
{
    const int wide = (int)gy_test_serial_cases(250000);
    fixture f = begin();
    gy_part top = gy_part_clone(NAMED(f.dag, "top", 0, 2), wide);
    gy_part left = gy_part_clone(NAMED(f.dag, "left", 2, 2), wide);
    gy_part right = gy_part_clone(NAMED(f.dag, "right", 2, 2), wide);
    gy_part low = gy_part_clone(NAMED(f.dag, "low", 2, 0), wide);
    gy_part chain = gy_part_pointwise(top, left, GY_CHANNEL_FILE);
    chain = gy_part_pointwise(chain, right, GY_CHANNEL_FIFO);
    (void)gy_part_pointwise(chain, low, GY_CHANNEL_FILE);
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    assert_ok(lower(&f, 2));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    const double seconds =
        (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    printf("%d vertices to tasks: %.3f s\n", 4 * wide, seconds);
#if !defined(GYRE_ASAN) && !defined(GYRE_TSAN)
    assert_true(seconds < 1);
#endif
    assert_int_equal(f.growth.task_count, 3 * wide);
    assert_int_equal(f.growth.edge_count, 4 * wide);
    end(&f);
}

GY_TEST(places_go_with_tasks)
{
    fixture f = begin();
    (void)NAMED(f.dag, "a", 0, 0);
    assert_ok(lower(&f, 2));
    assert_null(f.growth.places); /* nothing needs places */
    end(&f);
    f = begin();
    (void)NAMED(f.dag, "near h1 h2", 0, 0);
    (void)NAMED(f.dag, "a", 0, 0);
    (void)NAMED(f.dag, "at h3", 0, 0);
    assert_ok(lower(&f, 2));
    assert_int_equal(f.growth.task_count, 3);
    assert_string_equal(f.growth.places[0], "h1 h2");
    assert_null(f.growth.places[1]);
    assert_string_equal(f.growth.places[2], "h3");
    assert_int_equal(f.growth.tasks[0].flags & GY_TASK_PINNED, 0);
    assert_int_equal(f.growth.tasks[2].flags & GY_TASK_PINNED, GY_TASK_PINNED);
    end(&f);
    f = begin();
    (void)gy_part_pointwise(NAMED(f.dag, "at h3", 0, 1), NAMED(f.dag, "a", 1, 0),
                            GY_CHANNEL_FIFO);
    assert_status(lower(&f, 2), GY_UNSUPPORTED);
    end(&f);
}

/* On a cluster a gang over hosts is a task with a member for each rank, connected by files; on
 * one machine it has one member. */
GY_TEST(gangs_over_hosts_have_a_member_a_rank)
{
    static const char *const command[] = {"ranks", NULL};
    for (int i = 0; i < 4; i++) {
        const int round = i / 2, hosts = i % 2 == 0 ? 3 : 1;
        fixture f = begin();
        f.lowering.is_over_hosts = round == 1;
        gy_part map = gy_part_clone(NAMED(f.dag, "map", 0, 1), 2);
        gy_part gang = gy_dag_vertex(f.dag, &(gy_vertex_options){.command = command,
                                                                 .inputs = GY_PORTS_ANY,
                                                                 .outputs = 1,
                                                                 .ranks = 6,
                                                                 .hosts = hosts});
        gy_part top = NAMED(f.dag, "top", GY_PORTS_ANY, 1);
        gy_part_output(gy_part_bipartite(gy_part_bipartite(map, gang, GY_CHANNEL_PIPE), top,
                                         GY_CHANNEL_FIFO),
                       "out");
        gy_lowering_fini(&f.lowering);
        f.lowering = (gy_lowering){.is_over_hosts = round == 1};
        assert_ok(gy_flow_lower_check(&f.lowering, f.dag));
        assert_ok(gy_flow_lower_cohorts(&f.lowering, f.dag, 8, &f.cut));
        assert_int_equal(f.cut, 0);
        const gy_lower_source source = {stage_key, NULL, NULL};
        assert_ok(gy_flow_lower_growth(&f.lowering, f.dag, &source, &f.growth));
        assert_int_equal(f.growth.task_count, 4);
        const gy_sched_task *task = &f.growth.tasks[2];
        assert_int_equal(task->width, round == 1 ? 6 : 1);
        assert_int_equal(task->hosts, round == 1 ? hosts : 0);
        assert_int_equal(task->flags, GY_TASK_EXACT);
        assert_true(task->input_count == 2 && task->output_count == 1);
        assert_int_equal(f.growth.edge_count, 3);
        assert_int_equal(f.lowering.member_first[4], round == 1 ? 9 : 4);
        for (uint32_t m = f.lowering.member_first[2]; m < f.lowering.member_first[3]; m++) {
            assert_int_equal(f.lowering.members[m], 2);
        }
        assert_int_equal(f.lowering.members[f.lowering.member_first[3]], 3);
        assert_int_equal(gy_flow_lower_member(&f.lowering, 2), 0);
        assert_int_equal(gy_flow_lower_output(&f.lowering, f.dag, 2), 0);
        end(&f);
    }
    static const gy_vertex_options wrong[] = {
        {.command = command, .ranks = 5, .hosts = 2},
        {.command = command, .hosts = 2},
        {.command = command, .ranks = 600, .hosts = 300},
    };
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        fixture f = begin();
        (void)gy_dag_vertex(f.dag, &wrong[i]);
        assert_non_null(strstr(gy_dag_failure(f.dag), "as many on each of at most"));
        end(&f);
    }
}

GY_TEST_MAIN(NULL, NULL)
