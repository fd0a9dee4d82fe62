/* Jobs from end to end, in processes of this same program: outputs, failures, growth, cohorts,
 * memo, resume. */
#include "flow/flow_priv.h"
#include "flow/run/job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "gy_test.h"

static gy_flow *flow;

/* ---- vertices ---- */

/* Its number to each output. */
static gy_status number(gy_vertex *vertex)
{
    char text[32];
    const int size = snprintf(text, sizeof(text), "%d\n", gy_vertex_index(vertex));
    for (int i = 0; i < gy_vertex_outputs(vertex); i++) {
        GY_TRY(gy_vertex_write(vertex, i, text, (size_t)size));
    }
    gy_vertex_count(vertex, "numbers", 1);
    return GY_OK;
}

/* The sum of all numbers in its inputs, a line each. */
static gy_status sum(gy_vertex *vertex)
{
    long long total = 0;
    for (int i = 0; i < gy_vertex_inputs(vertex); i++) {
        char line[64];
        size_t used = 0;
        for (;;) {
            const void *data = NULL;
            size_t size = 0;
            GY_TRY(gy_vertex_read(vertex, i, &data, &size));
            if (size == 0) {
                break;
            }
            for (size_t k = 0; k < size; k++) {
                const char letter = ((const char *)data)[k];
                if (letter == '\n') {
                    line[used] = '\0';
                    total += strtoll(line, NULL, 10);
                    used = 0;
                } else if (used + 1 < sizeof(line)) {
                    line[used++] = letter;
                }
            }
        }
    }
    char text[32];
    const int size = snprintf(text, sizeof(text), "%lld\n", total);
    gy_vertex_count(vertex, "sums", 1);
    return gy_vertex_outputs(vertex) > 0 ? gy_vertex_write(vertex, 0, text, (size_t)size)
                                         : GY_OK;
}

/* Its input to its output. */
static gy_status copy(gy_vertex *vertex)
{
    for (;;) {
        const void *data = NULL;
        size_t size = 0;
        GY_TRY(gy_vertex_read(vertex, 0, &data, &size));
        if (size == 0) {
            return GY_OK;
        }
        GY_TRY(gy_vertex_write(vertex, 0, data, size));
    }
}

/* So many bytes as its parameter says, more than fit in a message. */
static gy_status flood(gy_vertex *vertex)
{
    size_t bytes = 0;
    const int64_t *wanted = gy_vertex_parameter(vertex, &bytes);
    for (int64_t i = 0; i < *wanted; i++) {
        GY_TRY(gy_vertex_write(vertex, 0, "7\n", 2));
    }
    return GY_OK;
}

/* To output 0 so many bytes as its parameter says, to output 1 twice as many. */
static gy_status two(gy_vertex *vertex)
{
    size_t bytes = 0;
    const int64_t *wanted = gy_vertex_parameter(vertex, &bytes);
    for (int64_t i = 0; i < *wanted; i++) {
        GY_TRY(gy_vertex_write(vertex, 0, "a", 1));
        GY_TRY(gy_vertex_write(vertex, 1, "bb", 2));
    }
    return GY_OK;
}

/* By how many bytes its input 1 is longer than its input 0. */
static gy_status difference(gy_vertex *vertex)
{
    long long bytes[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        for (size_t size = 1; size > 0;) {
            const void *data = NULL;
            GY_TRY(gy_vertex_read(vertex, i, &data, &size));
            bytes[i] += (long long)size;
        }
    }
    char text[32];
    const int size = snprintf(text, sizeof(text), "%lld\n", bytes[1] - bytes[0]);
    return gy_vertex_write(vertex, 0, text, (size_t)size);
}

static gy_status refuse(gy_vertex *vertex)
{
    return gy_fail(GY_STATE, "vertex %d does not want", gy_vertex_index(vertex));
}

/* Kills its manager once: the parameter is a file that says whether it was so. */
static gy_status kill_manager(gy_vertex *vertex)
{
    size_t bytes = 0;
    const char *path = gy_vertex_parameter(vertex, &bytes);
    const int file = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (file >= 0) {
        char name[512];
        snprintf(name, sizeof(name), "%.500s.pid", path);
        FILE *from = fopen(name, "r");
        int manager = 0;
        GY_ASSERT(from != NULL && fscanf(from, "%d", &manager) == 1 && manager > 1);
        (void)fclose(from);
        (void)kill(manager, SIGKILL);
        for (;;) {
            (void)pause(); /* this process goes with its manager */
        }
    }
    return number(vertex);
}

