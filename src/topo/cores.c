#include "topo/topo.h"

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topo/topo_priv.h"

bool gy_topo_read_file(const char *path, char *out, size_t size_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t size = read(fd, out, size_bytes - 1);
    close(fd);
    out[size > 0 ? size : 0] = '\0';
    return size > 0;
}

int gy_topo_cpuset_cores(void)
{
    /* 1024 cores fit the usual set; larger machines need a larger one. */
    for (int bits = 1024; bits <= 65536; bits *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)bits);
        if (set == NULL) {
            return 1;
        }
        size_t size = CPU_ALLOC_SIZE((size_t)bits);
        int cores = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (cores > 0) {
            return cores;
        }
    }
    return 1;
}

double gy_topo_parse_cpu_max(const char *text)
{
    char *end = NULL;
    double quota = strtod(text, &end);
    if (end == text) {
        return 0; /* "max" */
    }
    double period = strtod(end, NULL);
    return quota > 0 && period > 0 ? quota / period : 0;
}

static double quota_of_version_2(const char *folder)
{
    char path[1280], text[64];
    snprintf(path, sizeof(path), "%s/cpu.max", folder);
    return gy_topo_read_file(path, text, sizeof(text)) ? gy_topo_parse_cpu_max(text) : 0;
}

static double quota_of_version_1(const char *folder)
{
    char path[1280], quota[64], period[64];
    snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", folder);
    if (!gy_topo_read_file(path, quota, sizeof(quota))) {
        return 0;
    }
    snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", folder);
    if (!gy_topo_read_file(path, period, sizeof(period))) {
        return 0;
    }
    double allowed = strtod(quota, NULL), of = strtod(period, NULL);
    return allowed > 0 && of > 0 ? allowed / of : 0;
}

double gy_topo_quota_in(const char *mount, const char *group, int version)
{
    char folder[1200];
    size_t root = strlen(mount);
    double least = 0;
    if ((size_t)snprintf(folder, sizeof(folder), "%s%s", mount, group) >= sizeof(folder)) {
        return 0;
    }
    /* Inside a container the group's path may be the host's: then only the mount itself is
     * there, and is ours. */
    for (;;) {
        double quota = version == 2 ? quota_of_version_2(folder) : quota_of_version_1(folder);
        least = quota > 0 && (least == 0 || quota < least) ? quota : least;
        char *slash = strrchr(folder, '/');
        if (strlen(folder) <= root || slash == NULL) {
            return least;
        }
        *slash = '\0';
    }
}

double gy_topo_quota_cores(void)
{
    char text[4096];
    if (!gy_topo_read_file("/proc/self/cgroup", text, sizeof(text))) {
        return 0;
    }
    double least = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        /* "0::/user.slice" (version 2) or "4:cpu,cpuacct:/group" (version 1) */
        char *controllers = strchr(line, ':');
        char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL) {
            continue;
        }
        *group++ = '\0';
        *controllers++ = '\0';
        double quota = 0;
        if (*controllers == '\0') {
            quota = gy_topo_quota_in("/sys/fs/cgroup", group, 2);
        } else if (strcmp(controllers, "cpu") == 0 || strncmp(controllers, "cpu,", 4) == 0 ||
                   strstr(controllers, ",cpu,") != NULL) {
            quota = gy_topo_quota_in("/sys/fs/cgroup/cpu", group, 1);
        }
        least = quota > 0 && (least == 0 || quota < least) ? quota : least;
    }
    return least;
}

static double quota_once;

static void read_quota(void)
{
    quota_once = gy_topo_quota_cores();
}

int gy_topo_cores(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    GY_ASSERT(pthread_once(&once, read_quota) == 0);
    int cores = gy_topo_cpuset_cores();
    if (quota_once > 0 && ceil(quota_once) < cores) {
        cores = (int)ceil(quota_once);
    }
    return GY_MAX(cores, 1);
}
