/* Jobs from end to end, in processes of this same program: outputs, failures, cohorts,
 * commands, growth. */
#include "flow/run/run_test.h"

/* ---- tests ---- */

GY_TEST(a_job_publishes_its_output_and_leaves_nothing_else)
{
    place at = make_place();
    gy_flow_options options = options_of(&at);
    gy_dag *dag = make_sums(20, 3);
    gy_job_report *report = NULL;
    assert_ok(gy_flow_run(flow, dag, &options, &report));
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof(name), "sum-%05d", i);
        expect_file(&at, name, "190\n");
    }
    assert_int_equal(count_entries(at.output), 4); /* and MANIFEST.json */
    assert_int_equal(gy_job_report_counter(report, "numbers"), 20);
    assert_int_equal(gy_job_report_counter(report, "sums"), 3);
    assert_int_equal(gy_job_report_counter(report, "none"), 0);
    assert_int_equal(report->stage_count, 2);
    assert_string_equal(report->stages[0].name, "number");
    assert_int_equal(report->stages[0].tasks, 20);
    assert_int_equal(report->stages[0].committed, 20);
    assert_int_equal(report->output_bytes, 12);
    gy_job_report_free(report);
    assert_status(gy_flow_run(flow, dag, &options, NULL), GY_STATE); /* a graph runs once */
    gy_dag_free(dag);
    char path[400];
    snprintf(path, sizeof(path), "%s/data", at.folder);
    assert_int_equal(count_entries(path), -1);
    remove_place(&at);
}

GY_TEST(an_output_that_is_there_is_refused)
{
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
    assert_int_equal(count_entries(at.folder), -1); /* nothing leads to it */
    remove_place(&at);
}

GY_TEST(a_failed_job_leaves_no_output_and_says_why)
{
    place at = make_place();
    gy_flow_options options = options_of(&at);
    options.failures_max = 2;
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(flow, "refused", &dag));
    gy_part map = vertices(dag, "number", 0, 1, 3);
    gy_part_output(map, "number");
    gy_part_output(vertices(dag, "refuse", 0, 1, 1), "refused");
    gy_job_report *report = NULL;
    assert_true(gy_flow_run(flow, dag, &options, &report) < 0);
    assert_non_null(strstr(gy_error_text(), "does not want"));
    assert_int_equal(count_entries(at.output), -1);
    assert_true(report->stages[1].failures >= 2);
    assert_true(report->note_count > 0);
    gy_job_report_free(report);
    gy_dag_free(dag);
    remove_place(&at);
}

GY_TEST(errors_are_told_before_anything_is_made)
{
    place at = make_place();
    gy_flow_options options = options_of(&at);
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(flow, "error", &dag));
    (void)vertices(dag, "number", 0, 1, 3);
    assert_status(gy_flow_run(flow, dag, &options, NULL), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "output 0 of number[0] goes nowhere"));
    gy_dag_free(dag);
    assert_ok(gy_dag_new(flow, "error", &dag));
    (void)vertices(dag, "nonesuch", 0, 0, 1);
    assert_status(gy_flow_run(flow, dag, &options, NULL), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "function nonesuch"));
    gy_dag_free(dag);
    assert_ok(gy_dag_new(flow, "error", &dag));
    (void)gy_dag_vertex(
        dag, &(gy_vertex_options){.function = "number",
                                  .files = (const char *[]){"/nonexistent/file", NULL}});
    assert_status(gy_flow_run(flow, dag, &options, NULL), GY_NOTFOUND);
    assert_non_null(strstr(gy_error_text(), "number[0]"));
    gy_dag_free(dag);
    options.memory_bytes = 5;
    dag = make_sums(2, 1);
    assert_status(gy_flow_run(flow, dag, &options, NULL), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "memory_bytes of 5: expected at least 8388608"));
    gy_dag_free(dag);
    assert_int_equal(count_entries(at.output), -1);
    remove_place(&at);
}

