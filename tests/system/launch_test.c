/*
 * Goal: a run of real processes ends as it should, whatever ends it: every status and message,
 * and nothing left behind. This program is also the ranks: with an argument it plays that part.
 */
#include "base/base.h"
#include "launch_kit.h"
#include "transport/transport.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gy_test.h"

/* ---- Parts of a rank ---- */

static char own_path[4096];

static gy_transport *join(void)
{
    gy_transport *transport = NULL;
    if (gy_transport_open_from_environment(gy_env_real(), &transport) != GY_OK ||
        gy_transport_meet(transport, gy_deadline_after(60)) != GY_OK) {
        fprintf(stderr, "cannot join: %s\n", gy_error_text());
        _exit(99);
    }
    return transport;
}

/* The inode of the segment, so that the test can look for it later. */
static unsigned long long segment_inode(void)
{
    char line[1024];
    unsigned long long inode = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        if (strstr(line, "memfd:gyre-segment") != NULL) {
            sscanf(line, "%*s %*s %*s %*s %llu", &inode);
        }
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return inode;
}

/* A message round the ring, counted. */
static int part_ring(void)
{
    gy_transport *transport = join();
    int size = transport->size, rank = transport->rank, token = 0;
    gy_transfer send, receive;
    if (gy_transport_recv(transport, (rank + size - 1) % size, 1, &token, sizeof(token),
                          &receive) != GY_OK) {
        return 98;
    }
    int first = 1;
    if (rank == 0 && gy_transport_send(transport, (rank + 1) % size, 1, &first, sizeof(int),
                                       &send) != GY_OK) {
        return 97;
    }
    if (gy_transport_finish(transport, &receive, gy_deadline_after(60)) != GY_OK) {
        fprintf(stderr, "%s\n", gy_error_text());
        return 96;
    }
    int next = token + 1;
    if (rank != 0 && (gy_transport_send(transport, (rank + 1) % size, 1, &next, sizeof(int),
                                        &send) != GY_OK ||
                      gy_transport_finish(transport, &send, gy_deadline_after(60)) != GY_OK)) {
        return 95;
    }
    gy_test_say("rank %d of %d got %d\n", rank, size, token);
    gy_transport_close(transport);
    return 0;
}

/* Rank 1 fails in the way `how`; the others wait for it for ever. */
static int part_fail(const char *how)
{
    gy_transport *transport = join();
    if (transport->rank == 1) {
        if (strcmp(how, "status") == 0) {
            fprintf(stderr, "first words\nlast words\n");
            return 3;
        }
        if (strcmp(how, "report") == 0) {
            gy_run_report_failure(gy_fail(GY_MISMATCH, "collective 17 differs"));
            return 1;
        }
        if (strcmp(how, "killed") == 0) {
            raise(SIGKILL);
        }
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    char byte;
    gy_transfer never;
    if (gy_transport_recv(transport, 1, 1, &byte, 1, &never) != GY_OK) {
        return 98;
    }
    gy_status status = gy_transport_finish(transport, &never, GY_NEVER);
    gy_run_report_failure(status);
    return 44;
}

/* Say where the memory is, start a child that hides in a session of its own, and stay. */
static int part_stay(bool is_stubborn)
{
    gy_transport *transport = join();
    if (is_stubborn) {
        signal(SIGTERM, SIG_IGN);
    }
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            signal(SIGTERM, SIG_IGN);
            signal(SIGHUP, SIG_IGN);
            gy_test_say("ready %llu\n", segment_inode());
            for (;;) {
                pause();
            }
        }
        _exit(0);
    }
    (void)transport;
    for (;;) {
        pause();
    }
}

/* Only wait; SIGPIPE is as the user had it. */
static int part_quiet(void)
{
    struct sigaction pipe_action;
    gy_transport *transport = join();
    if (sigaction(SIGPIPE, NULL, &pipe_action) != 0 || pipe_action.sa_handler != SIG_DFL) {
        return 93;
    }
    gy_test_say("ready %llu rank %d\n", segment_inode(), transport->rank);
    for (;;) {
        pause();
    }
}

