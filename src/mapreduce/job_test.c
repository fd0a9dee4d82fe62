/* Goal: jobs as users write them give what plain loops over the records give, whatever the
 * splits, partitions, budget, combine and order. The vertices of a job's graph run here one
 * after the other. */
#include "mapreduce/hot/job_test.h"
#include "base/text.h"

/* ---- functions of the test's program ---- */

static void count_words(gy_map *map, const gy_record *line)
{
    for (gy_token word = gy_first_word(line); word.size > 0; word = gy_next_word(word)) {
        gy_emit(map, word.data, word.size, 1);
    }
}

/* The same with keys that do not last, in batches or one by one. */
static void count_copied(gy_map *map, const gy_record *line)
{
    char copy[300];
    gy_emission items[8];
    size_t count = 0;
    assert_true(line->size < sizeof(copy));
    memcpy(copy, line->data, line->size);
    const gy_record mine = {.data = copy, .size = line->size};
    for (gy_token word = gy_first_word(&mine); word.size > 0; word = gy_next_word(word)) {
        if (line->offset % 2 == 0) {
            gy_emit(map, word.data, word.size, 1);
            continue;
        }
        if (count == GY_COUNT(items)) {
            gy_emit_batch(map, items, count);
            count = 0;
        }
        items[count++] = (gy_emission){word.data, word.size, 1};
    }
    if (count > 0) { /* it would empty the batch */
        gy_emit_batch(map, items, count);
    }
    memset(copy, '?', sizeof(copy));
    __asm__ volatile("" : : "r"(copy) : "memory"); /* it is done */
}

/* Word -> its offset in the file as text. */
static void place_words(gy_map *map, const gy_record *line)
{
    for (gy_token word = gy_first_word(line); word.size > 0; word = gy_next_word(word)) {
        char value[40];
        const size_t size =
            gy_print(value, sizeof(value), "%06llu",
                     (unsigned long long)(line->offset + (uint64_t)(word.data - line->data)));
        gy_emit_bytes(map, word.data, word.size, value, size);
    }
}

static void emit_pair(gy_map *map, const gy_record *pair)
{
    gy_emit_bytes(map, pair->key, pair->key_size, pair->data, pair->size);
}

/* A line gives three times nothing, which lies nowhere. */
static void count_nothing(gy_map *map, const gy_record *line)
{
    static const gy_emission nothing[2] = {{NULL, 0, 1}, {NULL, 0, 1}};
    (void)line;
    gy_emit(map, NULL, 0, 1);
    gy_emit_batch(map, nothing, 2);
}

static void emit_nothing(gy_map *map, const gy_record *line)
{
    (void)line;
    gy_emit_bytes(map, NULL, 0, NULL, 0);
}

static void refuse_z(gy_map *map, const gy_record *line)
{
    if (memchr(line->data, 'z', line->size) != NULL) {
        gy_map_fail(map, "a z");
    }
    count_words(map, line);
}

static void count_first_field(gy_map *map, const gy_record *row)
{
    const gy_token field = gy_first_field(row);
    gy_emit(map, field.data, field.size, 1);
}

static int64_t bitwise_or(int64_t left, int64_t right)
{
    return left | right;
}

static uint32_t by_first_byte(const void *key, size_t key_size, uint32_t partitions)
{
    return key_size == 0 ? 0 : *(const unsigned char *)key % partitions;
}

static void join_values(gy_reducer *reduce, const gy_record *key, gy_values *values)
{
    gy_reduce_write(reduce, key->data, key->size);
    const void *value;
    size_t size;
    while (gy_values_bytes(values, &value, &size)) {
        gy_reduce_write(reduce, ",", 1);
        gy_reduce_write(reduce, value, size);
    }
    gy_reduce_write(reduce, "\n", 1);
}

static void put_sum(gy_reducer *reduce, const gy_record *key, gy_values *values)
{
    int64_t sum = 0, value;
    while (gy_values_number(values, &value)) {
        sum += value;
    }
    gy_reduce_put(reduce, key->data, key->size, sum);
}

