/* Goal: of managers with epochs one makes the output, whenever an older one was killed or falls
 * asleep and wakes up when all is over. */
#include "flow/run/run_test.h"

#include "persist/journal/journal.h"

/* The real disk, on which a manager stops or kills itself at one of its calls. */
typedef struct sleepy_env {
    gy_env env; /* first */
    gy_env_ops ops;
    gy_disk_ops disk;
    int left;   /* calls until then */
    int signal; /* SIGSTOP, or SIGKILL */
    bool waits_for_journal;
} sleepy_env;

static void fall_asleep(gy_env *env)
{
    sleepy_env *sleepy = (sleepy_env *)env;
    if (sleepy->left-- == 0) {
        (void)raise(sleepy->signal);
    }
}

static int sleepy_close(gy_env *env, int file)
{
    const int closed = gy_disk_real.close(env, file);
    fall_asleep(env);
    return closed;
}

static int64_t sleepy_write(gy_env *env, int file, const void *data, size_t size_bytes)
{
    fall_asleep(env);
    return gy_disk_real.write(env, file, data, size_bytes);
}

static int sleepy_sync(gy_env *env, int file)
{
    fall_asleep(env);
    return gy_disk_real.sync(env, file);
}

static int sleepy_link(gy_env *env, const char *from, const char *to)
{
    fall_asleep(env);
    return gy_disk_real.link(env, from, to);
}

/* The journal is open, and what an older one does finds no path any more: before the next
 * write.
 */
static int sleepy_open(gy_env *env, const char *path, int flags, unsigned mode)
{
    sleepy_env *sleepy = (sleepy_env *)env;
    if ((flags & O_APPEND) != 0 && sleepy->waits_for_journal) {
        sleepy->left = 0;
    }
    return gy_disk_real.open(env, path, flags, mode);
}

static int sleepy_list(gy_env *env, const char *folder, gy_disk_visit visit, void *arg)
{
    /* who waits for the journal to be open sleeps at a write, not at its output's names */
    const bool may_sleep = !((sleepy_env *)env)->waits_for_journal;
    if (may_sleep) {
        fall_asleep(env);
    }
    const int listed = gy_disk_real.list(env, folder, visit, arg);
    if (may_sleep) { /* it has seen that nobody is there */
        fall_asleep(env);
    }
    return listed;
}

static void set_epoch(int epoch)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", epoch);
    assert_int_equal(setenv("GYRE_JOB_EPOCH", text, 1), 0);
}

static gy_flow_options own_options(const place *at)
{
    gy_flow_options options = options_of(at);
    options.processes = 1;
    return options;
}

/* In a child: a manager to which that happens at that call; -1: once it has its journal. */
static pid_t start_sleepy(const place *at, int epoch, int left, int signal)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        sleepy_env sleepy = {.ops = *gy_env_real()->ops,
                             .disk = gy_disk_real,
                             .left = left,
                             .signal = signal,
                             .waits_for_journal = left < 0};
        sleepy.disk.open = sleepy_open;
        sleepy.disk.close = sleepy_close;
        sleepy.disk.write = sleepy_write;
        sleepy.disk.sync = sleepy_sync;
        sleepy.disk.link = sleepy_link;
        sleepy.disk.list = sleepy_list;
        sleepy.ops.disk = &sleepy.disk;
        sleepy.env.ops = &sleepy.ops;
        set_epoch(epoch);
        const gy_flow_options options = own_options(at);
        const gy_status status =
            gy_flow_run_execute(&sleepy.env, flow, make_sums(2, 2), &options, NULL);
        /* GY_EXISTS: it had not even begun, and finds the output made */
        _exit(status == GY_OK ? 0 : status == GY_STATE || status == GY_EXISTS ? 7 : 3);
    }
    return child;
}

/* All that the output shows: names, numbers and bytes. */
static void look_at(const place *at, char out[4096])
{
    char line[700];
    (void)snprintf(
        line, sizeof(line),
        "cd %s && ls -A && stat -c '%%n %%i %%h %%s' sum-* && cat sum-* MANIFEST.json",
        at->output);
    assert_int_equal(gy_test_shell(line, out, 4096), 0);
}

/* Which names are public. */
static void list_names(const place *at, char out[4096])
{
    char line[700];
    (void)snprintf(line, sizeof(line), "cd %s && stat -c '%%n %%i' * 2>&1", at->output);
    (void)gy_test_shell(line, out, 4096);
}

