/*
 * Goal: word count, sort and index over three processes end with the same bytes and the same
 * counters, and leave nothing else, whatever happens meanwhile: processes killed in each phase,
 * stopped for too long and woken again, intermediates gone or with another bit. Disks that are
 * full end a job with a reason and no output.
 */
#include "jobs_work.h"

#include <sys/pidfd.h>

#define SILENCE "0.4" /* seconds after which a stopped process is lost */

enum { LINES = 40000, RECORDS = 60000, WAKING_SECONDS = 5, MISSED_SECONDS = 20 };

GY_TEST(undisturbed_jobs_are_right)
{
    for (int job = 0; job < JOBS; job++) {
        run_undisturbed(job);
        assert_true(job == SORT || job == HOT || jobs[job].tasks >= 48);
    }
}

/* ---- processes ---- */

typedef enum deed { KILL, STOP, STOP_ALL } deed;

typedef struct fault {
    const char *name;
    phase when;
    deed what; /* STOP_ALL: also who could kill the stopped process, so that it wakes again */
} fault;

/* A process of the job, whose number cannot become another's; -1: there is none now. */
static int pick_worker(const running *at, pid_t *pid)
{
    pid_t workers[16];
    const int count = kit_workers(at->manager, workers, 16);
    if (count == 0) {
        return -1;
    }
    *pid = workers[gy_random_below(&chance, (uint64_t)count)];
    return pidfd_open(*pid, 0);
}

static bool is_there(int process)
{
    return pidfd_send_signal(process, 0, NULL, 0) == 0;
}

/* The manager finds it silent and has it killed while it sleeps. */
static void stop_one(running *at, int process)
{
    const double last = kit_now() + MISSED_SECONDS;
    while (is_there(process) && !look(at) && kit_now() < last) {
        kit_pause();
    }
    (void)pidfd_send_signal(process, SIGCONT, NULL, 0);
    if (kit_now() >= last) {
        finish(at);
        fail_msg("nobody missed a process that was stopped for %d s", MISSED_SECONDS);
    }
}

static bool has_done_all(const running *at, const work *job)
{
    static kit_journal seen;
    kit_journal_read(at->journal, &seen);
    return seen.committed >= job->tasks;
}

/* The manager finds it silent and lets others do its work, but it lives, as who could kill it
 * sleeps too: it wakes, ends what it was at and says so, too late. (That it is heard while the
 * job still runs: flow_faults_test.c.) */
static void stop_and_wake(running *at, const work *job, int process)
{
    const pid_t fork_server = kit_fork_server(at->manager);
    if (fork_server == 0) {
        return;
    }
    const int parent = pidfd_open(fork_server, 0);
    assert_true(parent >= 0);
    (void)pidfd_send_signal(parent, SIGSTOP, NULL, 0);
    const double last = kit_now() + WAKING_SECONDS;
    while (!has_done_all(at, job) && !look(at) && kit_now() < last) {
        kit_pause();
    }
    (void)pidfd_send_signal(process, SIGCONT, NULL, 0);
    (void)pidfd_send_signal(parent, SIGCONT, NULL, 0);
    close(parent);
}

/* True: the fault came in time. */
static bool disturb(running *at, const work *job, const fault *what)
{
    const double share = 0.1 + 0.75 * (double)gy_random_below(&chance, 1000) / 1000;
    int process = -1;
    pid_t pid = 0;
    while (process < 0) {
        if (!reach(at, job, what->when, what->when < SHUFFLE ? share : 0)) {
            return false;
        }
        process = pick_worker(at, &pid);
    }
    const bool is_hit =
        pidfd_send_signal(process, what->what == KILL ? SIGKILL : SIGSTOP, NULL, 0) == 0;
    if (what->what == STOP && is_hit) {
        stop_one(at, process);
    } else if (what->what == STOP_ALL && is_hit) {
        stop_and_wake(at, job, process);
    }
    close(process);
    return is_hit;
}

/* Each fault for each job `times` times; with a sanitizer each fault for one of them. */
GY_TEST(disturbed_jobs_end_the_same)
{
    static const fault faults[] = {{"killed in map", MAP, KILL},
                                   {"killed in shuffle", SHUFFLE, KILL},
                                   {"killed in reduce", REDUCE, KILL},
                                   {"stopped", ANY, STOP},
                                   {"stopped and woken", ANY, STOP_ALL}};
    assert_int_equal(setenv("GYRE_JOB_HEARTBEAT_TIMEOUT", SILENCE, 1), 0);
    const long times = gy_test_cases(8) / 8; /* 0: with a sanitizer */
    for (size_t i = 0; i < GY_COUNT(faults); i++) {
        const fault *what = &faults[i];
        int hits = 0, missed = 0, silent = 0;
        const int wanted = times > 0 ? (int)times * JOBS : 1;
        while (hits < wanted && missed < 40) {
            const int job = (hits + (times > 0 ? 0 : (int)i)) % JOBS;
            running at = start(job);
            const bool is_hit = disturb(&at, &jobs[job], what);
            finish(&at);
            check_same(&jobs[job]);
            silent += what->what != KILL && is_hit && history_says("sent no heartbeat");
            if (at.journal >= 0) {
                close(at.journal);
            }
            hits += is_hit;
            missed += !is_hit;
        }
        printf("soak: a process %s: %d jobs, %d of them saw it silent; %d ended before\n",
               what->name, hits, silent, missed);
        assert_true(missed < 40);
        assert_true(what->what == KILL || silent > 0);
    }
    assert_int_equal(unsetenv("GYRE_JOB_HEARTBEAT_TIMEOUT"), 0);
}

