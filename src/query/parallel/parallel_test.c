/* Goal: aggregates, joins and sorts by several workers give the rows that one gives, in the
 * same order, with little memory too; a source that fails is a failure that leaves nothing. */
#include "query/parallel/parallel.h"

#include "query/rows/disk_test.h"

#include "gy_test.h"

#define COLUMNS "k int, t text, i int, d double, m decimal(20, 2), b bool, w bool"

enum { K, T, I, D, M, B, W };

static const gy_rows_aggregate_of kinds[] = {
    {.kind = GY_ROWS_COUNT_STAR},
    {.kind = GY_ROWS_COUNT, .column = I},
    {.kind = GY_ROWS_SUM, .column = I},
    {.kind = GY_ROWS_SUM, .column = D},
    {.kind = GY_ROWS_AVG, .column = M},
    {.kind = GY_ROWS_MIN, .column = D},
    {.kind = GY_ROWS_MAX, .column = T},
    {.kind = GY_ROWS_BOOL_AND, .column = B},
    {.kind = GY_ROWS_SUM, .column = I, .has_filter = true, .filter = W},
    /* without this one rows may come in any order */
    {.kind = GY_ROWS_ANY, .column = I},
};

/* Of one column: rows are grouped by it first. */
static const gy_rows_aggregate_of distinct_kinds[] = {
    {.kind = GY_ROWS_COUNT, .column = I, .is_distinct = true},
    {.kind = GY_ROWS_SUM, .column = I, .is_distinct = true},
    {.kind = GY_ROWS_AVG, .column = I, .is_distinct = true},
};

static gy_engine *engines[2];

static int begin(void **state)
{
    static const int workers[] = {2, 4};
    test_disk_begin(state);
    for (size_t i = 0; i < GY_COUNT(engines); i++) {
        const gy_engine_options options = GY_OPTIONS(gy_engine_options, .workers = workers[i]);
        assert_ok(gy_engine_new(&options, &engines[i]));
    }
    return 0;
}

static int end(void **state)
{
    for (size_t i = 0; i < GY_COUNT(engines); i++) {
        gy_engine_free(engines[i]);
    }
    return test_disk_end(state);
}

static gy_status aggregate(gy_random *random, const gy_frame *frame,
                           const gy_rows_aggregate_options *options, gy_frame **all)
{
    gy_frame_source out;
    gy_schema *schema = NULL;
    const gy_frame_source in =
        test_cut(random, frame, GY_MAX(gy_frame_rows(frame) / 20, INT64_C(30)));
    GY_TRY(gy_parallel_aggregate(in, gy_frame_schema(frame), options, &out, &schema));
    const gy_status status = test_collect(&out, schema, all);
    gy_schema_drop(schema);
    return status;
}

/* Without an engine; then with each, in all memory and in little. */
static void check_groups(gy_random *random, const test_shape *shape, int key_count,
                         const gy_rows_aggregate_of *of, int kind_count)
{
    static const int keys[] = {K, T, M};
    gy_schema *schema = NULL;
    gy_frame *one = NULL;
    assert_ok(gy_schema_parse(COLUMNS, &schema));
    gy_frame *frame = test_frame(random, schema, shape);
    gy_rows_aggregate_options options = {
        .keys = keys, .key_count = key_count, .aggregates = of, .aggregate_count = kind_count};
    assert_ok(aggregate(random, frame, &options, &one));
    for (size_t i = 0; i < 3; i++) {
        gy_rows_counts done = {.rows_in = 0};
        gy_frame *many = NULL;
        options.limits = (gy_rows_limits){.memory_bytes = i / 2, /* 1: the least */
                                          .spill_folder = test_files,
                                          .counts = &done,
                                          .engine = engines[GY_MIN(i, (size_t)1)]};
        assert_ok(aggregate(random, frame, &options, &many));
        test_same(one, many);
        assert_int_equal(done.rows_in, shape->rows);
        assert_int_equal(done.rows_out, gy_frame_rows(one));
        assert_true(i < 2 || gy_frame_rows(one) < 8000 || done.spills > 0);
        gy_frame_drop(many);
    }
    gy_frame_drop(one);
    gy_frame_drop(frame);
    gy_schema_drop(schema);
}

