#include "topo/topo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/topo_priv.h"

static gy_topo_caches found;

/* Cores in a list such as "0-3,8". */
static int count_list(const char *list)
{
    int cores = 0;
    while (*list >= '0' && *list <= '9') {
        char *end = NULL;
        long first = strtol(list, &end, 10), last = first;
        if (*end == '-') {
            last = strtol(end + 1, &end, 10);
        }
        cores += last >= first ? (int)(last - first + 1) : 0;
        list = *end == ',' ? end + 1 : end;
    }
    return cores;
}

static bool read_fact(int index, const char *fact, char *out, size_t size_bytes)
{
    char path[128];
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, fact);
    return gy_topo_read_file(path, out, size_bytes);
}

static void read_caches(void)
{
    char text[256];
    for (int index = 0; index < 8 && read_fact(index, "level", text, sizeof(text)); index++) {
        int level = (int)strtol(text, NULL, 10);
        if (level < 1 || level >= GY_TOPO_LEVELS ||
            !read_fact(index, "type", text, sizeof(text)) || text[0] == 'I') {
            continue;
        }
        if (read_fact(index, "size", text, sizeof(text))) {
            char *unit = NULL;
            size_t size = strtoul(text, &unit, 10);
            found.data_bytes[level] = size << (*unit == 'K' ? 10 : *unit == 'M' ? 20 : 0);
        }
        if (read_fact(index, "shared_cpu_list", text, sizeof(text))) {
            found.shared_by[level] = count_list(text);
        }
    }
}

const gy_topo_caches *gy_topo_cache_sizes(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    GY_ASSERT(pthread_once(&once, read_caches) == 0);
    return &found;
}

void gy_topo_cpu_name(char *out, size_t size_bytes)
{
    char text[4096];
    snprintf(out, size_bytes, "unknown");
    if (!gy_topo_read_file("/proc/cpuinfo", text, sizeof(text))) {
        return;
    }
    const char *line = strstr(text, "model name");
    const char *name = line != NULL ? strchr(line, ':') : NULL;
    if (name != NULL) {
        name += strspn(name, ": \t");
        snprintf(out, size_bytes, "%.*s", (int)strcspn(name, "\n"), name);
    }
}
