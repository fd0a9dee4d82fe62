/* Goal: partitions have all rows, those with equal keys in one, in the order in which they
 * came; ranges follow one another and have about equally many rows, in little memory too. */
#include "base/base.h"
#include "base/random.h"

#include "gy_test.h"

#include <gyre/rows.h>

enum { ROWS = 6000, PARTS_MAX = 7, KEYS = 2000 };

static gy_rows_session *session;
static int64_t keys[ROWS]; /* KEYS: null */

/* Rows i, k of random keys, of which there are few or many, and some are null. */
static gy_rows *random_rows(gy_rows_session *own, gy_random *random, uint64_t distinct)
{
    gy_schema *schema = NULL;
    gy_frame_builder *builder = NULL;
    gy_frame *frames[4];
    assert_int_equal(gy_schema_parse("i int, k int", &schema), GY_OK);
    assert_int_equal(gy_frame_builder_new(schema, &builder), GY_OK);
    for (int i = 0; i < ROWS; i++) {
        const bool is_null = gy_random_below(random, 40) == 0;
        keys[i] = is_null ? KEYS : (int64_t)gy_random_below(random, distinct);
        gy_frame_add_int64(builder, i);
        if (is_null) {
            gy_frame_add_null(builder);
        } else {
            gy_frame_add_int64(builder, keys[i]);
        }
        gy_frame_row_end(builder);
        if (i % (ROWS / 4) == ROWS / 4 - 1) {
            assert_int_equal(gy_frame_finish(builder, &frames[i / (ROWS / 4)]), GY_OK);
        }
    }
    gy_rows *rows = gy_rows_frames(own, schema, frames, 4);
    for (int i = 0; i < 4; i++) {
        gy_frame_drop(frames[i]);
    }
    gy_frame_builder_free(builder);
    gy_schema_drop(schema);
    return rows;
}

/* What a key is like. */
static int64_t plain(int64_t key)
{
    return key; /* null is KEYS, the last one */
}

static int64_t descending(int64_t key)
{
    return key == KEYS ? -KEYS - 1 : -key; /* nulls first */
}

static int64_t third(int64_t key)
{
    return key == KEYS ? 3 : key % 3;
}

static const struct {
    const char *text;
    int64_t (*rank)(int64_t key); /* its order */
} cases[] = {
    {"k", plain}, {"k desc nulls first", descending}, {"k desc", descending}, {"k % 3", third}};

/* The rows of the partitions as they come: of each row its partition. */
static void read_parts(gy_frame_source *sources, int parts, int part_of[ROWS])
{
    for (int i = 0; i < ROWS; i++) {
        part_of[i] = -1;
    }
    for (int p = 0; p < parts; p++) {
        gy_frame *frame = NULL;
        int64_t last = -1;
        gy_status status = GY_OK;
        while ((status = sources[p].next(sources[p].arg, &frame)) == GY_OK) {
            const gy_column numbers = gy_frame_column(frame, 0);
            assert_int_equal(gy_schema_count(gy_frame_schema(frame)), 2);
            for (int64_t row = 0; row < numbers.rows; row++) {
                const int64_t i = gy_column_int64(&numbers, row);
                assert_true(i > last); /* as they came */
                assert_int_equal(part_of[i], -1);
                part_of[i] = p;
                last = i;
            }
            gy_frame_drop(frame);
        }
        assert_int_equal(status, GY_DONE);
        sources[p].close(sources[p].arg);
    }
}