/* Its first run takes away all files of the job, once: those who come later find nothing. */
static gy_status steal(gy_vertex *vertex)
{
    size_t bytes = 0;
    const char *folder = gy_vertex_parameter(vertex, &bytes);
    char line[700], mark[600];
    snprintf(mark, sizeof(mark), "%s/stolen", folder);
    const int file = open(mark, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (file >= 0) {
        close(file);
        snprintf(line, sizeof(line), "rm -f %s/data/*", folder);
        char out[64];
        GY_ASSERT(gy_test_shell(line, out, sizeof(out)) == 0);
    }
    return number(vertex);
}

/* Makes the file that its parameter says, as somebody else would. */
static gy_status intrude(gy_vertex *vertex)
{
    size_t bytes = 0;
    FILE *file = fopen(gy_vertex_parameter(vertex, &bytes), "w");
    GY_ASSERT(file != NULL && fputs("mine", file) >= 0 && fclose(file) == 0);
    return number(vertex);
}

/* Waits until a file is there: as progress makes it. */
static gy_status wait_for_file(gy_vertex *vertex)
{
    size_t bytes = 0;
    const char *path = gy_vertex_parameter(vertex, &bytes);
    while (access(path, F_OK) != 0 && !gy_vertex_is_cancelled(vertex)) {
        const struct timespec moment = {.tv_nsec = 1000000};
        (void)nanosleep(&moment, NULL);
    }
    return number(vertex);
}

static const gy_function functions[] = {
    GY_VERTEX("intrude", intrude),
    GY_VERTEX("two", two),
    GY_VERTEX("difference", difference),
    GY_VERTEX("steal", steal),
    GY_VERTEX("wait", wait_for_file),
    GY_VERTEX("number", number),
    GY_VERTEX("sum", sum),
    GY_VERTEX("copy", copy),
    GY_VERTEX("flood", flood),
    GY_VERTEX("refuse", refuse),
    GY_VERTEX("killer", kill_manager),
};

/* ---- a place for each test ---- */

typedef struct place {
    char top[256], output[300], folder[300], memo[300];
} place;

static place make_place(void)
{
    place at;
    snprintf(at.top, sizeof(at.top), "/tmp/gyre-run-test-XXXXXX");
    assert_non_null(mkdtemp(at.top));
    snprintf(at.output, sizeof(at.output), "%s/out", at.top);
    snprintf(at.folder, sizeof(at.folder), "%s/job", at.top);
    snprintf(at.memo, sizeof(at.memo), "%s/memo", at.top);
    return at;
}

static void remove_place(const place *at)
{
    char line[512], out[64];
    snprintf(line, sizeof(line), "rm -rf %s", at->top);
    assert_int_equal(gy_test_shell(line, out, sizeof(out)), 0);
}

static gy_flow_options options_of(const place *at)
{
    return (gy_flow_options){
        .output = at->output, .folder = at->folder, .processes = 2, .timeout_seconds = 60};
}

/* How many entries a folder has, -1: there is none. */
static int count_entries(const char *path)
{
    DIR *folder = opendir(path);
    int count = folder == NULL ? -1 : 0;
    for (struct dirent *at = folder != NULL ? readdir(folder) : NULL; at != NULL;
         at = readdir(folder)) {
        count += strcmp(at->d_name, ".") != 0 && strcmp(at->d_name, "..") != 0;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return count;
}

static void expect_file(const place *at, const char *name, const char *content)
{
    char path[400], text[256];
    snprintf(path, sizeof(path), "%s/%s", at->output, name);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fail_msg("%s is missing", path);
    }
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(text, content);
}

static gy_part vertices(gy_dag *dag, const char *function, int inputs, int outputs, int copies)
{
    return gy_part_clone(gy_dag_vertex(dag, &(gy_vertex_options){.function = function,
                                                                 .inputs = inputs,
                                                                 .outputs = outputs}),
                         copies);
}

/* maps numbers, reducers sums of them, into files sum-00000… */
static gy_dag *make_sums(int maps, int reducers)
{
    gy_dag *dag = gy_dag_new(flow, "sums");
    gy_part map = vertices(dag, "number", 0, reducers, maps);
    gy_part reduce = vertices(dag, "sum", GY_PORTS_ANY, 1, reducers);
    gy_part_output(gy_part_bipartite(map, reduce, GY_CHANNEL_FILE), "sum");
    return dag;
}

/* ---- tests ---- */

static void a_job_publishes_its_output_and_leaves_nothing_else(void **state)
{
    (void)state;
    place at = make_place();
    gy_flow_options options = options_of(&at);
    gy_dag *dag = make_sums(20, 3);
    gy_flow_report *report = NULL;
    assert_ok(gy_flow_run(flow, dag, &options, &report));
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof(name), "sum-%05d", i);
        expect_file(&at, name, "190\n");
    }
    assert_int_equal(count_entries(at.output), 4); /* and MANIFEST.json */
    assert_int_equal(gy_flow_report_counter(report, "numbers"), 20);
    assert_int_equal(gy_flow_report_counter(report, "sums"), 3);
    assert_int_equal(gy_flow_report_counter(report, "none"), 0);
    assert_int_equal(report->stage_count, 2);
    assert_string_equal(report->stages[0].name, "number");
    assert_int_equal(report->stages[0].tasks, 20);
    assert_int_equal(report->stages[0].done, 20);
    assert_int_equal(report->output_bytes, 12);
    gy_flow_report_free(report);
    assert_status(gy_flow_run(flow, dag, &options, NULL), GY_STATE); /* a graph runs once */
    gy_dag_free(dag);
    char path[400];
    snprintf(path, sizeof(path), "%s/data", at.folder);
    assert_int_equal(count_entries(path), -1);
    remove_place(&at);
}