static const gy_function functions[] = {
    /* by name, as gy_flow_start keeps them */
    GY_PARTITION("by_first_byte", by_first_byte),
    GY_MAP("copied", count_copied),
    GY_MAP("count", count_words),
    GY_MAP("count nothing", count_nothing),
    GY_MAP("first field", count_first_field),
    GY_COMBINE("gyre.add", gy_mapreduce_add_weights),
    GY_MAP("gyre.copy", gy_map_copy),
    GY_MAP("gyre.fields", gy_map_fields),
    GY_MAP("gyre.grep", gy_map_grep),
    GY_MAP("gyre.index", gy_map_index),
    GY_MAP("gyre.pairs", gy_map_pairs),
    GY_VERTEX("gyre.top", gy_top_run),
    GY_MAP("gyre.words", gy_map_words),
    GY_REDUCE("join", join_values),
    GY_MAP("nothing", emit_nothing),
    GY_COMBINE("or", bitwise_or),
    GY_MAP("pair", emit_pair),
    GY_MAP("place", place_words),
    GY_MAP("refuse", refuse_z),
    GY_REDUCE("sum", put_sum),
};

/* ---- lines as a set ---- */

static int by_text(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* The lines of a text (without NULs), sorted; ends with NULL. Cuts the text. */
static char **lines_of(char *text, size_t *count)
{
    size_t capacity = 1;
    for (const char *at = text; *at != '\0'; at++) {
        capacity += *at == '\n';
    }
    char **lines = gy_alloc("test", capacity * sizeof(char *));
    *count = 0;
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        lines[(*count)++] = line;
    }
    return lines;
}

static void assert_same_lines(gy_text *found, gy_text *expected)
{
    gy_text_add(found, "%s", "");
    gy_text_add(expected, "%s", "");
    size_t a_count, b_count;
    char **a = lines_of(found->data, &a_count), **b = lines_of(expected->data, &b_count);
    qsort(a, a_count, sizeof(char *), by_text);
    qsort(b, b_count, sizeof(char *), by_text);
    for (size_t i = 0; i < GY_MIN(a_count, b_count); i++) {
        assert_string_equal(a[i], b[i]);
    }
    assert_int_equal(a_count, b_count);
    gy_free(a);
    gy_free(b);
    gy_text_free(found);
    gy_text_free(expected);
}

/* ---- inputs ---- */

typedef struct word {
    const char *data;
    uint32_t size, file;
    uint64_t offset;
} word;

static char *texts[FILES];
static size_t sizes[FILES];
static word *words;
static size_t word_count;

static int by_word(const void *a, const void *b)
{
    const word *x = a, *y = b;
    const int sign = memcmp(x->data, y->data, GY_MIN(x->size, y->size));
    if (sign != 0 || x->size != y->size) {
        return sign != 0 ? sign : (x->size > y->size) - (x->size < y->size);
    }
    return x->file != y->file ? (x->file > y->file) - (x->file < y->file)
                              : (x->offset > y->offset) - (x->offset < y->offset);
}

/* Files of random lines and their words, sorted. */
static void draw_files(gy_random *random, size_t most, const char *bytes)
{
    size_t total = 0;
    for (int i = 0; i < FILES; i++) {
        sizes[i] = gy_random_below(random, most);
        texts[i] = gy_alloc("test", sizes[i] + 1);
        for (size_t j = 0, line = 0; j < sizes[i]; j++, line++) {
            texts[i][j] = bytes[gy_random_below(random, strlen(bytes))];
            if (line > 200 || gy_random_below(random, 30) == 0) {
                texts[i][j] = '\n';
                line = 0;
            }
        }
        write_file(paths[i], texts[i], sizes[i]);
        total += sizes[i];
    }
    words = gy_alloc("test", (total + 1) * sizeof(*words));
    word_count = 0;
    for (uint32_t i = 0; i < FILES; i++) {
        const gy_record all = {.data = texts[i], .size = sizes[i]};
        for (gy_token w = gy_first_word(&all); w.size > 0; w = gy_next_word(w)) {
            words[word_count++] =
                (word){w.data, (uint32_t)w.size, i, (uint64_t)(w.data - texts[i])};
        }
    }
    qsort(words, word_count, sizeof(*words), by_word);
}

