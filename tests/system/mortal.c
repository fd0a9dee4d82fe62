/*
 * Preloaded into a command, this ends it at an exact point of what it does to a job's files.
 * GYRE_TEST_MORTAL holds a letter and a number: the process that is started with it dies by
 * SIGKILL at that call, counted from 0. Processes that it starts do not.
 *
 *     j  writes to the journal, each counted twice: before it, and when half of it is written
 *     f  syncs, links, folders made, files and folders removed, in the job's folder and output
 */
#include <dlfcn.h>
#include <signal.h>
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

__attribute__((constructor)) static void be_born(void)
{
    const char *what = getenv("GYRE_TEST_MORTAL");
    if (what != NULL && what[0] != '\0') {
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