/* A graph of parts of a file is of the version that it was planned with. */
GY_TEST(an_input_is_of_the_version_that_was_looked_at)
{
    char path[300], part[320], other[320];
    for (int i = 0; i < 2; i++) { /* the next job is of what is there then */
        place at = make_place();
        uint64_t size = 0;
        snprintf(path, sizeof(path), "%s/input", at.top);
        snprintf(part, sizeof(part), "%s:0:4", path);
        snprintf(other, sizeof(other), "%s.new", path);
        gy_flow_options options = options_of(&at);
        assert_ok(gy_save_file(path, i == 0 ? "1\n2\n" : "3\n4\n", 4));
        assert_ok(gy_flow_input(path, &size));
        assert_int_equal(size, 4);
        if (i == 0) {
            assert_ok(gy_save_file(other, "5\n6\n7\n", 6));
            assert_int_equal(rename(other, path), 0);
        }
        gy_dag *dag = NULL;
        assert_ok(gy_dag_new(flow, "version", &dag));
        gy_part_output(
            gy_dag_vertex(dag, &(gy_vertex_options){.function = "copy",
                                                    .outputs = 1,
                                                    .files = (const char *[]){part, NULL}}),
            "copy");
        const gy_status status = gy_flow_run(flow, dag, &options, NULL);
        assert_int_equal(status < 0, i == 0);
        if (i == 0) {
            assert_non_null(strstr(gy_error_text(), "/input changed while it was read"));
        } else {
            expect_file(&at, "copy-00000", "3\n4\n");
        }
        gy_dag_free(dag);
        remove_place(&at);
    }
}

GY_TEST(cohorts_run_together_through_fifos_and_pipes)
{
    for (gy_channel channel = GY_CHANNEL_PIPE; channel <= GY_CHANNEL_FIFO; channel++) {
        place at = make_place();
        gy_flow_options options = options_of(&at);
        options.processes = 3;
        const int64_t lines = 400000;
        gy_dag *dag = NULL;
        assert_ok(gy_dag_new(flow, "cohorts", &dag));
        gy_part source =
            gy_dag_vertex(dag, &(gy_vertex_options){.function = "flood",
                                                    .parameter = &lines,
                                                    .parameter_bytes = sizeof(lines),
                                                    .outputs = 1});
        gy_part chain = gy_part_pointwise(source, vertices(dag, "copy", 1, 1, 1), channel);
        chain = gy_part_pointwise(chain, vertices(dag, "sum", 1, 1, 1), channel);
        gy_part_output(gy_part_clone(chain, 2), "sum");
        gy_job_report *report = NULL;
        assert_ok(gy_flow_run(flow, dag, &options, &report));
        expect_file(&at, "sum-00000", "2800000\n");
        expect_file(&at, "sum-00001", "2800000\n");
        assert_int_equal(report->stages[0].tasks, 2); /* a cohort is one of each stage */
        assert_int_equal(report->stages[1].tasks, 2);
        gy_job_report_free(report);
        gy_dag_free(dag);
        remove_place(&at);
    }
}

/* A diamond of two paths with a different number of bytes each, joined in one vertex. */
GY_TEST(diamonds_of_fifos_end)
{
    place at = make_place();
    gy_flow_options options = options_of(&at);
    options.processes = 4;
    const int64_t many = 300000;
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(flow, "diamond", &dag));
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

GY_TEST(small_jobs_and_few_processes_do)
{
    place at = make_place();
    gy_flow_options options = options_of(&at);
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(flow, "empty", &dag));
    assert_ok(gy_flow_run(flow, dag, &options, NULL)); /* a manifest of nothing */
    assert_int_equal(count_entries(at.output), 1);
    gy_dag_free(dag);
    remove_place(&at);
    at = make_place();
    options = options_of(&at);
    options.processes = 1; /* the FIFO becomes a file, which a note says */
    options.threads = 3;
    assert_ok(gy_dag_new(flow, "one process", &dag));
    gy_part pair = gy_part_pointwise(vertices(dag, "number", 0, 1, 1),
                                     vertices(dag, "sum", 1, 1, 1), GY_CHANNEL_FIFO);
    gy_part_output(gy_part_clone(pair, 20), "sum");
    gy_job_report *report = NULL;
    assert_ok(gy_flow_run(flow, dag, &options, &report));
    expect_file(&at, "sum-00019", "19\n");
    assert_true(report->note_count >= 1);
    assert_non_null(strstr(report->notes[0].text, "20 pipes or FIFOs became files"));
    gy_job_report_free(report);
    gy_dag_free(dag);
    remove_place(&at);
}