static void drop_files(void)
{
    for (int i = 0; i < FILES; i++) {
        gy_free(texts[i]);
    }
    gy_free(words);
}

static bool is_same_word(size_t a, size_t b)
{
    return words[a].size == words[b].size &&
           memcmp(words[a].data, words[b].data, words[a].size) == 0;
}

/* Lines of word, tab, count. */
static gy_text expect_counts(void)
{
    gy_text expected = {0};
    for (size_t i = 0, next; i < word_count; i = next) {
        for (next = i + 1; next < word_count && is_same_word(i, next); next++) {
        }
        gy_text_add(&expected, "%.*s\t%zu\n", (int)words[i].size, words[i].data, next - i);
    }
    return expected;
}

GY_TEST(words_are_counted)
{
    gy_random random = {.key = gy_test_seed()};
    int splits = 0;
    for (long i = 0; i < gy_test_cases(24); i++) {
        draw_files(&random, i % 6 == 0 ? 120000 : 3000, "aabcde  \t");
        gy_map_reduce_options options = {
            .inputs = inputs,
            .format = GY_RECORDS_LINES,
            .map = i % 2 == 0 ? "count" : "copied",
            .combine = (gy_combine[]){GY_COMBINE_SUM, GY_COMBINE_COUNT, GY_COMBINE_NONE}[i % 3],
            .reduce = i % 3 == 2 ? "sum" : NULL,
            .order = i % 5 == 0 ? GY_ORDER_KEY : GY_ORDER_HASH,
            .partition_function = i % 7 == 0 ? "by_first_byte" : NULL,
            .partitions = 1 + (int)gy_random_below(&random, 4),
            .split_bytes = 100 + gy_random_below(&random, 4000),
            .memory_bytes = i % 4 == 0 ? GY_GATHER_BYTES_MIN : 0};
        if (i % 6 == 0) {
            options.split_bytes = 30000;
        }
        outcome out = run_job(&options);
        splits = GY_MAX(splits, out.maps);
        gy_text expected = expect_counts();
        assert_same_lines(&out.all, &expected);
        drop_files();
    }
    assert_true(splits > FILES);
}

/* The output's bytes: the ready-made job, users' lines and other splits and budgets. */
GY_TEST(outputs_are_the_same_to_the_byte)
{
    gy_random random = {.key = gy_test_seed()};
    draw_files(&random, 100000, "aabcdefgh  \t");
    gy_text first = {0};
    for (int i = 0; i < 4; i++) {
        const gy_job_options job = {.inputs = inputs,
                                    .partitions = 2,
                                    .split_bytes = i == 0 ? 1 << 20 : 7000,
                                    .memory_bytes = i == 1 ? GY_GATHER_BYTES_MIN : 0};
        const gy_map_reduce_options lines = {.inputs = inputs,
                                             .format = GY_RECORDS_LINES,
                                             .map = "count",
                                             .combine = GY_COMBINE_SUM,
                                             .partitions = 2,
                                             .split_bytes = 3000};
        outcome out = i < 3 ? run_made(gy_dag_wordcount(NULL, &job, &made)) : run_job(&lines);
        assert_int_equal(out.cause, GY_CAUSE_NONE);
        if (i == 0) {
            first = out.all;
            assert_true(first.size_bytes > 0);
            continue;
        }
        assert_int_equal(out.all.size_bytes, first.size_bytes);
        assert_memory_equal(out.all.data, first.data, first.size_bytes);
        gy_text_free(&out.all);
    }
    gy_text_free(&first);
    drop_files();
}