static void an_output_that_is_there_is_refused(void **state)
{
    (void)state;
    place at = make_place();
    gy_flow_options options = options_of(&at);
    assert_int_equal(mkdir(at.output, 0700), 0);
    char path[400];
    snprintf(path, sizeof(path), "%s/mine", at.output);
    fclose(fopen(path, "w"));
    gy_dag *dag = make_sums(2, 1);
    assert_status(gy_flow_run(flow, dag, &options, NULL), GY_EXISTS);
    assert_non_null(strstr(gy_error_text(), "mine"));
    gy_dag_free(dag);
    assert_int_equal(count_entries(at.output), 1);
    remove_place(&at);
}

static void a_failed_job_leaves_no_output_and_says_why(void **state)
{
    (void)state;
    place at = make_place();
    gy_flow_options options = options_of(&at);
    options.max_failures = 2;
    gy_dag *dag = gy_dag_new(flow, "refused");
    gy_part map = vertices(dag, "number", 0, 1, 3);
    gy_part_output(map, "number");
    gy_part_output(vertices(dag, "refuse", 0, 1, 1), "refused");
    gy_flow_report *report = NULL;
    assert_true(gy_flow_run(flow, dag, &options, &report) < 0);
    assert_non_null(strstr(gy_error_text(), "does not want"));
    assert_int_equal(count_entries(at.output), -1);
    assert_true(report->stages[1].failures >= 2);
    assert_true(report->note_count > 0);
    gy_flow_report_free(report);
    gy_dag_free(dag);
    remove_place(&at);
}

static void mistakes_are_told_before_anything_is_made(void **state)
{
    (void)state;
    place at = make_place();
    gy_flow_options options = options_of(&at);
    gy_dag *dag = gy_dag_new(flow, "mistake");
    (void)vertices(dag, "number", 0, 1, 3);
    assert_status(gy_flow_run(flow, dag, &options, NULL), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "output 0 of number[0] goes nowhere"));
    gy_dag_free(dag);
    dag = gy_dag_new(flow, "mistake");
    (void)vertices(dag, "nonesuch", 0, 0, 1);
    assert_status(gy_flow_run(flow, dag, &options, NULL), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "function nonesuch"));
    gy_dag_free(dag);
    dag = gy_dag_new(flow, "mistake");
    (void)gy_dag_vertex(
        dag, &(gy_vertex_options){.function = "number",
                                  .files = (const char *[]){"/nonexistent/file", NULL}});
    assert_status(gy_flow_run(flow, dag, &options, NULL), GY_NOTFOUND);
    assert_non_null(strstr(gy_error_text(), "number[0]"));
    gy_dag_free(dag);
    assert_int_equal(count_entries(at.output), -1);
    remove_place(&at);
}

