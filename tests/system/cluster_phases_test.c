/*
 * Goal: word count, sort and index over three hosts end with the bytes and the counters that
 * they have locally, and leave nothing else, whatever happens in map, in shuffle or in reduce:
 * vertex processes, daemons or whole hosts killed, stopped for too long and woken again, cut
 * off; intermediates gone or with another bit, which alone are made again.
 */
#include "cluster_work.h"

#include <sys/pidfd.h>

#define SILENCE "0.4" /* seconds after which a stopped process is lost */

enum {
    LINES = 40000,
    RECORDS = 60000,
    MISSED_SECONDS = 20,
    WAKING_SECONDS = 5,
    LOST_SECONDS = 3, /* a daemon is lost after 2 */
    TRIES = 40
};

/* ---- who is hit ---- */

typedef enum deed {
    KILL,
    STOP,
    STOP_ALL, /* also who could kill the stopped process, so that it wakes again */
    KILL_DAEMON,
    STOP_DAEMON,
    STOP_HOST, /* the daemon and all that it started */
    PART       /* the host is cut off */
} deed;

typedef struct fault {
    const char *name;
    phase when;
    deed what;
    bool is_managers; /* the host with the manager, else another one */
    bool is_quick;    /* also without GYRE_SOAK */
} fault;

/* A vertex process somewhere, whose number cannot become another's; -1: there is none now. */
static int pick_worker(pid_t *pid)
{
    pid_t workers[32];
    int count = 0;
    for (int i = 0; i < CLUSTER_DAEMONS; i++) {
        count += work_workers(i, workers + count, 32 - count);
    }
    if (count == 0) {
        return -1;
    }
    *pid = workers[gy_random_below(&chance, (uint64_t)count)];
    return pidfd_open(*pid, 0);
}

/* The manager finds it silent and has it killed while it sleeps. */
static void stop_one(remote_job *job, int process)
{
    const double last = kit_now() + MISSED_SECONDS;
    while (pidfd_send_signal(process, 0, NULL, 0) == 0 && !remote_look(job) &&
           kit_now() < last) {
        kit_pause();
    }
    (void)pidfd_send_signal(process, SIGCONT, NULL, 0);
    if (kit_now() >= last) {
        remote_finish(job);
        fail_msg("nobody missed a process that was stopped for %d s", MISSED_SECONDS);
    }
}

static bool has_done_all(remote_job *job)
{
    static kit_journal seen;
    remote_journals(job, &seen);
    return seen.committed >= jobs[job->job].tasks;
}

/* Others do its work, but it lives, as who could kill it sleeps too: it wakes too late. */
static void stop_and_wake(remote_job *job, int process, pid_t pid)
{
    const pid_t fork_server = work_parent(pid);
    if (fork_server <= 1 || fork_server == getpid()) {
        return;
    }
    const int parent = pidfd_open(fork_server, 0);
    assert_true(parent >= 0);
    (void)pidfd_send_signal(parent, SIGSTOP, NULL, 0);
    const double last = kit_now() + WAKING_SECONDS;
    while (!remote_look(job) && !has_done_all(job) && kit_now() < last) {
        kit_pause();
    }
    (void)pidfd_send_signal(process, SIGCONT, NULL, 0);
    (void)pidfd_send_signal(parent, SIGCONT, NULL, 0);
    close(parent);
}

static void signal_all_of(pid_t process, int number)
{
    pid_t children[32];
    const int count = kit_children(process, children, 32);
    (void)kill(process, number);
    for (int i = 0; i < count; i++) {
        signal_all_of(children[i], number);
    }
}

static void wait_for_loss(remote_job *job)
{
    const double last = kit_now() + LOST_SECONDS;
    while (!remote_look(job) && kit_now() < last) {
        kit_pause();
    }
}

/* The host is as if it were gone, then it is there again: with its folder or without, while the
 * job goes on or after it. */
