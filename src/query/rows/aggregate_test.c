/* Goal: aggregates over random frames are those of plain loops; cuts, phases and memory change
 * no byte; what fails is an error that leaves no file. */
#include "query/rows/random_test.h"

#include "query/rows/disk_test.h"

#include "gy_test.h"

/* k int, t text; i, d, m, b: int64, double, decimal, bool; s text, w filter */
#define COLUMNS                                                                                \
    "k int, t text, i int, d double, m decimal(20, 2), b bool, s text, w bool, day date"

enum { K, T, I, D, M, B, S, W, DAY };

static const gy_rows_aggregate_of all_kinds[] = {
    {.kind = GY_ROWS_COUNT_STAR},
    {.kind = GY_ROWS_COUNT, .column = I},
    {.kind = GY_ROWS_SUM, .column = I},
    {.kind = GY_ROWS_SUM, .column = D},
    {.kind = GY_ROWS_SUM, .column = M},
    {.kind = GY_ROWS_AVG, .column = I},
    {.kind = GY_ROWS_AVG, .column = D},
    {.kind = GY_ROWS_AVG, .column = M},
    {.kind = GY_ROWS_MIN, .column = D},
    {.kind = GY_ROWS_MAX, .column = M},
    {.kind = GY_ROWS_MIN, .column = S},
    {.kind = GY_ROWS_MAX, .column = S},
    {.kind = GY_ROWS_ANY, .column = S},
    {.kind = GY_ROWS_BOOL_AND, .column = B},
    {.kind = GY_ROWS_BOOL_OR, .column = B},
    {.kind = GY_ROWS_COUNT_STAR, .has_filter = true, .filter = W},
    {.kind = GY_ROWS_SUM, .column = I, .has_filter = true, .filter = W},
    {.kind = GY_ROWS_MAX, .column = DAY},
    /* the last four are distinct */
    {.kind = GY_ROWS_COUNT, .column = I, .is_distinct = true},
    {.kind = GY_ROWS_SUM, .column = I, .is_distinct = true},
    {.kind = GY_ROWS_COUNT, .column = S, .is_distinct = true},
    {.kind = GY_ROWS_COUNT, .column = M, .is_distinct = true, .has_filter = true, .filter = W},
};

enum { KINDS = 22, PLAIN_KINDS = 18 };

/* ---- the reference ---- */

/* The order of the values of two rows. */
static int order_of(const gy_column *column, int64_t row, int64_t other)
{
    switch (column->field->kind) {
    case GY_FIELD_DECIMAL: {
        const gy_int128 x = gy_column_decimal(column, row),
                        y = gy_column_decimal(column, other);
        return (x > y) - (x < y);
    }
    case GY_FIELD_DOUBLE: {
        const double x = gy_column_double(column, row), y = gy_column_double(column, other);
        return (x > y) - (x < y);
    }
    case GY_FIELD_TEXT: {
        const gy_text_view x = gy_column_text(column, row), y = gy_column_text(column, other);
        const int order = memcmp(x.data, y.data, GY_MIN(x.size_bytes, y.size_bytes));
        return order != 0 ? order : (int)x.size_bytes - (int)y.size_bytes;
    }
    case GY_FIELD_BOOL:
        return gy_column_bool(column, row) - gy_column_bool(column, other);
    case GY_FIELD_DATE:
        return gy_column_date(column, row) - gy_column_date(column, other);
    case GY_FIELD_INT64:
    case GY_FIELD_TIMESTAMP:
    default:
        return 0;
    }
}

/* Whether a row counts: it passes the filter, has a value, and a new one if they are distinct.
 */
static bool counts(const gy_frame *frame, const gy_rows_aggregate_of *of, int64_t row,
                   char **seen)
{
    const gy_column column = gy_frame_column(frame, of->column);
    const gy_column filter = gy_frame_column(frame, W);
    if (of->has_filter && (gy_column_is_null(&filter, row) || !gy_column_bool(&filter, row))) {
        return false;
    }
    if (of->kind != GY_ROWS_COUNT_STAR && gy_column_is_null(&column, row)) {
        return false;
    }
    if (of->is_distinct) {
        char *text = test_row(frame, &of->column, 1, row);
        int64_t at = 0;
        while (seen[at] != NULL && strcmp(seen[at], text) != 0) {
            at++;
        }
        if (seen[at] != NULL) {
            gy_free(text);
            return false;
        }
        seen[at] = text;
    }
    return true;
}

