/* Goal: distinct rows, sets and unions of random frames are those of sorted lists of rows, in
 * memory and spilled; parts by hash and by range have all rows, equal keys together. */
#include "query/rows/disk_test.h"

#include "mapreduce/hash.h"

#include "gy_test.h"

/* How often each of two sorted lists has its texts, and what that makes. */
static test_texts set_reference(const test_texts *left, const test_texts *right,
                                gy_rows_set_kind kind)
{
    test_texts made = {gy_alloc_zero("test", (size_t)left->count + 1, sizeof(char *)), 0};
    int64_t at = 0;
    for (int64_t from = 0, to = 0; from < left->count; from = to) {
        while (to < left->count && strcmp(left->texts[to], left->texts[from]) == 0) {
            to++;
        }
        while (at < right->count && strcmp(right->texts[at], left->texts[from]) < 0) {
            at++;
        }
        const int64_t begin = at;
        while (at < right->count && strcmp(right->texts[at], left->texts[from]) == 0) {
            at++;
        }
        const int64_t lefts = to - from, rights = at - begin;
        const int64_t times = kind == GY_ROWS_INTERSECT       ? rights > 0
                              : kind == GY_ROWS_INTERSECT_ALL ? GY_MIN(lefts, rights)
                              : kind == GY_ROWS_EXCEPT        ? rights == 0
                              : lefts > rights                ? lefts - rights
                                                              : 0;
        for (int64_t i = 0; i < times; i++) {
            made.texts[made.count++] = gy_copy_text("test", left->texts[from]);
        }
    }
    return made;
}

static gy_frame *collect(gy_frame_source *out, gy_schema *schema)
{
    gy_frame *all = NULL;
    assert_ok(test_collect(out, schema, &all));
    gy_schema_drop(schema);
    return all;
}

GY_TEST(sets_are_those_of_sorted_lists)
{
    gy_random random = {gy_test_seed(), 0};
    for (long round = 0; round < gy_test_serial_cases(48); round++) {
        const int columns = (int)gy_random_below(&random, 4);
        gy_schema *schema = test_schema(&random, columns);
        const int64_t most = round % 12 == 11 ? 9000 : 80;
        const test_shape shape = {.rows = (int64_t)gy_random_below(&random, (uint64_t)most),
                                  .distinct = 1 + most / 8,
                                  .null_percent = 10};
        gy_frame *frames[2];
        test_texts texts[2];
        for (int s = 0; s < 2; s++) {
            frames[s] = test_frame(&random, schema, &shape);
            texts[s] = test_rows(frames[s], NULL, columns);
            test_texts_sort(&texts[s]);
        }
        const gy_rows_set_kind kind = (gy_rows_set_kind)(round % 4);
        test_texts expected = set_reference(&texts[0], &texts[1], kind);
        gy_frame *answers[2];
        for (int spills = 0; spills < 2; spills++) {
            const gy_rows_limits limits = {.memory_bytes = (uint64_t)spills,
                                           .spill_folder = test_files};
            const gy_rows_side left = {test_cut(&random, frames[0], most), schema};
            const gy_rows_side right = {test_cut(&random, frames[1], most), schema};
            gy_frame_source out;
            gy_schema *same = NULL;
            assert_ok(gy_rows_set(left, right, kind, &limits, &out, &same));
            answers[spills] = collect(&out, same);
        }
        test_same(answers[0], answers[1]);
        test_texts got = test_rows(answers[0], NULL, columns);
        test_texts_sort(&got);
        test_texts_same(&expected, &got);
        test_texts_free(&got);
        test_texts_free(&expected);
        for (int s = 0; s < 2; s++) {
            gy_frame_drop(answers[s]);
            gy_frame_drop(frames[s]);
            test_texts_free(&texts[s]);
        }
        gy_schema_drop(schema);
    }
}