GY_TEST(groups_are_those_of_one_worker)
{
    gy_random random = {gy_test_seed(), 0};
    for (long round = 0; round < gy_test_cases(16); round++) {
        const test_shape shape = {.rows = (int64_t)gy_random_below(&random, 3000),
                                  .distinct = 1 + (int64_t)gy_random_below(&random, 900),
                                  .null_percent = round % 3 == 0 ? 0 : 20};
        check_groups(&random, &shape, (int)(round % 4), kinds,
                     (int)GY_COUNT(kinds) - (round % 8 < 4 ? 0 : 1));
    }
}

GY_TEST(many_groups_leave_the_small_tables)
{
    gy_random random = {gy_test_seed(), 1};
    const long rounds = gy_test_cases(2);
    for (long round = 0; round < rounds; round++) {
        const test_shape shape = {
            .rows = round % 2 == 0 ? 50000 : 12000, .distinct = 3000000, .null_percent = 1};
        check_groups(&random, &shape, 1 + (int)(round % 2), kinds, (int)GY_COUNT(kinds) - 1);
    }
}

GY_TEST(distinct_values_are_those_of_one_worker)
{
    gy_random random = {gy_test_seed(), 7};
    for (long round = 0; round < gy_test_cases(8); round++) {
        const test_shape shape = {.rows = (int64_t)gy_random_below(&random, 3000),
                                  .distinct = 1 + (int64_t)gy_random_below(&random, 90),
                                  .null_percent = round % 3 == 0 ? 0 : 20};
        check_groups(&random, &shape, (int)(round % 4), distinct_kinds,
                     (int)GY_COUNT(distinct_kinds));
    }
}

/* ---- joins ---- */

#define LEFT  "a int, b text, c int"
#define RIGHT "d int, e text, f decimal(12, 2)"

static gy_status keep(void *arg, const gy_frame *pairs, gy_frame **mask)
{
    const gy_column c = gy_frame_column(pairs, 2), f = gy_frame_column(pairs, 5);
    gy_frame_builder *builder = NULL;
    GY_TRY(gy_frame_builder_new(arg, &builder));
    for (int64_t i = 0; i < gy_frame_rows(pairs); i++) {
        gy_frame_add_bool(builder, !gy_column_is_null(&c, i) && !gy_column_is_null(&f, i) &&
                                       gy_column_int64(&c, i) % 3 != 0);
        gy_frame_row_end(builder);
    }
    const gy_status status = gy_frame_finish(builder, mask);
    gy_frame_builder_free(builder);
    return status;
}

typedef struct test_sides {
    gy_schema *left_schema, *right_schema, *mask;
    gy_frame *left, *right;
} test_sides;

static test_sides make_sides(gy_random *random, const test_shape *left, const test_shape *right)
{
    test_sides made;
    assert_ok(gy_schema_parse(LEFT, &made.left_schema));
    assert_ok(gy_schema_parse(RIGHT, &made.right_schema));
    assert_ok(gy_schema_parse("keep bool", &made.mask));
    made.left = test_frame(random, made.left_schema, left);
    made.right = test_frame(random, made.right_schema, right);
    return made;
}

static void free_sides(test_sides *sides)
{
    gy_frame_drop(sides->left);
    gy_frame_drop(sides->right);
    gy_schema_drop(sides->left_schema);
    gy_schema_drop(sides->right_schema);
    gy_schema_drop(sides->mask);
}

static gy_status join(gy_random *random, const test_sides *sides,
                      const gy_rows_match_options *options, gy_frame **all)
{
    const int64_t lefts = gy_frame_rows(sides->left), rights = gy_frame_rows(sides->right);
    const gy_rows_side two[] = {
        {test_cut(random, sides->left, GY_MAX(lefts / 20, INT64_C(30))), sides->left_schema},
        {test_cut(random, sides->right, GY_MAX(rights / 20, INT64_C(30))),
         sides->right_schema}};
    gy_frame_source out;
    gy_schema *schema = NULL;
    GY_TRY(gy_parallel_join(two[0], two[1], options, &out, &schema));
    const gy_status status = test_collect(&out, schema, all);
    gy_schema_drop(schema);
    return status;
}