static void disturb_host(remote_job *job, deed what, int host)
{
    const bool is_late = gy_random_below(&chance, 2) == 0;
    if (what == KILL_DAEMON) {
        work_kill_daemon(host);
    } else if (what == STOP_DAEMON) {
        (void)kill(at.daemons[host], SIGSTOP);
    } else if (what == STOP_HOST) {
        signal_all_of(at.daemons[host], SIGSTOP);
    } else {
        switch_lose(&net, host, 1000, 1000);
    }
    if (is_late) {
        const double last = kit_now() + KIT_WAIT_SECONDS / 2;
        while (!remote_look(job) && kit_now() < last) {
            kit_pause();
        }
    } else if (what == KILL_DAEMON && gy_random_below(&chance, 2) == 0) {
        kit_pause(); /* it is back before anybody has missed it */
    } else {
        wait_for_loss(job);
    }
    if (what == KILL_DAEMON) {
        const bool is_emptied = gy_random_below(&chance, 2) == 0;
        printf("host %d is back %s, %s\n", host, is_late ? "after the job" : "meanwhile",
               is_emptied ? "emptied" : "with its folder");
        work_daemon_again(host, is_emptied);
    } else if (what == PART) {
        switch_lose(&net, host, 0, 0);
    } else {
        printf("host %d wakes %s\n", host, is_late ? "after the job" : "meanwhile");
        signal_all_of(at.daemons[host], SIGCONT);
    }
}

static bool disturb_vertex(remote_job *job, deed what, int process, pid_t pid)
{
    const bool is_hit =
        pidfd_send_signal(process, what == KILL ? SIGKILL : SIGSTOP, NULL, 0) == 0;
    if (what == STOP && is_hit) {
        stop_one(job, process);
    } else if (what == STOP_ALL && is_hit) {
        stop_and_wake(job, process, pid);
    }
    close(process);
    return is_hit;
}

/* True: the fault came in time. */
static bool disturb(remote_job *job, const fault *what)
{
    const double share = 0.1 + 0.75 * (double)gy_random_below(&chance, 1000) / 1000;
    for (;;) {
        int process = -1, host = -1;
        pid_t pid = 0;
        if (!reach(&job->at, &jobs[job->job], what->when, what->when < SHUFFLE ? share : 0)) {
            return false;
        }
        if (what->what < KILL_DAEMON && (process = pick_worker(&pid)) >= 0) {
            return disturb_vertex(job, what->what, process, pid);
        }
        if (what->what >= KILL_DAEMON && cluster_manager(&at, &host) > 0) {
            const int other = (int)gy_random_below(&chance, CLUSTER_DAEMONS - 1);
            host = what->is_managers ? host : (host + 1 + other) % CLUSTER_DAEMONS;
            disturb_host(job, what->what, host);
            return true;
        }
        kit_pause();
    }
}

/* ---- processes and hosts ---- */

static const fault faults[] = {
    {"a process killed in map", MAP, KILL, false, true},
    {"a process killed in shuffle", SHUFFLE, KILL, false, true},
    {"a process killed in reduce", REDUCE, KILL, false, true},
    {"a process stopped", ANY, STOP, false, false},
    {"a process stopped and woken", ANY, STOP_ALL, false, false},
    {"a daemon killed in map", MAP, KILL_DAEMON, false, false},
    {"a daemon killed in shuffle", SHUFFLE, KILL_DAEMON, false, false},
    {"a daemon killed in reduce", REDUCE, KILL_DAEMON, false, false},
    {"the manager's daemon killed in map", MAP, KILL_DAEMON, true, false},
    {"the manager's daemon killed in shuffle", SHUFFLE, KILL_DAEMON, true, false},
    {"the manager's daemon killed in reduce", REDUCE, KILL_DAEMON, true, false},
    {"a daemon stopped and woken", ANY, STOP_DAEMON, false, false},
    {"the manager's daemon stopped and woken", ANY, STOP_DAEMON, true, false},
    {"a host stopped and woken", ANY, STOP_HOST, false, false},
    {"the manager's host stopped and woken", ANY, STOP_HOST, true, false},
    {"a host cut off in map", MAP, PART, false, false},
    {"a host cut off in shuffle", SHUFFLE, PART, false, false},
    {"a host cut off in reduce", REDUCE, PART, false, false},
    {"the manager's host cut off", ANY, PART, true, false},
};