GY_TEST(a_deadline_ends_a_job)
{
    place at = make_place();
    gy_flow_options options = options_of(&at);
    options.timeout_s = 0.3;
    char never[300];
    snprintf(never, sizeof(never), "%s/never", at.top);
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(flow, "late", &dag));
    gy_part_output(gy_dag_vertex(dag, &(gy_vertex_options){.function = "wait",
                                                           .parameter = never,
                                                           .parameter_bytes = sizeof(never),
                                                           .outputs = 1}),
                   "number");
    assert_status(gy_flow_run(flow, dag, &options, NULL), GY_TIMEOUT);
    assert_int_equal(count_entries(at.output), -1);
    gy_dag_free(dag);
    remove_place(&at);
}

GY_TEST(large_outputs_go_through_files)
{
    place at = make_place();
    gy_flow_options options = options_of(&at);
    const int64_t lines = 100000;
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(flow, "files", &dag));
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

GY_TEST(lost_files_are_made_again_and_counted_once)
{
    place at = make_place();
    gy_flow_options options = options_of(&at);
    const int64_t lines = 50000;
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(flow, "lost", &dag));
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
    gy_job_report *report = NULL;
    assert_ok(gy_flow_run(flow, dag, &options, &report));
    expect_file(&at, "sum-00000", "350000\n");
    assert_int_equal(gy_job_report_counter(report, "numbers"), 1);
    assert_int_equal(gy_job_report_counter(report, "sums"), 1);
    assert_int_equal(report->bytes, 100000 + 100000 + 2 + 7);
    bool is_noted = false;
    for (size_t i = 0; i < report->note_count; i++) {
        is_noted = is_noted || strncmp(report->notes[i].text, "copy[0]: lost", 13) == 0;
    }
    assert_true(is_noted);
    gy_job_report_free(report);
    gy_dag_free(dag);
    remove_place(&at);
}

GY_TEST(commands_are_vertices_too)
{
    place at = make_place();
    gy_flow_options options = options_of(&at);
    char side[300];
    snprintf(side, sizeof(side), "%s/script.sed", at.top);
    FILE *file = fopen(side, "w");
    fputs("s/7/5/\n", file);
    fclose(file);
    const int64_t lines = 10000;
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(flow, "command", &dag));
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
    gy_job_report *report = NULL;
    assert_ok(gy_flow_run(flow, dag, &options, &report));
    expect_file(&at, "sum-00000", "50000\n");
    for (int i = 0; i < 3; i++) { /* the first two are one task, of both stages */
        assert_int_equal(report->stages[i].tasks, 1);
        assert_int_equal(report->stages[i].committed, 1);
        assert_int_equal(report->stages[i].bytes, i < 2 ? 20000 : 6);
    }
    assert_int_equal(report->stages[0].attempts, 1);
    gy_job_report_free(report);
    gy_dag_free(dag);
    remove_place(&at);
}

static void keep_last(void *arg, const gy_job_report *report)
{
    *(gy_job_stage *)arg = report->stages[0];
}

/* Notes say what they are about, the last picture is the job as it ended. */
GY_TEST(notes_and_the_last_picture_are_whole)
{
    place at = make_place();
    gy_flow_options options = options_of(&at);
    gy_job_stage last = {0};
    options.failures_max = 2;
    options.progress = keep_last;
    options.progress_arg = &last;
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(flow, "refused", &dag));
    gy_part_output(vertices(dag, "refuse", 0, 1, 1), "refused");
    gy_job_report *report = NULL;
    assert_status(gy_flow_run(flow, dag, &options, &report), GY_STATE);
    assert_true(report->note_count == 2);
    for (size_t i = 0; i < report->note_count; i++) {
        assert_string_equal(report->notes[i].text, "refuse[0]: vertex 0 does not want");
    }
    assert_int_equal(last.failures, 2);
    assert_int_equal(last.attempts, 2);
    gy_job_report_free(report);
    gy_dag_free(dag);
    remove_place(&at);
}

