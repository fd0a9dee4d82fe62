/* Goal: a hot key that is reduced in shares gives the bytes of one that is not, and of a plain
 * loop over the records, for every kind of list; what is shared, and what never is. */
#include "base/text.h"
#include "mapreduce/hot/hot.h"

#include "mapreduce/hot/job_test.h"

enum { KEYS = 40, RECORDS_MOST = 3000, TEXT_BYTES = 1 << 20 };

/* ---- functions of the test's program ---- */

static void emit_pair(gy_map *map, const gy_record *pair)
{
    gy_emit_bytes(map, pair->key, pair->key_size, pair->data, pair->size);
}

static void emit_number(gy_map *map, const gy_record *pair)
{
    gy_emit(map, pair->key, pair->key_size, strtoll(pair->data, NULL, 10));
}

static uint32_t by_last_byte(const void *key, size_t key_size, uint32_t partitions)
{
    return key_size == 0 ? 0 : ((const unsigned char *)key)[key_size - 1] % partitions;
}

/* Short keys, hot ones among them, together. */
static uint32_t by_length(const void *key, size_t key_size, uint32_t partitions)
{
    return key_size <= 4 ? 0 : 1 + by_last_byte(key, key_size, partitions - 1);
}

/* "count:total:first<last" of values that are numbers or such words themselves. */
typedef struct summary {
    long long count, total, first, last;
} summary;

static summary sum_up(gy_values *values)
{
    summary all = {0};
    const void *value;
    size_t size;
    while (gy_values_bytes(values, &value, &size)) {
        char text[100];
        assert_true(size < sizeof(text));
        memcpy(text, value, size);
        text[size] = '\0';
        summary one = {.count = 1};
        if (strchr(text, ':') == NULL) {
            one.total = one.first = one.last = strtoll(text, NULL, 10);
        } else {
            assert_int_equal(sscanf(text, "%lld:%lld:%lld<%lld", &one.count, &one.total,
                                    &one.first, &one.last),
                             4);
        }
        all.first = all.count == 0 ? one.first : all.first;
        all.count += one.count;
        all.total += one.total;
        all.last = one.last;
    }
    return all;
}

static size_t print(char out[100], summary of)
{
    return gy_print(out, 100, "%lld:%lld:%lld<%lld", of.count, of.total, of.first, of.last);
}

static void reduce_summary(gy_reducer *reduce, const gy_record *key, gy_values *values)
{
    char text[100];
    const size_t size = print(text, sum_up(values));
    gy_reduce_put_bytes(reduce, key->data, key->size, text, size);
}

static void combine_summary(gy_reducer *combiner, const gy_record *key, gy_values *values)
{
    char text[100];
    (void)key;
    const size_t size = print(text, sum_up(values));
    gy_combine_put(combiner, text, size);
}

static int64_t larger(int64_t left, int64_t right)
{
    return GY_MAX(left, right);
}

static void combine_wrongly(gy_reducer *combiner, const gy_record *key, gy_values *values)
{
    (void)values;
    gy_reduce_put(combiner, key->data, key->size, 1);
}

static void reduce_wrongly(gy_reducer *reduce, const gy_record *key, gy_values *values)
{
    (void)values;
    gy_combine_put(reduce, key->data, key->size);
}

static const gy_function functions[] = {
    GY_PARTITION("by_last_byte", by_last_byte),
    GY_PARTITION("by_length", by_length),
    GY_REDUCE("combine", combine_summary),
    GY_REDUCE("combine wrongly", combine_wrongly),
    GY_COMBINE("larger", larger),
    GY_MAP("number", emit_number),
    GY_MAP("pair", emit_pair),
    GY_REDUCE("reduce wrongly", reduce_wrongly),
    GY_REDUCE("summary", reduce_summary),
};

/* ---- records ---- */

typedef struct item {
    int key;
    long long value;
} item;

static item items[FILES * RECORDS_MOST];
static size_t item_count, text_bytes;
static int long_key; /* of many bytes */