/* Once for one of the jobs, with GYRE_SOAK `times` for each. */
static void disturb_jobs(const fault *what, int first, int wanted)
{
    int hits = 0, missed = 0;
    const double begin_s = kit_now();
    while (hits < wanted && missed < TRIES) {
        remote_job job;
        remote_start(&job, (first + hits) % (INDEX + 1));
        const bool is_hit = disturb(&job, what);
        remote_finish(&job);
        remote_forget(&job);
        hits += is_hit;
        missed += !is_hit;
        KIT_UNTIL(cluster_up(&at) == CLUSTER_DAEMONS);
    }
    printf("soak: %s: %d jobs in %.1f s; %d ended before\n", what->name, hits,
           kit_now() - begin_s, missed);
    assert_true(missed < TRIES);
}

GY_TEST(disturbed_jobs_end_as_at_home)
{
    const bool is_soak = getenv("GYRE_SOAK") != NULL;
    const char *only = getenv("GYRE_TEST_FAULT");
    assert_int_equal(setenv("GYRE_JOB_HEARTBEAT_TIMEOUT", SILENCE, 1), 0);
    for (size_t i = 0; i < GY_COUNT(faults); i++) {
        if ((!is_soak && !faults[i].is_quick) || (faults[i].what == PART && !hosts.is_real) ||
            (only != NULL && strstr(faults[i].name, only) == NULL)) {
            continue;
        }
#if defined(GYRE_ASAN) || defined(GYRE_TSAN) /* each takes a second */
        if (!is_soak && faults[i].when != SHUFFLE) {
            continue;
        }
#endif
        disturb_jobs(&faults[i], (int)i, is_soak ? 2 * (INDEX + 1) : 1);
    }
    assert_int_equal(unsetenv("GYRE_JOB_HEARTBEAT_TIMEOUT"), 0);
}

/* ---- intermediates ---- */

/* Of some host, as the journal of the job knows it; -1: there was none. */
static int damage_somewhere(remote_job *job, bool is_flip)
{
    char pattern[160];
    glob_t found;
    int damaged = -1;
    snprintf(pattern, sizeof(pattern), "%s/d?/jobs/*/data", kit_top);
    if (glob(pattern, 0, NULL, &found) != 0) {
        return -1;
    }
    const size_t first = (size_t)gy_random_below(&chance, found.gl_pathc);
    for (size_t i = 0; i < found.gl_pathc && damaged < 0; i++) {
        damaged = damage(&job->at, found.gl_pathv[(first + i) % found.gl_pathc], is_flip);
    }
    globfree(&found);
    return damaged;
}

/* A sort has no intermediates: its vertices read the input. */
GY_TEST(damaged_intermediates_are_made_again)
{
    static const int kinds[] = {WORDCOUNT, INDEX};
    const bool is_soak = getenv("GYRE_SOAK") != NULL;
    int hits = 0, missed = 0;
    if (gy_test_cases(8) < 8) {
        skip(); /* under a sanitizer it takes seconds */
    }
    while (hits < (is_soak ? 40 : 2) && missed < TRIES) {
        remote_job job;
        remote_start(&job, kinds[(hits + hits / 2) % 2]);
        int damaged = -1;
        while (damaged < 0 && reach(&job.at, &jobs[job.job], MAP, 0.3)) {
            damaged = damage_somewhere(&job, hits % 2 == 1);
        }
        remote_finish(&job);
        if (damaged >= 0) {
            expect_one_run_again(&job.at, &jobs[job.job], damaged);
        }
        remote_forget(&job);
        hits += damaged >= 0;
        missed += damaged < 0;
    }
    printf("soak: an intermediate gone or changed at a daemon: %d jobs; %d ended before\n",
           hits, missed);
    assert_true(missed < TRIES);
}

static int begin(void **state)
{
    const int part = getenv("GYRE_SOAK") != NULL ? 1 : 4;
    return work_begin_jobs(state, LINES / part, RECORDS / part);
}

GY_TEST_MAIN(begin, work_end_jobs)
