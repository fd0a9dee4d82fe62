/**
 * What tests of jobs under faults share: a folder for each, commands and their processes as
 * /proc shows them, journals as they grow, outputs as one hash.
 */
#ifndef GY_JOBS_KIT_H
#define GY_JOBS_KIT_H

#include "base/base.h"
#include "base/random.h"
#include "sched/state/records.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gy_test.h"

/* No wait of these tests is longer. */
enum { KIT_WAIT_SECONDS = 60, KIT_TASKS_MAX = 4096 };

static char kit_top[64];

static inline int kit_begin(void **state)
{
    (void)state;
    /* What a job's processes leave comes to us, so it is seen. */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    snprintf(kit_top, sizeof(kit_top), "/tmp/gyre-jobs-XXXXXX");
    return mkdtemp(kit_top) != NULL && setenv("XDG_STATE_HOME", kit_top, 1) == 0 ? 0 : 1;
}

static inline int kit_end(void **state)
{
    (void)state;
    char line[128], out[64];
    snprintf(line, sizeof(line), "rm -rf %s", kit_top);
    return gy_test_shell(line, out, sizeof(out));
}

static inline double kit_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Between two looks at a condition. */
static inline void kit_pause(void)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    (void)nanosleep(&moment, NULL);
}

/* Start a program; what it says goes to the file `log`. */
static inline pid_t kit_start(char *const *arguments, const char *log)
{
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing outlives a test that fails */
        const int file = open(log, O_CREAT | O_WRONLY | O_TRUNC, 0600);
        if (file < 0 || dup2(file, 1) < 0 || dup2(file, 2) < 0) {
            _exit(126);
        }
        execvp(arguments[0], arguments);
        _exit(127);
    }
    return child;
}

/* True once it has ended, with its status. */
static inline bool kit_has_ended(pid_t child, int *status)
{
    const pid_t got = waitpid(child, status, WNOHANG);
    assert_true(got >= 0);
    return got == child;
}

/* The wait status of a process that must end. */
static inline int kit_wait(pid_t child)
{
    int status = 0;
    for (const double last = kit_now() + KIT_WAIT_SECONDS; !kit_has_ended(child, &status);) {
        if (kit_now() > last) {
            (void)kill(child, SIGKILL);
            (void)waitpid(child, &status, 0);
            fail_msg("process %d did not end", (int)child);
        }
        kit_pause();
    }
    return status;
}

/* Whatever was started has ended, within some seconds. */
static inline void kit_alone(void)
{
    for (const double last = kit_now() + 20;;) {
        const pid_t ended = waitpid(-1, NULL, WNOHANG);
        if (ended < 0) {
            assert_int_equal(errno, ECHILD);
            return;
        }
        if (kit_now() > last) {
            fail_msg("a process of a job is still there");
        }
        if (ended == 0) {
            kit_pause();
        }
    }
}

/* Children of a process, at most `most`. */
static inline int kit_children(pid_t of, pid_t *out, int most)
{
    char path[64], text[4096];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)of, (int)of);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return 0;
    }
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    int count = 0;
    char *end = text;
    for (char *at = text; count < most; at = end) {
        const long one = strtol(at, &end, 10);
        if (end == at) {
            break;
        }
        out[count++] = (pid_t)one;
    }
    return count;
}

/* The parent of a manager's vertex processes, 0: it has none. Its own parent, which does
 * nothing but wait for it, is the manager's child. */
static inline pid_t kit_fork_server(pid_t manager)
{
    pid_t reaper = 0, fork_server = 0;
    return kit_children(manager, &reaper, 1) == 1 && kit_children(reaper, &fork_server, 1) == 1
               ? fork_server
               : 0;
}

/* Vertex processes. */
static inline int kit_workers(pid_t manager, pid_t *out, int most)
{
    const pid_t fork_server = kit_fork_server(manager);
    return fork_server != 0 ? kit_children(fork_server, out, most) : 0;
}

/* How many entries a folder has, hidden ones too; -1: there is none. */
static inline int kit_entries(const char *path)
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

