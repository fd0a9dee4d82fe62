/* Finds this user's launches through the descriptors of the processes under /proc. */
#include "doctor/doctor_priv.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char segment_name[] = "/memfd:gyre-segment";

static pid_t number_of(const char *text)
{
    char *end = NULL;
    long value = strtol(text, &end, 10);
    return *end == '\0' && value > 0 && value <= INT32_MAX ? (pid_t)value : 0;
}

static void add_holder(gy_found_run *runs, int *count, pid_t process, const char *path)
{
    struct stat facts;
    int at = 0;
    if (stat(path, &facts) != 0) {
        return;
    }
    while (at < *count && (runs[at].inode != facts.st_ino || runs[at].device != facts.st_dev)) {
        at++;
    }
    if (at == GY_RUNS_MAX) {
        return;
    }
    gy_found_run *run = &runs[at];
    if (at == *count) {
        *run = (gy_found_run){.device = facts.st_dev, .inode = facts.st_ino};
        snprintf(run->path, sizeof(run->path), "%s", path);
        (*count)++;
    }
    bool is_known = run->process_count > 0 && run->processes[run->process_count - 1] == process;
    if (!is_known && run->process_count < GY_RUN_PROCESSES) {
        run->processes[run->process_count++] = process;
    }
}

static void look_at_process(gy_found_run *runs, int *count, pid_t process)
{
    char folder[32], path[48], target[64];
    snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)process);
    DIR *files = opendir(folder);
    if (files == NULL) {
        return; /* the process belongs to another user, or it has just ended */
    }
    for (struct dirent *file = readdir(files); file != NULL; file = readdir(files)) {
        int number = (int)number_of(file->d_name);
        snprintf(path, sizeof(path), "%s/%d", folder, number);
        ssize_t size = readlink(path, target, sizeof(target));
        if (size >= (ssize_t)strlen(segment_name) &&
            memcmp(target, segment_name, strlen(segment_name)) == 0) {
            add_holder(runs, count, process, path);
        }
    }
    closedir(files);
}

typedef struct search {
    gy_found_run *runs;
    int *count;
} search;

static gy_status visit_process(void *arg, const char *name)
{
    const search *of = arg;
    pid_t process = number_of(name);
    if (process > 0) {
        look_at_process(of->runs, of->count, process);
    }
    return GY_OK;
}

gy_status gy_doctor_runs_find(gy_found_run *runs, int *count)
{
    search of = {runs, count};
    *count = 0;
    return gy_disk_each(gy_env_real(), "/proc", visit_process, &of);
}

bool gy_doctor_run_has(const gy_found_run *run, pid_t process)
{
    enum { DEEPEST = 64 };
    for (int i = 0; i < run->process_count; i++) {
        pid_t at = run->processes[i];
        for (int depth = 0; at > 1 && depth < DEEPEST; depth++) {
            if (at == process) {
                return true;
            }
            at = gy_transport_process_parent(at);
        }
    }
    return false;
}
