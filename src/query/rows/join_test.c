/* Goal: joins of random frames are those of two plain loops, in the order of the side that is
 * not built, whatever the kind, the condition, the side and the memory; what fails leaves no
 * file. */
#include "query/rows/disk_test.h"
#include "query/rows/rows_priv.h"

#include "gy_test.h"

#define LEFT  "a int, b text, c int"
#define RIGHT "d int, e text, f decimal(12, 2)"

enum { LEFT_COLUMNS = 3, RIGHT_COLUMNS = 3 };

/* A condition on pairs: a column of the left side plus one is of the right one's parity. */
static bool pair_is_kept(const gy_column *c, int64_t left, const gy_column *f, int64_t right,
                         bool *is_null)
{
    *is_null = gy_column_is_null(c, left) || gy_column_is_null(f, right);
    return !*is_null &&
           ((gy_column_int64(c, left) + (int64_t)gy_column_decimal(f, right)) & 3) != 0;
}

static gy_status keep(void *arg, const gy_frame *pairs, gy_frame **mask)
{
    const gy_column c = gy_frame_column(pairs, 2), f = gy_frame_column(pairs, 5);
    gy_schema *schema = arg;
    gy_frame_builder *builder = NULL;
    GY_TRY(gy_frame_builder_new(schema, &builder));
    for (int64_t i = 0; i < gy_frame_rows(pairs); i++) {
        bool is_null = false;
        const bool is_kept = pair_is_kept(&c, i, &f, i, &is_null);
        if (is_null) {
            gy_frame_add_null(builder);
        } else {
            gy_frame_add_bool(builder, is_kept);
        }
        gy_frame_row_end(builder);
    }
    const gy_status status = gy_frame_finish(builder, mask);
    gy_frame_builder_free(builder);
    return status;
}

/* Pairs whose numbers are equal, as a condition. */
static gy_status keep_equal(void *arg, const gy_frame *pairs, gy_frame **mask)
{
    const gy_column a = gy_frame_column(pairs, 0), d = gy_frame_column(pairs, 3);
    gy_schema *schema = arg;
    gy_frame_builder *builder = NULL;
    GY_TRY(gy_frame_builder_new(schema, &builder));
    for (int64_t i = 0; i < gy_frame_rows(pairs); i++) {
        gy_frame_add_bool(builder, !gy_column_is_null(&a, i) && !gy_column_is_null(&d, i) &&
                                       gy_column_int64(&a, i) == gy_column_int64(&d, i));
        gy_frame_row_end(builder);
    }
    const gy_status status = gy_frame_finish(builder, mask);
    gy_frame_builder_free(builder);
    return status;
}

/* ---- the reference ---- */

typedef struct test_join {
    const gy_frame *left, *right;
    const gy_rows_match_options *options;
    test_texts out;
    size_t capacity;
    uint8_t *left_matched, *right_matched;
} test_join;

static void add(test_join *join, int64_t left, int64_t right)
{
    const bool is_left_alone = join->options->kind >= GY_ROWS_JOIN_SEMI;
    char *x = left < 0 ? gy_copy_text("test", "null|null|null|")
                       : test_row(join->left, NULL, LEFT_COLUMNS, left);
    char *y = is_left_alone ? gy_copy_text("test", "")
              : right < 0   ? gy_copy_text("test", "null|null|null|")
                            : test_row(join->right, NULL, RIGHT_COLUMNS, right);
    const size_t size = strlen(x) + strlen(y) + 1;
    assert_ok(GY_GROW("test", join->out.texts, join->capacity, (size_t)join->out.count + 1));
    char *text = gy_alloc("test", size);
    gy_print(text, size, "%s%s", x, y);
    join->out.texts[join->out.count++] = text;
    gy_free(x);
    gy_free(y);
}

static bool is_pair(const test_join *join, int64_t left, int64_t right)
{
    const gy_rows_match_options *options = join->options;
    bool is_pair = true;
    for (int k = 0; k < options->key_count; k++) {
        const gy_column x = gy_frame_column(join->left, options->left_keys[k]);
        const gy_column y = gy_frame_column(join->right, options->right_keys[k]);
        if (gy_column_is_null(&x, left) || gy_column_is_null(&y, right)) {
            return false;
        }
        if (x.field->kind == GY_FIELD_TEXT) {
            const gy_text_view a = gy_column_text(&x, left), b = gy_column_text(&y, right);
            is_pair &=
                a.size_bytes == b.size_bytes && memcmp(a.data, b.data, a.size_bytes) == 0;
        } else {
            is_pair &= gy_column_int64(&x, left) == gy_column_int64(&y, right);
        }
    }
    if (is_pair && options->keep != NULL) {
        const gy_column c = gy_frame_column(join->left, 2), f = gy_frame_column(join->right, 2);
        bool is_null = false;
        return pair_is_kept(&c, left, &f, right, &is_null);
    }
    return is_pair;
}

