/* Goal: a sort as a job gives the bytes of a plain stable sort, in processes, whichever way it
 * takes, also when processes are killed at its beginning or its end. */
#include "base/base.h"
#include "mapreduce/sort.h"

#include <gyre/sort.h>

#include "gy_test.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

enum { RECORD = 20, KEY = 3, COUNT = 30000, FILES = 3, PARTS = 4 };

static gy_flow *flow;
static char top[64];

/* Dies as soon as it begins, or when it has written everything, each once: marks of that lie
 * beside the inputs. */
static gy_status sort_and_die(gy_vertex *vertex)
{
    const char *folder = getenv("SORT_TEST_MARKS");
    gy_status status = GY_OK;
    for (int i = 0; folder != NULL && i < 2; i++) {
        if (i == 1) {
            status = gy_sort_vertex(vertex);
        }
        char mark[128];
        snprintf(mark, sizeof(mark), "%s/%s", folder, i == 0 ? "begin" : "end");
        const int file = gy_vertex_index(vertex) == i + 1
                             ? open(mark, O_CREAT | O_EXCL | O_WRONLY, 0600)
                             : -1;
        if (file >= 0) {
            (void)raise(SIGKILL);
        }
    }
    return folder == NULL ? gy_sort_vertex(vertex) : status;
}

static const gy_function functions[] = {{"gyre.sort", sort_and_die, NULL}};

static int compare(const void *a, const void *b)
{
    const char *first = a, *second = b;
    const int order = memcmp(first, second, KEY);
    return order != 0 ? order : memcmp(first + KEY, second + KEY, 8); /* the record's number */
}

static void put(const char *path, const char *data, size_t size_bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size_bytes, file), size_bytes);
    assert_int_equal(fclose(file), 0);
}

static void expect_parts(const char *output, const char *expected)
{
    char *got = gy_alloc("test", COUNT * RECORD + 1);
    assert_non_null(got);
    size_t used = 0;
    for (int i = 0; i < PARTS; i++) {
        char path[160];
        snprintf(path, sizeof(path), "%s/part-%05d", output, i);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        used += fread(got + used, 1, COUNT * RECORD + 1 - used, file);
        fclose(file);
    }
    assert_int_equal(used, COUNT * RECORD);
    assert_memory_equal(got, expected, used);
    gy_free(got);
}

static void run(gy_sort_method way, const char *const *inputs, const char *expected,
                bool is_killed)
{
    static int number;
    char output[100], folder[100];
    snprintf(output, sizeof(output), "%s/out%d", top, number);
    snprintf(folder, sizeof(folder), "%s/job%d", top, number++);
    gy_dag *dag = NULL;
    const gy_sort_options sort = {.inputs = inputs,
                                  .record_bytes = RECORD,
                                  .key_bytes = KEY,
                                  .method = way,
                                  .partitions = PARTS,
                                  .memory_bytes = 4 << 20};
    assert_ok(gy_dag_sort(flow, &sort, &dag));
    const gy_flow_options options = {
        .output = output, .folder = folder, .processes = 3, .timeout_s = 60};
    gy_job_report *report = NULL;
    assert_ok(gy_flow_run(flow, dag, &options, &report));
    assert_int_equal(gy_job_report_counter(report, "records sorted"), COUNT);
    assert_true(gy_job_report_counter(report, way == GY_SORT_METHOD_RUNS
                                                  ? "runs written"
                                                  : "scans of all inputs") >=
                (way == GY_SORT_METHOD_RUNS ? 0 : PARTS));
    if (is_killed) {
        char mark[100];
        snprintf(mark, sizeof(mark), "%s/begin", top);
        assert_int_equal(unlink(mark), 0);
        snprintf(mark, sizeof(mark), "%s/end", top);
        assert_int_equal(unlink(mark), 0);
    }
    expect_parts(output, expected);
    gy_job_report_free(report);
    gy_dag_free(dag);
}

GY_TEST(jobs_sort)
{
    gy_random random = {gy_test_seed(), 0};
    char *data = gy_alloc("test", COUNT * RECORD), paths[FILES][100];
    const char *inputs[FILES + 1] = {NULL};
    assert_non_null(data);
    for (int i = 0; i < COUNT; i++) {
        char *record = data + (size_t)i * RECORD;
        for (int j = 0; j < RECORD; j++) {
            record[j] = (char)('a' + gy_random_below(&random, 12));
        }
        char number[16];
        snprintf(number, sizeof(number), "%08d", i);
        memcpy(record + KEY, number, 8);
    }
    for (int i = 0; i < FILES; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/in%d", top, i);
        put(paths[i], data + (size_t)i * COUNT / FILES * RECORD, COUNT / FILES * RECORD);
        inputs[i] = paths[i];
    }
    qsort(data, COUNT, RECORD, compare);
    run(GY_SORT_METHOD_AUTO, inputs, data, false);
    run(GY_SORT_METHOD_RUNS, inputs, data, false);
    assert_int_equal(setenv("SORT_TEST_MARKS", top, 1), 0);
    run(GY_SORT_METHOD_SCANS, inputs, data, true);
    run(GY_SORT_METHOD_RUNS, inputs, data, true);
    assert_int_equal(unsetenv("SORT_TEST_MARKS"), 0);
    gy_free(data);
}

int main(int argc, char **argv)
{
    const gy_status started =
        gy_flow_start(&argc, &argv, functions, GY_COUNT(functions), &flow);
    if (started != GY_OK) {
        return started < 0;
    }
    snprintf(top, sizeof(top), "/tmp/gyre-sort-job-XXXXXX");
    if (mkdtemp(top) == NULL) {
        return 1;
    }
    int failed = GY_TESTS_RUN(NULL, NULL);
    char line[128], out[64];
    snprintf(line, sizeof(line), "rm -rf %s", top);
    failed += gy_test_shell(line, out, sizeof(out)) != 0;
    gy_flow_end(flow);
    return failed;
}