GY_TEST(a_trace_that_cannot_be_written_is_told_first)
{
    place at = make_place();
    gy_flow_options options = options_of(&at);
    options.trace = at.top;
    gy_dag *dag = make_sums(2, 1);
    assert_status(gy_flow_run(flow, dag, &options, NULL), GY_IO);
    assert_non_null(strstr(gy_error_text(), at.top));
    assert_int_equal(count_entries(at.output), -1);
    assert_int_equal(count_entries(at.folder), -1);
    gy_dag_free(dag);
    remove_place(&at);
}

static int unread_list(gy_env *env, const char *folder, gy_disk_visit visit, void *arg)
{
    const int ended = gy_disk_real.list(env, folder, visit, arg);
    const char *name = strrchr(folder, '/');
    return ended == 0 && name != NULL && strcmp(name, "/trace") == 0 ? -EIO : ended;
}

GY_TEST(a_trace_that_lacks_processes_is_not_written)
{
    place at = make_place();
    gy_flow_options options = options_of(&at);
    gy_disk_ops disk = gy_disk_real;
    gy_env_ops ops = *gy_env_real()->ops;
    gy_env env = {&ops};
    char trace[300], line[400], text[256];
    disk.list = unread_list;
    ops.disk = &disk;
    snprintf(trace, sizeof(trace), "%s/trace.json", at.top);
    options.trace = trace;
    gy_dag *dag = make_sums(2, 1);
    assert_ok(gy_flow_run_execute(&env, flow, dag, &options, NULL)); /* its job stands */
    gy_dag_free(dag);
    snprintf(line, sizeof(line), "cat '%s'", trace);
    assert_int_equal(gy_test_shell(line, text, sizeof(text)), 0);
    assert_string_equal(text, "{\"traceEvents\":[]}\n");
    remove_place(&at);
}

static void make_file(void *arg, const gy_job_report *report)
{
    if (report->stages[0].running == 1) {
        const int file = open(arg, O_CREAT | O_WRONLY, 0600);
        (void)(file >= 0 && close(file));
    }
}

GY_TEST(progress_and_trace_tell_of_the_stages)
{
    place at = make_place();
    gy_flow_options options = options_of(&at);
    char path[300], trace[300], text[4096];
    snprintf(path, sizeof(path), "%s/go", at.top);
    snprintf(trace, sizeof(trace), "%s/trace.json", at.top);
    options.progress = make_file;
    options.progress_arg = path;
    options.trace = trace;
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(flow, "progress", &dag));
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

GY_TEST(a_manifest_that_came_before_is_not_touched)
{
    place at = make_place();
    gy_flow_options options = options_of(&at);
    char path[400];
    snprintf(path, sizeof(path), "%s/MANIFEST.json", at.output);
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(flow, "intruder", &dag));
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

/* It had saved its output, which it took away again: who resumes it makes that once more. */
GY_TEST(what_was_not_published_is_resumed)
{
    place at = make_place();
    gy_flow_options options = options_of(&at);
    char paths[2][400];
    memset(paths, 0, sizeof(paths));
    snprintf(paths[0], sizeof(paths[0]), "%s/MANIFEST.json", at.output);
    snprintf(paths[1], sizeof(paths[1]), "%s/once", at.top);
    for (int life = 0; life < 2; life++) {
        gy_dag *dag = NULL;
        assert_ok(gy_dag_new(flow, "late", &dag));
        gy_part_output(gy_dag_vertex(dag, &(gy_vertex_options){.function = "intrude_once",
                                                               .parameter = paths,
                                                               .parameter_bytes = sizeof(paths),
                                                               .outputs = 1}),
                       "number");
        assert_status(gy_flow_run(flow, dag, &options, NULL), life == 0 ? GY_EXISTS : GY_OK);
        gy_dag_free(dag);
        if (life == 0) {
            assert_int_equal(count_entries(at.output), 1); /* the other's */
            assert_int_equal(unlink(paths[0]), 0);
        }
        options.is_resume = true;
    }
    assert_int_equal(count_entries(at.output), 2);
    expect_file(&at, "number-00000", "0\n");
    remove_place(&at);
}

