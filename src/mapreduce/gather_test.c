/* Goal: whatever the budget, the fold, the batches and the number of tasks, the rows that come
 * out are those of a sorted array, in canonical order, byte for byte the same. */
#include "base/base.h"
#include "mapreduce/gather.h"

#include <dirent.h>
#include <string.h>

#include "gy_test.h"

enum { KEY_MAX = 40, BATCH_MAX = 100 };

typedef struct entry {
    char key[KEY_MAX];
    uint32_t key_size;
    char value[KEY_MAX];
    uint32_t value_size;
    int64_t number;
    uint64_t hash;
    size_t arrival;
} entry;

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/gyre-gather-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int count_files(void)
{
    int count = -2; /* . and .. */
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static gy_status write_text(void *arg, const void *data, size_t size_bytes)
{
    gy_text *text = arg;
    gy_text_add_bytes(text, data, size_bytes);
    return text->status;
}

typedef struct reading {
    const gy_text *text;
    size_t at;
    gy_random *random; /* NULL: all at once */
} reading;

static gy_status more_text(void *arg, const char **data, size_t *size_bytes)
{
    reading *from = arg;
    *data = from->text->data + from->at;
    *size_bytes = from->text->size_bytes - from->at;
    if (from->random != NULL && *size_bytes > 0) {
        const size_t drawn = 1 + gy_random_below(from->random, 30);
        *size_bytes = GY_MIN(*size_bytes, drawn);
    }
    from->at += *size_bytes;
    return GY_OK;
}

static int by_canon(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->hash != y->hash) {
        return x->hash < y->hash ? -1 : 1;
    }
    const int sign = memcmp(x->key, y->key, GY_MIN(x->key_size, y->key_size));
    if (sign != 0 || x->key_size != y->key_size) {
        return sign != 0 ? sign : (x->key_size > y->key_size ? 1 : -1);
    }
    return (x->arrival > y->arrival) - (x->arrival < y->arrival);
}

static bool is_same(const entry *a, const entry *b)
{
    return a->key_size == b->key_size && memcmp(a->key, b->key, a->key_size) == 0;
}

static int64_t join_shifted(int64_t left, int64_t right)
{
    return left > right ? left : right; /* a user's own: associative */
}

/* Keys: `kinds` of them, one with a third of all entries; lengths around the head's. */
static entry *draw(gy_random *random, size_t count, uint64_t kinds, gy_mapreduce_fold fold)
{
    entry *entries = gy_alloc_zero("test", count, sizeof(*entries));
    for (size_t i = 0; i < count; i++) {
        entry *e = &entries[i];
        const uint64_t kind =
            gy_random_below(random, 3) == 0 ? 7 : gy_random_below(random, kinds);
        e->key_size = (uint32_t)(kind * 7 % (KEY_MAX - 8));
        for (uint32_t j = 0; j < e->key_size; j++) {
            e->key[j] = (char)(kind >> (j % 8 * 8));
        }
        memcpy(e->key + e->key_size, &kind, 8); /* so that kinds differ */
        e->key_size += kind % 3 == 0 ? 8 : 4;
        e->value_size = (uint32_t)gy_random_below(random, KEY_MAX);
        memset(e->value, (int)i, e->value_size);
        e->number = fold == GY_FOLD_SET
                        ? (int64_t)(i / 5) - 50
                        : (int64_t)gy_random_u64(random) >> gy_random_below(random, 64);
        e->hash = gy_key_hash(e->key, e->key_size, gy_key_head_within(e->key, e->key_size));
        e->arrival = i;
    }
    return entries;
}

typedef struct trial_case {
    gy_mapreduce_fold fold;
    size_t memory_bytes;
    uint32_t partitions;
    size_t tasks;   /* the entries are cut among so many gathers */
    bool is_joined; /* numbers are folded by join_shifted */
    gy_partition_work partition;
} trial_case;

