/*
 * Limits of a job's processes: control groups (version 1) where they can be created, else
 * resource limits. A group holds all that a vertex process starts, even what leaves its process
 * group.
 *
 * Cost: 0.02 ms to join a group as a single thread (`tasks`), as just after a fork. Moving a
 * whole process (`cgroup.procs`) waits 6 to 17 ms for all cores to pass a quiescent point, and
 * so does any fork meanwhile.
 */
#include "worker/limits.h"
#include "base/base.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TASKS_A_JOB = 2048,
    TASKS_A_PROCESS = 256,
    TASKS_OF_A_USER = 16384,
    REMOVE_ROUNDS = 2000,
    COLLECT_MOST = 64, /* groups to inspect in one collection, empty or not */
    /* A job started by a process of another job has its groups below that job's. */
    COLLECT_DEPTH = 3
};

/* Read a small file; its size in bytes, -1: it does not exist. */
static ssize_t read_small(const char *path, char *text, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return -1;
    }
    ssize_t got = read(file, text, size - 1);
    close(file);
    text[got > 0 ? got : 0] = '\0';
    return got;
}

/* errno, 0 done */
static int write_small(const char *folder, const char *name, const char *text)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) {
        return errno;
    }
    ssize_t written = write(file, text, strlen(text));
    int error = written < 0 ? errno : 0;
    close(file);
    return error;
}

static int write_number(const char *folder, const char *name, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    return write_small(folder, name, text);
}

/* The group of this process under controller `name`, as far as it is visible here. False: no
 * such controller. */
static bool find_place(const char *name, char folder[400])
{
    char text[4096], want[32];
    char *rest = NULL;
    if (read_small("/proc/self/cgroup", text, sizeof(text)) <= 0) {
        return false;
    }
    snprintf(want, sizeof(want), ":%s:", name);
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        const char *at = strstr(line, want);
        if (at != NULL) {
            const char *inside = at + strlen(want);
            snprintf(folder, 400, "/sys/fs/cgroup/%s%.300s", name,
                     strcmp(inside, "/") == 0 ? "" : inside);
            /* In a container the path may be relative to the host's root. */
            if (access(folder, W_OK) != 0) {
                snprintf(folder, 400, "/sys/fs/cgroup/%s", name);
            }
            return true;
        }
    }
    return false;
}

static const char group_name[] = "gyre-";

static void name_group(const char *place, pid_t fork_server, char out[512])
{
    snprintf(out, 512, "%.480s/%s%d", place, group_name, (int)fork_server);
}

/* The folder for the group of the job of `fork server`: beside that process's own group. */
static bool find_folder(const char *name, pid_t fork_server, char out[512])
{
    char place[400];
    if (!find_place(name, place)) {
        return false;
    }
    name_group(place, fork_server, out);
    return true;
}

/* Open a group's file for a later write, when this process may no longer reach the path. -1:
 * failed. */
static int open_small(const char *folder, const char *name)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return open(path, O_WRONLY | O_CLOEXEC);
}

/* Create a group; `folder` becomes "" if this fails. */
static void make_group(const char *name, pid_t fork_server, char folder[512])
{
    if (!find_folder(name, fork_server, folder) ||
        (mkdir(folder, 0700) != 0 && errno != EEXIST)) {
        folder[0] = '\0';
    }
}

static void group_of(const gy_limits *limits, uint32_t slot, char out[560])
{
    snprintf(out, 560, "%s/%u", limits->memory, slot);
}

/* Lower one resource limit, never raise it. errno, 0 done. */
static int lower(__rlimit_resource_t resource, uint64_t most)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0) {
        return errno;
    }
    limit.rlim_cur = GY_MIN(limit.rlim_cur, (rlim_t)most);
    return setrlimit(resource, &limit) == 0 ? 0 : errno;
}

/* A process with one thread joins a group by writing "0" to this file. */
static const char joining[] = "tasks";

/* Create the slot's memory group, or take the one of an earlier process. Returns a descriptor
 * to write to in order to join; -1: failed. */
