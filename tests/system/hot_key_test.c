/* Goal: with several processes a key that has 30 % of the records is reduced in shares where a
 * combiner allows it and nowhere else; the output and the counters are those of the whole, also
 * when a process is killed in a map, a share or a reduce, under a budget, and from a memo. */
#include "base/base.h"
#include "base/random.h"
#include "base/text.h"

#include <gyre/mapreduce.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "flow_main.h"
#include "gy_test.h"

enum {
    WORKERS = 3,
    PARTITIONS = 4,
    RECORDS = 40000,
    KEYS = 500,
    HOT_SHARE = 30, /* of 100 records */
    SPLIT_BYTES = 150 << 10,
    HOT_BYTES = 20 << 10,
    SMALL_MEMORY = 300 << 10,
};

static char top[64], input[96];
static int64_t hot_count, hot_sum;

/* ---- functions of the test's program ---- */

typedef struct habits {
    char top[64];
    char dies; /* where a process is killed, once: in a map, share or reduce; 0: nowhere */
} habits;

static void die_once(const habits *has, char where)
{
    char path[96];
    snprintf(path, sizeof(path), "%s/died", has->top);
    const int file =
        has->dies == where ? open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600) : -1;
    if (file >= 0) {
        (void)close(file);
        (void)kill(getpid(), SIGKILL);
    }
}

static void emit_pair(gy_map *map, const gy_record *pair)
{
    size_t size;
    if (pair->offset > SPLIT_BYTES) {
        die_once(gy_map_parameter(map, &size), 'm');
    }
    gy_emit_bytes(map, pair->key, pair->key_size, pair->data, pair->size);
}

/* Of values "sum count" both sums, and the most digits, so that order is of no matter. */
static int add_up(gy_values *values, char out[64])
{
    const void *value;
    size_t size;
    long long sum = 0, count = 0;
    while (gy_values_bytes(values, &value, &size)) {
        char text[64];
        long long one = 0, ones = 0;
        GY_ASSERT(size < sizeof(text));
        memcpy(text, value, size);
        text[size] = '\0';
        GY_ASSERT(sscanf(text, "%lld %lld", &one, &ones) == 2);
        sum += one;
        count += ones;
    }
    return (int)gy_print(out, 64, "%lld %lld", sum, count);
}

static void combine(gy_reducer *combiner, const gy_record *key, gy_values *values)
{
    char text[64];
    size_t size;
    (void)key;
    const int bytes = add_up(values, text);
    die_once(gy_reduce_parameter(combiner, &size), 's');
    gy_combine_put(combiner, text, (size_t)bytes);
}

static void reduce(gy_reducer *reducer, const gy_record *key, gy_values *values)
{
    char text[64];
    size_t size;
    const int bytes = add_up(values, text);
    if (strncmp(key->data, "hot", 3) == 0) {
        die_once(gy_reduce_parameter(reducer, &size), 'r');
    }
    gy_vertex_count(gy_reduce_vertex(reducer), "keys", 1);
    gy_reduce_put_bytes(reducer, key->data, key->size, text, (size_t)bytes);
}

static const gy_function functions[] = {
    GY_MAP("pair", emit_pair),
    GY_REDUCE("reduce", reduce),
    GY_REDUCE("combine", combine),
};

/* ---- jobs ---- */

typedef enum kind { LISTS, COMBINED, WHOLE } kind; /* WHOLE: a reduce without a combiner */

typedef struct outcome {
    char *text; /* the output's files, one behind the other */
    int64_t hot_tasks, hot_memoised, hot_keys, keys, records, spills;
    int stages;
} outcome;

static char *read_output(const char *output)
{
    gy_text all = {0};
    for (int i = 0; i < PARTITIONS; i++) {
        char path[160], piece[4096];
        snprintf(path, sizeof(path), "%s/part-%05d", output, i);
        FILE *file = fopen(path, "re");
        assert_non_null(file);
        for (size_t got; (got = fread(piece, 1, sizeof(piece), file)) > 0;) {
            gy_text_add_bytes(&all, piece, got);
        }
        fclose(file);
        gy_text_add(&all, "-- end of %d\n", i);
    }
    assert_ok(all.status);
    return all.data;
}

static void remove_tree(const char *path)
{
    char line[160], said[64];
    snprintf(line, sizeof(line), "rm -rf %s", path);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
}

static outcome run(kind of, size_t hot_key_bytes, char dies, gy_flow_options flow_options,
                   size_t memory)
{
    static const char *const names[] = {
        [LISTS] = NULL, [COMBINED] = "reduce", [WHOLE] = "reduce"};
    habits has = {.dies = dies};
    char output[96], folder[96], died[96];
    snprintf(has.top, sizeof(has.top), "%s", top);
    snprintf(output, sizeof(output), "%s/out", top);
    snprintf(folder, sizeof(folder), "%s/job", top);
    snprintf(died, sizeof(died), "%s/died", top);
    const char *const inputs[] = {input, NULL};
    gy_dag *dag = NULL;
    assert_ok(gy_map_reduce(
        flow,
        &(gy_map_reduce_options){.inputs = inputs,
                                 .format = GY_RECORDS_KEY_VALUE,
                                 .map = "pair",
                                 .has_bytes = true,
                                 .reduce = names[of],
                                 .combine = of == COMBINED ? GY_COMBINE_USER : GY_COMBINE_NONE,
                                 .combine_function = of == COMBINED ? "combine" : NULL,
                                 .partitions = PARTITIONS,
                                 .split_bytes = SPLIT_BYTES,
                                 .memory_bytes = memory,
                                 .parameter = &has,
                                 .parameter_bytes = sizeof(has),
                                 .hot_key_bytes = hot_key_bytes},
        &dag));
    flow_options.output = output;
    flow_options.folder = folder;
    flow_options.processes = WORKERS;
    flow_options.timeout_s = 60;
    flow_options.backup_floor_s = -1;
    gy_job_report *report = NULL;
    assert_ok(gy_flow_run(flow, dag, &flow_options, &report));
    outcome out = {.text = read_output(output),
                   .hot_keys = gy_job_report_counter(report, "hot keys"),
                   .keys = gy_job_report_counter(report, "keys"),
                   .records = gy_job_report_counter(report, "map records"),
                   .spills = gy_job_report_counter(report, "spills"),
                   .stages = (int)report->stage_count};
    for (size_t i = 0; i < report->stage_count; i++) {
        if (strcmp(report->stages[i].name, "hot key") == 0) {
            out.hot_tasks = report->stages[i].committed;
            out.hot_memoised = report->stages[i].memoised;
        }
    }
    assert_int_equal(access(died, F_OK) == 0, dies != 0);
    (void)unlink(died);
    gy_job_report_free(report);
    gy_dag_free(dag);
    remove_tree(output);
    remove_tree(folder);
    return out;
}