static void cohorts_run_together_through_fifos_and_pipes(void **state)
{
    (void)state;
    for (gy_channel channel = GY_CHANNEL_PIPE; channel <= GY_CHANNEL_FIFO; channel++) {
        place at = make_place();
        gy_flow_options options = options_of(&at);
        options.processes = 3;
        const int64_t lines = 400000;
        gy_dag *dag = gy_dag_new(flow, "cohorts");
        gy_part source =
            gy_dag_vertex(dag, &(gy_vertex_options){.function = "flood",
                                                    .parameter = &lines,
                                                    .parameter_bytes = sizeof(lines),
                                                    .outputs = 1});
        gy_part chain = gy_part_pointwise(source, vertices(dag, "copy", 1, 1, 1), channel);
        chain = gy_part_pointwise(chain, vertices(dag, "sum", 1, 1, 1), channel);
        gy_part_output(gy_part_clone(chain, 2), "sum");
        gy_flow_report *report = NULL;
        assert_ok(gy_flow_run(flow, dag, &options, &report));
        expect_file(&at, "sum-00000", "2800000\n");
        expect_file(&at, "sum-00001", "2800000\n");
        assert_int_equal(report->stages[0].tasks, 2); /* a cohort counts at its first member */
        assert_int_equal(report->stages[1].tasks, 0);
        gy_flow_report_free(report);
        gy_dag_free(dag);
        remove_place(&at);
    }
}

/* A diamond of two paths with a different number of bytes each, joined in one vertex. */
static void diamonds_of_fifos_end(void **state)
{
    (void)state;
    place at = make_place();
    gy_flow_options options = options_of(&at);
    options.processes = 4;
    const int64_t many = 300000;
    gy_dag *dag = gy_dag_new(flow, "diamond");
    gy_part source = gy_dag_vertex(dag, &(gy_vertex_options){.function = "two",
                                                             .parameter = &many,
                                                             .parameter_bytes = sizeof(many),
                                                             .outputs = 2});
    gy_part paths = gy_part_pointwise(source, vertices(dag, "copy", 1, 1, 2), GY_CHANNEL_FIFO);
    gy_part_output(
        gy_part_pointwise(paths, vertices(dag, "difference", 2, 1, 1), GY_CHANNEL_FIFO),
        "difference");
    assert_ok(gy_flow_run(flow, dag, &options, NULL));
    expect_file(&at, "difference-00000", "300000\n");
    gy_dag_free(dag);
    remove_place(&at);
}

static void large_outputs_go_through_files(void **state)
{
    (void)state;
    place at = make_place();
    gy_flow_options options = options_of(&at);
    const int64_t lines = 100000;
    gy_dag *dag = gy_dag_new(flow, "files");
    gy_part source =
        gy_part_clone(gy_dag_vertex(dag, &(gy_vertex_options){.function = "flood",
                                                              .parameter = &lines,
                                                              .parameter_bytes = sizeof(lines),
                                                              .outputs = 1}),
                      4);
    gy_part_output(
        gy_part_pointwise(source, vertices(dag, "sum", GY_PORTS_ANY, 1, 1), GY_CHANNEL_FILE),
        "sum");
    assert_ok(gy_flow_run(flow, dag, &options, NULL));
    expect_file(&at, "sum-00000", "2800000\n");
    gy_dag_free(dag);
    remove_place(&at);
}

static void lost_files_are_made_again_and_counted_once(void **state)
{
    (void)state;
    place at = make_place();
    gy_flow_options options = options_of(&at);
    const int64_t lines = 50000;
    gy_dag *dag = gy_dag_new(flow, "lost");
    gy_part source = gy_dag_vertex(dag, &(gy_vertex_options){.function = "flood",
                                                             .parameter = &lines,
                                                             .parameter_bytes = sizeof(lines),
                                                             .outputs = 1});
    gy_part middle = vertices(dag, "copy", 1, 1, 1);
    gy_part thief =
        gy_dag_vertex(dag, &(gy_vertex_options){.function = "steal",
                                                .parameter = at.folder,
                                                .parameter_bytes = sizeof(at.folder),
                                                .inputs = 1,
                                                .outputs = 1});
    gy_part last = vertices(dag, "sum", GY_PORTS_ANY, 1, 1);
    gy_part copied = gy_part_pointwise(source, middle, GY_CHANNEL_FILE);
    gy_part stolen =
        gy_part_fork(copied, thief, GY_CHANNEL_FILE); /* outputs: copy's, thief's */
    gy_part_output(gy_part_pointwise(stolen, last, GY_CHANNEL_FILE), "sum");
    gy_flow_report *report = NULL;
    assert_ok(gy_flow_run(flow, dag, &options, &report));
    expect_file(&at, "sum-00000", "350000\n");
    assert_int_equal(gy_flow_report_counter(report, "numbers"), 1);
    assert_int_equal(gy_flow_report_counter(report, "sums"), 1);
    assert_int_equal(report->bytes, 100000 + 100000 + 2 + 7);
    bool is_noted = false;
    for (int i = 0; i < report->note_count; i++) {
        is_noted = is_noted || strstr(report->notes[i], "copy") != NULL;
    }
    assert_true(is_noted);
    gy_flow_report_free(report);
    gy_dag_free(dag);
    remove_place(&at);
}