/* Whether a row of the left side that has this many matches stands alone in the output. */
static bool left_alone(const test_join *join, int64_t left, bool has_match)
{
    const gy_column key = gy_frame_column(join->left, 0);
    const gy_column other = gy_frame_column(join->right, 0);
    switch (join->options->kind) {
    case GY_ROWS_JOIN_LEFT:
    case GY_ROWS_JOIN_FULL:
    case GY_ROWS_JOIN_ANTI:
        return !has_match;
    case GY_ROWS_JOIN_SEMI:
        return has_match;
    case GY_ROWS_JOIN_NOT_IN:
        return gy_frame_rows(join->right) == 0 ||
               (!has_match && !gy_column_is_null(&key, left) && gy_column_nulls(&other) == 0);
    case GY_ROWS_JOIN_INNER:
    case GY_ROWS_JOIN_RIGHT:
    default:
        return false;
    }
}

static void reference(test_join *join)
{
    const gy_rows_match_options *options = join->options;
    const bool is_left_built = options->builds_left;
    const bool has_pairs = options->kind < GY_ROWS_JOIN_SEMI;
    const bool right_alone =
        options->kind == GY_ROWS_JOIN_RIGHT || options->kind == GY_ROWS_JOIN_FULL;
    const int64_t lefts = gy_frame_rows(join->left), rights = gy_frame_rows(join->right);
    bool *matched = gy_alloc_zero("test", (size_t)(lefts + rights) + 1, sizeof(bool));
    for (int64_t probe = 0; probe < (is_left_built ? rights : lefts); probe++) {
        bool has_match = false;
        for (int64_t built = 0; built < (is_left_built ? lefts : rights); built++) {
            const int64_t left = is_left_built ? built : probe;
            const int64_t right = is_left_built ? probe : built;
            if (is_pair(join, left, right)) {
                has_match = matched[built] = true;
                if (has_pairs) {
                    add(join, left, right);
                }
            }
        }
        if (is_left_built ? right_alone && !has_match : left_alone(join, probe, has_match)) {
            add(join, is_left_built ? -1 : probe, is_left_built ? probe : -1);
        }
    }
    for (int64_t built = 0; built < (is_left_built ? lefts : rights); built++) {
        if (is_left_built ? left_alone(join, built, matched[built])
                          : right_alone && !matched[built]) {
            add(join, is_left_built ? built : -1, is_left_built ? -1 : built);
        }
    }
    gy_free(matched);
}

/* ---- the operator ---- */