/* Leave a process behind that is in the launcher's group. */
static int part_join(void)
{
    const char *group = getenv("GYRE_TEST_GROUP");
    pid_t child = fork();
    if (child == 0) {
        for (;;) {
            pause();
        }
    }
    return group != NULL && setpgid(child, (pid_t)strtol(group, NULL, 10)) == 0 ? 0 : 92;
}

/* Is the process stopped, by its line in /proc? */
static bool is_stopped(pid_t process)
{
    char path[64], line[512] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        (void)!fgets(line, sizeof(line), file);
        fclose(file);
    }
    const char *name_end = strrchr(line, ')');
    return name_end != NULL && name_end[2] == 'T';
}

/* Rank 1 ends; rank 0 is stopped then, for ever or until a child of its own goes on with it. */
static int part_stop(bool goes_on)
{
    gy_transport *transport = join();
    const pid_t own = getpid();
    gy_transport_close(transport);
    if (strcmp(getenv("GYRE_RANK"), "1") == 0) {
        return 0;
    }
    if (goes_on && fork() == 0) {
        while (!is_stopped(own)) {
            sched_yield();
        }
        (void)gy_env_poll(gy_env_real(), gy_deadline_after(0.3));
        kill(own, SIGCONT);
        _exit(0);
    }
    return raise(SIGSTOP);
}

static int part_cores(void)
{
    cpu_set_t cores;
    const char *named = getenv("GYRE_CORES"), *ranks = getenv("GYRE_RANKS_ON_HOST");
    if (sched_getaffinity(0, sizeof(cores), &cores) != 0 || ranks == NULL) {
        return 98;
    }
    gy_test_say("cores %d named %s of %s extra %s\n", CPU_COUNT(&cores),
                named != NULL ? named : "none", ranks,
                getenv("GYRE_TEST_EXTRA") != NULL ? getenv("GYRE_TEST_EXTRA") : "none");
    return 0;
}

static int part_echo(void)
{
    char text[64];
    ssize_t size = read(STDIN_FILENO, text, sizeof(text) - 1);
    text[size > 0 ? size : 0] = '\0';
    gy_test_say("input (%s)\n", text);
    return 0;
}

/* Many lines in pieces, from all ranks at once. */
static int part_lines(void)
{
    const char *rank = getenv("GYRE_RANK");
    for (int i = 0; i < 200; i++) {
        gy_test_say("line ");
        sched_yield();
        gy_test_say("%d from %s\n", i, rank);
    }
    gy_test_say("no newline");
    return 0;
}

static int play(const char *part, const char *how)
{
    return strcmp(part, "ring") == 0       ? part_ring()
           : strcmp(part, "fail") == 0     ? part_fail(how)
           : strcmp(part, "stay") == 0     ? part_stay(false)
           : strcmp(part, "stubborn") == 0 ? part_stay(true)
           : strcmp(part, "quiet") == 0    ? part_quiet()
           : strcmp(part, "join") == 0     ? part_join()
           : strcmp(part, "stop") == 0     ? part_stop(strcmp(how, "shortly") == 0)
           : strcmp(part, "cores") == 0    ? part_cores()
           : strcmp(part, "echo") == 0     ? part_echo()
           : strcmp(part, "lines") == 0    ? part_lines()
                                           : 94;
}

/* ---- The test's side ---- */

typedef struct test_run {
    pid_t launcher;
    int output; /* of the launcher and of all that it starts: ends when all are gone */
    char mark[64];
    char text[1 << 16];
    size_t size_bytes;
} test_run;

static int64_t fail_allocation; /* of the launcher, counted from its start; 0: none */