static void commands_are_vertices_too(void **state)
{
    (void)state;
    place at = make_place();
    gy_flow_options options = options_of(&at);
    char side[300];
    snprintf(side, sizeof(side), "%s/script.sed", at.top);
    FILE *file = fopen(side, "w");
    fputs("s/7/5/\n", file);
    fclose(file);
    const int64_t lines = 10000;
    gy_dag *dag = gy_dag_new(flow, "command");
    gy_part source = gy_dag_vertex(dag, &(gy_vertex_options){.function = "flood",
                                                             .parameter = &lines,
                                                             .parameter_bytes = sizeof(lines),
                                                             .outputs = 1});
    gy_part command = gy_dag_vertex(
        dag, &(gy_vertex_options){.command = (const char *[]){"sed", "-f", "script.sed", NULL},
                                  .files = (const char *[]){side, NULL},
                                  .inputs = 1,
                                  .outputs = 1});
    gy_part chain = gy_part_pointwise(source, command, GY_CHANNEL_FIFO);
    gy_part_output(gy_part_pointwise(chain, vertices(dag, "sum", 1, 1, 1), GY_CHANNEL_FILE),
                   "sum");
    assert_ok(gy_flow_run(flow, dag, &options, NULL));
    expect_file(&at, "sum-00000", "50000\n");
    gy_dag_free(dag);
    remove_place(&at);
}

static void make_file(void *arg, const gy_flow_report *report)
{
    if (report->stages[0].running == 1) {
        const int file = open(arg, O_CREAT | O_WRONLY, 0600);
        (void)(file >= 0 && close(file));
    }
}