GY_TEST(keys_and_values_in_order)
{
    gy_random random = {.key = gy_test_seed()};
    for (long i = 0; i < gy_test_cases(12); i++) {
        draw_files(&random, i == 0 ? 60000 : 2000, "aab  ");
        const gy_map_reduce_options options = {
            .inputs = inputs,
            .format = GY_RECORDS_LINES,
            .map = "place",
            .has_bytes = true,
            .reduce = "join",
            .order = (gy_reduce_order[]){GY_ORDER_KEY, GY_ORDER_VALUE, GY_ORDER_HASH}[i % 3],
            .partitions = 1,
            .split_bytes = (i == 0 ? 3000 : 200) + gy_random_below(&random, 3000),
            .memory_bytes = i == 0 ? GY_GATHER_BYTES_MIN : 0};
        outcome out = run_job(&options);
        gy_text expected = {0};
        for (size_t j = 0, next; j < word_count; j = next) {
            gy_text_add(&expected, "%.*s", (int)words[j].size, words[j].data);
            char *values[70000];
            size_t count = 0;
            for (next = j; next < word_count && is_same_word(j, next); next++) {
                values[count] = gy_alloc("test", 40);
                snprintf(values[count++], 40, "%06llu", (unsigned long long)words[next].offset);
            }
            if (options.order == GY_ORDER_VALUE) {
                qsort(values, count, sizeof(char *), by_text);
            }
            for (size_t k = 0; k < count; k++) {
                gy_text_add(&expected, ",%s", values[k]);
                gy_free(values[k]);
            }
            gy_text_add(&expected, "\n");
        }
        if (options.order == GY_ORDER_HASH) {
            assert_same_lines(&out.all, &expected);
        } else { /* as they stand */
            assert_string_equal(gy_text_get(&out.all), gy_text_get(&expected));
            gy_text_free(&out.all);
            gy_text_free(&expected);
        }
        drop_files();
    }
}

GY_TEST(an_index_lists_each_file_once)
{
    gy_random random = {.key = gy_test_seed()};
    for (long i = 0; i < gy_test_cases(10); i++) {
        draw_files(&random, i == 0 ? 90000 : 400, "aabcde \n");
        const gy_job_options job = {.inputs = inputs,
                                    .partitions = 3,
                                    .split_bytes =
                                        (i == 0 ? 20000 : 50) + gy_random_below(&random, 1000),
                                    .memory_bytes = i % 2 == 0 ? GY_GATHER_BYTES_MIN : 0};
        outcome out = run_made(gy_dag_index(NULL, &job, &made));
        assert_int_equal(out.cause, GY_CAUSE_NONE);
        gy_text expected = {0};
        for (size_t j = 0, next; j < word_count; j = next) {
            gy_text_add(&expected, "%.*s", (int)words[j].size, words[j].data);
            for (next = j; next < word_count && is_same_word(j, next); next++) {
                if (next == j || words[next].file != words[next - 1].file) {
                    gy_text_add(&expected, "%s%u", next == j ? "\t" : " ", words[next].file);
                }
            }
            gy_text_add(&expected, "\n");
        }
        assert_same_lines(&out.all, &expected);
        drop_files();
    }
}

GY_TEST(grep_finds_lines_in_order)
{
    gy_random random = {.key = gy_test_seed()};
    for (long i = 0; i < gy_test_cases(32); i++) {
        draw_files(&random, i % 8 == 0 ? 200000 : 300, "abAc \n");
        const bool is_fixed = i % 2 == 0, ignores = i / 2 % 2 == 0,
                   is_inverted = i / 4 % 2 == 0;
        const gy_grep_options options = {
            .job = &(gy_job_options){.inputs = inputs,
                                     .split_bytes = (i % 8 == 0 ? 9000 : 20) +
                                                    gy_random_below(&random, 90000)},
            .pattern = is_fixed ? "ab" : "^b|c$",
            .is_fixed = is_fixed,
            .ignores_case = ignores,
            .is_inverted = is_inverted};
        outcome out = run_made(gy_dag_grep(NULL, &options, &made));
        assert_int_equal(out.cause, GY_CAUSE_NONE);
        gy_text expected = {0};
        for (int f = 0; f < FILES; f++) {
            for (size_t at = 0; at < sizes[f];) {
                size_t end = at;
                bool found = false;
                for (; end < sizes[f] && texts[f][end] != '\n'; end++) {
                    const char *t = texts[f];
                    const bool is_a = t[end] == 'a' || (ignores && t[end] == 'A');
                    found |= is_fixed ? is_a && end + 1 < sizes[f] && t[end + 1] == 'b'
                                      : (end == at && t[end] == 'b') ||
                                            (t[end] == 'c' &&
                                             (end + 1 == sizes[f] || t[end + 1] == '\n'));
                }
                if (found != is_inverted) {
                    gy_text_add_bytes(&expected, texts[f] + at, end - at);
                    gy_text_add(&expected, "\n");
                }
                at = end + 1;
            }
        }
        assert_string_equal(gy_text_get(&out.all), gy_text_get(&expected));
        gy_text_free(&out.all);
        gy_text_free(&expected);
        drop_files();
    }
}