static gy_gather_report gather_all(const trial_case *trial, const entry *entries, size_t count,
                                   gy_random *random, gy_text *parts)
{
    const gy_gather_options options = {.fold = trial->fold,
                                       .join = trial->is_joined ? join_shifted : NULL,
                                       .partitions = trial->partitions,
                                       .partition = trial->partition,
                                       .memory_bytes = trial->memory_bytes,
                                       .sample_items = 1 << 16,
                                       .env = gy_env_real(),
                                       .scratch = folder};
    gy_gather *gather = NULL;
    assert_ok(gy_gather_new(&options, &gather));
    for (size_t i = 0; i < count;) {
        gy_item items[BATCH_MAX];
        const size_t drawn = 1 + gy_random_below(random, BATCH_MAX),
                     size = GY_MIN(count - i, drawn);
        for (size_t j = 0; j < size; j++) {
            const entry *e = &entries[i + j];
            items[j] =
                (gy_item){.key = e->key, .key_size = e->key_size, .value_size = e->value_size};
            if (trial->fold == GY_FOLD_LIST) {
                items[j].value = e->value;
            } else {
                items[j].number = e->number;
            }
        }
        assert_ok(gy_gather_add(gather, items, size));
        i += size;
    }
    gy_sink *sinks = gy_alloc_zero("test", trial->partitions, sizeof(*sinks));
    for (uint32_t i = 0; i < trial->partitions; i++) {
        sinks[i] = (gy_sink){write_text, &parts[i]};
    }
    assert_ok(gy_gather_end(gather, sinks));
    gy_gather_report report;
    gy_gather_tell(gather, &report);
    gy_gather_free(gather);
    gy_free(sinks);
    assert_int_equal(count_files(), 0);
    return report;
}

static void check_list(gy_groups *groups, const trial_case *trial, const entry *entries,
                       size_t low, size_t high)
{
    int64_t last = 0;
    bool has_last = false;
    for (;;) {
        const char *list;
        size_t size;
        assert_ok(gy_groups_list(groups, &list, &size));
        if (list == NULL) {
            break;
        }
        gy_piece piece = {.at = list, .end = list + size};
        gy_item value;
        gy_status status;
        while ((status = gy_piece_next(&piece, trial->fold, &value)) == GY_OK) {
            if (trial->fold == GY_FOLD_SET && has_last && value.number == last) {
                continue; /* pieces of a set may meet in one number */
            }
            if (trial->fold == GY_FOLD_SET) {
                while (has_last && low < high && entries[low].number == last) {
                    low++;
                }
            }
            assert_true(low < high);
            if (trial->fold == GY_FOLD_LIST) {
                assert_int_equal(value.value_size, entries[low].value_size);
                assert_memory_equal(value.value, entries[low].value, value.value_size);
            } else {
                assert_int_equal(value.number, entries[low].number);
            }
            last = value.number;
            has_last = true;
            low++;
        }
        assert_int_equal(status, GY_AGAIN);
    }
    while (trial->fold == GY_FOLD_SET && low < high && entries[low].number == last) {
        low++;
    }
    assert_int_equal(low, high);
}

/* Read a partition of all tasks as a reduce does; the entries (sorted) that it must hold are
 * those of `part`. */
static void check_part(const trial_case *trial, gy_text **tables, uint32_t part,
                       const entry *entries, size_t count, gy_random *random)
{
    reading *readings = gy_alloc_zero("test", trial->tasks, sizeof(*readings));
    gy_mapreduce_rows **rows = gy_alloc_zero("test", trial->tasks, sizeof(gy_mapreduce_rows *));
    for (size_t t = 0; t < trial->tasks; t++) {
        readings[t] = (reading){&tables[t][part], 0, t % 2 == 0 ? random : NULL};
        assert_ok(gy_mapreduce_rows_new((gy_byte_source){more_text, &readings[t], "text"},
                                        gy_mapreduce_fold_is_list(trial->fold), &rows[t]));
    }
    gy_groups *groups = NULL;
    assert_ok(gy_groups_new(rows, trial->tasks, trial->fold,
                            trial->is_joined ? join_shifted : NULL, &groups));
    for (size_t low = 0, high; low < count; low = high) {
        const entry *e = &entries[low];
        int64_t number = e->number;
        for (high = low + 1; high < count && is_same(e, &entries[high]); high++) {
            if (!gy_mapreduce_fold_is_list(trial->fold)) {
                number = gy_mapreduce_fold_numbers(trial->fold, join_shifted, number,
                                                   entries[high].number);
            }
        }
        const uint32_t owner = trial->partition != NULL
                                   ? trial->partition(e->key, e->key_size, trial->partitions)
                                   : gy_hash_partition(e->hash, trial->partitions);
        if (owner != part) {
            continue;
        }
        const gy_row *row;
        assert_ok(gy_groups_next(groups, &row));
        assert_non_null(row);
        assert_int_equal(row->key_size, e->key_size);
        assert_memory_equal(row->key, e->key, e->key_size);
        if (!gy_mapreduce_fold_is_list(trial->fold)) {
            assert_int_equal(row->number, number);
        } else if (gy_random_below(random, 4) != 0) { /* else it is skipped */
            check_list(groups, trial, entries, low, high);
        }
    }
    const gy_row *row;
    assert_ok(gy_groups_next(groups, &row));
    assert_null(row);
    gy_groups_free(groups);
    gy_free(rows);
    gy_free(readings);
}