GY_TEST(distinct_rows_come_once)
{
    gy_random random = {gy_test_seed(), 1};
    for (long round = 0; round < gy_test_serial_cases(24); round++) {
        const int columns = (int)gy_random_below(&random, 4);
        gy_schema *schema = test_schema(&random, columns), *same = NULL;
        const test_shape shape = {
            .rows = (int64_t)gy_random_below(&random, 200), .distinct = 9, .null_percent = 10};
        gy_frame *frame = test_frame(&random, schema, &shape);
        gy_frame_source out;
        assert_ok(gy_rows_unique(test_cut(&random, frame, 50), schema, NULL, &out, &same));
        gy_frame *all = collect(&out, same);
        test_texts expected = test_rows(frame, NULL, columns),
                   got = test_rows(all, NULL, columns);
        test_texts_sort(&expected);
        test_texts_sort(&got);
        int64_t at = 0;
        for (int64_t i = 0; i < expected.count; i++) {
            if (i == 0 || strcmp(expected.texts[i], expected.texts[i - 1]) != 0) {
                assert_true(at < got.count);
                assert_string_equal(expected.texts[i], got.texts[at++]);
            }
        }
        assert_int_equal(at, got.count);
        test_texts_free(&expected);
        test_texts_free(&got);
        gy_frame_drop(all);
        gy_frame_drop(frame);
        gy_schema_drop(schema);
    }
}

GY_TEST(unions_have_one_side_behind_the_other)
{
    gy_random random = {gy_test_seed(), 2};
    gy_schema *schema = NULL, *other = NULL, *same = NULL;
    assert_ok(gy_schema_parse("a int, b text", &schema));
    assert_ok(gy_schema_parse("a int, b int", &other));
    const test_shape shape = {.rows = 90, .distinct = 30, .null_percent = 10};
    gy_frame *frame = test_frame(&random, schema, &shape), *parts[2], *both = NULL;
    gy_rows_side sides[2] = {{test_cut(&random, frame, 20), schema},
                             {test_cut(&random, frame, 20), schema}};
    gy_frame_source out;
    assert_ok(gy_rows_chain(sides, 2, &out, &same));
    gy_frame *all = collect(&out, same);
    parts[0] = parts[1] = frame;
    assert_ok(gy_rows_concat(schema, parts, 2, &both));
    test_same(both, all);
    sides[0] = (gy_rows_side){test_cut(&random, frame, 20), schema};
    sides[1] = (gy_rows_side){test_cut(&random, frame, 20), other};
    assert_status(gy_rows_chain(sides, 2, &out, &same), GY_TYPE);
    sides[0] = (gy_rows_side){test_cut(&random, frame, 20), schema};
    sides[1] = (gy_rows_side){test_cut(&random, frame, 20), other};
    assert_status(gy_rows_set(sides[0], sides[1], GY_ROWS_EXCEPT, NULL, &out, &same), GY_TYPE);
    gy_frame_drop(both);
    gy_frame_drop(all);
    gy_frame_drop(frame);
    gy_schema_drop(schema);
    gy_schema_drop(other);
}

GY_TEST(parts_by_hash_give_groups_in_one_order)
{
    gy_random random = {gy_test_seed(), 3};
    gy_schema *schema = NULL;
    assert_ok(gy_schema_parse("a int, b text, c decimal(20, 2), d double", &schema));
    const test_shape shape = {.rows = 3000, .distinct = 400, .null_percent = 10};
    gy_frame *frame = test_frame(&random, schema, &shape);
    static const int keys[] = {1, 2};
    const gy_rows_aggregate_of of = {.kind = GY_ROWS_SUM, .column = 3};
    const gy_rows_aggregate_options options = {
        .keys = keys, .key_count = 2, .aggregates = &of, .aggregate_count = 1};
    gy_frame *whole = NULL;
    for (int parts = 1; parts < 9; parts += 3) {
        gy_frame *pieces[8], *groups[8], *all = NULL;
        assert_ok(gy_rows_partition_hash(frame, keys, 2, parts, pieces));
        int64_t rows = 0;
        for (int p = 0; p < parts; p++) {
            gy_frame_source out;
            gy_schema *same = NULL;
            rows += gy_frame_rows(pieces[p]);
            assert_ok(gy_rows_aggregate(test_cut(&random, pieces[p], 900), schema, &options,
                                        &out, &same));
            groups[p] = collect(&out, same);
        }
        assert_int_equal(rows, shape.rows);
        assert_ok(gy_rows_concat(gy_frame_schema(groups[0]), groups, (size_t)parts, &all));
        if (whole == NULL) {
            whole = gy_frame_hold(all);
        }
        test_same(whole, all);
        gy_frame_drop(all);
        for (int p = 0; p < parts; p++) {
            gy_frame_drop(pieces[p]);
            gy_frame_drop(groups[p]);
        }
    }
    gy_frame_drop(whole);
    gy_frame_drop(frame);
    gy_schema_drop(schema);
}