static void progress_and_trace_tell_of_the_stages(void **state)
{
    (void)state;
    place at = make_place();
    gy_flow_options options = options_of(&at);
    char path[300], trace[300], text[4096];
    snprintf(path, sizeof(path), "%s/go", at.top);
    snprintf(trace, sizeof(trace), "%s/trace.json", at.top);
    options.progress = make_file;
    options.progress_arg = path;
    options.trace = trace;
    gy_dag *dag = gy_dag_new(flow, "progress");
    gy_part_output(gy_dag_vertex(dag, &(gy_vertex_options){.function = "wait",
                                                           .stage = "patience",
                                                           .parameter = path,
                                                           .parameter_bytes = sizeof(path),
                                                           .outputs = 1}),
                   "number");
    assert_ok(gy_flow_run(flow, dag, &options, NULL));
    gy_dag_free(dag);
    FILE *file = fopen(trace, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    assert_non_null(strstr(text, "\"patience\""));
    assert_non_null(strstr(text, "\"manager\""));
    assert_string_equal(text + strlen(text) - 4, "\n]}\n");
    remove_place(&at);
}

static void a_manifest_that_came_before_is_not_touched(void **state)
{
    (void)state;
    place at = make_place();
    gy_flow_options options = options_of(&at);
    char path[400];
    snprintf(path, sizeof(path), "%s/MANIFEST.json", at.output);
    gy_dag *dag = gy_dag_new(flow, "intruder");
    gy_part_output(gy_dag_vertex(dag, &(gy_vertex_options){.function = "intrude",
                                                           .parameter = path,
                                                           .parameter_bytes = sizeof(path),
                                                           .outputs = 1}),
                   "number");
    assert_status(gy_flow_run(flow, dag, &options, NULL), GY_EXISTS);
    gy_dag_free(dag);
    assert_int_equal(count_entries(at.output), 1); /* nothing of ours */
    expect_file(&at, "MANIFEST.json", "mine");
    remove_place(&at);
}

static void gangs_of_ranks_are_vertices(void **state)
{
    (void)state;
    place at = make_place();
    gy_flow_options options = options_of(&at);
    char script[400], out[64], line[500];
    snprintf(script, sizeof(script), "echo $GYRE_RANK of $GYRE_SIZE > %s/rank-$GYRE_RANK",
             at.top);
    gy_dag *dag = gy_dag_new(flow, "gang");
    (void)gy_dag_vertex(
        dag, &(gy_vertex_options){.command = (const char *[]){"sh", "-c", script, NULL},
                                  .stage = "gang",
                                  .ranks = 3});
    options.output = NULL;
    assert_ok(gy_flow_run(flow, dag, &options, NULL));
    gy_dag_free(dag);
    snprintf(line, sizeof(line), "cat %s/rank-*", at.top);
    assert_int_equal(gy_test_shell(line, out, sizeof(out)), 0);
    assert_string_equal(out, "0 of 3\n1 of 3\n2 of 3\n");
    remove_place(&at);
}

/* ---- growth ---- */

static void grow_sums(gy_gate *gate, gy_dag *dag, gy_part outputs)
{
    (void)dag;
    gy_part made = gy_gate_spread(
        gate, outputs,
        &(gy_vertex_options){.function = "sum", .inputs = GY_PORTS_ANY, .outputs = 1}, 4);
    gy_part_tree(made,
                 &(gy_vertex_options){
                     .function = "sum", .stage = "top", .inputs = GY_PORTS_ANY, .outputs = 1},
                 8, "total");
}

static gy_dag *make_growing(int maps)
{
    gy_dag *dag = gy_dag_new(flow, "growing");
    gy_part_grow(
        vertices(dag, "number", 0, 1, maps),
        &(gy_grow_options){.work = grow_sums, .stages = (const char *[]){"sum", "top", NULL}});
    return dag;
}

static void graphs_grow_by_sizes_and_grow_again(void **state)
{
    (void)state;
    place at = make_place();
    gy_flow_options options = options_of(&at);
    gy_dag *dag = make_growing(10); /* 2 bytes each: two a sum, then a tree of 5 */
    gy_flow_report *report = NULL;
    assert_ok(gy_flow_run(flow, dag, &options, &report));
    expect_file(&at, "total-00000", "45\n");
    assert_int_equal(report->stages[1].tasks, 5);
    assert_true(report->stages[2].tasks >= 3);
    gy_flow_report_free(report);
    gy_dag_free(dag);
    remove_place(&at);
}

/* ---- memo ---- */

static void write_input(const place *at, int i, const char *text)
{
    char path[400];
    snprintf(path, sizeof(path), "%s/in-%d", at->top, i);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static gy_dag *make_over_files(const place *at, int count)
{
    gy_dag *dag = gy_dag_new(flow, "files");
    static char paths[64][400];
    static const char *files[64][2];
    gy_vertex_options options[64];
    assert_true(count <= 64);
    for (int i = 0; i < count; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/in-%d", at->top, i);
        files[i][0] = paths[i];
        options[i] = (gy_vertex_options){
            .function = "sum", .stage = "map", .outputs = 1, .files = files[i]};
    }
    gy_part map = gy_dag_vertices(dag, options, count);
    gy_part reduce = gy_dag_vertex(
        dag, &(gy_vertex_options){
                 .function = "sum", .stage = "reduce", .inputs = GY_PORTS_ANY, .outputs = 1});
    gy_part_output(gy_part_pointwise(map, reduce, GY_CHANNEL_FILE), "sum");
    return dag;
}

static void run_over_files(const place *at, int count, const char *expected, int memoised)
{
    gy_flow_options options = options_of(at);
    options.folder = NULL; /* a fresh one in the user's state folder, which is here */
    assert_int_equal(setenv("XDG_STATE_HOME", at->top, 1), 0);
    options.memo = at->memo;
    char line[400], out[64];
    snprintf(line, sizeof(line), "rm -rf %s", at->output);
    assert_int_equal(gy_test_shell(line, out, sizeof(out)), 0);
    gy_dag *dag = make_over_files(at, count);
    gy_flow_report *report = NULL;
    assert_ok(gy_flow_run(flow, dag, &options, &report));
    expect_file(at, "sum-00000", expected);
    assert_int_equal(report->stages[0].memoised, memoised);
    assert_int_equal(gy_flow_report_counter(report, "sums"), count + 1); /* as if all ran */
    gy_flow_report_free(report);
    gy_dag_free(dag);
}

static void only_what_changed_runs_again(void **state)
{
    (void)state;
    place at = make_place();
    for (int i = 0; i < 30; i++) {
        write_input(&at, i, "1\n2\n");
    }
    run_over_files(&at, 30, "90\n", 0);
    run_over_files(&at, 30, "90\n", 30);
    write_input(&at, 7, "1\n2\n5\n");
    run_over_files(&at, 30, "95\n", 29);
    write_input(&at, 7, "1\n2\n"); /* content counts, not when it was written */
    run_over_files(&at, 30, "90\n", 30);
    int64_t freed = -1;
    assert_ok(gy_flow_collect(at.memo, 1 << 30, &freed));
    assert_int_equal(freed, 0);
    run_over_files(&at, 30, "90\n", 30);
    assert_status(gy_flow_collect(at.output, 0, NULL), GY_NOTFOUND);
    remove_place(&at);
}

/* What an indeterminate vertex made is made anew; the folder keeps to its quota. */
static void what_may_differ_is_not_remembered(void **state)
{
    (void)state;
    place at = make_place();
    for (int run = 0; run < 2; run++) {
        gy_flow_options options = options_of(&at);
        char folder[320], output[320];
        snprintf(folder, sizeof(folder), "%s-%d", at.folder, run);
        snprintf(output, sizeof(output), "%s-%d", at.output, run);
        options.folder = folder;
        options.output = output;
        options.memo = at.memo;
        options.memo_bytes = 150000;
        gy_dag *dag = gy_dag_new(flow, "memo");
        gy_part loose = gy_dag_vertex(
            dag, &(gy_vertex_options){
                     .function = "number", .promise = GY_PROMISE_INDETERMINATE, .outputs = 1});
        const int64_t lines = 50000; /* 100,000 bytes each: one fits */
        gy_part large = gy_part_clone(
            gy_dag_vertex(dag, &(gy_vertex_options){.function = "flood",
                                                    .parameter = &lines,
                                                    .parameter_bytes = sizeof(lines),
                                                    .outputs = 1}),
            2);
        gy_part_output(gy_part_pointwise(gy_part_merge(loose, large),
                                         vertices(dag, "sum", GY_PORTS_ANY, 1, 1),
                                         GY_CHANNEL_FILE),
                       "sum");
        gy_flow_report *report = NULL;
        assert_ok(gy_flow_run(flow, dag, &options, &report));
        assert_int_equal(report->stages[0].memoised, 0);
        assert_int_equal(report->stages[1].memoised, run);
        gy_flow_report_free(report);
        gy_dag_free(dag);
    }
    remove_place(&at);
}

/* ---- resume ---- */

static gy_dag *make_killed(const char *mark, int maps)
{
    gy_dag *dag = gy_dag_new(flow, "killed");
    gy_part killer =
        gy_dag_vertex(dag, &(gy_vertex_options){.function = "killer",
                                                .parameter = mark,
                                                .parameter_bytes = strlen(mark) + 1,
                                                .inputs = GY_PORTS_ANY,
                                                .outputs = 1});
    gy_part first = vertices(dag, "number", 0, 1, maps);
    gy_part_output(gy_part_pointwise(first, killer, GY_CHANNEL_FILE), "last");
    return dag;
}

/* In a child: run until the killer kills it. */
static void run_to_death(const place *at, const char *mark)
{
    char name[400];
    snprintf(name, sizeof(name), "%s.pid", mark);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        FILE *file = fopen(name, "w");
        fprintf(file, "%d", (int)getpid());
        fclose(file);
        gy_flow_options options = options_of(at);
        (void)!gy_flow_run(flow, make_killed(mark, 12), &options, NULL);
        _exit(3);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void a_killed_manager_is_followed_by_one_that_goes_on(void **state)
{
    (void)state;
    place at = make_place();
    char mark[300];
    snprintf(mark, sizeof(mark), "%s/mark", at.top);
    run_to_death(&at, mark);
    assert_int_equal(access(mark, F_OK), 0);
    gy_flow_options options = options_of(&at);
    gy_dag *dag = make_killed(mark, 12);
    assert_status(gy_flow_run(flow, dag, &options, NULL),
                  GY_EXISTS); /* not without being asked */
    gy_dag_free(dag);
    options.is_resume = true;
    dag = make_killed(mark, 11);
    assert_status(gy_flow_run(flow, dag, &options, NULL), GY_MISMATCH);
    gy_dag_free(dag);
    dag = make_killed(mark, 12);
    gy_flow_report *report = NULL;
    assert_ok(gy_flow_run(flow, dag, &options, &report));
    expect_file(&at, "last-00000", "0\n");
    assert_int_equal(count_entries(at.output), 2);
    assert_int_equal(gy_flow_report_counter(report, "numbers"), 13); /* each once, over both */
    gy_flow_report_free(report);
    gy_dag_free(dag);
    remove_place(&at);
}

/* ---- a manager killed at each of its writes and syncs ---- */

typedef struct deadly_env {
    gy_env env;
    int left; /* writes and syncs until it dies */
} deadly_env;

static void live_on(gy_env *env)
{
    deadly_env *deadly = (deadly_env *)env;
    if (deadly->left-- == 0) {
        (void)kill(getpid(), SIGKILL);
    }
}

static int64_t deadly_write(gy_env *env, int file, const void *data, size_t size_bytes)
{
    live_on(env);
    return gy_disk_real.write(gy_env_real(), file, data, size_bytes);
}

static int deadly_sync(gy_env *env, int file)
{
    live_on(env);
    return gy_disk_real.sync(gy_env_real(), file);
}

/* In a child; true: it was killed, false: it ended well before. */
static bool run_deadly(const gy_flow_options *options, int left)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        gy_disk_ops disk = gy_disk_real;
        disk.write = deadly_write;
        disk.sync = deadly_sync;
        gy_env_ops ops = *gy_env_real()->ops;
        ops.disk = &disk;
        deadly_env deadly = {.env = {&ops}, .left = left};
        const gy_status status =
            gy_running_run(&deadly.env, flow, make_growing(10), options, NULL);
        _exit(status == GY_OK ? 0 : 3);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status) && WEXITSTATUS(status) != 0) {
        fail_msg("a run with %d writes failed", left);
    }
    return WIFSIGNALED(status);
}

