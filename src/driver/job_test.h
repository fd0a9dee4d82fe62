/**
 * For tests of the driver: a job whose tasks do what a word says, in processes of the test
 * program itself. Its main begins with GY_JOB_TEST_SERVE().
 */
#ifndef GY_DRIVER_JOB_TEST_H
#define GY_DRIVER_JOB_TEST_H

#include "driver/driver.h"
#include "driver/gang.h"
#include "worker/limits.h"
#include "worker/start.h"

#include "gy_test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#ifdef GYRE_TSAN
/* Avoids a second of sleep at the end of each process. */
__attribute__((visibility("default"), weak)) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "atexit_sleep_ms=0";
}
#endif

/* ---- the processes' side ---- */

/* Find the stream to the manager, as a user's bug would. */
static inline int gy_job_socket(void)
{
    for (int file = 3; file < 64; file++) {
        int type = 0;
        socklen_t size = sizeof(type);
        if (getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM) {
            return file;
        }
    }
    return -1;
}

/* A sanitizer would turn the signal into an exit. */
static inline void gy_job_fault(void)
{
    (void)signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

/* "no files", "other files": close or replace all descriptors above standard error. "spin":
 * then loop for ever, with signals blocked. */
static inline void gy_job_spoil_files(const char *word)
{
    const int other = word[0] == 'o' ? open("/dev/zero", O_RDWR | O_CLOEXEC) : -1;
    for (int file = 3; file < 200; file++) {
        if (other < 0 || dup2(other, file) < 0) {
            (void)close(file);
        }
    }
    sigset_t all;
    sigfillset(&all);
    while (strstr(word, "spin") != NULL) {
        (void)pthread_sigmask(SIG_SETMASK, &all, NULL);
    }
}

/* Start a daemon that leaves its group and session and never ends. */
static inline void gy_job_leave_daemon(void)
{
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            for (;;) {
                pause();
            }
        }
        _exit(0);
    }
}

static inline void gy_job_fork_forever(void)
{
    for (;;) {
        if (fork() < 0) {
            _exit(9);
        }
    }
}

static inline void gy_job_eat_memory(gy_worker_answer *answer)
{
    for (size_t eaten = 0; eaten < (size_t)8 << 30; eaten += 1 << 20) {
        char *more =
            mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (more == MAP_FAILED) {
            answer->cause = GY_CAUSE_OWN;
            gy_text_add(&answer->reason, "no more memory");
            return;
        }
        memset(more, 1, 1 << 20);
    }
}

/* Only the descriptors that a vertex process needs may be open: the standard ones and its
 * stream. */
static inline void gy_job_list_files(gy_worker_answer *answer)
{
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *at = folder != NULL ? readdir(folder) : NULL; at != NULL;
         at = readdir(folder)) {
        char link[300], path[280];
        const int file = (int)strtol(at->d_name, NULL, 10);
        snprintf(path, sizeof(path), "/proc/self/fd/%s", at->d_name);
        const ssize_t size = readlink(path, link, sizeof(link) - 1);
        link[size > 0 ? size : 0] = '\0';
        if (at->d_name[0] != '.' && file > 2 && file != dirfd(folder) &&
            file != gy_job_socket()) {
            answer->cause = GY_CAUSE_OWN;
            gy_text_add(&answer->reason, "%d is open: %s", file, link);
        }
    }
    if (folder == NULL || closedir(folder) != 0) {
        answer->cause = GY_CAUSE_OWN;
        gy_text_add(&answer->reason, "cannot list /proc/self/fd");
    }
}

/* Read a file outside the job, named by the environment; else one that only root may read. */
static inline void gy_job_read_secret(gy_worker_answer *answer)
{
    const char *path = getenv("GYRE_TEST_SECRET");
    const int file = open(path != NULL ? path : "/etc/shadow", O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        answer->cause = GY_CAUSE_OWN;
        gy_text_add(&answer->reason, "cannot read what is outside: %s", strerror(errno));
    } else {
        close(file);
    }
}

/* Kill its parent, all processes that it may signal, and the manager, whose id is in the
 * environment. */
static inline void gy_job_kill_all(gy_worker_answer *answer)
{
    const char *manager = getenv("GYRE_TEST_MANAGER");
    if (manager != NULL && kill((pid_t)strtol(manager, NULL, 10), SIGKILL) == 0) {
        answer->cause = GY_CAUSE_OWN;
    }
    (void)kill(getppid(), SIGKILL);
    (void)kill(getppid(), SIGSTOP);
}

/* Number of tasks that this process has begun. */
static _Atomic int gy_job_begun;