static size_t key_of(char out[300], int key)
{
    if (key == long_key) {
        memset(out, 'k', 250);
        return 250 + gy_print(out + 250, 50, "%d", key);
    }
    return gy_print(out, 300, "key%d", key);
}

/* Files of key, tab, value; of a key values rise, for sets. `share` of 100 are of hot keys.
 * sizes: least and most records of a file. */
static void draw(gy_random *random, const size_t sizes[2], int hot_keys, int share)
{
    static char text[TEXT_BYTES];
    long_key = sizes[0] == 0 && gy_random_below(random, 3) == 0 ? 0 : -1;
    item_count = text_bytes = 0;
    long long value = (long long)gy_random_below(random, 1000) - 500;
    for (int f = 0; f < FILES; f++) {
        size_t used = 0;
        const size_t count = sizes[0] + gy_random_below(random, sizes[1] - sizes[0] + 1);
        for (size_t i = 0; i < count; i++) {
            const bool is_hot = (int)gy_random_below(random, 100) < share;
            const int key = is_hot ? (int)gy_random_below(random, (uint64_t)hot_keys)
                                   : hot_keys + (int)gy_random_below(random, KEYS);
            value += (long long)gy_random_below(random, 3); /* a set has some more than once */
            char name[300];
            const size_t size = key_of(name, key);
            assert_true(used + size + 40 < sizeof(text));
            memcpy(text + used, name, size);
            used += size;
            used += gy_print(text + used, 40, "\t%lld\n", value);
            items[item_count++] = (item){key, value};
        }
        write_file(paths[f], text, used);
        text_bytes += used;
    }
}

/* ---- the serial oracle ---- */

typedef struct listed_key {
    char name[300];
    size_t size;
    uint64_t hash;
    int key;
} listed_key;

static int by_hash(const void *left, const void *right)
{
    const listed_key *a = left, *b = right;
    if (a->hash != b->hash) {
        return a->hash < b->hash ? -1 : 1;
    }
    return strcmp(a->name, b->name);
}

static void expect_key(gy_text *out, const listed_key *key, const gy_map_reduce_options *o)
{
    summary all = {0};
    for (size_t i = 0; i < item_count; i++) {
        const long long value = items[i].value;
        if (items[i].key != key->key) {
            continue;
        }
        const bool is_set = o->combine == GY_COMBINE_SET;
        if (o->reduce == NULL &&
            gy_mapreduce_fold_is_list(gy_mapreduce_combine_fold(o->combine, o->has_bytes))) {
            if (is_set && all.count > 0 && all.last == value) {
                continue;
            }
            if (!is_set || all.count == 0) {
                gy_text_add_bytes(out, key->name, key->size);
            }
            gy_text_add(out, is_set && all.count > 0 ? " %lld" : "\t%lld", value);
            gy_text_add(out, is_set ? "" : "\n");
        }
        all.first = all.count == 0 ? value : all.first;
        all.count++;
        all.total += value;
        all.last = value;
    }
    if (all.count == 0) {
        return;
    }
    if (o->combine == GY_COMBINE_SET) {
        gy_text_add(out, "\n");
    } else if (o->reduce != NULL || o->combine != GY_COMBINE_NONE) {
        gy_text_add_bytes(out, key->name, key->size);
        if (o->reduce != NULL) {
            char text[100];
            (void)print(text, all);
            gy_text_add(out, "\t%s\n", text);
        } else { /* values rise: the last is the largest */
            gy_text_add(out, "\t%lld\n", o->combine == GY_COMBINE_SUM ? all.total : all.last);
        }
    }
}