static gy_gather_report check_trial(const trial_case *trial, const entry *entries, size_t count,
                                    gy_random *random)
{
    gy_gather_report sum = {0};
    gy_text **tables = gy_alloc_zero("test", trial->tasks, sizeof(gy_text *));
    for (size_t t = 0; t < trial->tasks; t++) {
        tables[t] = gy_alloc_zero("test", trial->partitions, sizeof(gy_text));
        const size_t low = count * t / trial->tasks, high = count * (t + 1) / trial->tasks;
        gy_gather_report report =
            gather_all(trial, entries + low, high - low, random, tables[t]);
        sum.spills += report.spills;
        sum.passes += report.passes;
    }
    entry *sorted = gy_alloc("test", count * sizeof(*sorted));
    memcpy(sorted, entries, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), by_canon);
    for (uint32_t part = 0; part < trial->partitions; part++) {
        check_part(trial, tables, part, sorted, count, random);
    }
    for (size_t t = 0; t < trial->tasks; t++) {
        for (uint32_t part = 0; part < trial->partitions; part++) {
            gy_text_free(&tables[t][part]);
        }
        gy_free(tables[t]);
    }
    gy_free(tables);
    gy_free(sorted);
    return sum;
}

static uint32_t by_last_byte(const void *key, size_t key_size, uint32_t partitions)
{
    return key_size == 0 ? 0 : ((const unsigned char *)key)[key_size - 1] % partitions;
}

GY_TEST(every_fold_under_every_budget)
{
    gy_random random = {.key = gy_test_seed()};
    static const gy_mapreduce_fold folds[] = {GY_FOLD_LIST, GY_FOLD_NUMBERS, GY_FOLD_SET,
                                              GY_FOLD_SUM,  GY_FOLD_MIN,     GY_FOLD_MAX,
                                              GY_FOLD_USER};
    uint64_t spills = 0;
    for (size_t i = 0; i < (size_t)gy_test_cases(8) * GY_COUNT(folds); i++) {
        const size_t drawn = 1 + gy_random_below(&random, i % 4 == 0 ? 60000 : 3000);
        const size_t count = i == 0 ? 60000 : drawn; /* the first one spills for sure */
        const uint64_t kinds = 1 + gy_random_below(&random, i % 3 == 0 ? 50000 : 100);
        const trial_case trial = {.fold = folds[i % GY_COUNT(folds)],
                                  .memory_bytes = i % 2 == 0 ? GY_GATHER_BYTES_MIN : 16 << 20,
                                  .partitions = 1 + (uint32_t)gy_random_below(&random, 5),
                                  .tasks = 1 + gy_random_below(&random, 4),
                                  .is_joined = folds[i % GY_COUNT(folds)] == GY_FOLD_USER,
                                  .partition = i % 5 == 0 ? by_last_byte : NULL};
        entry *entries = draw(&random, count, kinds, trial.fold);
        spills += check_trial(&trial, entries, count, &random).spills;
        gy_free(entries);
    }
    assert_true(spills > 0);
}