static inline void gy_job_do(const char *word, const _Atomic bool *is_cancelled,
                             gy_worker_answer *answer)
{
    if (strcmp(word, "segv") == 0) {
        gy_job_fault();
    } else if (strcmp(word, "segv beside") == 0) {
        while (atomic_load_explicit(&gy_job_begun, memory_order_acquire) < 2) {
            (void)poll(NULL, 0, 1);
        }
        gy_job_fault();
    } else if (strcmp(word, "leave") == 0) {
        pthread_exit(NULL);
    } else if (strcmp(word, "kill") == 0) {
        raise(SIGKILL);
    } else if (strcmp(word, "stop") == 0) {
        raise(SIGSTOP);
    } else if (strcmp(word, "exit") == 0) {
        fprintf(stderr, "a last line\n\n");
        _exit(0);
    } else if (strcmp(word, "garbage") == 0) {
        char garbage[4096];
        memset(garbage, 'g', sizeof(garbage));
        (void)!write(gy_job_socket(), garbage, sizeof(garbage));
        pause();
    } else if (strcmp(word, "close") == 0) {
        (void)shutdown(gy_job_socket(), SHUT_WR);
        raise(SIGSTOP);
    } else if (strstr(word, " files") != NULL) {
        gy_job_spoil_files(word);
    } else if (strcmp(word, "shut") == 0) {
        (void)shutdown(gy_job_socket(), SHUT_RDWR);
        (void)poll(NULL, 0, 10);
    } else if (strcmp(word, "daemon") == 0) {
        gy_job_leave_daemon();
    } else if (strcmp(word, "daemon, stop") == 0) {
        gy_job_leave_daemon();
        raise(SIGSTOP);
    } else if (strcmp(word, "daemon, segv") == 0) {
        gy_job_leave_daemon();
        gy_job_fault();
    } else if (strcmp(word, "forks") == 0) {
        gy_job_fork_forever();
    } else if (strcmp(word, "memory") == 0) {
        gy_job_eat_memory(answer);
    } else if (strcmp(word, "wait") == 0) {
        while (!atomic_load_explicit(is_cancelled, memory_order_relaxed)) {
            (void)poll(NULL, 0, 1);
        }
        answer->cause = GY_CAUSE_CANCELLED;
    } else if (strncmp(word, "gang ", 5) == 0) {
        char script[64];
        snprintf(script, sizeof(script), "%s", word + 5);
        char *const argv[] = {"/bin/sh", "-c", script, NULL};
        gy_gang gang = {.ranks = 2, .argv = argv};
        gy_status status = gy_gang_run(&gang, is_cancelled);
        if (status < 0) {
            answer->cause = status == GY_CANCELLED ? GY_CAUSE_CANCELLED : GY_CAUSE_OWN;
            gy_text_add(&answer->reason, "%s", gy_error_text());
        }
    } else if (strcmp(word, "files") == 0) {
        gy_job_list_files(answer);
    } else if (strcmp(word, "secret") == 0) {
        gy_job_read_secret(answer);
    } else if (strcmp(word, "kill all") == 0) {
        gy_job_kill_all(answer);
    } else if (strcmp(word, "fail") == 0) {
        answer->cause = GY_CAUSE_OWN;
        gy_text_add(&answer->reason, "as it was told");
    }
}

/* Append the task's number to the file GYRE_TEST_RUNS, which lists the completed runs. */
static inline void gy_job_count_run(uint32_t task)
{
    const char *path = getenv("GYRE_TEST_RUNS");
    int file = path != NULL ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (file >= 0) {
        (void)!write(file, &task, sizeof(task));
        close(file);
    }
}

/* The message "word" applies only in the first attempt, "word!" in each. The board holds the
 * word. */
static inline void gy_job_run(void *arg, const gy_worker_task *task,
                              const _Atomic bool *is_cancelled, gy_worker_answer *answer)
{
    (void)arg;
    char word[64];
    snprintf(word, sizeof(word), "%.*s", (int)task->message_bytes, (const char *)task->message);
    size_t size = strlen(word);
    bool is_always = size > 0 && word[size - 1] == '!';
    word[is_always ? size - 1 : size] = '\0';
    memcpy(task->board, word, size + 1);
    (void)atomic_fetch_add_explicit(&gy_job_begun, 1, memory_order_release);
    if (is_always || (task->id.attempt & 0xfffff) == 1) {
        gy_job_do(word, is_cancelled, answer);
    }
    gy_job_count_run(task->id.task);
    answer->content = (gy_key){.high = task->id.task, .low = 7};
    if (answer->cause == GY_CAUSE_NONE && size > 0) {
        gy_text_add(&answer->report, "%s by %d", word, (int)getpid());
    }
}

static const gy_worker_ops gy_job_worker_ops = {.run = gy_job_run, .gang = gy_gang_serve};