/* The whole output, partition after partition. */
static gy_text expect(const gy_map_reduce_options *o, int hot_keys)
{
    static listed_key keys[KEYS + 8];
    gy_text out = {0};
    const int count = hot_keys + KEYS;
    for (int i = 0; i < count; i++) {
        memset(keys[i].name, 0, sizeof(keys[i].name));
        keys[i].key = i;
        keys[i].size = key_of(keys[i].name, i);
        keys[i].hash = gy_key_hash(keys[i].name, keys[i].size,
                                   gy_key_head_within(keys[i].name, keys[i].size));
    }
    qsort(keys, (size_t)count, sizeof(keys[0]), by_hash);
    for (uint32_t p = 0; p < (uint32_t)o->partitions; p++) {
        for (int i = 0; i < count; i++) {
            const uint32_t parts = (uint32_t)o->partitions;
            const uint32_t part = o->partition_function == NULL
                                      ? gy_hash_partition(keys[i].hash, parts)
                                  : strcmp(o->partition_function, "by_length") == 0
                                      ? by_length(keys[i].name, keys[i].size, parts)
                                      : by_last_byte(keys[i].name, keys[i].size, parts);
            if (part == p) {
                expect_key(&out, &keys[i], o);
            }
        }
    }
    return out;
}

static void assert_same_text(const gy_text *found, const gy_text *expected)
{
    assert_int_equal(found->size_bytes, expected->size_bytes);
    if (found->size_bytes > 0) {
        assert_memory_equal(found->data, expected->data, found->size_bytes);
    }
}

/* ---- tests ---- */

enum { LISTS, NUMBERS, SETS, COMBINED, SUMS, LARGEST, ALL_VALUES, KINDS };

static gy_map_reduce_options options_of(int kind, gy_random *random)
{
    gy_map_reduce_options o = {
        .inputs = inputs,
        .format = GY_RECORDS_KEY_VALUE,
        .map = "number",
        .partitions = 2 + (int)gy_random_below(random, 6),
        .split_bytes = 1 + text_bytes / (6 + gy_random_below(random, 12)),
        .memory_bytes = gy_random_below(random, 2) == 0 ? GY_GATHER_BYTES_MIN : 0};
    o.partition_function =
        (const char *const[]){NULL, "by_last_byte", "by_length"}[gy_random_below(random, 3)];
    if (kind == LISTS || kind == COMBINED || kind == ALL_VALUES) {
        o.map = "pair";
        o.has_bytes = true;
    }
    if (kind == SETS) {
        o.combine = GY_COMBINE_SET;
    } else if (kind == SUMS) {
        o.combine = GY_COMBINE_SUM;
    } else if (kind == LARGEST) {
        o.combine = GY_COMBINE_USER;
        o.combine_function = "larger";
    } else if (kind == COMBINED || kind == ALL_VALUES) {
        o.reduce = "summary";
        o.combine = kind == COMBINED ? GY_COMBINE_USER : GY_COMBINE_NONE;
        o.combine_function = kind == COMBINED ? "combine" : NULL;
    }
    return o;
}

/* One kind of each is such that its hot key must be shared, or may not. */
GY_TEST(shares_give_the_bytes_of_the_whole)
{
    gy_random random = {.key = gy_test_seed()};
    int hot[KINDS] = {0};
    const long cases = gy_test_cases(28);
    for (long i = 0; i < GY_MAX(cases, (long)KINDS); i++) {
        const int kind = (int)(i % KINDS);
        const bool is_sure = i < KINDS;
        const int hot_keys = is_sure ? 1 : 1 + (int)gy_random_below(&random, 3);
        draw(&random, is_sure ? (size_t[]){2000, RECORDS_MOST} : (size_t[]){0, 1200}, hot_keys,
             is_sure ? 70 : 50 + (int)gy_random_below(&random, 45));
        gy_map_reduce_options o = options_of(kind, &random);
        if (is_sure) {
            o.partition_function = NULL;
            o.partitions = 4;
        }
        o.hot_key_bytes = 1 + gy_random_below(&random, 400);
        outcome shared = run_job(&o);
        o.hot_key_bytes = SIZE_MAX;
        outcome whole = run_job(&o);
        gy_text expected = expect(&o, hot_keys);
        assert_int_equal(whole.hot, 0);
        assert_same_text(&whole.all, &expected);
        assert_same_text(&shared.all, &expected);
        assert_true(kind < SUMS ? shared.hot > 1 || !is_sure : shared.hot == 0);
        hot[kind] += shared.hot > 0;
        gy_text_free(&shared.all);
        gy_text_free(&whole.all);
        gy_text_free(&expected);
    }
    for (int kind = 0; kind < SUMS; kind++) {
        printf("kind %d: %d jobs had shares\n", kind, hot[kind]);
    }
}