GY_TEST(the_best_come_first)
{
    static const char log[] = "x a 5\ny b 7\nz a 1\n\nw  c\t7\nv a 2\nu b 0\nt\n";
    write_file(paths[0], log, sizeof(log) - 1);
    write_file(paths[1], log, sizeof(log) - 1);
    const char *const two[] = {paths[0], paths[1], NULL};
    gy_topk_options options = {
        .job = &(gy_job_options){.inputs = two, .split_bytes = 9}, .field = 2, .k = 2};
    outcome out = run_made(gy_dag_topk(NULL, &options, &made));
    assert_string_equal(gy_text_get(&out.all), "a\t6\nb\t4\n");
    gy_text_free(&out.all);
    options.k = 9;
    out = run_made(gy_dag_topk(NULL, &options, &made));
    assert_string_equal(gy_text_get(&out.all), "a\t6\nb\t4\nc\t2\n");
    gy_text_free(&out.all);
    static const char sums[] = "a 5\nb -7\na 9223372036854775000\nb 8\nc 1\n";
    write_file(paths[0], sums, sizeof(sums) - 1);
    const char *const one[] = {paths[0], NULL};
    options = (gy_topk_options){
        .job = &(gy_job_options){.inputs = one}, .field = 1, .weight_field = 2};
    out = run_made(gy_dag_topk(NULL, &options, &made));
    assert_string_equal(gy_text_get(&out.all), "a\t9223372036854775005\nb\t1\nc\t1\n");
    gy_text_free(&out.all);
    options = (gy_topk_options){.job = &(gy_job_options){.inputs = one}};
    out = run_made(gy_dag_topk(NULL, &options, &made));
    assert_string_equal(gy_text_get(&out.all),
                        "a 5\t1\na 9223372036854775000\t1\nb -7\t1\nb 8\t1\nc 1\t1\n");
    gy_text_free(&out.all);
    /* Sums that do not fit are none, whatever comes after; those of others do not matter. */
    static const char beyond[] =
        "a 9223372036854775807\nb 9\na 1\nc 9223372036854775807\na 9\n";
    write_file(paths[0], beyond, sizeof(beyond) - 1);
    options = (gy_topk_options){
        .job = &(gy_job_options){.inputs = one}, .field = 1, .weight_field = 2};
    out = run_made(gy_dag_topk(NULL, &options, &made));
    assert_int_equal(out.cause, GY_CAUSE_FATAL);
    assert_non_null(strstr(out.reason, "the weights of 'a' sum up to more"));
    gy_text_free(&out.all);
    write_file(paths[0], beyond + 22, sizeof(beyond) - 1 - 22);
    out = run_made(gy_dag_topk(NULL, &options, &made));
    assert_string_equal(gy_text_get(&out.all), "c\t9223372036854775807\na\t10\nb\t9\n");
    gy_text_free(&out.all);
    write_file(paths[0], "a 5\nb five\n", 11);
    options = (gy_topk_options){
        .job = &(gy_job_options){.inputs = one}, .field = 1, .weight_field = 2};
    out = run_made(gy_dag_topk(NULL, &options, &made));
    assert_string_equal(gy_text_get(&out.all), "a\t5\n");
    gy_text_free(&out.all);
    options.is_strict = true;
    out = run_made(gy_dag_topk(NULL, &options, &made));
    assert_int_equal(out.cause, GY_CAUSE_FATAL);
    assert_non_null(strstr(out.reason, "the line at offset 4: field 2 is 'five'"));
}