static void start(test_run *run, gy_run_options options, const char *program, const char *part,
                  const char *how)
{
    static int count;
    int pair[2];
    memset(run, 0, sizeof(*run));
    snprintf(run->mark, sizeof(run->mark), "GYRE_TEST_MARK=%d.%d", (int)getpid(), count++);
    assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
    fflush(NULL);
    run->launcher = fork();
    assert_true(run->launcher >= 0);
    if (run->launcher == 0) {
        dup2(pair[1], STDOUT_FILENO);
        dup2(pair[1], STDERR_FILENO);
        setpgid(0, 0);
        signal(SIGSEGV, SIG_DFL); /* the test's handler would hide the end of a keeper */
        char group[64];
        snprintf(group, sizeof(group), "GYRE_TEST_GROUP=%d", (int)getpid());
        const char *more[] = {run->mark, group, "GYRE_TEST_EXTRA=yes", NULL};
        options.environment = more;
        char words[3][4096];
        snprintf(words[0], sizeof(words[0]), "%s", program);
        snprintf(words[1], sizeof(words[1]), "%s", part);
        snprintf(words[2], sizeof(words[2]), "%s", how);
        char *argv[] = {words[0], words[1], words[2], NULL};
        gy_alloc_fail_after(fail_allocation);
        _exit(launch_run(&options, argv));
    }
    close(pair[1]);
    run->output = pair[0];
}

/* Read until `wanted` lines hold `word`, or (NULL) until the end. False: not within a minute.
 */
static bool read_until(test_run *run, const char *word, int wanted)
{
    int64_t deadline_ns = gy_deadline_after(60).at_ns;
    for (;;) {
        int found = 0;
        for (const char *at = run->text; word != NULL && (at = strstr(at, word)) != NULL;
             at++) {
            found++;
        }
        if (word != NULL && found >= wanted) {
            return true;
        }
        struct pollfd look = {.fd = run->output, .events = POLLIN};
        int64_t left_ms = (deadline_ns - gy_now_ns(gy_env_real())) / 1000000;
        if (left_ms <= 0 || poll(&look, 1, (int)left_ms) <= 0) {
            return false;
        }
        assert_true(run->size_bytes + 1 < sizeof(run->text));
        ssize_t size = read(run->output, run->text + run->size_bytes,
                            sizeof(run->text) - 1 - run->size_bytes);
        if (size <= 0) {
            return word == NULL;
        }
        run->size_bytes += (size_t)size;
        run->text[run->size_bytes] = '\0';
    }
}

/* How many files /proc/N/`name` of all processes hold `word`. */
static int count_processes(const char *name, const char *word)
{
    DIR *processes = opendir("/proc");
    int found = 0;
    assert_non_null(processes);
    for (struct dirent *entry = readdir(processes); entry != NULL; entry = readdir(processes)) {
        char path[300];
        static char text[1 << 18];
        snprintf(path, sizeof(path), "/proc/%s/%s", entry->d_name, name);
        FILE *file =
            entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? fopen(path, "r") : NULL;
        if (file == NULL) {
            continue;
        }
        size_t size = fread(text, 1, sizeof(text), file);
        fclose(file);
        found += memmem(text, size, word, strlen(word)) != NULL ? 1 : 0;
    }
    closedir(processes);
    return found;
}

/* Everything is over: the output has ended, nobody carries the mark, nobody maps the segment.
 */
static void assert_nothing_left(test_run *run)
{
    if (!read_until(run, NULL, 0)) {
        fail_msg("processes of the run still hold its output: %s", run->text);
    }
    close(run->output);
    assert_int_equal(count_processes("environ", run->mark), 0);
    const char *ready = strstr(run->text, "ready ");
    if (ready != NULL) {
        char inode[32];
        snprintf(inode, sizeof(inode), " %llu ", strtoull(ready + 6, NULL, 10));
        assert_true(strtoull(ready + 6, NULL, 10) > 0);
        assert_int_equal(count_processes("maps", inode), 0);
    }
}