/* Maps' tellings as they come from tables. */
static gy_text tell(const gy_heavy_key *keys, size_t count, uint32_t partitions)
{
    gy_heavy *heavy = gy_heavy_new(partitions, 1);
    gy_text out = {0};
    assert_non_null(heavy);
    for (size_t i = 0; i < count; i++) {
        const gy_row row = {.hash = i + 1,
                            .key = keys[i].key,
                            .key_size = keys[i].key_size,
                            .list_size = keys[i].bytes / 2};
        gy_heavy_note(heavy, &row, keys[i].partition); /* a list is rows */
        gy_heavy_note(heavy, &row, keys[i].partition);
    }
    gy_heavy_write(heavy, &out);
    gy_heavy_free(heavy);
    return out;
}

GY_TEST(plans_are_even)
{
    gy_random random = {.key = gy_test_seed()};
    for (long i = 0; i < gy_test_cases(200); i++) {
        const uint32_t shape[2] = {2 + (uint32_t)gy_random_below(&random, 30),
                                   2 + (uint32_t)gy_random_below(&random, 8)};
        static gy_text texts[32];
        static gy_hot_told told[32];
        static int64_t bytes[32 * 10];
        int64_t weight = 0, heaviest = 0;
        for (uint32_t map = 0; map < shape[0]; map++) {
            const int64_t hot =
                gy_random_below(&random, 4) == 0 ? 0 : (int64_t)gy_random_below(&random, 50000);
            const gy_heavy_key keys[2] = {{"hot", 3, 1, (uint64_t)hot & ~1u},
                                          {"warm", 4, 0, 600}};
            texts[map] = tell(keys, 2, shape[1]);
            told[map] = (gy_hot_told){texts[map].data, texts[map].size_bytes};
            weight += hot & ~1;
            heaviest = GY_MAX(heaviest, hot);
            for (uint32_t p = 0; p < shape[1]; p++) {
                bytes[map * shape[1] + p] = 1000 + (p == 1 ? hot : 0);
            }
        }
        gy_hot_plan plan;
        assert_ok(gy_hot_plan_make(told, bytes, shape, 20000, &plan));
        uint32_t next = 0;
        for (size_t k = 0; k < plan.key_count; k++) {
            const gy_hot_key *key = &plan.keys[k];
            assert_true(key->partition == 1 && key->key_size == 3 && key->weight <= weight);
            assert_true(key->share_count >= 2);
            for (uint32_t s = 0; s < key->share_count; s++) {
                const gy_hot_share *share = &plan.shares[key->first_share + s];
                assert_true(share->first == next && share->end > share->first);
                int64_t sum = 0;
                for (next = share->first; next < share->end; next++) {
                    sum += bytes[next * shape[1] + 1] - 1000;
                }
                /* no more than its part and one map */
                assert_true(sum <= weight / 2 + heaviest + 64);
            }
            assert_int_equal(next, shape[0]);
        }
        assert_true(plan.key_count <= 1);
        assert_true(plan.key_count == 1 || weight < 200000 || shape[0] < 4);
        gy_hot_plan_free(&plan);
        for (uint32_t map = 0; map < shape[0]; map++) {
            gy_text_free(&texts[map]);
        }
    }
}