/* What the first manager left is ended by a second one, whatever it had come to. */
static void go_on(const place *at, int left)
{
    char journal[400];
    snprintf(journal, sizeof(journal), "%s/journal", at->folder);
    gy_flow_options options = options_of(at);
    options.is_resume = access(journal, F_OK) == 0;
    char line[700], out[64];
    snprintf(line, sizeof(line), "rm -rf %s", at->output);
    if (!options.is_resume) { /* before its first record: begin again */
        assert_int_equal(gy_test_shell(line, out, sizeof(out)), 0);
    }
    gy_dag *dag = make_growing(10);
    gy_flow_report *report = NULL;
    if (gy_flow_run(flow, dag, &options, &report) != GY_OK) {
        fail_msg("after %d writes: %s", left, gy_error_text());
    }
    expect_file(at, "total-00000", "45\n");
    if (count_entries(at->output) != 2 || report->output_bytes != 3) {
        fail_msg("after %d writes: %d entries, %lld bytes", left, count_entries(at->output),
                 (long long)report->output_bytes);
    }
    assert_int_equal(gy_flow_report_counter(report, "numbers"), 10);
    assert_true(gy_flow_report_counter(report, "sums") >= 8);
    gy_flow_report_free(report);
    gy_dag_free(dag);
}

static void killed_at_every_write_a_job_still_ends_the_same(void **state)
{
    (void)state;
    int kills = 0;
    bool was_killed = true;
    for (int left = 0; was_killed && left < 400; left += (int)gy_test_cases(8) == 8 ? 1 : 5) {
        place at = make_place();
        gy_flow_options options = options_of(&at);
        was_killed = run_deadly(&options, left);
        if (was_killed) {
            go_on(&at, left);
            kills++;
        }
        remove_place(&at);
    }
    printf("killed at %d writes and syncs\n", kills);
    assert_true(kills >= 3 && !was_killed);
}

