/* Goal: the vertices of a sort, each alone, write parts that are the whole in order; what
 * cannot be sorted ends them with a reason. */
#include "base/base.h"
#include "flow/channel/channel.h"
#include "flow/dag.h"
#include "mapreduce/sort.h"

#include <gyre/sort.h>

#include "gy_test.h"

#include <string.h>

static char folder[64];
static const _Atomic bool never;

enum { PARTS = 3 };

static void put(const char *name, const void *data, size_t size_bytes, char path[160])
{
    snprintf(path, 160, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size_bytes, file), size_bytes);
    assert_int_equal(fclose(file), 0);
}

/* Run vertex `index` of a sort's graph over two files; what it wrote comes behind `out`. */
static gy_worker_answer run(const gy_dag *dag, char paths[2][160], uint32_t index, char *out,
                            size_t *used)
{
    const gy_proto *proto = &dag->protos[dag->proto[index]];
    char part[160], own[160];
    snprintf(part, sizeof(part), "%s/part-%05u", folder, index);
    snprintf(own, sizeof(own), "%s/key.0.%u", folder, index);
    const gy_flow_task_input inputs[2] = {
        {.kind = GY_INPUT_PLAIN, .path = paths[0], .size_bytes = UINT64_MAX},
        {.kind = GY_INPUT_PLAIN, .path = paths[1], .size_bytes = UINT64_MAX}};
    const gy_flow_task_output output = {.kind = GY_OUTPUT_FINAL, .path = part};
    const gy_flow_task order = {.id = {.task = index, .attempt = 1},
                                .key = {1, index},
                                .name = "sort",
                                .stage = "sort",
                                .run = gy_sort_vertex,
                                .parameter = proto->parameter,
                                .parameter_bytes = proto->parameter_bytes,
                                .index = index,
                                .copies = (uint32_t)dag->vertex_count,
                                .memory_bytes = proto->memory_bytes,
                                .folder = folder,
                                .path = own,
                                .inputs = inputs,
                                .input_count = 2,
                                .outputs = &output,
                                .output_count = 1,
                                .deadline = gy_deadline_after(60)};
    gy_worker_answer answer = {.cause = GY_CAUSE_NONE};
    gy_vertex_execute(gy_env_real(), &order, NULL, NULL, &never, &answer);
    FILE *file = fopen(part, "rb");
    if (file != NULL) {
        *used += fread(out + *used, 1, 100000, file);
        fclose(file);
    }
    (void)unlink(part);
    (void)unlink(own);
    return answer;
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void parts_are_the_lines_in_order(gy_sort_method way)
{
    enum { LINES = 2000 };
    gy_random random = {gy_test_seed(), 0};
    char *text = gy_alloc("test", LINES * 16), *lines[LINES];
    assert_non_null(text);
    char *to = text;
    for (size_t i = 0; i < LINES; i++) {
        lines[i] = to;
        for (size_t j = gy_random_below(&random, 12); j > 0; j--) {
            *to++ = (char)('a' + gy_random_below(&random, 3));
        }
        *to++ = '\n';
    }
    char paths[2][160];
    put("one", text, (size_t)(lines[LINES / 3] - text), paths[0]);
    put("two", lines[LINES / 3], (size_t)(to - lines[LINES / 3]) - 1,
        paths[1]); /* no last end */
    gy_dag *dag = NULL;
    const gy_sort_options sort = {.inputs = (const char *const[]){paths[0], paths[1], NULL},
                                  .partitions = PARTS,
                                  .method = way};
    assert_ok(gy_dag_sort(NULL, &sort, &dag));
    assert_int_equal(dag->vertex_count, PARTS);
    assert_int_equal(dag->final_count, PARTS);
    char *out = gy_alloc("test", 200000);
    assert_non_null(out);
    size_t used = 0;
    for (uint32_t i = 0; i < PARTS; i++) {
        const size_t before = used;
        gy_worker_answer answer = run(dag, paths, i, out, &used);
        assert_int_equal(answer.cause, GY_CAUSE_NONE);
        assert_true(used - before > (size_t)(to - text) / PARTS / 2);
        gy_text_free(&answer.report);
        gy_text_free(&answer.reason);
    }
    assert_int_equal(used, to - text);
    for (char *at = text; at < to; at++) {
        *at = *at == '\n' ? '\0' : *at;
    }
    qsort(lines, LINES, sizeof(*lines), compare_lines);
    const char *at = out;
    for (size_t i = 0; i < LINES; i++) {
        const size_t size = strlen(lines[i]);
        assert_memory_equal(at, lines[i], size);
        assert_int_equal(at[size], '\n');
        at += size + 1;
    }
    gy_free(text);
    gy_free(out);
    gy_dag_free(dag);
    assert_int_equal(unlink(paths[0]) + unlink(paths[1]), 0);
}

GY_TEST(scans_give_the_lines_in_order)
{
    parts_are_the_lines_in_order(GY_SORT_METHOD_SCANS);
    parts_are_the_lines_in_order(GY_SORT_METHOD_AUTO);
}

GY_TEST(runs_give_the_lines_in_order)
{
    parts_are_the_lines_in_order(GY_SORT_METHOD_RUNS);
}

GY_TEST(inputs_beyond_memory_are_read_once)
{
    const uint64_t gb = 1000000000;
    const struct {
        gy_sort_facts facts;
        bool is_kept;
    } cases[] = {
        {{0, 0, 0}, true},
        {{gb, gb, 0}, true}, /* all there, whoever pays for it */
        {{gb, gb * 99 / 100, 0}, true},
        {{gb, gb / 2, 0}, false},
        {{gb, 0, gb}, false}, /* it would push itself out */
        {{gb, 0, 2 * gb}, true},
        {{10 * gb, gb, 4 * gb}, false},
        {{gb, 2 * gb, 0}, true},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        assert_int_equal(gy_sort_is_kept(&cases[i].facts), cases[i].is_kept);
    }
    const gy_sort_layout layout = {.kind = GY_LAYOUT_LINES};
    const gy_sort_span span = {"0123456789", 10};
    const gy_sort_facts facts = gy_sort_facts_get(&(gy_sort_records){&layout, &span, 1});
    assert_int_equal(facts.input_bytes, 10);
    assert_int_equal(facts.cached_bytes, 10);
    assert_true(facts.free_bytes > 0);
}

GY_TEST(what_cannot_be_sorted_says_why)
{
    char paths[2][160];
    put("one", "0123456789", 10, paths[0]);
    put("two", "123456", 6, paths[1]);
    const char *const inputs[] = {paths[0], paths[1], NULL};
    gy_dag *dag = NULL;
    gy_sort_options options = {.inputs = inputs, .record_bytes = 5};
    assert_status(gy_dag_sort(NULL, &options, &dag), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), paths[1])); /* before anything runs */
    assert_non_null(strstr(gy_error_text(), "6 bytes"));
    assert_int_equal(unlink(paths[1]), 0);
    options.record_bytes = 0;
    assert_status(gy_dag_sort(NULL, &options, &dag), GY_NOTFOUND);
    assert_non_null(strstr(gy_error_text(), paths[1]));
    assert_int_equal(unlink(paths[0]), 0);
    const gy_sort_options errors[] = {
        {.inputs = (const char *const[]){NULL}},
        {.inputs = (const char *const[]){"a", NULL}, .record_bytes = 8, .key_offset = 8},
        {.inputs = (const char *const[]){"a", NULL}, .order = GY_SORT_INT64},
        {.inputs = (const char *const[]){"a", NULL}, .memory_bytes = 1000},
        {.inputs = (const char *const[]){"a", NULL}, .record_bytes = 8, .field = 1},
        {.inputs = (const char *const[]){"a", NULL}, .separator = ','},
        {.inputs = (const char *const[]){"a", NULL}, .field = -1},
        {.inputs = (const char *const[]){"a", NULL}, .partitions = -1},
    };
    for (size_t i = 0; i < GY_COUNT(errors); i++) {
        assert_true(gy_dag_sort(NULL, &errors[i], &dag) < 0);
        assert_null(dag);
    }
}

int main(void)
{
    snprintf(folder, sizeof(folder), "/tmp/gyre-sort-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    const int failed = GY_TESTS_RUN(NULL, NULL);
    char scratch[80];
    snprintf(scratch, sizeof(scratch), "%s/scratch", folder);
    (void)rmdir(scratch); /* the job's, empty */
    return rmdir(folder) != 0 || failed != 0;
}
