/* Goal: jobs that run again use memoised results, and continue what a killed manager left. */
#include "flow/run/run_test.h"

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
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(flow, "files", &dag));
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

static void run_over_files(const place *at, int count, const char *expected, int memoised,
                           bool is_same)
{
    gy_flow_options options = options_of(at);
    options.folder = NULL; /* a fresh one in the user's state folder, which is here */
    assert_int_equal(setenv("XDG_STATE_HOME", at->top, 1), 0);
    options.memo = at->memo;
    char line[400], out[64];
    snprintf(line, sizeof(line), "rm -rf %s", at->output);
    assert_int_equal(gy_test_shell(line, out, sizeof(out)), 0);
    gy_dag *dag = make_over_files(at, count);
    gy_job_report *report = NULL;
    assert_ok(gy_flow_run(flow, dag, &options, &report));
    expect_file(at, "sum-00000", expected);
    assert_int_equal(report->stages[0].memoised, memoised);
    assert_int_equal(report->stages[1].memoised, is_same);
    assert_int_equal(report->stages[1].attempts, !is_same);
    assert_int_equal(gy_job_report_counter(report, "sums"), count + 1); /* as if all ran */
    gy_job_report_free(report);
    gy_dag_free(dag);
}

GY_TEST(only_what_changed_runs_again)
{
    place at = make_place();
    for (int i = 0; i < 30; i++) {
        write_input(&at, i, "1\n2\n");
    }
    run_over_files(&at, 30, "90\n", 0, false);
    run_over_files(&at, 30, "90\n", 30, true); /* no task runs */
    write_input(&at, 7, "1\n2\n5\n");
    run_over_files(&at, 30, "95\n", 29, false);
    write_input(&at, 7, "1\n2\n"); /* the content counts, not the time of writing */
    run_over_files(&at, 30, "90\n", 30, true);
    int64_t freed = -1;
    assert_ok(gy_flow_collect(at.memo, 1 << 30, &freed));
    assert_int_equal(freed, 0);
    run_over_files(&at, 30, "90\n", 30, true);
    assert_status(gy_flow_collect(at.output, 0, NULL), GY_NOTFOUND);
    remove_place(&at);
}

/* A user may write into published outputs: a cached file is verified before it is used, and
 * made again when it was changed. */
GY_TEST(outputs_that_their_user_changed_are_made_again)
{
    place at = make_place();
    char path[400];
    snprintf(path, sizeof(path), "%s/sum-00000", at.output);
    for (int i = 0; i < 3; i++) {
        write_input(&at, i, "1\n2\n");
    }
    run_over_files(&at, 3, "9\n", 0, false);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    fputs("8", file);
    fclose(file);
    gy_flow_options options = options_of(&at);
    options.memo = at.memo;
    snprintf(at.output, sizeof(at.output), "%s/again", at.top);
    options.output = at.output;
    gy_dag *dag = make_over_files(&at, 3);
    gy_job_report *report = NULL;
    assert_ok(gy_flow_run(flow, dag, &options, &report));
    expect_file(&at, "sum-00000", "9\n");
    assert_int_equal(report->stages[1].attempts, 1);
    bool is_reported = false;
    for (size_t i = 0; i < report->note_count; i++) {
        is_reported = is_reported || strstr(report->notes[i].text,
                                            "was changed since it was memoised") != NULL;
    }
    assert_true(is_reported);
    gy_job_report_free(report);
    gy_dag_free(dag);
    run_over_files(&at, 3, "9\n", 3, true);
    remove_place(&at);
}

/* Results of an indeterminate vertex are not memoised; the folder stays within its quota. */
GY_TEST(what_may_differ_is_not_remembered)
{
    place at = make_place();
    for (int run = 0; run < 2; run++) {
        gy_flow_options options = options_of(&at);
        char folder[320], output[320];
        snprintf(folder, sizeof(folder), "%s-%d", at.folder, run);
        snprintf(output, sizeof(output), "%s-%d", at.output, run);
        options.folder = folder;
        options.output = output;
        options.memo = at.memo;
        options.memo_bytes_max = 150000;
        gy_dag *dag = NULL;
        assert_ok(gy_dag_new(flow, "memo", &dag));
        gy_part loose =
            gy_dag_vertex(dag, &(gy_vertex_options){.function = "number",
                                                    .determinism = GY_OUTPUT_INDETERMINATE,
                                                    .outputs = 1});
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
        gy_job_report *report = NULL;
        assert_ok(gy_flow_run(flow, dag, &options, &report));
        assert_int_equal(report->stages[0].memoised, 0);
        assert_int_equal(report->stages[1].memoised, run);
        gy_job_report_free(report);
        gy_dag_free(dag);
    }
    remove_place(&at);
}

/* ---- resume ---- */

static gy_dag *make_killed(const char *mark, int maps)
{
    gy_dag *dag = NULL;
    assert_ok(gy_dag_new(flow, "killed", &dag));
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

/* In a child process: run until the killer kills the manager. */
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

GY_TEST(a_killed_manager_is_followed_by_one_that_goes_on)
{
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
    gy_job_report *report = NULL;
    assert_ok(gy_flow_run(flow, dag, &options, &report));
    expect_file(&at, "last-00000", "0\n");
    assert_int_equal(count_entries(at.output), 2);
    /* each once, over both runs */
    assert_int_equal(gy_job_report_counter(report, "numbers"), 13);
    gy_job_report_free(report);
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

/* In a child process; true: it was killed, false: it ended in order before. */
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
            gy_flow_run_execute(&deadly.env, flow, make_growing(10), options, NULL);
        _exit(status == GY_OK ? 0 : 3);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status) && WEXITSTATUS(status) != 0) {
        fail_msg("a run with %d writes failed", left);
    }
    return WIFSIGNALED(status);
}

/* A second manager finishes what the first one left, however far that came. */
static void go_on(const place *at, int left)
{
    char journal[400];
    snprintf(journal, sizeof(journal), "%s/journal", at->folder);
    gy_flow_options options = options_of(at);
    options.is_resume = access(journal, F_OK) == 0;
    char line[700], out[64];
    snprintf(line, sizeof(line), "rm -rf %s", at->output);
    if (!options.is_resume) { /* killed before its first record: begin anew */
        assert_int_equal(gy_test_shell(line, out, sizeof(out)), 0);
    }
    gy_dag *dag = make_growing(10);
    gy_job_report *report = NULL;
    if (gy_flow_run(flow, dag, &options, &report) != GY_OK) {
        fail_msg("after %d writes: %s", left, gy_error_text());
    }
    expect_file(at, "total-00000", "90\n");
    if (count_entries(at->output) != 2 || report->output_bytes != 3) {
        fail_msg("after %d writes: %d entries, %lld bytes", left, count_entries(at->output),
                 (long long)report->output_bytes);
    }
    assert_int_equal(gy_job_report_counter(report, "numbers"), 10);
    assert_true(gy_job_report_counter(report, "sums") >= 8);
    gy_job_report_free(report);
    gy_dag_free(dag);
}

GY_TEST(killed_at_every_write_a_job_still_ends_the_same)
{
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

GY_TEST(so_it_does_behind_sandbox)
{
    assert_int_equal(setenv("GYRE_JOB_SANDBOX", "available,write=/tmp", 1), 0);
    killed_at_every_write_a_job_still_ends_the_same(state);
    assert_int_equal(unsetenv("GYRE_JOB_SANDBOX"), 0);
}

FLOW_TEST_MAIN((void)0, NULL, NULL)