GY_TEST(pairs_csv_and_fixed_records)
{
    const char *const one[] = {paths[0], NULL};
    write_file(paths[0], "b\t2\na\t1\nb\t1\nc\n", 14);
    gy_map_reduce_options options = {.inputs = one,
                                     .format = GY_RECORDS_KEY_VALUE,
                                     .map = "pair",
                                     .has_bytes = true,
                                     .order = GY_ORDER_KEY,
                                     .partitions = 1,
                                     .split_bytes = 4};
    outcome out = run_job(&options);
    assert_int_equal(out.maps, 4);
    assert_string_equal(gy_text_get(&out.all), "a\t1\nb\t2\nb\t1\nc\t\n");
    gy_text_free(&out.all);
    write_file(paths[0], "aaabbbaaa", 9);
    options = (gy_map_reduce_options){.inputs = one,
                                      .format = GY_RECORDS_FIXED,
                                      .record_bytes = 3,
                                      .map = "count",
                                      .combine = GY_COMBINE_USER,
                                      .combine_function = "or",
                                      .order = GY_ORDER_KEY,
                                      .partitions = 1,
                                      .split_bytes = 2};
    out = run_job(&options);
    assert_int_equal(out.maps, 5);
    assert_string_equal(gy_text_get(&out.all), "aaa\t1\nbbb\t1\n");
    gy_text_free(&out.all);
    write_file(paths[0], "\"a\nb\",c\nd,e\n", 12);
    options = (gy_map_reduce_options){.inputs = one,
                                      .format = GY_RECORDS_CSV,
                                      .map = "count",
                                      .combine = GY_COMBINE_SUM,
                                      .order = GY_ORDER_KEY,
                                      .partitions = 1,
                                      .split_bytes = 2};
    out = run_job(&options);
    assert_int_equal(out.maps, 6);
    assert_string_equal(gy_text_get(&out.all), "\"a\t1\nb\",c\t1\nd,e\t1\n");
    gy_text_free(&out.all);
}

/* Quoted text that looks like rows, in as many parts as there are. */
GY_TEST(splits_of_csv_begin_at_rows)
{
    const char *const one[] = {paths[0], NULL};
    gy_random random = {.key = gy_test_seed()};
    for (long i = 0; i < gy_test_cases(20); i++) {
        gy_text file = {0};
        int64_t rows = 0;
        while (file.size_bytes < 3000) {
            gy_text_add(&file, "row,\"");
            for (uint64_t lines = gy_random_below(&random, 60); lines > 0; lines--) {
                gy_text_add(&file, "%s", gy_random_below(&random, 2) == 0 ? "no,no\n" : "\"\"");
            }
            gy_text_add(&file, "\"\n");
            rows++;
        }
        write_file(paths[0], gy_text_get(&file), file.size_bytes);
        const gy_map_reduce_options options = {.inputs = one,
                                               .format = GY_RECORDS_CSV,
                                               .map = "first field",
                                               .combine = GY_COMBINE_SUM,
                                               .partitions = 1,
                                               .split_bytes =
                                                   60 + gy_random_below(&random, 1000)};
        outcome out = run_job(&options);
        assert_true(out.maps >= 3);
        char expected[40];
        (void)gy_print(expected, sizeof(expected), "row\t%lld\n", (long long)rows);
        assert_string_equal(gy_text_get(&out.all), expected);
        gy_text_free(&out.all);
        gy_text_free(&file);
    }
    write_file(paths[0], "a,b\nc,\"d\n", 10);
    const gy_map_reduce_options options = {.inputs = one,
                                           .format = GY_RECORDS_CSV,
                                           .map = "count",
                                           .combine = GY_COMBINE_SUM,
                                           .split_bytes = 4};
    assert_status(gy_map_reduce(NULL, &options, &made), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "input0:2: a quote that is not closed"));
}