GY_TEST(parts_by_range_of_a_sample_are_sorted_one_by_one)
{
    gy_random random = {gy_test_seed(), 4};
    gy_schema *schema = NULL;
    assert_ok(gy_schema_parse("a int, b text, c double", &schema));
    const gy_rows_sort_key keys[] = {{.column = 1, .is_descending = true}, {.column = 0}};
    const gy_rows_sort_key sample_keys[] = {{.column = 0, .is_descending = true},
                                            {.column = 1}};
    for (long round = 0; round < gy_test_serial_cases(12); round++) {
        const test_shape shape = {
            .rows = 4000, .distinct = round % 3 == 0 ? 2 : 600, .null_percent = 10};
        gy_frame *frame = test_frame(&random, schema, &shape), *samples[2], *bounds = NULL;
        for (int again = 0; again < 2; again++) {
            gy_rows_sampler *sampler = NULL;
            gy_frame_source cuts = test_cut(&random, frame, 300);
            assert_ok(gy_rows_sampler_new(schema, keys, 2, 200, 5, &sampler));
            for (gy_frame *next = NULL; cuts.next(cuts.arg, &next) == GY_OK;) {
                assert_ok(gy_rows_sampler_add(sampler, next));
                gy_frame_drop(next);
            }
            cuts.close(cuts.arg);
            assert_ok(gy_rows_sampler_take(sampler, &samples[again]));
            gy_rows_sampler_free(sampler);
        }
        assert_int_equal(gy_frame_rows(samples[0]), 200);
        test_same(samples[0], samples[1]); /* however rows are cut */
        assert_ok(gy_rows_bounds(samples[0], NULL, sample_keys, 2, 6, &bounds));
        const int64_t parts = gy_frame_rows(bounds) + 1;
        assert_true(parts <= 6 && (shape.distinct == 2 || parts == 6));
        gy_frame *pieces[6], *sorted[7], *all = NULL;
        assert_ok(gy_rows_partition_range(frame, keys, 2, bounds, pieces));
        const gy_rows_sort_options options = {.keys = keys, .key_count = 2, .limit = -1};
        for (int64_t p = 0; p <= parts; p++) {
            gy_frame_source out;
            gy_schema *same = NULL;
            assert_ok(gy_rows_sort(test_cut(&random, p < parts ? pieces[p] : frame, 900),
                                   schema, &options, &out, &same));
            sorted[p] = collect(&out, same);
            assert_true(p == parts || shape.distinct == 2 ||
                        gy_frame_rows(sorted[p]) < shape.rows / 3);
        }
        assert_ok(gy_rows_concat(schema, sorted, (size_t)parts, &all));
        test_same(sorted[parts], all);
        gy_frame_drop(all);
        for (int64_t p = 0; p <= parts; p++) {
            gy_frame_drop(sorted[p]);
            gy_frame_drop(p < parts ? pieces[p] : NULL);
        }
        gy_frame_drop(bounds);
        gy_frame_drop(samples[0]);
        gy_frame_drop(samples[1]);
        gy_frame_drop(frame);
    }
    gy_schema_drop(schema);
}

/* How many rows of a frame have a hash among the hot ones, and how many that they stand in a
 * part that is not theirs by hash. */
static int64_t count_hot(const gy_frame *frame, const gy_rows_hot *hot, int parts, int part)
{
    const int key = 0;
    const int64_t rows = gy_frame_rows(frame);
    uint64_t *hashes = gy_alloc("test", ((size_t)rows + 1) * sizeof(*hashes));
    int64_t count = 0;
    assert_non_null(hashes);
    gy_rows_hash(frame, &key, 1, hashes);
    for (int64_t i = 0; i < rows; i++) {
        bool is_hot = false;
        for (size_t k = 0; k < hot->count; k++) {
            is_hot = is_hot || hot->hashes[k] == hashes[i];
        }
        count += is_hot;
        assert_true(is_hot || (int)gy_hash_partition(hashes[i], (uint32_t)parts) == part);
    }
    gy_free(hashes);
    return count;
}