static gy_status join_frames(gy_random *random, const gy_frame *left, const gy_frame *right,
                             const gy_rows_match_options *options, gy_frame **all)
{
    const gy_rows_side sides[] = {
        {test_cut(random, left, GY_MAX(gy_frame_rows(left) / 9, 40)), gy_frame_schema(left)},
        {test_cut(random, right, GY_MAX(gy_frame_rows(right) / 9, 40)),
         gy_frame_schema(right)}};
    gy_frame_source out;
    gy_schema *schema = NULL;
    GY_TRY(gy_rows_match(sides[0], sides[1], options, &out, &schema));
    const gy_status status = test_collect(&out, schema, all);
    gy_schema_drop(schema);
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

static const int all_keys[] = {0, 1};

static void check(gy_random *random, const test_sides *sides, gy_rows_match_options *options)
{
    gy_frame *all = NULL;
    test_join expected = {.left = sides->left, .right = sides->right, .options = options};
    reference(&expected);
    assert_ok(join_frames(random, sides->left, sides->right, options, &all));
    const bool is_left_alone = options->kind >= GY_ROWS_JOIN_SEMI;
    test_texts got = test_rows(all, NULL, LEFT_COLUMNS + (is_left_alone ? 0 : RIGHT_COLUMNS));
    test_texts_same(&expected.out, &got);
    test_texts_free(&got);
    test_texts_free(&expected.out);
    gy_frame_drop(all);
}

GY_TEST(joins_are_those_of_plain_loops)
{
    gy_random random = {gy_test_seed(), 0};
    for (long round = 0; round < gy_test_serial_cases(280); round++) {
        const test_shape shapes[2] = {
            {.rows = (int64_t)gy_random_below(&random, 120),
             .distinct = 1 + (int64_t)gy_random_below(&random, 40),
             .null_percent = round % 3 == 0 ? 0 : 15},
            {.rows = round % 9 == 0 ? 0 : (int64_t)gy_random_below(&random, 120),
             .distinct = 1 + (int64_t)gy_random_below(&random, 40),
             .null_percent = round % 4 < 2 ? 0 : 15}};
        test_sides sides = make_sides(&random, &shapes[0], &shapes[1]);
        const gy_rows_join_kind kind = (gy_rows_join_kind)(1 + round % 7);
        const bool is_not_in = kind == GY_ROWS_JOIN_NOT_IN;
        gy_rows_match_options options = {
            .kind = kind,
            .left_keys = all_keys,
            .right_keys = all_keys,
            .key_count = is_not_in ? 1 : (int)gy_random_below(&random, 3),
            .builds_left = gy_random_below(&random, 2) == 0,
            .keep = is_not_in || gy_random_below(&random, 2) == 0 ? NULL : keep,
            .keep_arg = sides.mask};
        check(&random, &sides, &options);
        free_sides(&sides);
    }
}

GY_TEST(joins_that_spill_are_the_same)
{
    gy_random random = {gy_test_seed(), 1};
    /* the second one has two keys, each of more rows than fit */
    const test_shape shapes[2][2] = {{{.rows = 9000, .distinct = 4000, .null_percent = 3},
                                      {.rows = 8000, .distinct = 4000, .null_percent = 3}},
                                     {{.rows = 40, .distinct = 3, .null_percent = 10},
                                      {.rows = 12000, .distinct = 2, .null_percent = 1}}};
    for (long round = 0; round < gy_test_serial_cases(28); round++) {
        const long pick = round / 7 % 2;
        test_sides sides = make_sides(&random, &shapes[pick][0], &shapes[pick][1]);
        const gy_rows_join_kind kind = (gy_rows_join_kind)(1 + round % 7);
        const bool is_not_in = kind == GY_ROWS_JOIN_NOT_IN;
        gy_rows_counts counts = {.rows_in = 0};
        gy_rows_match_options options = {.kind = kind,
                                         .left_keys = all_keys,
                                         .right_keys = all_keys,
                                         .key_count = is_not_in ? 1 : 2,
                                         .builds_left = pick == 0 && round % 2 == 0,
                                         .keep = is_not_in || round < 14 ? NULL : keep,
                                         .keep_arg = sides.mask};
        gy_frame *all = NULL, *spilled = NULL;
        assert_ok(join_frames(&random, sides.left, sides.right, &options, &all));
        options.limits =
            (gy_rows_limits){.memory_bytes = 1, .spill_folder = test_files, .counts = &counts};
        if (round % 3 == 2) { /* memory for all, but a column has too much text */
            options.limits.memory_bytes = 0;
            options.limits.text_bytes = 3000;
        }
        assert_ok(join_frames(&random, sides.left, sides.right, &options, &spilled));
        assert_true(counts.spills > 0 && counts.spilled_bytes > 0);
        assert_int_equal(counts.rows_out, gy_frame_rows(all));
        test_same(all, spilled);
        gy_frame_drop(all);
        gy_frame_drop(spilled);
        free_sides(&sides);
    }
}

GY_TEST(all_pairs_in_blocks_are_those_of_equal_keys)
{
    gy_random random = {gy_test_seed(), 5};
    const test_shape left = {.rows = 30, .distinct = 3000, .null_percent = 5};
    const test_shape right = {.rows = 7000, .distinct = 3000, .null_percent = 3};
    test_sides sides = make_sides(&random, &left, &right);
    for (int kind = GY_ROWS_JOIN_INNER; kind <= GY_ROWS_JOIN_ANTI; kind++) {
        gy_rows_match_options options = {.kind = (gy_rows_join_kind)kind,
                                         .left_keys = all_keys,
                                         .right_keys = all_keys,
                                         .key_count = 1};
        gy_frame *all = NULL, *blocks = NULL;
        assert_ok(join_frames(&random, sides.left, sides.right, &options, &all));
        options.key_count = 0;
        options.keep = keep_equal;
        options.keep_arg = sides.mask;
        options.limits = (gy_rows_limits){.memory_bytes = 1, .spill_folder = test_files};
        assert_ok(join_frames(&random, sides.left, sides.right, &options, &blocks));
        test_same(all, blocks);
        gy_frame_drop(all);
        gy_frame_drop(blocks);
    }
    free_sides(&sides);
}

GY_TEST(columns_are_chosen)
{
    gy_random random = {gy_test_seed(), 2};
    const test_shape shape = {.rows = 60, .distinct = 9, .null_percent = 10};
    test_sides sides = make_sides(&random, &shape, &shape);
    static const int columns[] = {4, 0, 5};
    gy_rows_match_options options = {.kind = GY_ROWS_JOIN_FULL,
                                     .left_keys = all_keys,
                                     .right_keys = all_keys,
                                     .key_count = 1};
    gy_frame *all = NULL, *some = NULL, *expected = NULL;
    assert_ok(join_frames(&random, sides.left, sides.right, &options, &all));
    options.columns = columns;
    options.column_count = 3;
    assert_ok(join_frames(&random, sides.left, sides.right, &options, &some));
    assert_ok(gy_frame_select(all, columns, 3, &expected));
    test_same(expected, some);
    gy_frame_drop(expected);
    gy_frame_drop(all);
    gy_frame_drop(some);
    free_sides(&sides);
}

GY_TEST(keys_of_two_types_are_refused)
{
    gy_random random = {gy_test_seed(), 3};
    const test_shape shape = {.rows = 6, .distinct = 9};
    test_sides sides = make_sides(&random, &shape, &shape);
    static const int text[] = {1}, none[] = {7};
    gy_rows_match_options options = {
        .kind = GY_ROWS_JOIN_INNER, .left_keys = all_keys, .right_keys = text, .key_count = 1};
    gy_frame *all = NULL;
    assert_status(join_frames(&random, sides.left, sides.right, &options, &all), GY_TYPE);
    options.right_keys = none;
    assert_status(join_frames(&random, sides.left, sides.right, &options, &all), GY_ARG);
    options = (gy_rows_match_options){.kind = GY_ROWS_JOIN_NOT_IN,
                                      .left_keys = all_keys,
                                      .right_keys = all_keys,
                                      .key_count = 2};
    assert_status(join_frames(&random, sides.left, sides.right, &options, &all),
                  GY_UNSUPPORTED);
    free_sides(&sides);
}

GY_TEST(failed_memory_and_full_disks_leave_nothing)
{
    gy_random random = {gy_test_seed(), 4};
    const test_shape left = {.rows = 400, .distinct = 900, .null_percent = 3};
    const test_shape right = {.rows = 5000, .distinct = 900, .null_percent = 3};
    test_sides sides = make_sides(&random, &left, &right);
    gy_env env;
    const gy_rows_match_options options = {
        .kind = GY_ROWS_JOIN_FULL,
        .left_keys = all_keys,
        .right_keys = all_keys,
        .key_count = 2,
        .limits = {.memory_bytes = 1, .spill_folder = test_files, .env = test_disk_env(&env)}};
    bool is_done = false;
    for (int64_t n = 1; !is_done; n += 1 + n / 8) {
        gy_frame *all = NULL;
        gy_random same = {7, 7};
        const gy_rows_side l = {test_cut(&same, sides.left, 100), sides.left_schema};
        const gy_rows_side r = {test_cut(&same, sides.right, 900), sides.right_schema};
        gy_frame_source out;
        gy_schema *schema = NULL;
        gy_alloc_fail_after(n);
        gy_status status = gy_rows_match(l, r, &options, &out, &schema);
        if (status == GY_OK) {
            status = test_collect(&out, schema, &all);
        }
        gy_alloc_fail_after(0);
        gy_schema_drop(schema);
        gy_frame_drop(all);
        is_done = status == GY_OK;
        assert_true(is_done || status == GY_NOMEM);
    }
    for (int at = 0; at == 0 || at <= test_disk_calls.count; at += 1 + at / 3) {
        gy_frame *all = NULL;
        gy_random same = {7, 7};
        test_disk_calls.now = 0;
        test_disk_calls.fails_at = at;
        assert_status(join_frames(&same, sides.left, sides.right, &options, &all),
                      at == 0 ? GY_OK : GY_IO);
        test_disk_calls.count = at == 0 ? test_disk_calls.now : test_disk_calls.count;
        gy_frame_drop(all);
        assert_int_equal(test_entry_count(test_files), 0);
    }
    assert_true(test_disk_calls.count > 10);
    free_sides(&sides);
}

/* A table of rows of a frame; it takes them whatever it returns. */
static gy_status make_table(gy_frame *frame, int64_t fails_after)
{
    const gy_rows_match_plan plan = {.built_schema = gy_frame_schema(frame)};
    gy_rows_matcher *matcher = NULL;
    gy_rows_list list = {.count = 0};
    const int64_t live = gy_alloc_live();
    assert_ok(gy_rows_list_add(&list, gy_frame_hold(frame)));
    gy_alloc_fail_after(fails_after);
    const gy_status status = gy_rows_matcher_new(&plan, NULL, &list, NULL, &matcher);
    gy_alloc_fail_after(0);
    assert_int_equal(gy_alloc_live(), live);
    return status;
}

GY_TEST(tables_that_are_not_made_keep_no_rows)
{
    gy_schema *none = NULL;
    gy_frame *few = NULL, *many = NULL;
    assert_ok(gy_schema_new(NULL, 0, &none));
    assert_ok(gy_frame_make(none, NULL, 3, &few));
    assert_ok(gy_frame_make(none, NULL, (int64_t)INT32_MAX + 1, &many));
    assert_status(make_table(few, 1), GY_NOMEM);
    assert_status(make_table(many, 0), GY_LIMIT);
    gy_frame_drop(few);
    gy_frame_drop(many);
    gy_schema_drop(none);
}

GY_TEST_MAIN(test_disk_begin, test_disk_end)
