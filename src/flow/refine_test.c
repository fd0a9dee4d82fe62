/* Shapes chosen from sizes and samples: groups, trees, fans, ranges of keys. */
#include "flow/lower.h"
#include "flow/refine.h"

#include <string.h>

#include "gy_test.h"

GY_TEST(groups_of_neighbours_respect_bytes)
{
    const int64_t bytes[] = {5, 5, 5, 20, 1, 1, 9, 1};
    uint32_t group[8];
    assert_int_equal(gy_flow_shape_groups(bytes, 8, 10, 1, group), 5);
    const uint32_t alone[] = {0, 0, 1, 2, 3, 3, 4, 4};
    assert_memory_equal(group, alone, sizeof(group));
    assert_int_equal(gy_flow_shape_groups(bytes, 8, 10, 2, group), 4);
    const uint32_t pairs[] = {0, 0, 1, 1, 2, 2, 3, 3};
    assert_memory_equal(group, pairs, sizeof(group));
    const int64_t huge[] = {INT64_MAX, INT64_MAX, 1};
    assert_int_equal(gy_flow_shape_groups(huge, 3, INT64_MAX, 1, group), 3);
}

GY_TEST(trees_have_one_root_that_all_leaves_reach)
{
    gy_random random = {.key = gy_test_seed()};
    for (long n = 0; n < gy_test_cases(300); n++) {
        const uint32_t count = 1 + (uint32_t)gy_random_below(&random, 200);
        int64_t bytes[200];
        for (uint32_t i = 0; i < count; i++) {
            bytes[i] = (int64_t)gy_random_below(&random, 1000);
        }
        uint32_t parent[432], children[432] = {0};
        const uint32_t nodes = gy_flow_shape_tree(
            bytes, count, 1 + (int64_t)gy_random_below(&random, 5000), parent);
        assert_in_range(nodes, count + 1, 2 * count + 8);
        for (uint32_t i = 0; i + 1 < nodes; i++) {
            assert_true(parent[i] > i && parent[i] >= count && parent[i] < nodes);
            children[parent[i]]++;
        }
        assert_int_equal(parent[nodes - 1], UINT32_MAX);
        for (uint32_t i = count; i < nodes; i++) {
            assert_true(children[i] >= 1);
        }
    }
    uint32_t parent[2 + GY_TREE_LEVELS];
    assert_int_equal(gy_flow_shape_tree((const int64_t[]){7}, 1, 1, parent),
                     2); /* one leaf: a root */
}

/* ---- ranges ---- */

static int64_t weight_of(const char *key, const gy_sample_key *keys, int count)
{
    int64_t weight = 0;
    for (int i = 0; i < count; i++) {
        if (keys[i].key_bytes == strlen(key) && memcmp(keys[i].key, key, strlen(key)) == 0) {
            weight += keys[i].weight;
        }
    }
    return weight;
}

GY_TEST(ranges_are_fair_and_keep_equal_keys_together)
{
    gy_random random = {.key = gy_test_seed()};
    for (long n = 0; n < gy_test_cases(300); n++) {
        char names[300][4];
        gy_sample_key keys[300];
        const int count = 1 + (int)gy_random_below(&random, 300);
        int64_t total = 0;
        for (int i = 0; i < count; i++) {
            snprintf(names[i], sizeof(names[i]), "%c%c",
                     (int)('a' + gy_random_below(&random, 26)),
                     (int)('a' + gy_random_below(&random, 26)));
            keys[i] = (gy_sample_key){names[i], strlen(names[i]), 1};
            total++;
        }
        gy_key_range out[16];
        const int wanted = 1 + (int)gy_random_below(&random, 16);
        const int got = gy_plan_key_ranges(keys, count, wanted, out);
        assert_in_range(got, 1, wanted);
        assert_null(out[0].first);
        int64_t sum = 0, heaviest = 0;
        for (int r = 0; r < got; r++) {
            sum += out[r].weight;
            heaviest = GY_MAX(heaviest, out[r].weight);
            assert_true(out[r].shares >= 1 && out[r].weight >= 1);
            if (r > 1) {
                assert_true(memcmp(out[r - 1].first, out[r].first, 2) < 0);
            }
        }
        assert_int_equal(sum, total);
        if (count >= 200) { /* 676 keys: none is heavy */
            assert_true(heaviest <= 2 * total / wanted + 4);
        }
    }
}