/* All of a file, with a NUL behind it; the caller frees it. NULL: there is none. */
static inline char *kit_read(const char *path, size_t *size_bytes)
{
    const int file = open(path, O_RDONLY);
    struct stat about;
    if (file < 0 || fstat(file, &about) != 0) {
        return NULL;
    }
    char *bytes = gy_alloc("test", (size_t)about.st_size + 1);
    assert_non_null(bytes);
    size_t at = 0;
    ssize_t got = 1;
    while (got > 0 && at < (size_t)about.st_size) {
        got = read(file, bytes + at, (size_t)about.st_size - at);
        at += got > 0 ? (size_t)got : 0;
    }
    close(file);
    bytes[at] = '\0';
    if (size_bytes != NULL) {
        *size_bytes = at;
    }
    return bytes;
}

/* The hash of files part-00000 … of an output, and of an index's inputs-00000; it has nothing
 * else but its manifest. */
static inline uint64_t kit_output_hash(const char *output, int parts)
{
    uint64_t hash = 0;
    char path[256];
    snprintf(path, sizeof(path), "%s/inputs-00000", output);
    const int lists = access(path, F_OK) == 0;
    if (kit_entries(output) != parts + lists + 1) {
        fail_msg("%s has %d entries: expected %d", output, kit_entries(output),
                 parts + lists + 1);
    }
    for (int i = 0; i < parts + lists; i++) {
        size_t size = 0;
        if (i < parts) {
            snprintf(path, sizeof(path), "%s/part-%05d", output, i);
        } else {
            snprintf(path, sizeof(path), "%s/inputs-00000", output);
        }
        char *bytes = kit_read(path, &size);
        if (bytes == NULL) {
            fail_msg("%s is missing", path);
        }
        hash = gy_hash(bytes, size, hash + 1);
        gy_free(bytes);
    }
    return hash;
}

/* What a job's folder keeps of a job that is done. */
static inline void kit_folder_is_clean(const char *job)
{
    static const char *const gone[] = {"data", "scratch", "run", "journal", "faults"};
    for (size_t i = 0; i < GY_COUNT(gone); i++) {
        char path[256];
        snprintf(path, sizeof(path), "%s/%s", job, gone[i]);
        if (access(path, F_OK) == 0) {
            char line[300], said[4096];
            snprintf(line, sizeof(line), "find %s; tail -n 3 %s/../log", job, job);
            (void)gy_test_shell(line, said, sizeof(said));
            fail_msg("%s is still there: %s", path, said);
        }
    }
}

/* ---- journals ---- */

enum { SEGMENT_HEAD_BYTES = 128 }; /* persist/journal/seal.c */

/* How often each task was committed, how many records there are, what was taken back. */
typedef struct kit_journal {
    int commits[KIT_TASKS_MAX];
    int committed, raised, managers;
} kit_journal;

/* A journal, or an epoch's segment of one, that is open as `file` (it may have lost its name).
 */
static inline void kit_journal_read(int file, kit_journal *out)
{
    struct stat about;
    memset(out, 0, sizeof(*out));
    assert_int_equal(fstat(file, &about), 0);
    char *bytes = gy_alloc("test", (size_t)about.st_size + 1);
    assert_non_null(bytes);
    const ssize_t size = pread(file, bytes, (size_t)about.st_size, 0);
    const bool is_segment = size >= SEGMENT_HEAD_BYTES && memcmp(bytes, "gyre seg", 8) == 0;
    for (size_t at = is_segment ? SEGMENT_HEAD_BYTES : 0;
         at + sizeof(record_head) <= (size_t)size;) {
        record_head head;
        memcpy(&head, bytes + at, sizeof(head));
        at += sizeof(head);
        if (head.size_bytes > (size_t)size - at) {
            break; /* torn: its manager was killed there */
        }
        if (head.kind == RECORD_COMMIT) {
            record_commit commit;
            memcpy(&commit, bytes + at, sizeof(commit));
            assert_true(commit.task < KIT_TASKS_MAX);
            out->committed += out->commits[commit.task]++ == 0;
        }
        out->raised +=
            head.kind == RECORD_RAISE ? (int)(head.size_bytes / sizeof(record_raise)) : 0;
        out->managers += head.kind == RECORD_BEGIN || head.kind == RECORD_RESUME;
        at += head.size_bytes;
    }
    gy_free(bytes);
}

#endif