#define GY_JOB_TEST_SERVE()                                                                    \
    do {                                                                                       \
        if (gy_worker_socket() >= 0) {                                                         \
            return gy_worker_serve(gy_worker_socket(), &gy_job_worker_ops);                    \
        }                                                                                      \
    } while (0)

/* The main of a test of jobs; what a process of ours leaves comes to it. */
#define GY_JOB_TEST_MAIN(begin, end)                                                           \
    int main(void)                                                                             \
    {                                                                                          \
        GY_JOB_TEST_SERVE();                                                                   \
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);                                                \
        return GY_TESTS_RUN(begin, end);                                                       \
    }

/* ---- the manager's side ---- */

typedef struct gy_test_job {
    const char *const *words; /* (word_count) for the first tasks; the others have none */
    uint32_t word_count, task_count;
    uint32_t chain; /* every task reads the task `chain` before it */
    int processes, threads;
    size_t memory_bytes;
    int64_t silence_ns;
    double seconds;      /* for the whole job; 0: 60 */
    bool is_resume;      /* do not empty the folder */
    gy_env *env;         /* NULL: the real one */
    uint64_t epoch;      /* of its manager; 0: none */
    const char *journal; /* a URI; NULL: in the folder */
    bool is_over;        /* another epoch has taken over */
    const gy_sandbox *sandbox;
    void (*on_tick)(struct gy_test_job *job); /* may be NULL */
    void (*on_commit)(struct gy_test_job *job);
    bool has_culprits; /* a board that begins with "segv" ends its process */
    uint32_t committed, failed, blamed;
    char notes[16384]; /* all notes */
    char board[64];    /* of the last failure */
    char folder[64];
} gy_test_job;

static inline gy_status gy_test_encode(void *arg, const gy_manager *manager,
                                       const gy_effect *start, gy_driver_place *place,
                                       gy_text *message)
{
    (void)place;
    const gy_test_job *job = arg;
    (void)manager;
    if (start->id.task < job->word_count) {
        const char *word = job->words[start->id.task];
        gy_text_add_bytes(message, word, strlen(word));
    }
    return message->status;
}

static inline void gy_test_committed(void *arg, const gy_effect *effect)
{
    gy_test_job *job = arg;
    (void)effect;
    job->committed++;
    if (job->on_commit != NULL) {
        job->on_commit(job);
    }
}

static inline gy_cause gy_test_failed(void *arg, const gy_manager *manager,
                                      gy_sched_event *failed, const void *board)
{
    gy_test_job *job = arg;
    (void)manager;
    job->failed++;
    job->blamed += failed->cause == GY_CAUSE_OWN;
    snprintf(job->board, sizeof(job->board), "%s", (const char *)board);
    size_t used = strlen(job->notes);
    snprintf(job->notes + used, sizeof(job->notes) - used, "failed %u: %s\n", failed->id.task,
             failed->reason);
    return failed->cause;
}

static inline bool gy_test_is_culprit(const void *board)
{
    return strncmp(board, "segv", 4) == 0;
}

static inline void gy_test_tick(void *arg, const gy_manager *manager)
{
    gy_test_job *job = arg;
    (void)manager;
    if (job->on_tick != NULL) {
        job->on_tick(job);
    }
}

static inline void gy_test_note(void *arg, const gy_effect *effect)
{
    gy_test_job *job = arg;
    size_t used = strlen(job->notes);
    snprintf(job->notes + used, sizeof(job->notes) - used, "%s\n", effect->reason);
}

static inline void gy_test_job_folder(gy_test_job *job)
{
    snprintf(job->folder, sizeof(job->folder), "/tmp/gyre-job-XXXXXX");
    assert_non_null(mkdtemp(job->folder));
}

static inline void gy_test_job_remove(const gy_test_job *job)
{
    char line[128], said[256];
    snprintf(line, sizeof(line), "rm -rf '%s'", job->folder);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
}

static inline gy_manager *gy_test_manager(const gy_test_job *job)
{
    static const gy_stage stage = {.name = "work"};
    gy_sched_task *tasks = gy_alloc_zero("test", job->task_count, sizeof(*tasks));
    gy_edge *edges =
        gy_alloc_zero("test", (size_t)job->task_count * job->chain + 1, sizeof(*edges));
    assert_true(tasks != NULL && edges != NULL);
    size_t edge_count = 0;
    for (uint32_t i = 0; i < job->task_count; i++) {
        tasks[i] = (gy_sched_task){.key = {.high = i, .low = 1}, .width = 1, .output_count = 1};
        for (uint32_t back = 1; back <= job->chain && back <= i; back++) {
            edges[edge_count++] = (gy_edge){.from = i - back};
            tasks[i].input_count++;
        }
    }
    gy_growth growth = {.tasks = tasks,
                        .task_count = job->task_count,
                        .edges = edges,
                        .edge_count = edge_count};
    gy_manager_options options = {.stages = &stage,
                                  .stage_count = 1,
                                  .process_max = (uint32_t)job->processes,
                                  .threads = (uint32_t)job->threads,
                                  .backup_floor_ns = -1,
                                  .silence_ns = job->silence_ns};
    gy_manager *manager = NULL;
    assert_ok(gy_manager_new(&options, &growth, &manager));
    gy_free(tasks);
    gy_free(edges);
    return manager;
}