/* ---- files ---- */

/* A sort has no intermediates: its vertices read the input. */
GY_TEST(damaged_intermediates_are_made_again)
{
    static const int kinds[] = {WORDCOUNT, INDEX};
    const long wanted = gy_test_cases(8) / 2;
    int hits = 0, missed = 0;
    char data[160];
    snprintf(data, sizeof(data), "%s/data", folder);
    while (hits < (wanted > 2 ? wanted : 2) && missed < 40) {
        const int job = kinds[(hits + hits / 2) % 2];
        running at = start(job);
        int damaged = -1;
        while (damaged < 0 && reach(&at, &jobs[job], MAP, 0.3)) {
            damaged = damage(&at, data, hits % 2 == 1);
        }
        finish(&at);
        check_same(&jobs[job]);
        if (damaged >= 0) {
            expect_one_run_again(&at, &jobs[job], damaged);
        }
        if (at.journal >= 0) {
            close(at.journal);
        }
        hits += damaged >= 0;
        missed += damaged < 0;
    }
    printf("soak: an intermediate gone or changed: %d jobs; %d ended before\n", hits, missed);
    assert_true(missed < 40);
}

typedef struct tight {
    const char *job;
    int size_kib; /* of the disk that holds */
    bool is_job;  /* the job's folder, else the output */
} tight;

/* KiB that an output takes, in pages as the disk counts them. */
static int pages_of(const char *job)
{
    char line[1024], text[64];
    snprintf(line, sizeof(line),
             "cd %s && rm -rf out job && %s mr %s -r 6 -p 3 -q -o out --folder job && "
             "stat -c %%s out/* | awk '{ k += int(($1 + 4095) / 4096) * 4 } END { print k }'",
             kit_top, command(), job);
    assert_int_equal(gy_test_shell(line, text, sizeof(text)), 0);
    return (int)strtol(text, NULL, 10);
}

/* A disk of some hundred KiB holds the output, or the job; or all of the output but its last
 * file, the manifest, when all others have their names. */
GY_TEST(a_full_disk_ends_a_job)
{
    tight cases[] = {
        {"wordcount in-0 in-1 --split 16KiB", 0, false},
        {"index in-0 in-1 --split 16KiB", 40, false},
        {"sort records --record-bytes 100 --key-offset 0 --key-bytes 10", 2000, false},
        {"wordcount in-0 in-1 --split 16KiB", 300, true},
        {"wordcount in-0 in-1 --split 16KiB", 40, false},
        {"index in-0 in-1 --split 16KiB", 300, true}};
    static char text[8192];
    char line[2048], disk[128];
    snprintf(disk, sizeof(disk), "%s/disk", kit_top);
    assert_int_equal(mkdir(disk, 0700), 0);
    snprintf(line, sizeof(line), "unshare -m mount -t tmpfs -o size=64k tmpfs %s 2>&1", disk);
    if (gy_test_shell(line, text, sizeof(text)) != 0) {
        printf("no disk of our own can be mounted here: %s\n", text);
        skip();
    }
    cases[0].size_kib = pages_of(cases[0].job) - 4;
    const size_t step = gy_test_cases(8) < 8 ? 3 : 1; /* with a sanitizer one of each */
    for (size_t i = 0; i < GY_COUNT(cases); i += step) {
        const tight *one = &cases[i];
        const char *out = one->is_job ? "out" : "disk/out";
        const char *job = one->is_job ? "disk/job" : "job";
        snprintf(
            line, sizeof(line),
            "cd %s && rm -rf out job && unshare -m sh -c 'mount -t tmpfs -o size=%dk tmpfs "
            "disk && { timeout 60 %s mr %s -r 6 -p 3 -q -o %s --folder %s; echo status $?; "
            "find %s %s; }' 2>&1",
            kit_top, one->size_kib, command(), one->job, out, job, out, job);
        (void)gy_test_shell(line, text, sizeof(text));
        const char *left = strstr(text, "status 1\n");
        if (left == NULL || strstr(text, "No space left") == NULL ||
            strstr(left, "\nout") != NULL || strstr(left, "disk/out\n") != NULL ||
            strstr(left, "out/") != NULL || strstr(left, "job/data") != NULL ||
            strstr(left, "job/scratch") != NULL) {
            fail_msg("a full disk of the %s of %s: %s", one->is_job ? "job" : "output",
                     one->job, text);
        }
        kit_alone();
    }
}

static int begin(void **state)
{
    const int part = gy_test_cases(8) < 8 ? 2 : 1; /* with a sanitizer a half takes as long */
    work_lines = LINES / part;
    work_records = RECORDS / part;
    return work_begin(state);
}

GY_TEST_MAIN(begin, work_end)