GY_TEST(combining_is_given_up_where_it_does_not_pay)
{
    gy_random random = {.key = gy_test_seed()};
    const size_t count = 300000;
    for (int i = 0; i < 2; i++) {
        /* Two thirds are new keys; the last third is one key, which then comes again and again.
         */
        entry *entries = draw(&random, count, 1 << 30, GY_FOLD_SUM);
        const trial_case trial = {.fold = GY_FOLD_SUM,
                                  .memory_bytes = i == 0 ? 256 << 20 : 8 << 20,
                                  .partitions = 2,
                                  .tasks = 1};
        const gy_gather_report report = check_trial(&trial, entries, count, &random);
        assert_true(report.passes > 0);
        assert_int_equal(report.spills > 0, i == 1);
        gy_free(entries);
    }
}

/* The same partitions whatever the memory: also the bytes. */
GY_TEST(bytes_do_not_depend_on_the_budget)
{
    gy_random random = {.key = gy_test_seed()};
    const size_t count = 150000;
    entry *entries = draw(&random, count, 90000, GY_FOLD_SUM);
    trial_case trial = {
        .fold = GY_FOLD_SUM, .memory_bytes = 64 << 20, .partitions = 3, .tasks = 1};
    gy_text large[3] = {0}, small[3] = {0};
    assert_int_equal(gather_all(&trial, entries, count, &random, large).spills, 0);
    trial.memory_bytes = GY_GATHER_BYTES_MIN;
    assert_true(gather_all(&trial, entries, count, &random, small).spills > GY_GATHER_FAN_IN);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(large[i].size_bytes, small[i].size_bytes);
        assert_memory_equal(large[i].data, small[i].data, small[i].size_bytes);
        gy_text_free(&large[i]);
        gy_text_free(&small[i]);
    }
    gy_free(entries);
}

GY_TEST(lists_keep_their_order_over_many_spills)
{
    gy_random random = {.key = gy_test_seed()};
    const size_t count = 120000;
    entry *entries = draw(&random, count, 1000, GY_FOLD_LIST);
    const trial_case trial = {
        .fold = GY_FOLD_LIST, .memory_bytes = GY_GATHER_BYTES_MIN, .partitions = 2, .tasks = 1};
    assert_true(check_trial(&trial, entries, count, &random).spills > 2 * GY_GATHER_FAN_IN);
    gy_free(entries);
}

/* Keys as another job wrote them: in the order of hashes. */
GY_TEST(keys_in_canonical_order_cost_no_more)
{
    gy_random random = {.key = gy_test_seed()};
    static const gy_mapreduce_fold folds[] = {GY_FOLD_SUM, GY_FOLD_LIST, GY_FOLD_SET};
    for (size_t i = 0; i < GY_COUNT(folds); i++) {
        const size_t count = 60000;
        entry *entries = draw(&random, count, 40000, folds[i]);
        qsort(entries, count, sizeof(*entries), by_canon);
        for (size_t j = 0; j < count; j++) {
            entries[j].arrival = j;
            entries[j].number = folds[i] == GY_FOLD_SET ? (int64_t)(j / 5) : 1;
        }
        const trial_case trial = {
            .fold = folds[i], .memory_bytes = 64 << 20, .partitions = 2, .tasks = 1};
        const gy_gather_report report = check_trial(&trial, entries, count, &random);
        assert_int_equal(report.passes, 1);
        assert_int_equal(report.spills, 0);
        gy_free(entries);
    }
}