/* A sum or average as it is written in a frame. */
static void number_text(const gy_field *of, bool is_avg, gy_int128 whole, __float128 sum,
                        int64_t values, char out[256])
{
    const bool is_double = of->kind == GY_FIELD_DOUBLE;
    const int scale = is_avg ? 16 : of->scale;
    gy_field field = {.name = "", .kind = is_double ? GY_FIELD_DOUBLE : GY_FIELD_DECIMAL};
    field.precision = is_double ? 0 : 38;
    field.scale = is_double ? 0 : scale;
    for (int i = of->scale; i < scale && !is_double; i++) {
        whole *= 10;
    }
    if (is_avg) {
        const gy_int128 half = whole < 0 ? -(gy_int128)values : (gy_int128)values;
        whole = (2 * whole + half) / (2 * (gy_int128)values);
    }
    gy_schema *schema = NULL;
    gy_frame_builder *builder = NULL;
    gy_frame *made = NULL;
    assert_ok(gy_schema_new(&field, 1, &schema));
    assert_ok(gy_frame_builder_new(schema, &builder));
    if (is_double) {
        gy_frame_add_double(builder, is_avg ? (double)sum / (double)values : (double)sum);
    } else {
        gy_frame_add_decimal(builder, whole);
    }
    gy_frame_row_end(builder);
    assert_ok(gy_frame_finish(builder, &made));
    char *text = test_row(made, NULL, 1, 0);
    gy_print(out, 256, "%s", text);
    gy_free(text);
    gy_frame_drop(made);
    gy_frame_builder_free(builder);
    gy_schema_drop(schema);
}

/* The answer of one aggregate over the rows of a group, as a text. */
static void answer(const gy_frame *frame, const gy_rows_aggregate_of *of, const int64_t *rows,
                   int64_t count, char out[256])
{
    const gy_column column = gy_frame_column(frame, of->column);
    __float128 sum = 0;
    gy_int128 whole = 0;
    int64_t values = 0, best = -1;
    char **seen = gy_alloc_zero("test", (size_t)count + 1, sizeof(char *));
    for (int64_t r = 0; r < count; r++) {
        const int64_t row = rows[r];
        if (!counts(frame, of, row, seen)) {
            continue;
        }
        values++;
        if (column.field->kind == GY_FIELD_INT64) {
            whole += gy_column_int64(&column, row);
        } else if (column.field->kind == GY_FIELD_DECIMAL) {
            whole += gy_column_decimal(&column, row);
        } else if (column.field->kind == GY_FIELD_DOUBLE) {
            sum += gy_column_double(&column, row);
        }
        const int order = best < 0 ? 0 : order_of(&column, row, best);
        const bool is_least = of->kind == GY_ROWS_MIN || of->kind == GY_ROWS_BOOL_AND;
        const bool is_most = of->kind == GY_ROWS_MAX || of->kind == GY_ROWS_BOOL_OR;
        if (best < 0 || (is_least && order < 0) || (is_most && order > 0)) {
            best = row;
        }
    }
    for (int64_t i = 0; i < count; i++) {
        gy_free(seen[i]);
    }
    gy_free(seen);
    if (of->kind == GY_ROWS_COUNT || of->kind == GY_ROWS_COUNT_STAR) {
        gy_print(out, 256, "%lld|", (long long)values);
    } else if (values == 0) {
        gy_print(out, 256, "null|");
    } else if (of->kind == GY_ROWS_SUM || of->kind == GY_ROWS_AVG) {
        number_text(column.field, of->kind == GY_ROWS_AVG, whole, sum, values, out);
    } else {
        char *text = test_row(frame, &of->column, 1, best);
        gy_print(out, 256, "%s", text);
        gy_free(text);
    }
}

typedef struct test_keyed {
    char *key;
    int64_t row;
} test_keyed;

static int keyed_order(const void *a, const void *b)
{
    const test_keyed *x = a, *y = b;
    const int order = strcmp(x->key, y->key);
    return order != 0 ? order : (x->row > y->row) - (x->row < y->row);
}

