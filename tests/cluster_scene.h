/**
 * The one cluster of a test program, and what its tests say to it: lines of shell, which are
 * shown where they fail.
 */
#ifndef GY_TESTS_CLUSTER_SCENE_H
#define GY_TESTS_CLUSTER_SCENE_H

#include "cluster_kit.h"

static cluster at;
static char said[1 << 16]; /* by the last line */

static inline int shell(const char *line)
{
    const int status = cluster_shell(&at, said, sizeof(said), line);
    if (status != 0) {
        printf("%s\n%s\n", line, said);
    }
    return status;
}

/* Until a file of the test's folder is there; if it never is, what the cluster's processes said
 * is shown. */
static inline void scene_await(const char *name)
{
    char path[160];
    (void)cluster_path(path, name);
    for (const double last = kit_now() + KIT_WAIT_SECONDS; access(path, F_OK) != 0;) {
        if (kit_now() > last) {
            (void)shell("tail -n 30 names*.log d?.log d?/jobs/*/log/manager; false");
            fail_msg("%s never came", name);
        }
        kit_pause();
    }
}

static inline int scene_begin(void **state)
{
    if (kit_begin(state) != 0) {
        return 1;
    }
    cluster_start(&at);
    return 0;
}

static inline int scene_end(void **state)
{
    cluster_stop(&at);
    return kit_end(state);
}

/* The id that `--no-wait` printed. */
static inline void scene_id(char id[40])
{
    snprintf(id, 40, "%.*s", (int)strcspn(said, "\n"), said);
}

/* How often a letter stands in the file `runs`, where vertices write one each. */
static inline int scene_runs(char letter)
{
    char path[160];
    size_t size = 0;
    int count = 0;
    char *bytes = kit_read(cluster_path(path, "runs"), &size);
    for (size_t i = 0; bytes != NULL && i < size; i++) {
        count += bytes[i] == letter;
    }
    gy_free(bytes);
    return count;
}

#endif
