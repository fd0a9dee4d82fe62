/* Goal: a program that runs one job after the other does so on a cluster, too; its manager
 * lives between jobs; the manager that follows runs no ended job again, and of the last one no
 * committed vertex. What a program prints comes to who submitted it. */
#include "base/text.h"
#include "cluster_scene.h"

#include <gyre/flow.h>
#include <gyre/vertex.h>

enum { MAKERS = 4, JOBS = 3 };

static gy_flow *flow;

/* ---- the program that is submitted: this one ---- */

typedef struct work {
    char top[64];
    char letter;  /* written when it begins */
    char gate[8]; /* a file that it waits for; "": none */
} work;

static gy_status begin_work(const gy_vertex *vertex)
{
    size_t size = 0;
    char path[160];
    const work *own = gy_vertex_parameter(vertex, &size);
    snprintf(path, sizeof(path), "%s/runs", own->top);
    const int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    const bool is_written = file >= 0 && write(file, &own->letter, 1) == 1;
    if (file >= 0) {
        close(file);
    }
    snprintf(path, sizeof(path), "%s/%s", own->top, own->gate);
    while (own->gate[0] != '\0' && access(path, F_OK) != 0 && !gy_vertex_is_cancelled(vertex)) {
        kit_pause();
    }
    return is_written ? GY_OK : gy_fail(GY_IO, "cannot write %s", path);
}

static gy_status make(gy_vertex *vertex)
{
    GY_TRY(begin_work(vertex));
    for (int i = 0; i < 3000; i++) { /* more than a report takes: it lies at its host */
        char line[32];
        const size_t size = gy_print(line, sizeof(line), "%d %d\n", gy_vertex_index(vertex), i);
        GY_TRY(gy_vertex_write(vertex, 0, line, size));
    }
    return GY_OK;
}

/* Its inputs one behind the other, then its letter. */
static gy_status join(gy_vertex *vertex)
{
    size_t size = 0;
    const work *own = gy_vertex_parameter(vertex, &size);
    GY_TRY(begin_work(vertex));
    for (int i = 0; i < gy_vertex_inputs(vertex); i++) {
        const void *data = NULL;
        do {
            GY_TRY(gy_vertex_read(vertex, i, &data, &size));
            GY_TRY(size > 0 && gy_vertex_outputs(vertex) > 0
                       ? gy_vertex_write(vertex, 0, data, size)
                       : GY_OK);
        } while (size > 0);
    }
    return gy_vertex_outputs(vertex) > 0 ? gy_vertex_write(vertex, 0, &own->letter, 1) : GY_OK;
}

/* MAKERS >> join; job 0 has no output, job 2 reads also what job 1 published. */
static gy_status run_job(const char *top, int number)
{
    char output[160], folder[160], before[160];
    work makes = {.letter = (char)('a' + number)}, joins = {.letter = (char)('A' + number)};
    snprintf(makes.top, sizeof(makes.top), "%s", top);
    snprintf(joins.top, sizeof(joins.top), "%s", top);
    snprintf(joins.gate, sizeof(joins.gate), "%s", number == JOBS - 1 ? "go" : "");
    snprintf(output, sizeof(output), "%s/out%d", top, number);
    snprintf(folder, sizeof(folder), "%s/job%d", top, number);
    snprintf(before, sizeof(before), "%s/out%d/all-00000", top, number - 1);
    const char *const files[] = {before, NULL};
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(flow, "a link", &dag));
    gy_part made =
        gy_part_clone(gy_dag_vertex(dag, &(gy_vertex_options){.function = "make",
                                                              .parameter = &makes,
                                                              .parameter_bytes = sizeof(makes),
                                                              .outputs = 1}),
                      MAKERS);
    gy_part joined =
        gy_dag_vertex(dag, &(gy_vertex_options){.function = "join",
                                                .parameter = &joins,
                                                .parameter_bytes = sizeof(joins),
                                                .inputs = GY_PORTS_ANY,
                                                .outputs = number > 0,
                                                .files = number > 1 ? files : NULL});
    gy_part all = gy_part_bipartite(made, joined, GY_CHANNEL_FILE);
    if (number > 0) {
        gy_part_output(all, "all");
    }
    const gy_flow_options options = {.output = number > 0 ? output : NULL,
                                     .folder = number > 0 ? NULL : folder};
    const gy_status status = gy_flow_run(flow, dag, &options, NULL);
    gy_dag_free(dag);
    return status;
}