GY_TEST(hot_keys_of_a_sample_are_spread_or_copied)
{
    gy_random random = {gy_test_seed(), 6};
    gy_schema *schema = NULL;
    assert_ok(gy_schema_parse("a int, b text", &schema));
    for (long round = 0; round < gy_test_serial_cases(12); round++) {
        enum { ROWS = 3000, PARTS = 5 };
        const int key = 0;
        const test_shape shape = {.rows = ROWS, .distinct = 4000, .null_percent = 40};
        gy_frame *frame = test_frame(&random, schema, &shape), *parts[PARTS], *key_row = NULL;
        int64_t weights[ROWS], all = 0, seen = 0;
        uint64_t null_hash = 0;
        gy_rows_hot hot;
        for (int i = 0; i < ROWS; i++) {
            weights[i] = 7;
        }
        assert_ok(gy_rows_find_hot(frame, &key, 1, weights, PARTS, &hot));
        assert_int_equal(hot.count, 1); /* nulls, and no other of so many */
        assert_ok(gy_rows_gather(frame, (int32_t[]){-1}, 1, &key_row));
        gy_rows_hash(key_row, &key, 1, &null_hash);
        assert_int_equal(hot.hashes[0], null_hash);
        const gy_column column = gy_frame_column(frame, 0);
        all = gy_column_nulls(&column);
        for (int copied = 0; copied < 2; copied++) {
            hot.is_copied = copied == 1;
            seen = 0;
            assert_ok(gy_rows_partition_hot(frame, &key, 1, PARTS, &hot, parts));
            for (int p = 0; p < PARTS; p++) {
                const int64_t of = count_hot(parts[p], &hot, PARTS, p);
                assert_true(copied == 1 ? of == all
                                        : of >= all / PARTS && of <= all / PARTS + 1);
                seen += gy_frame_rows(parts[p]) - (copied == 1 && p > 0 ? of : 0);
                gy_frame_drop(parts[p]);
            }
            assert_int_equal(seen, ROWS);
        }
        gy_free(hot.hashes);
        gy_frame_drop(key_row);
        gy_frame_drop(frame);
    }
    gy_schema_drop(schema);
}

/* Rows of a sample that stand for others move bounds as the others themselves would. */
GY_TEST(bounds_of_a_weighted_sample_are_those_of_its_rows)
{
    gy_random random = {gy_test_seed(), 5};
    gy_schema *schema = NULL;
    const gy_rows_sort_key keys[] = {{.column = 0}};
    assert_ok(gy_schema_parse("a int", &schema));
    for (long round = 0; round < gy_test_serial_cases(20); round++) {
        enum { ROWS = 60, MOST = 20 };
        const test_shape shape = {.rows = ROWS, .distinct = 30, .null_percent = 10};
        gy_frame *frame = test_frame(&random, schema, &shape);
        gy_frame *many = NULL, *bounds[2] = {NULL, NULL};
        int64_t weights[ROWS];
        int32_t rows[ROWS * MOST];
        int64_t count = 0;
        for (int32_t i = 0; i < ROWS; i++) {
            weights[i] = 1 + (int64_t)gy_random_below(&random, MOST);
            for (int64_t k = 0; k < weights[i]; k++) {
                rows[count++] = i;
            }
        }
        assert_ok(gy_rows_gather(frame, rows, count, &many));
        assert_ok(gy_rows_bounds(frame, weights, keys, 1, 7, &bounds[0]));
        assert_ok(gy_rows_bounds(many, NULL, keys, 1, 7, &bounds[1]));
        test_same(bounds[0], bounds[1]);
        gy_frame_drop(bounds[0]);
        gy_frame_drop(bounds[1]);
        gy_frame_drop(many);
        gy_frame_drop(frame);
    }
    gy_schema_drop(schema);
}

GY_TEST_MAIN(test_disk_begin, test_disk_end)