/* The launcher's status: its exit status, or 1000 + the signal that killed it. */
static int finish(test_run *run)
{
    int status = 0;
    assert_nothing_left(run);
    assert_int_equal(waitpid(run->launcher, &status, 0), run->launcher);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void assert_says(const test_run *run, const char *words)
{
    if (strstr(run->text, words) == NULL) {
        fail_msg("expected \"%s\" in: %s", words, run->text);
    }
}

static int run_part(test_run *run, gy_run_options options, const char *part, const char *how)
{
    start(run, options, own_path, part, how);
    return finish(run);
}

static test_run now;

GY_TEST(all_ranks_meet)
{
    static const int sizes[] = {1, 2, 5};
    for (size_t i = 0; i < GY_COUNT(sizes); i++) {
        assert_int_equal(run_part(&now, (gy_run_options){.ranks = sizes[i]}, "ring", ""), 0);
        for (int rank = 0; rank < sizes[i]; rank++) {
            char words[64];
            snprintf(words, sizeof(words), "rank %d of %d got %d\n", rank, sizes[i],
                     rank == 0 ? sizes[i] : rank);
            assert_says(&now, words);
        }
    }
}

GY_TEST(eight_ranks_share_two_cores)
{
    cpu_set_t before, two;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    CPU_ZERO(&two);
    for (size_t core = 0; core < CPU_SETSIZE && CPU_COUNT(&two) < 2; core++) {
        if (CPU_ISSET(core, &before)) {
            CPU_SET(core, &two);
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof(two), &two), 0);
    int status = run_part(&now, (gy_run_options){.ranks = 8}, "ring", "");
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    assert_int_equal(status, 0);
    assert_says(&now, "rank 0 of 8 got 8\n");
}

GY_TEST(first_failure_is_told)
{
    static const struct {
        const char *how;
        bool has_prefix;
        int status;
        const char *words;
    } cases[] = {
        {"status", false, 3, "gyre: rank 1 ended with status 3\n"},
        {"status", true, 3, "gyre: rank 1 ended with status 3: last words\n"},
        {"report", false, 1, "gyre: rank 1 ended with status 1: collective 17 differs\n"},
        {"killed", false, 137, "was killed by signal 9 (Killed)\n"},
        {"crash", true, 139, "was killed by signal 11 (Segmentation fault)\n"},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_run_options options = {.ranks = 3, .has_prefix = cases[i].has_prefix};
        assert_int_equal(run_part(&now, options, "fail", cases[i].how), cases[i].status);
        assert_says(&now, cases[i].words);
        assert_null(strstr(now.text, "rank 0 ended"));
    }
}

/* Nobody waits for it any more who would name it. */
GY_TEST(a_stopped_rank_that_is_left_alone_is_named)
{
    static const struct {
        const char *patience, *how;
        int status;
    } cases[] = {{"0.5", "for ever", 1}, {"50", "shortly", 0}};
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        assert_int_equal(setenv("GYRE_TIMEOUT", cases[i].patience, 1), 0);
        const gy_run_options options = {.ranks = 2, .kill_grace_s = 0.1};
        assert_int_equal(run_part(&now, options, "stop", cases[i].how), cases[i].status);
        if (cases[i].status != 0) {
            assert_says(&now, "gyre: rank 0 (process ");
            assert_says(&now, ") has been stopped for 0.5 s by a signal, and the other ranks "
                              "have ended\n");
        }
    }
    assert_int_equal(unsetenv("GYRE_TIMEOUT"), 0);
}

GY_TEST(programs_that_cannot_run_are_named)
{
    start(&now, (gy_run_options){.ranks = 2}, "/nowhere/program", "", "");
    assert_int_equal(finish(&now), 127);
    assert_says(&now, "gyre: cannot run /nowhere/program: No such file or directory\n");
    start(&now, (gy_run_options){.ranks = 2}, "gyre-no-such-program", "", "");
    assert_int_equal(finish(&now), 127);
    start(&now, (gy_run_options){.ranks = 2}, "/etc/passwd", "", "");
    assert_int_equal(finish(&now), 126);
    assert_says(&now, "gyre: cannot run /etc/passwd: Permission denied\n");
    start(&now, (gy_run_options){.ranks = 2}, "/tmp", "", "");
    assert_int_equal(finish(&now), 126);
    start(&now, (gy_run_options){.ranks = 0}, own_path, "ring", "");
    assert_int_equal(finish(&now), 2);
    assert_says(&now, "gyre: cannot start 0 ranks: expected 1 to 1024\n");
}