static outcome run_plain(kind of, size_t hot_key_bytes, char dies)
{
    return run(of, hot_key_bytes, dies, (gy_flow_options){0}, 0);
}

static void assert_shared(const outcome *shared, const outcome *whole)
{
    assert_true(shared->hot_tasks >= 2);
    assert_int_equal(shared->hot_keys, 1);
    assert_int_equal(shared->keys, whole->keys);
    assert_int_equal(shared->records, RECORDS);
    assert_string_equal(shared->text, whole->text);
}

static outcome run_whole(kind of)
{
    const outcome whole = run_plain(of, SIZE_MAX, 0);
    assert_int_equal(whole.hot_tasks, 0);
    assert_int_equal(whole.hot_keys, 0);
    return whole;
}

/* ---- tests ---- */

GY_TEST(the_hot_key_is_shared_and_nothing_changes)
{
    static const char deaths[] = {0, 'm', 's', 'r'};
    const outcome whole = run_whole(COMBINED);
    char line[96];
    snprintf(line, sizeof(line), "hot\t%lld %lld\n", (long long)hot_sum, (long long)hot_count);
    assert_non_null(strstr(whole.text, line));
    assert_int_equal(whole.keys, KEYS + 1);
    for (size_t i = 0; i < GY_COUNT(deaths); i++) {
        const outcome shared = run_plain(COMBINED, HOT_BYTES, deaths[i]);
        assert_shared(&shared, &whole);
        gy_free(shared.text);
    }
    gy_free(whole.text);
}

GY_TEST(lists_are_shared_too)
{
    const outcome whole = run_whole(LISTS), shared = run_plain(LISTS, HOT_BYTES, 'm');
    int64_t lines = 0;
    for (const char *at = whole.text; (at = strstr(at, "\nhot\t")) != NULL; at++) {
        lines++;
    }
    assert_int_equal(lines, hot_count);
    assert_shared(&shared, &whole);
    gy_free(whole.text);
    gy_free(shared.text);
}

GY_TEST(without_a_combiner_nothing_is)
{
    const outcome forbidden = run_plain(COMBINED, SIZE_MAX, 0),
                  undeclared = run_plain(WHOLE, HOT_BYTES, 0),
                  light = run_plain(COMBINED, 0, 0); /* less than 1 MiB */
    assert_int_equal(undeclared.hot_tasks, 0);
    assert_int_equal(light.hot_tasks, 0);
    assert_int_equal(light.stages, 2); /* no stage of none */
    assert_string_equal(undeclared.text, forbidden.text);
    assert_string_equal(light.text, forbidden.text);
    gy_free(forbidden.text);
    gy_free(undeclared.text);
    gy_free(light.text);
}

GY_TEST(a_budget_and_a_memo_are_kept)
{
    char memo[96];
    snprintf(memo, sizeof(memo), "%s/memo", top);
    const gy_flow_options remembering = {.memo = memo};
    const outcome whole = run_whole(COMBINED),
                  small = run(COMBINED, HOT_BYTES, 0, remembering, SMALL_MEMORY),
                  again = run(COMBINED, HOT_BYTES, 0, remembering, SMALL_MEMORY);
    assert_true(small.spills > 0);
    assert_int_equal(small.hot_memoised, 0);
    assert_int_equal(again.hot_memoised, small.hot_tasks);
    assert_shared(&small, &whole);
    assert_shared(&again, &whole);
    gy_free(whole.text);
    gy_free(small.text);
    gy_free(again.text);
}

static int begin(void **state)
{
    (void)state;
    gy_random random = {.key = gy_test_seed()};
    snprintf(top, sizeof(top), "/tmp/gyre-hot-XXXXXX");
    if (mkdtemp(top) == NULL || setenv("XDG_STATE_HOME", top, 1) != 0) {
        return 1;
    }
    snprintf(input, sizeof(input), "%s/input", top);
    FILE *file = fopen(input, "we");
    for (int i = 0; file != NULL && i < RECORDS; i++) {
        const int value = (int)gy_random_below(&random, 1000000);
        if (gy_random_below(&random, 100) < HOT_SHARE) {
            hot_count++;
            hot_sum += value;
            fprintf(file, "hot\t%d 1\n", value);
        } else {
            fprintf(file, "key%d\t%d 1\n",
                    i < KEYS * 2 ? i % KEYS : (int)gy_random_below(&random, KEYS), value);
        }
    }
    return file == NULL || fclose(file) != 0;
}

static int end(void **state)
{
    (void)state;
    remove_tree(top);
    return 0;
}

FLOW_TEST_MAIN((void)0, begin, end)