static int run_chain(const char *top)
{
    char path[160];
    snprintf(path, sizeof(path), "%s/on", top);
    for (int i = 0; i < JOBS; i++) {
        if (run_job(top, i) < 0) {
            fprintf(stderr, "job %d: %s\n", i, gy_error_text());
            return 1;
        }
        while (i == 0 && access(path, F_OK) != 0) { /* between two jobs */
            kit_pause();
        }
    }
    return 0;
}

/* ---- tests ---- */

/* What is committed is written some milliseconds later. */
static void wait_for_journal(const char *id)
{
    char path[300];
    struct stat about = {.st_size = 0};
    snprintf(path, sizeof(path), "%s/out2/.gyre-job-%s.3/journal.1", kit_top, id);
    for (off_t before = -1; about.st_size != before || before == 0;) {
        before = about.st_size;
        for (const double last = kit_now() + 0.05; kit_now() < last;) {
            kit_pause();
        }
        assert_int_equal(stat(path, &about), 0);
    }
}

GY_TEST(jobs_of_one_program)
{
    char line[1024], own[512] = "", id[40];
    int daemon = 0;
    assert_true(readlink("/proc/self/exe", own, sizeof(own) - 1) > 0);
    /* "mr": what the kit knows managers by */
    snprintf(line, sizeof(line), "$GYRE job submit $N --no-wait -- %s mr $T", own);
    assert_int_equal(shell(line), 0);
    scene_id(id);
    /* Nobody but its voice says so, and while it is heard the manager is not lost. */
    KIT_UNTIL(cluster_shell(&at, said, sizeof(said),
                            "$GYRE job list $N | grep 'no job' | grep -q running") == 0);
    assert_int_equal(scene_runs('A'), 1);
    assert_int_equal(scene_runs('b'), 0);
    assert_int_equal(shell("touch on"), 0);
    KIT_UNTIL(scene_runs('C') == 1);
    wait_for_journal(id);
    const pid_t manager = cluster_manager(&at, &daemon);
    assert_true(manager > 0);
    assert_int_equal(kill(manager, SIGKILL), 0);
    KIT_UNTIL(cluster_manager(&at, &daemon) > 0 && cluster_manager(&at, &daemon) != manager);
    snprintf(line, sizeof(line),
             "touch go; $GYRE job wait $N --wait-timeout 50 %s && [ $(wc -l <out1/all-00000) = "
             "12000 ] "
             "&& [ $(wc -l <out2/all-00000) = 24000 ] && [ ! -e out0 ] && $GYRE job show $N %s",
             id, id);
    assert_int_equal(shell(line), 0);
    assert_non_null(strstr(said, "epoch 2,"));
    for (int i = 0; i < JOBS; i++) {
        assert_int_equal(scene_runs((char)('a' + i)), MAKERS);
        assert_true(i == JOBS - 1 || scene_runs((char)('A' + i)) == 1);
    }
}

/* Daemons start the program that was submitted: a shell serves no vertices. */
GY_TEST(a_script_is_refused)
{
    assert_int_equal(shell("seq 9 >in; ! $GYRE job submit $N -- sh -c \"$GYRE mr wordcount "
                           "$T/in -o $T/w\" >said 2>&1 && grep -q 'submit gyre itself' said"),
                     0);
}

/* All lines in order, or how much of them is missing; the last of them later, too. */
GY_TEST(what_it_prints_comes_back)
{
    assert_int_equal(
        shell(
            "! $GYRE job submit $N -- sh -c 'seq 3000; echo last words >&2; exit 3' >said "
            "2>failed && { seq 3000; echo last words; } >home && tail -n +2 said | cmp - home "
            "&& grep -qx 'gyre job submit: job .* failed: exit status 3' failed"),
        0);
    assert_int_equal(shell("$GYRE job show $N $(head -1 said) | tail -n 20 >tail && tail -n 20 "
                           "home | cmp - tail"),
                     0);
    assert_int_equal(
        shell(
            "$GYRE job submit $N -- seq 300000 >said 2>lost && L=$(awk '/bytes of the job/ {n "
            "+= $2} END {print n + 0}' lost) && [ $((L + $(tail -n +2 said | wc -c))) = "
            "$(seq 300000 | wc -c) ] && [ $(tail -1 said) = 300000 ]"),
        0);
}

int main(int argc, char **argv)
{
    static const gy_function functions[] = {{.name = "make", .run = make},
                                            {.name = "join", .run = join}};
    const gy_status started =
        gy_flow_start(&argc, &argv, functions, GY_COUNT(functions), &flow);
    if (started != GY_OK || argc > 1) {
        return started == GY_OK ? run_chain(argv[argc - 1]) : started < 0;
    }
    const int failed = GY_TESTS_RUN(scene_begin, scene_end);
    gy_flow_end(flow);
    return failed;
}