static inline void gy_test_over(void *arg)
{
    gy_test_job *job = arg;
    job->is_over = true;
}

/* Run the job; without a folder in a new one. */
static inline gy_status gy_test_job_run(gy_test_job *job)
{
    gy_driver_ops ops = {.encode = gy_test_encode,
                         .committed = gy_test_committed,
                         .failed = gy_test_failed,
                         .is_culprit = job->has_culprits ? gy_test_is_culprit : NULL,
                         .note = gy_test_note,
                         .tick = gy_test_tick,
                         .over = gy_test_over,
                         .arg = job};
    gy_env *env = job->env != NULL ? job->env : gy_env_real();
    if (job->folder[0] == '\0') {
        gy_test_job_folder(job);
    }
    gy_manager *manager = gy_test_manager(job);
    gy_driver_options options = {
        .folder = job->folder,
        .processes = job->processes,
        .threads = job->threads,
        .memory_bytes = job->memory_bytes,
        .ops = &ops,
        .epoch = job->epoch,
        .journal = job->journal,
        .sandbox = job->sandbox,
        .deadline = gy_env_deadline(env, job->seconds > 0 ? job->seconds : 60)};
    gy_status status = gy_driver_run(env, manager, &options);
    gy_manager_free(manager);
    return status;
}

/* Wait until every process started by this test has ended by itself, some seconds at most; this
 * process adopts orphans. */
static inline void gy_test_job_alone(void)
{
    gy_env *env = gy_env_real();
    gy_deadline last = gy_env_deadline(env, 10);
    for (;;) {
        pid_t ended = waitpid(-1, NULL, WNOHANG);
        if (ended < 0) {
            assert_int_equal(errno, ECHILD);
            return;
        }
        if (ended == 0) {
            if (gy_now_ns(env) >= last.at_ns) {
                fail_msg("a process of the job is still there");
            }
            (void)poll(NULL, 0, 1);
        }
    }
}

/* Nothing of the job is left, and its folder goes. */
static inline void gy_test_job_end(const gy_test_job *job)
{
    gy_test_job_alone();
    gy_test_job_remove(job);
}

static inline void gy_test_job_noted(const gy_test_job *job, const char *words)
{
    if (strstr(job->notes, words) == NULL) {
        fail_msg("nothing says \"%s\" in:\n%s", words, job->notes);
    }
}

/* From a tick: kill this process's only child (depth 1: the reaper), or that one's (2: the fork
 * server), once; a later tick does it if there is none yet. */
static inline void gy_test_kill_below(gy_test_job *job, int depth)
{
    long found = getpid();
    for (int i = 0; i < depth; i++) {
        char path[64], text[64] = "";
        snprintf(path, sizeof(path), "/proc/%ld/task/%ld/children", found, found);
        int file = open(path, O_RDONLY);
        assert_true(file >= 0);
        const ssize_t size = read(file, text, sizeof(text) - 1);
        close(file);
        if (size <= 0) {
            return;
        }
        found = strtol(text, NULL, 10);
    }
    assert_int_equal(kill((pid_t)found, SIGKILL), 0);
    job->on_tick = NULL;
}

/* ---- control groups ---- */

/* Create the groups that a job leaves if all its processes are killed at once. False: no groups
 * can be created here, which is printed. */
static inline bool gy_test_leave_groups(gy_limits *left)
{
    const gy_role role = {.processes = 2, .memory_bytes = (size_t)64 << 20};
    gy_limits *made =
        mmap(NULL, sizeof(*made), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(made != MAP_FAILED);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(gy_limits_open(made, &role, getpid()) == GY_OK ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    *left = *made;
    assert_int_equal(munmap(made, sizeof(*made)), 0);
    if (left->pids[0] == '\0') {
        printf("skipped: no control groups of processes can be made here\n");
    }
    return left->pids[0] != '\0';
}

static inline bool gy_test_has_groups(const gy_limits *left)
{
    return access(left->pids, F_OK) == 0 ||
           (left->memory[0] != '\0' && access(left->memory, F_OK) == 0);
}

#endif