GY_TEST(gangs_of_ranks_are_vertices)
{
    place at = make_place();
    gy_flow_options options = options_of(&at);
    char script[400], out[64], line[500];
    snprintf(script, sizeof(script), "echo $GYRE_RANK of $GYRE_SIZE > %s/rank-$GYRE_RANK",
             at.top);
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(flow, "gang", &dag));
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

/* The same jobs, bytes and ends in a sandbox; their functions write what they did beside. */
GY_TEST(all_goes_on_behind_sandbox)
{
    char sandbox[1024] = "available,write=/tmp";
    const char *of_tool = getenv("TSAN_OPTIONS");
    const char *list = of_tool != NULL ? strstr(of_tool, "suppressions=") : NULL;
    if (list != NULL) { /* the race detector reads it when a gang starts the program anew */
        list += strlen("suppressions=");
        snprintf(sandbox, sizeof(sandbox), "available,write=/tmp,read=%.*s",
                 (int)strcspn(list, ": "), list);
    }
    assert_int_equal(setenv("GYRE_JOB_SANDBOX", sandbox, 1), 0);
    a_job_publishes_its_output_and_leaves_nothing_else(state);
    cohorts_run_together_through_fifos_and_pipes(state);
    diamonds_of_fifos_end(state);
    large_outputs_go_through_files(state);
    commands_are_vertices_too(state);
    gangs_of_ranks_are_vertices(state);
    assert_int_equal(unsetenv("GYRE_JOB_SANDBOX"), 0);
}

/* ---- growth ---- */

static void grow_nothing(gy_refinement *refinement, gy_dag *dag, gy_part outputs)
{
    (void)dag, (void)outputs;
    GY_ASSERT(gy_refinement_outputs(refinement) == 4 &&
              gy_refinement_bytes(refinement, 3) == 2);
}

static void grow_wrongly(gy_refinement *refinement, gy_dag *dag, gy_part outputs)
{
    (void)refinement;
    (void)gy_part_pointwise(outputs, vertices(dag, "sum", 3, 1, 1), GY_CHANNEL_FILE);
}

GY_TEST(growth_may_be_nothing_and_errors_of_it_are_named)
{
    const gy_refine_work works[] = {grow_nothing, grow_wrongly};
    for (int i = 0; i < 2; i++) {
        place at = make_place();
        gy_flow_options options = options_of(&at);
        gy_dag *dag = NULL;
        assert_ok(gy_dag_new(flow, "growth", &dag));
        gy_part_refine(
            vertices(dag, "number", 0, 1, 4),
            &(gy_refine_options){.work = works[i], .stages = (const char *[]){"sum", NULL}});
        assert_status(gy_flow_run(flow, dag, &options, NULL), i == 0 ? GY_OK : GY_ARG);
        if (i == 1) {
            assert_non_null(strstr(gy_error_text(), "input 0 of sum[0] has two edges"));
        }
        assert_int_equal(count_entries(at.output), i == 0 ? 1 : -1);
        gy_dag_free(dag);
        remove_place(&at);
    }
}

GY_TEST(graphs_grow_by_sizes_and_grow_again)
{
    place at = make_place();
    gy_flow_options options = options_of(&at);
    gy_dag *dag = make_growing(10); /* 2 bytes each: two a sum, then a tree of 10 */
    gy_job_report *report = NULL;
    assert_ok(gy_flow_run(flow, dag, &options, &report));
    expect_file(&at, "total-00000", "90\n");
    assert_int_equal(report->stages[1].tasks, 10);
    assert_true(report->stages[2].tasks >= 3);
    gy_job_report_free(report);
    gy_dag_free(dag);
    remove_place(&at);
}

FLOW_TEST_MAIN((void)0, NULL, NULL)