static void check_parts(gy_rows *divided, size_t which, int parts, bool is_range,
                        uint64_t distinct)
{
    gy_schema *schema = NULL;
    gy_frame_source sources[PARTS_MAX];
    static int part_of[ROWS];
    int rows_of[PARTS_MAX] = {0};
    int64_t low[PARTS_MAX], high[PARTS_MAX];
    if (gy_rows_run_parts(divided, &schema, sources) != GY_OK) {
        fail_msg("%s", gy_rows_report(divided));
    }
    assert_int_equal(gy_schema_count(schema), 2);
    assert_string_equal(gy_schema_field(schema, 1)->name, "k");
    gy_schema_drop(schema);
    read_parts(sources, parts, part_of);
    static int part_of_rank[3 * KEYS];
    memset(part_of_rank, 0xff, sizeof(part_of_rank));
    for (int i = 0; i < ROWS; i++) {
        const int p = part_of[i];
        const int64_t rank = cases[which].rank(keys[i]);
        int *same = &part_of_rank[rank + KEYS + 1];
        assert_in_range(p, 0, parts - 1); /* each row is there */
        assert_true(*same == -1 || *same == p);
        *same = p;
        low[p] = rows_of[p] == 0 || rank < low[p] ? rank : low[p];
        high[p] = rows_of[p] == 0 || rank > high[p] ? rank : high[p];
        rows_of[p]++;
    }
    for (int p = 0, before = -1; p < parts && is_range; p++) {
        if (rows_of[p] > 0) {
            assert_true(before < 0 || high[before] < low[p]);
            before = p;
        }
    }
    for (int p = 0; p < parts && distinct == KEYS && cases[which].rank != third; p++) {
        assert_in_range(rows_of[p], ROWS / parts * 2 / 3, ROWS / parts * 4 / 3);
    }
}

GY_TEST(partitions_have_all_rows_of_their_keys)
{
    gy_random random = {.key = gy_test_seed()};
    static const uint64_t distincts[] = {1, 5, KEYS};
    for (int64_t memory = 0; memory < 2; memory++) {
        const gy_rows_session_options options = GY_OPTIONS(
            gy_rows_session_options, .workers = 2, .memory_bytes = memory == 0 ? 0 : 100000);
        assert_int_equal(gy_rows_session_new(&options, &session), GY_OK);
        for (size_t d = 0; d < GY_COUNT(distincts); d++) {
            gy_rows *rows = random_rows(session, &random, distincts[d]);
            for (size_t which = 0; which < GY_COUNT(cases); which++) {
                const int parts = 1 + (int)gy_random_below(&random, PARTS_MAX);
                const char *text = cases[which].text;
                check_parts(gy_rows_hash_partition(rows, text, parts), which, parts, false,
                            distincts[d]);
                check_parts(gy_rows_range_partition(rows, text, parts), which, parts, true,
                            distincts[d]);
            }
        }
        gy_rows_session_free(session);
    }
}

GY_TEST(partitions_are_rows_to_other_calls)
{
    gy_random random = {.key = 1};
    gy_schema *schema = NULL;
    gy_frame_source source;
    gy_frame *frame = NULL;
    assert_int_equal(gy_rows_session_new(NULL, &session), GY_OK);
    gy_rows *divided = gy_rows_hash_partition(random_rows(session, &random, 9), "k", 3);
    gy_rows *count = gy_rows_select(divided, "count(*) as n, max(i) as i");
    assert_int_equal(gy_rows_run(count, &schema, &source), GY_OK);
    assert_int_equal(source.next(source.arg, &frame), GY_OK);
    const gy_column rows = gy_frame_column(frame, 0);
    assert_int_equal(gy_column_int64(&rows, 0), ROWS);
    gy_frame_drop(frame);
    source.close(source.arg);
    gy_schema_drop(schema);
    /* what is wrong */
    assert_int_equal(gy_rows_run_parts(count, &schema, &source), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "expected rows of gy_rows_hash_partition"));
    static const struct {
        const char *keys;
        int parts;
        gy_status status;
        const char *report;
    } wrong[] = {
        {"k", 0, GY_ARG, "gy_rows_hash_partition:1:1: 0 partitions: expected 1 to 10000\n"},
        {"", 2, GY_ARG, "gy_rows_hash_partition: no text: expected keys of an order\n"},
        {"2", 2, GY_FORMAT, "gy_rows_hash_partition:1:1: a key is a number: "},
        {"i, q", 2, GY_NOTFOUND, "gy_rows_hash_partition:1:4: there is no column \"q\""},
        {"1 / (k - k)", 2, GY_NUMERIC, "gy_rows_run: division by zero"},
    };
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        gy_frame_source sources[PARTS_MAX];
        gy_rows *refused = gy_rows_hash_partition(divided, wrong[i].keys, wrong[i].parts);
        assert_int_equal(gy_rows_run_parts(refused, &schema, sources), wrong[i].status);
        const char *report = gy_rows_report(refused);
        if (strncmp(report, wrong[i].report, strlen(wrong[i].report)) != 0) {
            fail_msg("%s is refused by %s", wrong[i].keys, report);
        }
    }
    gy_rows_session_free(session);
}

GY_TEST_MAIN(NULL, NULL)