static void check_join(gy_random *random, const test_sides *sides,
                       const gy_rows_match_options *given)
{
    gy_rows_match_options options = *given;
    gy_frame *one = NULL;
    assert_ok(join(random, sides, &options, &one));
    for (size_t i = 0; i < 3; i++) {
        gy_rows_counts done = {.rows_in = 0};
        gy_frame *many = NULL;
        options.limits = (gy_rows_limits){.memory_bytes = i / 2, /* 1: the least */
                                          .spill_folder = test_files,
                                          .counts = &done,
                                          .engine = engines[GY_MIN(i, (size_t)1)]};
        assert_ok(join(random, sides, &options, &many));
        test_same(one, many);
        assert_int_equal(done.rows_in,
                         gy_frame_rows(sides->left) + gy_frame_rows(sides->right));
        assert_int_equal(done.rows_out, gy_frame_rows(one));
        gy_frame_drop(many);
    }
    gy_frame_drop(one);
}

static const int join_keys[] = {0, 1};

GY_TEST(joins_are_those_of_one_worker)
{
    gy_random random = {gy_test_seed(), 2};
    for (long round = 0; round < gy_test_cases(28); round++) {
        const test_shape shapes[2] = {
            {.rows = (int64_t)gy_random_below(&random, 900),
             .distinct = 1 + (int64_t)gy_random_below(&random, 90),
             .null_percent = round % 3 == 0 ? 0 : 15},
            {.rows = round % 9 == 0 ? 0 : (int64_t)gy_random_below(&random, 300),
             .distinct = 1 + (int64_t)gy_random_below(&random, 90),
             .null_percent = round % 4 < 2 ? 0 : 15}};
        test_sides sides = make_sides(&random, &shapes[0], &shapes[1]);
        const gy_rows_join_kind kind = (gy_rows_join_kind)(1 + round % 7);
        const bool is_not_in = kind == GY_ROWS_JOIN_NOT_IN;
        const gy_rows_match_options options = {
            .kind = kind,
            .left_keys = join_keys,
            .right_keys = join_keys,
            .key_count = is_not_in ? 1 : 1 + (int)gy_random_below(&random, 2),
            .builds_left = gy_random_below(&random, 2) == 0,
            .keep = is_not_in || gy_random_below(&random, 2) == 0 ? NULL : keep,
            .keep_arg = sides.mask};
        check_join(&random, &sides, &options);
        free_sides(&sides);
    }
}

/* Half of the rows have one key, which the other side has some hundred times: a piece of the
 * probing side is more than a prober may keep. */
GY_TEST(a_frequent_key_is_joined_by_all)
{
    gy_random random = {gy_test_seed(), 3};
    const test_shape shapes[2] = {{.rows = 3000, .distinct = 2}, {.rows = 150, .distinct = 2}};
    for (int side = 0; side < 2; side++) {
        test_sides sides = make_sides(&random, &shapes[side], &shapes[1 - side]);
        const int column = 0;
        const gy_rows_match_options options = {.kind = GY_ROWS_JOIN_FULL,
                                               .left_keys = join_keys,
                                               .right_keys = join_keys,
                                               .key_count = 1,
                                               .builds_left = side == 1,
                                               .columns = &column,
                                               .column_count = 1};
        check_join(&random, &sides, &options);
        free_sides(&sides);
    }
}

GY_TEST(large_tables_are_built_by_parts)
{
    gy_random random = {gy_test_seed(), 4};
    const test_shape shapes[2] = {{.rows = 20000, .distinct = 200000, .null_percent = 2},
                                  {.rows = 70000, .distinct = 200000, .null_percent = 2}};
    test_sides sides = make_sides(&random, &shapes[0], &shapes[1]);
    const int columns[] = {0, 2, 5};
    const gy_rows_match_options options = {.kind = GY_ROWS_JOIN_LEFT,
                                           .left_keys = join_keys,
                                           .right_keys = join_keys,
                                           .key_count = 1,
                                           .columns = columns,
                                           .column_count = (int)GY_COUNT(columns),
                                           .keep = keep,
                                           .keep_arg = sides.mask};
    check_join(&random, &sides, &options);
    free_sides(&sides);
}

/* ---- sorts ---- */