/* Anything may be told by a user's map: it is no plan then, or one of keys of the tables. */
GY_TEST(odd_tellings_are_nothing)
{
    gy_random random = {.key = gy_test_seed()};
    const gy_heavy_key key = {"hot", 3, 1, 100000};
    const int64_t bytes[] = {10, 100000, 10, 100000};
    const uint32_t shape[2] = {2, 2};
    gy_text good = tell(&key, 1, 2);
    assert_true(good.size_bytes > 0);
    for (long i = 0; i < gy_test_cases(300); i++) {
        gy_text bad = {0};
        gy_text_add_bytes(&bad, good.data, gy_random_below(&random, good.size_bytes + 1));
        if (bad.size_bytes > 0) {
            bad.data[gy_random_below(&random, bad.size_bytes)] ^=
                (char)(1 << gy_random_below(&random, 8));
        }
        char *exact = gy_alloc("test", bad.size_bytes + 1); /* a sanitizer sees its end */
        memcpy(exact, gy_text_get(&bad), bad.size_bytes);
        const gy_hot_told told[2] = {{exact, bad.size_bytes}, {good.data, good.size_bytes}};
        gy_hot_plan plan;
        assert_ok(gy_hot_plan_make(told, bytes, shape, 1000, &plan));
        assert_true(plan.key_count <= 2);
        gy_hot_plan_free(&plan);
        gy_free(exact);
        gy_text_free(&bad);
    }
    gy_text_free(&good);
}

/* Of many heavy keys the heaviest are told. */
GY_TEST(the_heaviest_are_told)
{
    static char names[200][16];
    static gy_heavy_key keys[200];
    for (int i = 0; i < 200; i++) {
        snprintf(names[i], sizeof(names[i]), "%03d", i);
        keys[i] = (gy_heavy_key){names[i], 3, 0, (uint64_t)(1000 + i * 7919 % 200 * 2)};
    }
    gy_text told = tell(keys, 200, 4096);
    int seen = 0;
    for (int i = 0; i < 200; i++) {
        const bool is_told = memmem(told.data, told.size_bytes, names[i], 3) != NULL;
        assert_int_equal(is_told, i * 7919 % 200 >= 200 - GY_HEAVY_KEYS);
        seen += is_told;
    }
    assert_int_equal(seen, GY_HEAVY_KEYS);
    gy_text_free(&told);
    told = tell(keys, 200, 2); /* none of them may be half of a half */
    assert_int_equal(told.size_bytes, 0);
    gy_text_free(&told);
}

GY_TEST(combiners_and_reduces_keep_apart)
{
    gy_random random = {.key = gy_test_seed()};
    draw(&random, (size_t[]){500, 800}, 1, 70);
    gy_map_reduce_options o = options_of(COMBINED, &random);
    o.partition_function = NULL;
    o.partitions = 4;
    o.split_bytes = text_bytes / 10;
    o.hot_key_bytes = 1;
    o.combine_function = "combine wrongly";
    outcome out = run_made(gy_map_reduce(NULL, &o, &made));
    assert_int_equal(out.cause, GY_CAUSE_FATAL);
    assert_non_null(strstr(out.reason, "a combiner wrote to the output"));
    o.combine_function = "combine";
    o.reduce = "reduce wrongly";
    out = run_made(gy_map_reduce(NULL, &o, &made));
    assert_int_equal(out.cause, GY_CAUSE_FATAL);
    assert_non_null(strstr(out.reason, "a reduce gave a value"));
}

/* Side files are no tables. */
GY_TEST(side_files_stand_beside)
{
    gy_random random = {.key = gy_test_seed()};
    char side[PATH_BYTES];
    snprintf(side, sizeof(side), "%s/side", folder);
    write_file(side, "not a table", 11);
    const char *const files[] = {side, NULL};
    for (int kind = LISTS; kind < KINDS; kind++) {
        draw(&random, (size_t[]){500, 800}, 1, 70);
        gy_map_reduce_options o = options_of(kind, &random);
        o.files = files;
        o.hot_key_bytes = 100;
        outcome out = run_job(&o);
        gy_text expected = expect(&o, 1);
        assert_same_text(&out.all, &expected);
        gy_text_free(&out.all);
        gy_text_free(&expected);
    }
    (void)unlink(side);
}

int main(void)
{
    test_functions = functions;
    test_function_count = GY_COUNT(functions);
    return GY_TESTS_RUN(make_folder, remove_folder);
}