static bool has_journal(const place *at)
{
    const char *uri = getenv("GYRE_JOB_JOURNAL");
    return gy_journal_is_there(gy_env_real(), uri != NULL ? uri : at->folder);
}

/* Whoever made the manifest had counted all. */
static void expect_counters(const char *manifest)
{
    char text[1024];
    FILE *file = fopen(manifest, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    if (strstr(text, "\"numbers\": 2") == NULL || strstr(text, "\"sums\": 2") == NULL) {
        fail_msg("the manifest lacks counters: %s", text);
    }
}

/* False: nothing is left to be done. */
static bool run_next(const place *at, gy_flow_options options, int left)
{
    gy_dag *dag = make_sums(2, 2);
    char manifest[400];
    (void)snprintf(manifest, sizeof(manifest), "%s/MANIFEST.json", at->output);
    const bool was_published = access(manifest, F_OK) == 0;
    const gy_status status = gy_flow_run(flow, dag, &options, NULL);
    const bool had_ended =
        status == GY_STATE && was_published && strstr(gy_error_text(), "has ended") != NULL;
    if (status != GY_OK && !had_ended) {
        fail_msg("after call %d, the next one: %s", left, gy_error_text());
    }
    gy_dag_free(dag);
    expect_counters(manifest);
    expect_file(at, "sum-00000", "1\n");
    expect_file(at, "sum-00001", "1\n");
    if (!had_ended && (count_entries(at->output) != 3 || has_journal(at))) {
        fail_msg("after call %d: %d entries%s", left, count_entries(at->output),
                 has_journal(at) ? ", and a journal" : "");
    }
    return !had_ended;
}

/* While the next epoch makes the output the first one sleeps. True: it slept. */
static bool wake_up_late(int left)
{
    place at = make_place();
    static char before[4096], after[4096];
    int status = 0;
    const pid_t child = start_sleepy(&at, 1, left, SIGSTOP);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    const bool has_slept = WIFSTOPPED(status);
    bool is_made = false;
    if (has_slept) {
        set_epoch(2);
        is_made = run_next(&at, own_options(&at), left);
        look_at(&at, before);
        assert_int_equal(kill(child, SIGCONT), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    look_at(&at, after);
    if (is_made && strcmp(before, after) != 0) {
        fail_msg("asleep at call %d it changed the output:\n%s\nwas:\n%s", left, after, before);
    }
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 7) {
        fail_msg("asleep at call %d it ended with %d", left, WEXITSTATUS(status));
    }
    assert_int_equal(count_entries(at.output), 3);
    if (getenv("KEEP") == NULL)
        remove_place(&at);
    return has_slept;
}

GY_TEST(who_wakes_up_late_changes_nothing)
{
    int calls = 0;
    const int step = gy_test_cases(8) >= 8 ? 4 : 9;
    while (wake_up_late(calls) && calls < 400) {
        calls += step;
    }
    printf("%d calls, each %dth\n", calls, step);
    assert_in_range(calls, 20, 399);
    assert_int_equal(unsetenv("GYRE_JOB_EPOCH"), 0);
}

/* As wake_up_late, but the next one has not got further than its claim. True: both slept. */
static bool wake_up_between(int left)
{
    place at = make_place();
    static char before[4096], after[4096];
    int first_status = 0, next_status = 0;
    const pid_t first = start_sleepy(&at, 1, left, SIGSTOP);
    assert_int_equal(waitpid(first, &first_status, WUNTRACED), first);
    const pid_t next = start_sleepy(&at, 2, -1, SIGSTOP);
    assert_int_equal(waitpid(next, &next_status, WUNTRACED), next);
    const bool both_sleep = WIFSTOPPED(first_status) && WIFSTOPPED(next_status);
    list_names(&at, before);
    if (WIFSTOPPED(first_status)) {
        assert_int_equal(kill(first, SIGCONT), 0);
        assert_int_equal(waitpid(first, &first_status, 0), first);
    }
    list_names(&at, after);
    if (both_sleep && strcmp(before, after) != 0) {
        fail_msg("asleep at call %d it changed the output:\n%s\nwas:\n%s", left, after, before);
    }
    if (WIFSTOPPED(next_status)) {
        assert_int_equal(kill(next, SIGCONT), 0);
        assert_int_equal(waitpid(next, &next_status, 0), next);
    }
    if (both_sleep && (WEXITSTATUS(first_status) != 7 || WEXITSTATUS(next_status) != 0)) {
        fail_msg("asleep at call %d: ended with %d, the next one with %d", left,
                 WEXITSTATUS(first_status), WEXITSTATUS(next_status));
    }
    assert_int_equal(count_entries(at.output), 3);
    expect_file(&at, "sum-00000", "1\n");
    remove_place(&at);
    return both_sleep;
}

GY_TEST(who_wakes_up_between_changes_nothing)
{
    int both = 0;
    const int step = gy_test_cases(8) >= 8 ? 2 : 4;
    for (int left = 0; left < 40; left += left < 25 ? 25 : step) { /* from the first SAVE on */
        both += wake_up_between(left);
    }
    printf("%d times\n", both);
    assert_true(both >= 2);
    assert_int_equal(unsetenv("GYRE_JOB_EPOCH"), 0);
}

/* The next one has an epoch, or is somebody locally who resumes the job. */
GY_TEST(a_killed_one_is_followed)
{
    int kills = 0;
    const int step = gy_test_cases(8) >= 8 ? 9 : 17;
    bool was_killed = true;
    for (int left = 0; was_killed && left < 400; left += step) {
        place at = make_place();
        int status = 0;
        char uri[300];
        (void)snprintf(uri, sizeof(uri), "file:%s", at.top);
        if (kills % 3 == 1) {
            assert_int_equal(setenv("GYRE_JOB_JOURNAL", uri, 1), 0);
        }
        const pid_t child = start_sleepy(&at, 1, left, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        was_killed = WIFSIGNALED(status);
        char inside[400];
        (void)snprintf(inside, sizeof(inside), "%s/journal.1", at.folder);
        assert_true(kills % 3 != 1 || access(inside, F_OK) != 0);
        gy_flow_options options = own_options(&at);
        options.is_resume = kills % 2 == 0 && has_journal(&at);
        set_epoch(2);
        if (options.is_resume) {
            assert_int_equal(unsetenv("GYRE_JOB_EPOCH"), 0);
        }
        if (was_killed) {
            kills += run_next(&at, options, left);
        }
        assert_int_equal(unsetenv("GYRE_JOB_JOURNAL"), 0);
        remove_place(&at);
    }
    printf("killed %d times\n", kills);
    assert_true(kills >= 3 && !was_killed);
    assert_int_equal(unsetenv("GYRE_JOB_EPOCH"), 0);
}

/* The output's names do not come. */
static char unread[300];

static int unread_list(gy_env *env, const char *of, gy_disk_visit visit, void *arg)
{
    return strcmp(of, unread) == 0 ? -EIO : gy_disk_real.list(env, of, visit, arg);
}

/* Whoever has something there keeps it. */
GY_TEST(an_output_that_cannot_be_read_is_not_an_empty_one)
{
    place at = make_place();
    gy_disk_ops disk = gy_disk_real;
    gy_env_ops ops = *gy_env_real()->ops;
    gy_env env = {&ops};
    disk.list = unread_list;
    ops.disk = &disk;
    (void)snprintf(unread, sizeof(unread), "%s", at.output);
    const gy_flow_options options = own_options(&at);
    gy_dag *dag = make_sums(1, 1);
    assert_status(gy_flow_run_execute(&env, flow, dag, &options, NULL), GY_IO);
    assert_non_null(strstr(gy_error_text(), "cannot list"));
    gy_dag_free(dag);
    remove_place(&at);
}

GY_TEST(a_wrong_epoch_is_refused)
{
    static const char *const wrong[] = {"0", "-1", "two", "7x", "99999999999999999999"};
    place at = make_place();
    gy_flow_options options = own_options(&at);
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        assert_int_equal(setenv("GYRE_JOB_EPOCH", wrong[i], 1), 0);
        gy_dag *dag = make_sums(1, 1);
        assert_status(gy_flow_run(flow, dag, &options, NULL), GY_ARG);
        assert_non_null(strstr(gy_error_text(), wrong[i]));
        gy_dag_free(dag);
    }
    assert_int_equal(unsetenv("GYRE_JOB_EPOCH"), 0);
    if (getenv("KEEP") == NULL)
        remove_place(&at);
}

FLOW_TEST_MAIN((void)0, NULL, NULL)