static test_texts reference(const gy_frame *frame, const int *keys, int key_count, int kinds)
{
    const int64_t rows = gy_frame_rows(frame);
    test_keyed *keyed = gy_alloc("test", ((size_t)rows + 1) * sizeof(*keyed));
    int64_t *numbers = gy_alloc("test", ((size_t)rows + 1) * sizeof(*numbers));
    test_texts made = {gy_alloc_zero("test", (size_t)rows + 1, sizeof(char *)), 0};
    for (int64_t row = 0; row < rows; row++) {
        keyed[row] = (test_keyed){test_row(frame, keys, key_count, row), row};
    }
    qsort(keyed, (size_t)rows, sizeof(*keyed), keyed_order);
    for (int64_t row = 0; row < rows; row++) {
        numbers[row] = keyed[row].row;
    }
    for (int64_t from = 0, to = 0; from < rows || (key_count == 0 && made.count == 0);
         from = to) {
        while (to < rows && strcmp(keyed[to].key, keyed[from].key) == 0) {
            to++;
        }
        char text[4096];
        size_t size = gy_print(text, sizeof(text), "%s", rows == 0 ? "" : keyed[from].key);
        for (int i = 0; i < kinds; i++) {
            assert_true(size + 256 < sizeof(text));
            answer(frame, &all_kinds[i], numbers + from, to - from, text + size);
            size += strlen(text + size);
        }
        made.texts[made.count++] = gy_copy_text("test", text);
    }
    for (int64_t row = 0; row < rows; row++) {
        gy_free(keyed[row].key);
    }
    gy_free(keyed);
    gy_free(numbers);
    return made;
}

/* ---- the operator ---- */

static gy_status aggregate(gy_random *random, const gy_frame *frame, int64_t cut,
                           const gy_rows_aggregate_options *options, gy_frame **all)
{
    gy_frame_source out;
    gy_schema *schema = NULL;
    const gy_frame_source in = test_cut(random, frame, cut);
    GY_TRY(gy_rows_aggregate(in, gy_frame_schema(frame), options, &out, &schema));
    const gy_status status = test_collect(&out, schema, all);
    gy_schema_drop(schema);
    return status;
}

/* Whole, or as partial states of pieces, merged and finished. */
static void in_phases(gy_random *random, const gy_frame *frame, const int *keys, int key_count,
                      const gy_rows_limits *limits, gy_frame **all)
{
    gy_rows_aggregate_of of[PLAIN_KINDS];
    int final_keys[4] = {0, 1, 2, 3};
    gy_frame *states = NULL, *merged = NULL;
    gy_rows_aggregate_options options = {.keys = keys,
                                         .key_count = key_count,
                                         .aggregates = all_kinds,
                                         .aggregate_count = PLAIN_KINDS,
                                         .phase = GY_ROWS_PARTIAL,
                                         .is_passing = true,
                                         .limits = *limits};
    options.measured_rows = 1 + (int64_t)gy_random_below(random, 100);
    assert_ok(aggregate(random, frame, 100, &options, &states));
    int column = key_count;
    for (int i = 0; i < PLAIN_KINDS; i++) {
        of[i] = all_kinds[i];
        of[i].has_filter = false;
        of[i].field = *gy_schema_field(gy_frame_schema(frame), all_kinds[i].column);
        of[i].column = column;
        column += gy_rows_state_columns(&all_kinds[i], &of[i].field);
    }
    assert_int_equal(column, gy_schema_count(gy_frame_schema(states)));
    options.keys = final_keys;
    options.aggregates = of;
    options.is_passing = false;
    options.phase = GY_ROWS_MERGE;
    assert_ok(aggregate(random, states, 50, &options, &merged));
    options.phase = GY_ROWS_FINAL;
    assert_ok(aggregate(random, merged, 500, &options, all));
    gy_frame_drop(states);
    gy_frame_drop(merged);
}

static void check(gy_random *random, const test_shape *shape, const int *keys, int key_count)
{
    gy_schema *schema = NULL;
    assert_ok(gy_schema_parse(COLUMNS, &schema));
    gy_frame *frame = test_frame(random, schema, shape), *whole = NULL, *spilled = NULL;
    gy_frame *plain = NULL, *phased = NULL;
    gy_rows_counts done = {.rows_in = 0};
    const gy_rows_limits tiny = {
        .memory_bytes = 1, .spill_folder = test_files, .counts = &done};
    gy_rows_aggregate_options options = {.keys = keys,
                                         .key_count = key_count,
                                         .aggregates = all_kinds,
                                         .aggregate_count = KINDS};
    assert_ok(aggregate(random, frame, 400, &options, &whole));
    test_texts expected = reference(frame, keys, key_count, KINDS);
    test_texts got = test_rows(whole, NULL, key_count + KINDS);
    test_texts_sort(&expected);
    test_texts_sort(&got);
    test_texts_same(&expected, &got);
    options.limits = tiny;
    assert_ok(aggregate(random, frame, 300, &options, &spilled));
    test_same(whole, spilled);
    assert_int_equal(done.rows_in, shape->rows);
    assert_int_equal(done.rows_out, gy_frame_rows(whole));
    /* without distinct ones, as the phases have them */
    options.aggregate_count = PLAIN_KINDS;
    assert_ok(aggregate(random, frame, 300, &options, &plain));
    assert_true(shape->rows < 4000 || key_count < 2 || done.spills > 0);
    in_phases(random, frame, keys, key_count, &tiny, &phased);
    test_same(plain, phased);
    assert_true(shape->rows < 4000 || key_count < 2 || done.rows_passed > 0);
    gy_frame_drop(phased);
    gy_frame_drop(plain);
    gy_frame_drop(spilled);
    gy_frame_drop(whole);
    gy_frame_drop(frame);
    test_texts_free(&expected);
    test_texts_free(&got);
    gy_schema_drop(schema);
}