GY_TEST(killed_launcher_leaves_nothing)
{
    for (int has_prefix = 0; has_prefix < 2; has_prefix++) {
        start(&now, (gy_run_options){.ranks = 2, .has_prefix = has_prefix != 0}, own_path,
              "stubborn", "");
        assert_true(read_until(&now, "ready ", 2));
        assert_true(count_processes("environ", now.mark) >= 4);
        kill(now.launcher, SIGKILL);
        assert_int_equal(finish(&now), 1000 + SIGKILL);
    }
}

/* The only child of a process; 0: this kernel does not list children. */
static int child_of(int process)
{
    char path[64];
    int child = 0;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", process, process);
    FILE *children = fopen(path, "r");
    if (children != NULL) {
        assert_int_equal(fscanf(children, "%d", &child), 1);
        fclose(children);
    }
    return child;
}

/* Whichever of guard, keeper and launcher is killed, the rest ends what hides in other
 * sessions. */
GY_TEST(killed_keeper_or_guard_leaves_nothing)
{
    static const struct {
        bool guard, keeper, launcher;
        int status;
        const char *words;
    } cases[] = {
        {.keeper = true,
         .status = 1,
         .words = "gyre: the keeper of the ranks was killed by signal 9\n"},
        {.guard = true,
         .status = 1,
         .words = "gyre: the guard of the ranks was killed by signal 9\n"},
        {.keeper = true, .launcher = true, .status = 1000 + SIGKILL, .words = "ready "},
        {.guard = true, .launcher = true, .status = 1000 + SIGKILL, .words = "ready "},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        start(&now, (gy_run_options){.ranks = 2}, own_path, "stubborn", "");
        assert_true(read_until(&now, "ready ", 2));
        int guard = child_of((int)now.launcher);
        if (guard == 0) {
            kill(now.launcher, SIGKILL);
            assert_int_equal(finish(&now), 1000 + SIGKILL);
            printf("this kernel does not list children\n");
            skip();
        }
        int keeper = child_of(guard);
        if (cases[i].launcher) {
            kill(now.launcher, SIGKILL);
        }
        if (cases[i].keeper) {
            kill(keeper, SIGKILL);
        }
        if (cases[i].guard) {
            kill(guard, SIGKILL);
        }
        assert_int_equal(finish(&now), cases[i].status);
        assert_says(&now, cases[i].words);
    }
}

/* What a rank leaves is killed alone, not with the group that it joined. */
GY_TEST(launchers_group_is_spared)
{
    assert_int_equal(run_part(&now, (gy_run_options){.ranks = 2}, "join", ""), 0);
}

GY_TEST(signals_end_the_run)
{
    start(&now, (gy_run_options){.ranks = 2}, own_path, "stay", "");
    assert_true(read_until(&now, "ready ", 2));
    kill(now.launcher, SIGTERM);
    assert_int_equal(finish(&now), 128 + SIGTERM);
    assert_says(&now, "gyre: ended by signal 15 (Terminated)\n");
    start(&now, (gy_run_options){.ranks = 2}, own_path, "stay", "");
    assert_true(read_until(&now, "ready ", 2));
    kill(now.launcher, SIGHUP);
    assert_int_equal(finish(&now), 128 + SIGHUP);
    assert_says(&now, "gyre: ended by signal 1 (Hangup)\n");
    start(&now, (gy_run_options){.ranks = 2, .kill_grace_s = 0.05}, own_path, "stubborn", "");
    assert_true(read_until(&now, "ready ", 2));
    kill(now.launcher, SIGTERM);
    assert_int_equal(finish(&now), 128 + SIGTERM);
    start(&now, (gy_run_options){.ranks = 2, .kill_grace_s = 1000}, own_path, "stubborn", "");
    assert_true(read_until(&now, "ready ", 2));
    kill(now.launcher, SIGTERM);
    assert_true(read_until(&now, "ended by signal", 1));
    kill(now.launcher, SIGTERM); /* asked twice: no grace */
    assert_int_equal(finish(&now), 128 + SIGTERM);
}