static int make_memory(const gy_limits *limits, uint32_t slot)
{
    char group[560];
    group_of(limits, slot, group);
    if ((mkdir(group, 0700) != 0 && errno != EEXIST) ||
        write_number(group, "memory.limit_in_bytes", limits->memory_bytes) != 0) {
        return -1;
    }
    /* Swap counts too where the kernel accounts for it. */
    (void)write_number(group, "memory.memsw.limit_in_bytes", limits->memory_bytes);
    return open_small(group, joining);
}

gy_status gy_limits_open(gy_limits *limits, const gy_role *role, pid_t name)
{
    *limits = (gy_limits){
        .memory_bytes = role->memory_bytes, .processes = role->processes, .most = -1};
    limits->killed = gy_alloc_zero("worker.limits", role->processes, sizeof(uint64_t));
    limits->entries = gy_alloc("worker.limits", role->processes * sizeof(int));
    for (uint32_t slot = 0; limits->entries != NULL && slot < role->processes; slot++) {
        limits->entries[slot] = -1;
    }
    if (limits->killed == NULL || limits->entries == NULL) {
        return GY_NOMEM;
    }
    make_group("pids", name, limits->pids);
    uint64_t most = TASKS_A_JOB + (uint64_t)TASKS_A_PROCESS * role->processes;
    if (limits->pids[0] != '\0' && (write_number(limits->pids, "pids.max", most) != 0 ||
                                    write_small(limits->pids, joining, "0") != 0)) {
        rmdir(limits->pids);
        limits->pids[0] = '\0';
    }
    if (limits->pids[0] != '\0') {
        limits->most = open_small(limits->pids, "pids.max");
    }
    if (role->memory_bytes > 0) {
        make_group("memory", name, limits->memory);
    }
    for (uint32_t slot = 0; slot < role->processes; slot++) {
        limits->entries[slot] = limits->memory[0] != '\0' ? make_memory(limits, slot) : -1;
    }
    return GY_OK;
}

int gy_limits_enter(const gy_limits *limits, uint32_t slot)
{
    int error = 0;
    if (limits->pids[0] == '\0') {
        error = lower(RLIMIT_NPROC, TASKS_OF_A_USER);
    }
    if (error != 0 || limits->memory_bytes == 0) {
        return error;
    }
    if (limits->entries != NULL && limits->entries[slot] >= 0 &&
        write(limits->entries[slot], "0", 1) == 1) {
        return 0;
    }
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    return 0; /* a sanitizer's shadow memory is many times as large */
#else
    /* Not the address space, which would include mapped inputs. */
    return lower(RLIMIT_DATA, limits->memory_bytes);
#endif
}

bool gy_limits_is_over(gy_limits *limits, uint32_t slot)
{
    char group[560], path[600], text[512];
    if (limits->memory[0] == '\0') {
        return false;
    }
    group_of(limits, slot, group);
    snprintf(path, sizeof(path), "%s/memory.oom_control", group);
    if (read_small(path, text, sizeof(text)) <= 0) {
        return false;
    }
    const char *at = strstr(text, "oom_kill ");
    uint64_t killed = at != NULL ? strtoull(at + strlen("oom_kill "), NULL, 10) : 0;
    bool is_over = killed > limits->killed[slot];
    limits->killed[slot] = killed;
    return is_over;
}

void gy_limits_forbid(const gy_limits *limits, bool is_forbidden)
{
    if (limits->most >= 0) {
        char text[32];
        uint64_t most = TASKS_A_JOB + (uint64_t)TASKS_A_PROCESS * limits->processes;
        size_t size = gy_print(text, sizeof(text), "%llu",
                               is_forbidden ? 0ULL : (unsigned long long)most);
        if (write(limits->most, text, size) != (ssize_t)size) {
            gy_debug("a job's limit of processes stays: %s", strerror(errno));
        }
    }
}

/* Kill all processes of a group, of which this process is no member. */
static void kill_all(const char *folder)
{
    char path[600], text[16384];
    snprintf(path, sizeof(path), "%s/cgroup.procs", folder);
    if (read_small(path, text, sizeof(text)) > 0) {
        char *at = text, *end = NULL;
        for (long one = strtol(at, &end, 10); end != at; one = strtol(at, &end, 10)) {
            GY_ASSERT(one != getpid());
            if (one > 1) {
                kill((pid_t)one, SIGKILL);
            }
            at = end;
        }
    }
}

