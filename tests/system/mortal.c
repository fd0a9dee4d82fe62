/*
 * Preloaded into a command, this ends it at an exact point of what it does to a job's files.
 * GYRE_TEST_MORTAL holds a letter and a number: the process that is started with it dies by
 * SIGKILL at that call, counted from 0. Processes that it starts do not.
 *
 *     j  writes to the journal, each counted twice: before it, and when half of it is written
 *     f  syncs, links, folders made, files and folders removed, in the job's folder and output
 *
 * On a cluster, where managers and vertices are all started with it, GYRE_TEST_EPOCH says whose
 * manager dies alone; and each file that a vertex begins in a folder `data` is a line, its
 * name, in the file that GYRE_TEST_RUNS names.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char kind;
static long left; /* calls that it survives */
static pid_t mortal;
static char runs[256]; /* "": nobody counts them */

/* No epoch is asked for, or it is that of the ticket that this process was started with. */
static bool is_wanted_epoch(void)
{
    const char *wanted = getenv("GYRE_TEST_EPOCH"), *path = getenv("GYRE_TICKET");
    char line[4200] = "", own[32];
    if (wanted == NULL) {
        return true;
    }
    (void)snprintf(own, sizeof(own), "epoch %s\n", wanted);
    FILE *ticket = path != NULL ? fopen(path, "re") : NULL;
    bool is_own = false;
    while (ticket != NULL && !is_own && fgets(line, sizeof(line), ticket) != NULL) {
        is_own = strcmp(line, own) == 0;
    }
    if (ticket != NULL) {
        (void)fclose(ticket);
    }
    return is_own;
}

__attribute__((constructor)) static void be_born(void)
{
    const char *what = getenv("GYRE_TEST_MORTAL");
    const char *noted = getenv("GYRE_TEST_RUNS");
    (void)snprintf(runs, sizeof(runs), "%s", noted != NULL ? noted : "");
    if (what != NULL && what[0] != '\0' && is_wanted_epoch()) {
        kind = what[0];
        left = strtol(what + 1, NULL, 10);
        mortal = getpid();
        (void)unsetenv("GYRE_TEST_MORTAL"); /* for those that it starts */
    }
}

static void *next_of(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

/* Is it time? */
static bool is_last(char of)
{
    return of == kind && getpid() == mortal && left-- == 0;
}

static void die_at(char of)
{
    if (is_last(of)) {
        (void)kill(getpid(), SIGKILL);
    }
}

static bool is_of_job(const char *path)
{
    return strstr(path, "/job/") != NULL || strstr(path, "/out/") != NULL;
}

static bool path_of(int file, char out[4096])
{
    char link_path[64];
    snprintf(link_path, sizeof(link_path), "/proc/self/fd/%d", file);
    const ssize_t size = readlink(link_path, out, 4095);
    out[size > 0 ? size : 0] = '\0';
    return size > 0;
}

ssize_t write(int file, const void *data, size_t size_bytes)
{
    ssize_t (*next)(int, const void *, size_t);
    *(void **)&next = next_of("write");
    char path[4096];
    if (kind == 'j' && getpid() == mortal && path_of(file, path) &&
        strstr(path, "/job/journal") != NULL) {
        die_at('j');
        if (is_last('j')) {
            (void)!next(file, data, size_bytes / 2);
            (void)kill(getpid(), SIGKILL);
        }
    }
    return next(file, data, size_bytes);
}

static void note_run(const char *path)
{
    char line[256];
    const char *name = strrchr(path, '/');
    if (runs[0] == '\0' || name == NULL || name - path < 5 ||
        strncmp(name - 5, "/data", 5) != 0) {
        return;
    }
    int (*next)(const char *, int, ...);
    *(void **)&next = next_of("open");
    const int size = snprintf(line, sizeof(line), "%.200s\n", name + 1);
    const int file = next(runs, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || size >= (int)sizeof(line) || write(file, line, (size_t)size) != size) {
        abort(); /* a test that counts must not miss one */
    }
    (void)close(file);
}

int open(const char *path, int how, ...)
{
    int (*next)(const char *, int, ...);
    *(void **)&next = next_of("open");
    mode_t mode = 0;
    if ((how & O_CREAT) != 0) {
        va_list rest;
        va_start(rest, how);
        mode = (mode_t)va_arg(rest, int);
        va_end(rest);
        note_run(path);
    }
    return next(path, how, mode);
}

int fsync(int file)
{
    int (*next)(int);
    *(void **)&next = next_of("fsync");
    char path[4096];
    if (path_of(file, path) && is_of_job(path)) {
        die_at('f');
    }
    return next(file);
}

int link(const char *from, const char *to)
{
    int (*next)(const char *, const char *);
    *(void **)&next = next_of("link");
    if (is_of_job(from)) {
        die_at('f');
    }
    return next(from, to);
}

static void look(const char *path)
{
    if (is_of_job(path)) {
        die_at('f');
    }
}

int unlink(const char *path)
{
    int (*next)(const char *);
    *(void **)&next = next_of("unlink");
    look(path);
    return next(path);
}

int remove(const char *path)
{
    int (*next)(const char *);
    *(void **)&next = next_of("remove");
    look(path);
    return next(path);
}

int rmdir(const char *path)
{
    int (*next)(const char *);
    *(void **)&next = next_of("rmdir");
    look(path);
    return next(path);
}