GY_TEST(groups_are_those_of_plain_loops)
{
    gy_random random = {gy_test_seed(), 0};
    static const int keys[] = {T, K, M};
    for (long round = 0; round < gy_test_serial_cases(24); round++) {
        const test_shape shape = {.rows = (int64_t)gy_random_below(&random, 400),
                                  .distinct = 1 + (int64_t)gy_random_below(&random, 60),
                                  .null_percent = round % 3 == 0 ? 0 : 25};
        check(&random, &shape, keys, (int)(round % 4));
    }
}

GY_TEST(groups_that_spill_are_the_same)
{
    gy_random random = {gy_test_seed(), 1};
    static const int keys[] = {T, K, M};
    const test_shape shape = {.rows = 5000, .distinct = 40, .null_percent = 5};
    check(&random, &shape, keys, 3);
}

GY_TEST(no_rows_make_a_group_without_keys)
{
    gy_random random = {gy_test_seed(), 2};
    const test_shape none = {.rows = 0, .distinct = 1};
    static const int keys[] = {K};
    check(&random, &none, keys, 0);
    check(&random, &none, keys, 1);
}

GY_TEST(sums_past_their_type_are_refused)
{
    gy_schema *schema = NULL;
    assert_ok(gy_schema_parse("m decimal(38, 0), d double", &schema));
    gy_frame_builder *builder = NULL;
    gy_int128 large = 9;
    for (int i = 1; i < 38; i++) {
        large *= 10;
    }
    gy_random random = {gy_test_seed(), 3};
    /* the sum is past 38 digits on its way alone, then at its end, too */
    for (int rows = 5; rows >= 2; rows -= 3) {
        gy_frame *frame = NULL, *all = NULL;
        assert_ok(gy_frame_builder_new(schema, &builder));
        for (int i = 0; i < rows; i++) {
            gy_frame_add_decimal(builder, i < 3 ? large : -large);
            gy_frame_add_double(builder, i < 3 ? 1.7e308 : -1.7e308);
            gy_frame_row_end(builder);
        }
        assert_ok(gy_frame_finish(builder, &frame));
        for (int column = 0; column < 2; column++) {
            const gy_rows_aggregate_of of = {.kind = GY_ROWS_SUM, .column = column};
            const gy_rows_aggregate_options options = {.aggregates = &of, .aggregate_count = 1};
            assert_status(aggregate(&random, frame, 2, &options, &all),
                          rows == 5 ? GY_OK : GY_LIMIT);
            if (rows == 5) {
                const gy_column sum = gy_frame_column(all, 0);
                assert_true(column == 0 ? gy_column_decimal(&sum, 0) == large
                                        : gy_column_double(&sum, 0) == 1.7e308);
                gy_frame_drop(all);
            }
        }
        gy_frame_drop(frame);
        gy_frame_builder_free(builder);
    }
    gy_schema_drop(schema);
}