GY_TEST(a_heavy_key_has_a_range_of_its_own)
{
    gy_sample_key keys[] = {{"b", 1, 10},  {"hot", 3, 200}, {"a", 1, 10}, {"hot", 3, 100},
                            {"ho", 2, 10}, {"z", 1, 10},    {"y", 1, 60}};
    assert_int_equal(weight_of("hot", keys, 7), 300);
    gy_key_range out[4];
    assert_int_equal(gy_plan_key_ranges(keys, 7, 4, out), 4);
    assert_int_equal(out[0].weight, 30);
    assert_int_equal(out[0].shares, 1);
    assert_int_equal(out[1].first_bytes, 3);
    assert_memory_equal(out[1].first, "hot", 3);
    assert_int_equal(out[1].weight, 300);
    assert_int_equal(out[1].shares, 3); /* 400 / 4 = 100 each */
    assert_memory_equal(out[2].first, "y", 1);
    assert_int_equal(out[2].weight, 60);
    assert_memory_equal(out[3].first, "z", 1);
    assert_int_equal(gy_plan_key_ranges(NULL, 0, 4, out), 1);
    gy_sample_key one[] = {{"k", 1, 5}};
    assert_int_equal(gy_plan_key_ranges(one, 1, 3, out), 1);
    assert_int_equal(out[0].shares, 3);
    assert_null(out[0].first);
}

/* ---- refinements ---- */

static void spread_out(gy_refinement *refinement, gy_dag *dag, gy_part outputs)
{
    (void)dag;
    size_t size = 0;
    const char *name = gy_refinement_parameter(refinement, &size);
    assert_int_equal(size, 4);
    gy_part made = gy_refinement_repartition(
        refinement, outputs,
        &(gy_vertex_options){.function = "late", .inputs = GY_PORTS_ANY, .outputs = 1}, 100);
    gy_part_output(made, name);
}

/* A dag with a refinement of `count` outputs of `bytes` each, lowered once. */
static gy_dag *gated(int count, gy_lowering *lowering)
{
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(NULL, "gated", &dag));
    gy_part map = gy_part_clone(
        gy_dag_vertex(dag, &(gy_vertex_options){.function = "map", .outputs = 1}), count);
    gy_part_refine(map, &(gy_refine_options){.work = spread_out,
                                             .parameter = "out",
                                             .parameter_bytes = 4,
                                             .stages = (const char *[]){"late", NULL}});
    size_t cut = 0;
    assert_ok(gy_flow_lower_check(lowering, dag));
    assert_ok(gy_flow_lower_cohorts(lowering, dag, 2, &cut));
    lowering->vertex_floor = dag->vertex_count;
    lowering->edge_floor = dag->edge_count;
    lowering->refinement_floor = dag->refinement_count;
    dag->part_floor = dag->part_count;
    dag->is_running = true;
    return dag;
}

GY_TEST(growth_makes_as_many_vertices_as_sizes_ask_for)
{
    for (int64_t bytes = 10; bytes <= 1000; bytes *= 10) {
        gy_lowering lowering = {0};
        gy_dag *dag = gated(10, &lowering);
        int64_t sizes[10];
        gy_refinement_sample_row samples[10] = {{0}};
        for (int i = 0; i < 10; i++) {
            sizes[i] = bytes;
        }
        gy_refinement refinement = {
            .row = &dag->refinements[0], .bytes = sizes, .samples = samples, .processes = 2};
        dag->refinements[0].work(&refinement, dag,
                                 gy_refinement_part(dag, &dag->refinements[0]));
        assert_ok(gy_flow_lower_check(&lowering, dag));
        assert_int_equal(dag->vertex_count, bytes == 10 ? 11 : 20);
        assert_int_equal(dag->final_count, bytes == 10 ? 1 : 10);
        gy_lowering_fini(&lowering);
        gy_dag_free(dag);
    }
}

GY_TEST(errors_of_growth_are_named)
{
    gy_lowering lowering = {0};
    gy_dag *dag = gated(4, &lowering);
    (void)gy_dag_vertex(dag, &(gy_vertex_options){.function = "other"});
    assert_non_null(strstr(gy_dag_failure(dag), "stage \"other\""));
    gy_lowering_fini(&lowering);
    gy_dag_free(dag);
    lowering = (gy_lowering){0};
    dag = gated(4, &lowering);
    (void)gy_part_clone((gy_part){dag, 0}, 2);
    assert_non_null(strstr(gy_dag_failure(dag), "part from before the job"));
    gy_lowering_fini(&lowering);
    gy_dag_free(dag);
    lowering = (gy_lowering){0};
    dag = gated(4, &lowering);
    gy_part_output(gy_refinement_part(dag, &dag->refinements[0]), "early");
    assert_status(gy_flow_lower_check(&lowering, dag), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "map[0], which has finished"));
    gy_lowering_fini(&lowering);
    gy_dag_free(dag);
    assert_ok(gy_dag_new(NULL, "any", &dag));
    gy_part_refine(
        gy_dag_vertex(dag, &(gy_vertex_options){.function = "map", .outputs = GY_PORTS_ANY}),
        &(gy_refine_options){.work = spread_out});
    assert_non_null(strstr(gy_dag_failure(dag), "fixed number of outputs"));
    gy_dag_free(dag);
}

GY_TEST_MAIN(NULL, NULL)