GY_TEST(failures_end_the_job_and_bad_records_are_skipped)
{
    const char *const one[] = {paths[0], NULL};
    write_file(paths[0], "a b\nz c\na\n", 10);
    const gy_map_reduce_options options = {.inputs = one,
                                           .format = GY_RECORDS_LINES,
                                           .map = "refuse",
                                           .combine = GY_COMBINE_SUM,
                                           .order = GY_ORDER_KEY,
                                           .partitions = 1};
    outcome out = run_made(gy_map_reduce(NULL, &options, &made));
    assert_int_equal(out.cause, GY_CAUSE_FATAL);
    assert_non_null(strstr(out.reason, "input0: a z"));
    const gy_flow_record_id place = {.source = 0, .offset = 4};
    bad_places = &place;
    bad_count = 1;
    out = run_job(&options);
    bad_count = 0;
    assert_string_equal(gy_text_get(&out.all), "a\t2\nb\t1\n");
    assert_int_equal(out.skipped, 1);
    gy_text_free(&out.all);
    gy_map_reduce_options wrong = options;
    wrong.format = GY_RECORDS_CSV;
    write_file(paths[0], "a,b\nc\n", 6);
    out = run_made(gy_map_reduce(NULL, &wrong, &made));
    assert_int_equal(out.cause, GY_CAUSE_FATAL);
    assert_non_null(
        strstr(out.reason, "input0:2: 1 field in a row: expected 2 as in the first row"));
    wrong.line_end = GY_LINE_END_LF;
    assert_status(gy_map_reduce(NULL, &wrong, &made), GY_ARG);
    wrong.line_end = GY_LINE_END_AUTO;
    wrong.delimiter = '"';
    assert_status(gy_map_reduce(NULL, &wrong, &made), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "delimiter 0x22"));
}

GY_TEST(nothing_is_a_key)
{
    const char *const one[] = {paths[0], NULL};
    write_file(paths[0], "a\n\nb\n", 5);
    for (int order = GY_ORDER_HASH; order <= GY_ORDER_KEY; order++) {
        gy_map_reduce_options options = {.inputs = one,
                                         .map = "count nothing",
                                         .combine = GY_COMBINE_SUM,
                                         .order = (gy_reduce_order)order,
                                         .partitions = 1};
        outcome out = run_made(gy_map_reduce(NULL, &options, &made));
        assert_string_equal(gy_text_get(&out.all), "\t9\n");
        gy_text_free(&out.all);
        options.map = "nothing";
        options.combine = GY_COMBINE_NONE;
        options.has_bytes = true;
        out = run_made(gy_map_reduce(NULL, &options, &made));
        assert_string_equal(gy_text_get(&out.all), "\t\n\t\n\t\n");
        gy_text_free(&out.all);
    }
}

GY_TEST(functions_are_of_their_kind)
{
    int argc = 1;
    char name[] = "job_test", *args[] = {name, NULL}, **argv = args;
    gy_flow *flow = NULL;
    assert_ok(gy_flow_start(&argc, &argv, functions, GY_COUNT(functions), &flow));
    assert_non_null(flow);
    const char *const one[] = {paths[0], NULL};
    write_file(paths[0], "a\n", 2);
    const struct {
        gy_map_reduce_options options;
        const char *expected;
    } wrong[] = {
        {{.map = "nobody"}, "no GY_MAP of the name 'nobody'"},
        {{.map = "or"}, "no GY_MAP of the name 'or', but another function"},
        {{.map = "count", .reduce = "count"}, "no GY_REDUCE of the name 'count', but another"},
        {{.map = "count", .combine = GY_COMBINE_USER, .combine_function = "count"},
         "no GY_COMBINE of the name 'count', but another"},
        {{.map = "count", .partition_function = "or"}, "no GY_PARTITION of the name 'or'"},
        {{.map = "count", .combine = (gy_combine)9}, "no such combine"},
        {{.map = "count", .format = (gy_record_format)9}, "no such format"},
        {{.map = "count", .order = (gy_reduce_order)9}, "no such order"},
    };
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        gy_map_reduce_options options = wrong[i].options;
        options.inputs = one;
        assert_status(gy_map_reduce(flow, &options, &made), GY_ARG);
        assert_null(made);
        if (strstr(gy_error_text(), wrong[i].expected) == NULL) {
            fail_msg("'%s' lacks '%s'", gy_error_text(), wrong[i].expected);
        }
    }
    gy_flow_end(flow);
}