GY_TEST(what_does_not_fit_is_refused)
{
    gy_random random = {gy_test_seed(), 4};
    gy_schema *schema = NULL;
    assert_ok(gy_schema_parse(COLUMNS, &schema));
    const test_shape shape = {.rows = 3, .distinct = 3};
    gy_frame *frame = test_frame(&random, schema, &shape), *all = NULL;
    const struct {
        gy_rows_aggregate_of of;
        gy_status status;
    } rows[] = {
        {{.kind = GY_ROWS_SUM, .column = S}, GY_TYPE},
        {{.kind = GY_ROWS_SUM, .column = 99}, GY_ARG},
        {{.kind = GY_ROWS_BOOL_OR, .column = I}, GY_TYPE},
        {{.kind = GY_ROWS_SUM, .column = I, .has_filter = true, .filter = I}, GY_TYPE},
        {{.kind = GY_ROWS_SUM, .column = 99, .is_distinct = true}, GY_ARG},
        {{.kind = GY_ROWS_SUM, .column = S, .is_distinct = true}, GY_TYPE},
    };
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        const gy_rows_aggregate_options options = {.aggregates = &rows[i].of,
                                                   .aggregate_count = 1};
        assert_status(aggregate(&random, frame, 2, &options, &all), rows[i].status);
    }
    gy_frame_drop(frame);
    gy_schema_drop(schema);
}

/* A frame whose groups need more slots than the memory has. */
GY_TEST(states_pass_on_behind_a_large_frame)
{
    enum { ROWS = 20000 };
    static const int keys[] = {0};
    gy_schema *schema = NULL, *out_schema = NULL;
    gy_frame_builder *builder = NULL;
    gy_frame *frames[2] = {NULL, NULL}, *all = NULL;
    gy_frame_source in, out;
    assert_ok(gy_schema_parse("k int", &schema));
    assert_ok(gy_frame_builder_new(schema, &builder));
    for (int64_t i = 0; i < ROWS; i++) {
        gy_frame_add_int64(builder, i);
        gy_frame_row_end(builder);
    }
    assert_ok(gy_frame_finish(builder, &frames[0]));
    gy_frame_builder_free(builder);
    frames[1] = frames[0];
    assert_ok(gy_rows_source(frames, 2, &in));
    const gy_rows_aggregate_of count = {.kind = GY_ROWS_COUNT_STAR};
    const gy_rows_aggregate_options options = {
        .keys = keys,
        .key_count = 1,
        .aggregates = &count,
        .aggregate_count = 1,
        .phase = GY_ROWS_PARTIAL,
        .is_passing = true,
        .limits = {.memory_bytes = 1, .spill_folder = test_files}};
    assert_ok(gy_rows_aggregate(in, schema, &options, &out, &out_schema));
    assert_ok(test_collect(&out, out_schema, &all));
    assert_int_equal(gy_frame_rows(all), 2 * ROWS);
    gy_frame_drop(all);
    gy_frame_drop(frames[0]);
    gy_schema_drop(out_schema);
    gy_schema_drop(schema);
}

/* Rows become states one by one where groups are hardly fewer, and groups again later. */
GY_TEST(groups_that_are_as_many_as_rows_are_not_made)
{
    enum { ROWS = 4000, MEASURED = 100, CUT = 50, AGAIN = 16 };
    static const int keys[] = {0};
    static const gy_rows_aggregate_of sum = {.kind = GY_ROWS_SUM, .column = 0};
    for (int first = 0; first <= ROWS; first += ROWS / 2) { /* rows of a key of their own */
        gy_random random = {gy_test_seed(), 7};
        gy_rows_counts counts = {.rows_in = 0};
        gy_schema *schema = NULL;
        gy_frame_builder *builder = NULL;
        gy_frame *frame = NULL, *all = NULL;
        assert_ok(gy_schema_parse("k int", &schema));
        assert_ok(gy_frame_builder_new(schema, &builder));
        for (int64_t i = 0; i < ROWS; i++) {
            gy_frame_add_int64(builder, i < first ? i : 0);
            gy_frame_row_end(builder);
        }
        assert_ok(gy_frame_finish(builder, &frame));
        gy_frame_builder_free(builder);
        const gy_rows_aggregate_options options = {.keys = keys,
                                                   .key_count = 1,
                                                   .aggregates = &sum,
                                                   .aggregate_count = 1,
                                                   .phase = GY_ROWS_PARTIAL,
                                                   .is_passing = true,
                                                   .measured_rows = MEASURED,
                                                   .limits = {.counts = &counts}};
        assert_ok(aggregate(&random, frame, CUT, &options, &all));
        assert_int_equal(counts.rows_in, ROWS);
        assert_int_equal(counts.rows_out, gy_frame_rows(all));
        const int64_t most = first + AGAIN * MEASURED + CUT;
        assert_in_range(counts.rows_passed, first == 0 ? 0 : first - first / 10,
                        first == 0      ? 0
                        : first == ROWS ? ROWS
                                        : most);
        assert_in_range(gy_frame_rows(all), GY_MAX(first, 1), most);
        gy_frame_drop(all);
        gy_frame_drop(frame);
        gy_schema_drop(schema);
    }
}