int main(int argc, char **argv)
{
    flow = gy_flow_start(&argc, &argv, functions, GY_COUNT(functions));
    if (flow == NULL) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_publishes_its_output_and_leaves_nothing_else),
        cmocka_unit_test(an_output_that_is_there_is_refused),
        cmocka_unit_test(a_failed_job_leaves_no_output_and_says_why),
        cmocka_unit_test(mistakes_are_told_before_anything_is_made),
        cmocka_unit_test(cohorts_run_together_through_fifos_and_pipes),
        cmocka_unit_test(diamonds_of_fifos_end),
        cmocka_unit_test(large_outputs_go_through_files),
        cmocka_unit_test(lost_files_are_made_again_and_counted_once),
        cmocka_unit_test(commands_are_vertices_too),
        cmocka_unit_test(a_manifest_that_came_before_is_not_touched),
        cmocka_unit_test(gangs_of_ranks_are_vertices),
        cmocka_unit_test(progress_and_trace_tell_of_the_stages),
        cmocka_unit_test(graphs_grow_by_sizes_and_grow_again),
        cmocka_unit_test(only_what_changed_runs_again),
        cmocka_unit_test(what_may_differ_is_not_remembered),
        cmocka_unit_test(a_killed_manager_is_followed_by_one_that_goes_on),
        cmocka_unit_test(killed_at_every_write_a_job_still_ends_the_same),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    gy_flow_end(flow);
    return failed;
}