static gy_status sort(gy_random *random, const gy_frame *frame,
                      const gy_rows_sort_options *options, gy_frame **all)
{
    gy_frame_source out;
    gy_schema *schema = NULL;
    const gy_frame_source in = test_cut(random, frame, 3000);
    GY_TRY(gy_rows_sort(in, gy_frame_schema(frame), options, &out, &schema));
    const gy_status status = test_collect(&out, schema, all);
    gy_schema_drop(schema);
    return status;
}

/* Of two values of the first key one is a bound; the rows say in which order they came. */
GY_TEST(sorts_are_those_of_one_worker)
{
    gy_random random = {gy_test_seed(), 6};
    gy_schema *schema = NULL;
    assert_ok(gy_schema_parse(COLUMNS, &schema));
    for (long round = 0; round < gy_test_cases(5); round++) {
        const test_shape shape = {.rows = 17000,
                                  .distinct = round % 2 == 0 ? 2 : 9000,
                                  .null_percent = round % 3 == 0 ? 0 : 10};
        gy_frame *frame = test_frame(&random, schema, &shape), *one = NULL;
        gy_rows_sort_key keys[3];
        for (int k = 0; k < 3; k++) {
            keys[k] = (gy_rows_sort_key){.column = (int)gy_random_below(&random, W),
                                         .is_descending = gy_random_below(&random, 2) == 0,
                                         .nulls_first = gy_random_below(&random, 2) == 0};
        }
        gy_rows_sort_options options = {
            .keys = keys, .key_count = 1 + (int)(round % 3), .limit = round == 4 ? 16990 : -1};
        assert_ok(sort(&random, frame, &options, &one));
        for (size_t i = 0; i < 3; i++) {
            gy_frame *many = NULL;
            options.limits = (gy_rows_limits){.memory_bytes = i / 2,
                                              /* 1: the least */ .spill_folder = test_files,
                                              .engine = engines[GY_MIN(i, (size_t)1)]};
            assert_ok(sort(&random, frame, &options, &many));
            test_same(one, many);
            gy_frame_drop(many);
        }
        gy_frame_drop(one);
        gy_frame_drop(frame);
    }
    gy_schema_drop(schema);
}

/* ---- failures ---- */

typedef struct failing {
    gy_frame_source source;
    int left;
} failing;

static gy_status failing_next(void *arg, gy_frame **frame)
{
    failing *in = arg;
    return in->left-- == 0 ? gy_fail(GY_IO, "it fails")
                           : in->source.next(in->source.arg, frame);
}

static void failing_close(void *arg)
{
    failing *in = arg;
    in->source.close(in->source.arg);
}

GY_TEST(a_source_that_fails_leaves_nothing)
{
    gy_random random = {gy_test_seed(), 5};
    const test_shape shape = {.rows = 2000, .distinct = 1000};
    test_sides sides = make_sides(&random, &shape, &shape);
    for (int after = 0; after < 8; after++) {
        const int64_t live = gy_alloc_live();
        failing in = {.source = test_cut(&random, sides.left, 400), .left = after % 4};
        const gy_frame_source source = {failing_next, failing_close, &in};
        const gy_frame_source good = test_cut(&random, sides.right, 400);
        gy_frame_source out;
        gy_schema *schema = NULL;
        gy_frame *all = NULL;
        const gy_rows_limits limits = {.engine = engines[0]};
        if (after < 4) {
            const gy_rows_match_options options = {.kind = GY_ROWS_JOIN_INNER,
                                                   .left_keys = join_keys,
                                                   .right_keys = join_keys,
                                                   .key_count = 2,
                                                   .builds_left = after % 2 == 0,
                                                   .limits = limits};
            const gy_rows_side left = {source, sides.left_schema};
            const gy_rows_side right = {good, sides.right_schema};
            assert_ok(gy_parallel_join(left, right, &options, &out, &schema));
        } else {
            const gy_rows_aggregate_options options = {.keys = join_keys,
                                                       .key_count = 2,
                                                       .aggregates = kinds,
                                                       .aggregate_count = 1,
                                                       .limits = limits};
            assert_ok(
                gy_parallel_aggregate(source, sides.left_schema, &options, &out, &schema));
            good.close(good.arg);
        }
        assert_status(test_collect(&out, schema, &all), GY_IO);
        gy_schema_drop(schema);
        assert_int_equal(gy_alloc_live(), live);
    }
    free_sides(&sides);
}

GY_TEST_MAIN(begin, end)