GY_TEST(words_are_counted_across_calls_texts)
{
    gy_random random = {.key = gy_test_seed()};
    const size_t size = 300000;
    char *text = gy_alloc("test", size);
    for (size_t i = 0; i < size; i++) {
        text[i] =
            gy_random_below(&random, 5) == 0 ? '\n' : (char)('a' + gy_random_below(&random, 4));
    }
    memset(text + 1000, 'x', 150000); /* a word longer than one call's text */
    const gy_gather_options options = {.fold = GY_FOLD_SUM,
                                       .partitions = 1,
                                       .memory_bytes = 1 << 20,
                                       .env = gy_env_real(),
                                       .scratch = folder};
    gy_text words = {0}, items = {0};
    gy_gather *gather = NULL;
    assert_ok(gy_gather_new(&options, &gather));
    assert_ok(gy_gather_add_words(gather, text, size, 1));
    assert_ok(gy_gather_end(gather, &(gy_sink){write_text, &words}));
    gy_gather_free(gather);
    assert_ok(gy_gather_new(&options, &gather));
    for (size_t i = 0; i < size;) {
        size_t end = i;
        while (end < size && text[end] != '\n') {
            end++;
        }
        gy_item item = {.key = text + i, .key_size = (uint32_t)(end - i)};
        item.number = 1;
        assert_ok(gy_gather_add(gather, &item, end > i));
        i = end + 1;
    }
    assert_ok(gy_gather_end(gather, &(gy_sink){write_text, &items}));
    gy_gather_free(gather);
    assert_int_equal(words.size_bytes, items.size_bytes);
    assert_memory_equal(words.data, items.data, items.size_bytes);
    gy_text_free(&words);
    gy_text_free(&items);
    gy_free(text);
}

GY_TEST(large_keys_and_values_have_a_limit)
{
    char *bytes = gy_alloc_zero("test", 1, 1 << 20);
    const gy_gather_options options = {.fold = GY_FOLD_LIST,
                                       .partitions = 1,
                                       .memory_bytes = 1 << 20,
                                       .env = gy_env_real(),
                                       .scratch = folder};
    for (int i = 0; i < 4; i++) {
        gy_gather *gather = NULL;
        assert_ok(gy_gather_new(&options, &gather));
        const uint32_t size = i % 2 == 0 ? 500 << 10 : 1 << 20;
        const gy_item item = {.key = bytes,
                              .key_size = i < 2 ? size : 1,
                              .value = bytes,
                              .value_size = i < 2 ? 1 : size};
        assert_ok(gy_gather_add(
            gather, &(gy_item){.key = "a", .key_size = 1, .value = "b", .value_size = 1}, 1));
        assert_status(gy_gather_add(gather, &item, 1), i % 2 == 0 ? GY_OK : GY_LIMIT);
        gy_gather_free(gather);
    }
    gy_free(bytes);
    assert_int_equal(count_files(), 0);
}

GY_TEST(spoiled_rows_are_refused)
{
    gy_random random = {.key = gy_test_seed()};
    const size_t count = 200;
    entry *entries = draw(&random, count, 50, GY_FOLD_LIST);
    const trial_case trial = {
        .fold = GY_FOLD_LIST, .memory_bytes = 1 << 20, .partitions = 1, .tasks = 1};
    gy_text table = {0};
    gather_all(&trial, entries, count, &random, &table);
    for (long i = 0; i < gy_test_cases(2000); i++) {
        gy_text spoiled = {0};
        gy_text_add_bytes(&spoiled, table.data, table.size_bytes);
        if (i % 2 == 0) {
            spoiled.size_bytes = gy_random_below(&random, table.size_bytes);
        } else {
            spoiled.data[gy_random_below(&random, table.size_bytes)] ^=
                (char)(1 << gy_random_below(&random, 8));
        }
        reading from = {&spoiled, 0, i % 3 == 0 ? &random : NULL};
        gy_mapreduce_rows *rows = NULL;
        assert_ok(
            gy_mapreduce_rows_new((gy_byte_source){more_text, &from, "spoiled"}, true, &rows));
        gy_status status = GY_OK;
        bool has_row = true;
        while (status == GY_OK && has_row) { /* ends, and reads nothing outside */
            gy_row row;
            status = gy_mapreduce_rows_next(rows, &row, &has_row);
            gy_piece piece = {0};
            if (status == GY_OK && has_row) {
                piece = (gy_piece){.at = row.list, .end = row.list + row.list_size};
            }
            gy_item value;
            while (piece.at != piece.end &&
                   gy_piece_next(&piece, GY_FOLD_LIST, &value) == GY_OK) {
                assert_true(value.value + value.value_size <= piece.end);
            }
        }
        assert_true(status == GY_OK || status == GY_FORMAT);
        gy_mapreduce_rows_free(rows);
        gy_text_free(&spoiled);
    }
    gy_text_free(&table);
    gy_free(entries);
}

GY_TEST_MAIN(make_folder, remove_folder)