/* Remove a group, after killing any process that is left in it. */
static void remove_group(const char *folder)
{
    for (int round = 0; rmdir(folder) != 0 && errno == EBUSY && round < REMOVE_ROUNDS;
         round++) {
        kill_all(folder);
        (void)poll(NULL, 0, 1);
    }
}

/* Remove the slots' memory groups and their parent. */
static void remove_memory(const char *folder, uint32_t processes)
{
    char group[560];
    for (uint32_t slot = 0; slot < processes; slot++) {
        snprintf(group, sizeof(group), "%s/%u", folder, slot);
        remove_group(group);
    }
    remove_group(folder);
}

void gy_limits_close(gy_limits *limits)
{
    for (uint32_t slot = 0; limits->entries != NULL && slot < limits->processes; slot++) {
        if (limits->entries[slot] >= 0) {
            close(limits->entries[slot]);
        }
    }
    if (limits->most >= 0) {
        close(limits->most);
    }
    gy_free(limits->entries);
    gy_free(limits->killed);
    limits->entries = NULL;
    limits->killed = NULL;
    limits->most = -1;
}

void gy_limits_sweep(pid_t name, uint32_t processes)
{
    char folder[512];
    if (find_folder("pids", name, folder)) {
        /* A process that is still alive cannot start another. */
        (void)write_number(folder, "pids.max", 0);
        remove_group(folder);
    }
    if (find_folder("memory", name, folder) && access(folder, F_OK) == 0) {
        remove_memory(folder, processes);
    }
}

/* ---- Groups whose owners were killed ---- */

/* The process that a group is named after; 0: the group is not Gyre's. */
static pid_t named_by(const char *group)
{
    const size_t size = sizeof(group_name) - 1;
    char *end = NULL;
    if (strncmp(group, group_name, size) != 0 || group[size] < '1' || group[size] > '9') {
        return 0;
    }
    const long process = strtol(group + size, &end, 10);
    return *end == '\0' && process <= INT_MAX ? (pid_t)process : 0;
}

/* Remove a group and its subgroups as far as they are empty. */
static void remove_empty(const char *folder, int depth)
{
    char inside[600];
    DIR *listing = depth > 0 ? opendir(folder) : NULL;
    for (struct dirent *at = listing != NULL ? readdir(listing) : NULL; at != NULL;
         at = readdir(listing)) {
        if (at->d_type == DT_DIR && at->d_name[0] != '.' &&
            snprintf(inside, sizeof(inside), "%s/%s", folder, at->d_name) <
                (int)sizeof(inside)) {
            remove_empty(inside, depth - 1);
        }
    }
    if (listing != NULL) {
        closedir(listing);
    }
    (void)rmdir(folder);
}

/* The job may be alive in another PID namespace, say in a container that shares this folder,
 * where its process id differs. But then its process group is not empty and stays, and so its
 * memory group stays too. */
static void collect(const char *place, const char *memory, int depth, int *left)
{
    DIR *listing = opendir(place);
    for (struct dirent *at = listing != NULL ? readdir(listing) : NULL; at != NULL && *left > 0;
         at = readdir(listing)) {
        char group[512];
        const pid_t process = named_by(at->d_name);
        if (process == 0 || kill(process, 0) == 0 || errno != ESRCH) {
            continue;
        }
        (*left)--;
        name_group(place, process, group);
        if (depth > 1) {
            collect(group, memory, depth - 1, left);
        }
        if (rmdir(group) == 0 && memory[0] != '\0') {
            name_group(memory, process, group);
            remove_empty(group, COLLECT_DEPTH);
        }
    }
    if (listing != NULL) {
        closedir(listing);
    }
}

void gy_limits_collect(void)
{
    char place[400], memory[400];
    int left = COLLECT_MOST;
    if (!find_place("memory", memory)) {
        memory[0] = '\0';
    }
    if (find_place("pids", place)) {
        collect(place, memory, COLLECT_DEPTH, &left);
    }
}