GY_TEST(time_limit_ends_the_run)
{
    gy_run_options options = {.ranks = 2, .timeout_s = 0.2, .kill_grace_s = 0.05};
    assert_int_equal(run_part(&now, options, "stubborn", ""), GY_RUN_STATUS_TIMEOUT);
    assert_says(&now, "gyre: the time limit of 0.2 s has passed\n");
}

GY_TEST(lines_do_not_mix)
{
    assert_int_equal(
        run_part(&now, (gy_run_options){.ranks = 3, .has_prefix = true}, "lines", ""), 0);
    int next[3] = {0}, unfinished = 0;
    char *rest = NULL;
    for (char *line = strtok_r(now.text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        int prefix = -1, number = -1, rank = -1, end = 0;
        if (sscanf(line, "[%d] line %d from %d%n", &prefix, &number, &rank, &end) == 3) {
            assert_int_equal(line[end], '\0');
            assert_int_equal(prefix, rank);
            assert_in_range(rank, 0, 2);
            assert_int_equal(number, next[rank]++);
        } else {
            assert_non_null(strstr(line, "] no newline"));
            unfinished++;
        }
    }
    assert_int_equal(unfinished, 3);
    assert_int_equal(next[0] + next[1] + next[2], 600);
}

GY_TEST(ranks_know_their_place)
{
    cpu_set_t all;
    char words[64];
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    assert_int_equal(run_part(&now, (gy_run_options){.ranks = 1}, "cores", ""), 0);
    snprintf(words, sizeof(words), "cores %d named ", CPU_COUNT(&all));
    assert_says(&now, words);
    assert_says(&now, " of 1 extra yes\n");
    if (CPU_COUNT(&all) >= 2) {
        assert_int_equal(run_part(&now, (gy_run_options){.ranks = 2}, "cores", ""), 0);
        snprintf(words, sizeof(words), "cores %d named ", (CPU_COUNT(&all) + 1) / 2);
        assert_says(&now, words);
    }
    gy_run_options free_ranks = {.ranks = 2, .has_no_binding = true};
    assert_int_equal(run_part(&now, free_ranks, "cores", ""), 0);
    snprintf(words, sizeof(words), "cores %d named none of 2", CPU_COUNT(&all));
    assert_says(&now, words);
}

GY_TEST(first_rank_reads_the_input)
{
    int pair[2], before = dup(STDIN_FILENO);
    assert_int_equal(pipe(pair), 0);
    assert_int_equal(write(pair[1], "abc", 3), 3);
    close(pair[1]);
    assert_int_equal(dup2(pair[0], STDIN_FILENO), STDIN_FILENO);
    close(pair[0]);
    int status = run_part(&now, (gy_run_options){.ranks = 2}, "echo", "");
    assert_int_equal(dup2(before, STDIN_FILENO), STDIN_FILENO);
    close(before);
    assert_int_equal(status, 0);
    assert_says(&now, "input (abc)\n");
    assert_says(&now, "input ()\n");
}

/* Whichever allocation of the launcher fails, it says so and ends what it started. */
GY_TEST(no_memory_ends_the_run)
{
    int failed = 0, status = 1;
    for (fail_allocation = 1; status != 0; fail_allocation++) {
        status = run_part(&now, (gy_run_options){.ranks = 3, .has_prefix = true}, "ring", "");
        assert_true(status == 0 || status == 1);
        if (status == 1) {
            failed++;
            assert_says(&now, "out of memory");
            assert_null(strstr(now.text, "killed by signal"));
        }
    }
    fail_allocation = 0;
    assert_in_range(failed, 6, 20);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        _exit(play(argv[1], argc > 2 ? argv[2] : "")); /* what a rank still holds is no leak */
    }
    ssize_t size = readlink("/proc/self/exe", own_path, sizeof(own_path) - 1);
    GY_ASSERT(size > 0);
    own_path[size] = '\0';
    return GY_TESTS_RUN(NULL, NULL);
}