static void check_error(gy_map_reduce_options options, const char *expected)
{
    assert_true(gy_map_reduce(NULL, &options, &made) < 0);
    assert_null(made);
    if (strstr(gy_error_text(), expected) == NULL) {
        fail_msg("'%s' lacks '%s'", gy_error_text(), expected);
    }
}

/* What lies behind an older, shorter gy_job_options is not read, nor does its size move what
 * the outer options have behind it. */
GY_TEST(nested_options_have_a_size_of_their_own)
{
    const char *const one[] = {paths[0], NULL};
    write_file(paths[0], "b a\nb\n", 6);
    struct {
        unsigned char bytes[offsetof(gy_job_options, name)], behind[64];
    } older;
    gy_job_options now = {.struct_size = sizeof(older.bytes), .inputs = one, .partitions = 1};
    memcpy(older.bytes, &now, sizeof(older.bytes));
    memset(older.behind, 0x55, sizeof(older.behind));
    const gy_job_options *job = (const gy_job_options *)(const void *)&older;
    outcome out = run_made(gy_dag_wordcount(NULL, job, &made));
    assert_string_equal(gy_text_get(&out.all), "b\t2\na\t1\n"); /* by hash */
    gy_text_free(&out.all);
    const gy_topk_options top = {.job = job, .field = 1, .k = 1};
    out = run_made(gy_dag_topk(NULL, &top, &made));
    assert_string_equal(gy_text_get(&out.all), "b\t2\n");
    gy_text_free(&out.all);
    now.struct_size = 3;
    const gy_grep_options grep = {.job = &now, .pattern = "b"};
    assert_status(gy_dag_grep(NULL, &grep, &made), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "gy_job_options: struct_size is 3"));
    assert_status(gy_dag_topk(NULL, &(gy_topk_options){.k = 1}, &made), GY_ARG);
    assert_string_equal(gy_error_text(), "no input was given");
    assert_null(made);
}

GY_TEST(errors_are_told)
{
    const char *const one[] = {paths[0], NULL}, *const none[] = {NULL};
    const char *const missing[] = {"/nowhere/at/all", NULL}, *const a_folder[] = {folder, NULL};
    write_file(paths[0], "a\n", 2);
    const gy_map_reduce_options good = {.inputs = one, .map = "count"};
    gy_map_reduce_options o = good;
    o.inputs = none;
    check_error(o, "no input was given");
    o.inputs = missing;
    check_error(o, "cannot read /nowhere/at/all: No such file");
    o.inputs = a_folder;
    check_error(o, "it is a folder, expected a file");
    o = good;
    o.map = NULL;
    check_error(o, "no map function");
    o = good;
    o.format = GY_RECORDS_FIXED;
    check_error(o, "have no size");
    o = good;
    o.partitions = 5000;
    check_error(o, "0 to 4096");
    o = good;
    o.combine = GY_COMBINE_USER;
    check_error(o, "come together");
    o = good;
    o.combine = GY_COMBINE_SUM;
    o.has_bytes = true;
    check_error(o, "bytes cannot be combined");
    o = good;
    o.order = GY_ORDER_VALUE;
    check_error(o, "only bytes can be ordered by value");
    const gy_grep_options open_group = {.job = &(gy_job_options){.inputs = one},
                                        .pattern = "a("};
    assert_status(gy_dag_grep(NULL, &open_group, &made), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "pattern 'a(': "));
    const gy_topk_options no_field = {.job = &(gy_job_options){.inputs = one},
                                      .separator = ','};
    assert_status(gy_dag_topk(NULL, &no_field, &made), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "a separator without a field"));
    assert_status(
        gy_dag_commands(NULL, &(gy_commands_options){.job = &(gy_job_options){.inputs = one}},
                        &made),
        GY_ARG);
    assert_string_equal(gy_error_text(), "no map command was given");
    assert_null(made);
}

int main(void)
{
    test_functions = functions;
    test_function_count = GY_COUNT(functions);
    return GY_TESTS_RUN(make_folder, remove_folder);
}