/* A maximum that changes with each row is one text. */
GY_TEST(texts_that_are_replaced_take_no_memory)
{
    gy_random random = {gy_test_seed(), 6};
    gy_schema *schema = NULL;
    gy_frame_builder *builder = NULL;
    gy_frame *frame = NULL, *all = NULL;
    char text[64] = "";
    assert_ok(gy_schema_parse("s text", &schema));
    assert_ok(gy_frame_builder_new(schema, &builder));
    for (int i = 0; i < 40000; i++) {
        const size_t size = gy_print(text, sizeof(text), "a text that ascends: %08d", i);
        gy_frame_add_text(builder, text, size);
        gy_frame_row_end(builder);
    }
    assert_ok(gy_frame_finish(builder, &frame));
    gy_frame_builder_free(builder);
    const gy_rows_aggregate_of max = {.kind = GY_ROWS_MAX, .column = 0};
    gy_rows_counts counts = {.rows_in = 0};
    const gy_rows_aggregate_options options = {
        .aggregates = &max,
        .aggregate_count = 1,
        .limits = {.memory_bytes = 1, .spill_folder = test_files, .counts = &counts}};
    assert_ok(aggregate(&random, frame, 5000, &options, &all));
    assert_int_equal(counts.spills, 0);
    const gy_column column = gy_frame_column(all, 0);
    const gy_text_view made = gy_column_text(&column, 0);
    assert_int_equal(made.size_bytes, strlen(text));
    assert_memory_equal(made.data, text, made.size_bytes);
    gy_frame_drop(all);
    gy_frame_drop(frame);
    gy_schema_drop(schema);
}

/* ---- failures ---- */

/* Each allocation fails once. */
static void fail_memory(const gy_frame *frame, const gy_rows_aggregate_options *options)
{
    bool is_done = false;
    for (int64_t n = 1; !is_done; n += 1 + n / 8) {
        gy_frame *all = NULL;
        gy_random same = {7, 7};
        gy_frame_source source = test_cut(&same, frame, 1000), out;
        gy_schema *out_schema = NULL;
        gy_alloc_fail_after(n);
        gy_status status =
            gy_rows_aggregate(source, gy_frame_schema(frame), options, &out, &out_schema);
        if (status == GY_OK) {
            status = test_collect(&out, out_schema, &all);
        }
        gy_alloc_fail_after(0);
        gy_schema_drop(out_schema);
        gy_frame_drop(all);
        assert_true(status == GY_OK || status == GY_NOMEM);
        is_done = status == GY_OK;
    }
}

GY_TEST(failed_memory_and_full_disks_are_errors)
{
    gy_random random = {gy_test_seed(), 5};
    static const int keys[] = {T, K, M};
    gy_schema *schema = NULL;
    assert_ok(gy_schema_parse(COLUMNS, &schema));
    const test_shape shape = {.rows = 3000, .distinct = 60, .null_percent = 5};
    gy_frame *frame = test_frame(&random, schema, &shape);
    gy_env env;
    const gy_rows_aggregate_options options = {
        .keys = keys,
        .key_count = 3,
        .aggregates = all_kinds,
        .aggregate_count = KINDS,
        .limits = {.memory_bytes = 1, .spill_folder = test_files, .env = test_disk_env(&env)}};
    gy_rows_aggregate_options passing = options;
    passing.aggregate_count = PLAIN_KINDS;
    passing.phase = GY_ROWS_PARTIAL;
    passing.is_passing = true;
    passing.measured_rows = 100;
    fail_memory(frame, &options);
    fail_memory(frame, &passing);
    for (int at = 0; at == 0 || at <= test_disk_calls.count; at += 1 + at / 3) {
        gy_frame *all = NULL;
        gy_random same = {7, 7};
        test_disk_calls.now = 0;
        test_disk_calls.fails_at = at;
        assert_status(aggregate(&same, frame, 1000, &options, &all), at == 0 ? GY_OK : GY_IO);
        test_disk_calls.count = at == 0 ? test_disk_calls.now : test_disk_calls.count;
        gy_frame_drop(all);
        assert_int_equal(test_entry_count(test_files), 0);
    }
    assert_true(test_disk_calls.count > 10);
    gy_frame_drop(frame);
    gy_schema_drop(schema);
}

GY_TEST_MAIN(test_disk_begin, test_disk_end)
