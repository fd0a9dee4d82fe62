/**
 * What tests of whole clusters share: a name server and daemons as processes of their own, each
 * with its folder, on one host; jobs that are submitted to them.
 */
#ifndef GY_TESTS_CLUSTER_KIT_H
#define GY_TESTS_CLUSTER_KIT_H

#include "jobs_kit.h"

enum { CLUSTER_DAEMONS = 3 };

#define CLUSTER_LONG "600" /* seconds; no test lasts so long */

typedef struct cluster {
    char names[64], ring[128]; /* address; key file */
    pid_t server, daemons[CLUSTER_DAEMONS];
    const char *binary;
    const char *options[10]; /* more of the name server's; NULL at the end */
    bool loses;              /* who is silent is lost as soon as usual; else a test's time is */
                             /* over before: a slow machine loses nobody */
    const char *reserve;     /* of daemons' disks; NULL: as usual */
    const char *keep;        /* seconds that files outlive their manager; NULL: the same */
    const char *slots[CLUSTER_DAEMONS]; /* of each; NULL: 3 */
    const char *network;                /* "10.7.7.": what hosts' addresses begin with, whose */
    void (*enter)(int host); /* network this process enters; CLUSTER_DAEMONS: the user's */
} cluster;

/* Wait until `fact` holds. */
#define KIT_UNTIL(fact)                                                                        \
    do {                                                                                       \
        const double last_ = kit_now() + KIT_WAIT_SECONDS;                                     \
        while (!(fact)) {                                                                      \
            if (kit_now() > last_) {                                                           \
                fail_msg("never: %s", #fact);                                                  \
            }                                                                                  \
            kit_pause();                                                                       \
        }                                                                                      \
    } while (0)

static inline const char *cluster_path(char out[160], const char *name)
{
    snprintf(out, 160, "%s/%s", kit_top, name);
    return out;
}

/* Some port of a host, in the words of --listen. */
static inline const char *cluster_listen(const cluster *at, int host, char out[32])
{
    if (at->network == NULL) {
        snprintf(out, 32, "127.0.0.1:0");
    } else {
        snprintf(out, 32, "%s%d:0", at->network, host + 1);
    }
    return out;
}

/* Run a line of shell with $GYRE, $N (how to reach the cluster) and $T (the test's folder);
 * its exit status. */
static inline int cluster_shell(const cluster *at, char *said, size_t size, const char *line)
{
    char whole[4096];
    snprintf(whole, sizeof(whole),
             "T=%s; GYRE=%s; N='--nameservers %s --key %s'; cd $T; { %s; } 2>&1", kit_top,
             at->binary, at->names, at->ring, line);
    return gy_test_shell(whole, said, size);
}

static inline pid_t cluster_daemon(const cluster *at, int index)
{
    char folder[160], log[160], host[16], name[32], listen[32];
    const char *keep = at->keep != NULL ? at->keep : at->loses ? "10" : CLUSTER_LONG;
    snprintf(name, sizeof(name), "d%d", index);
    snprintf(host, sizeof(host), "h%d", index);
    (void)cluster_path(folder, name);
    snprintf(name, sizeof(name), "d%d.log", index);
    (void)cluster_path(log, name);
    char *const arguments[] = {(char *)(uintptr_t)at->binary,
                               "daemon",
                               "--nameservers",
                               (char *)(uintptr_t)at->names,
                               "--listen",
                               (char *)(uintptr_t)cluster_listen(at, index, listen),
                               "--key",
                               (char *)(uintptr_t)at->ring,
                               "--work-folder",
                               folder,
                               "--hostname",
                               host,
                               "--slots",
                               (char *)(uintptr_t)(at->slots[index] ? at->slots[index] : "3"),
                               "--orphan-retention",
                               (char *)(uintptr_t)keep,
                               at->reserve != NULL ? "--disk-free-min" : NULL,
                               (char *)(uintptr_t)at->reserve,
                               NULL};
    if (at->enter != NULL) {
        at->enter(index);
    }
    const pid_t daemon = kit_start(arguments, log);
    if (at->enter != NULL) {
        at->enter(CLUSTER_DAEMONS);
    }
    return daemon;
}

/* How many daemons the name server sees. */
static inline int cluster_up(const cluster *at)
{
    char said[4096];
    int count = 0;
    if (cluster_shell(at, said, sizeof(said), "$GYRE cluster list $N") == 0) {
        for (const char *line = strstr(said, " up "); line != NULL;
             line = strstr(line + 1, " up ")) {
            count++;
        }
    }
    return count;
}

/* A name server at that address; port 0: one is chosen. Its port file appears when it serves.
 */
static inline pid_t cluster_server(const cluster *at, const char *listen)
{
    char table[160], port[160], log[160];
    (void)cluster_path(port, "port");
    (void)cluster_path(log, "names.log");
    snprintf(table, sizeof(table), "sqlite:%s/table", kit_top);
    static const char *const calm[] = {
        "--heartbeat-timeout",     CLUSTER_LONG, "--slot-lease", CLUSTER_LONG,
        "--manager-start-timeout", CLUSTER_LONG};
    const char *arguments[28] = {at->binary, "nameserver", "--listen", listen,        "--key",
                                 at->ring,   "--table",    table,      "--port-file", port};
    size_t count = 10;
    for (size_t i = 0; i < GY_COUNT(calm) && !at->loses; i++) {
        arguments[count++] = calm[i];
    }
    for (size_t i = 0; i < GY_COUNT(at->options) && at->options[i] != NULL; i++) {
        arguments[count++] = at->options[i];
    }
    return kit_start((char *const *)(uintptr_t)arguments, log);
}

static inline void cluster_start(cluster *at)
{
    char port[160], said[256], listen[32];
    const char *binary = getenv("GYRE_BIN");
    at->binary = binary != NULL ? binary : "build/dev/gyre";
    snprintf(at->ring, sizeof(at->ring), "%s/ring", kit_top);
    assert_int_equal(cluster_shell(at, said, sizeof(said), "$GYRE key new ring"), 0);
    (void)cluster_path(port, "port");
    at->server = cluster_server(at, cluster_listen(at, CLUSTER_DAEMONS, listen));
    KIT_UNTIL(access(port, F_OK) == 0);
    char *address = kit_read(port, NULL);
    assert_non_null(address);
    snprintf(at->names, sizeof(at->names), "%.*s", (int)strcspn(address, "\n"), address);
    gy_free(address);
    for (int i = 0; i < CLUSTER_DAEMONS; i++) {
        at->daemons[i] = cluster_daemon(at, i);
    }
    KIT_UNTIL(cluster_up(at) == CLUSTER_DAEMONS);
}

/* All in order. */
static inline void cluster_end(cluster *at)
{
    for (int i = 0; i < CLUSTER_DAEMONS; i++) {
        if (at->daemons[i] > 0) {
            (void)kill(at->daemons[i], SIGTERM);
            const int status = kit_wait(at->daemons[i]);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
    }
    (void)kill(at->server, SIGTERM);
    assert_int_equal(kit_wait(at->server), 0);
}

/* And nothing that they started is left. */
static inline void cluster_stop(cluster *at)
{
    cluster_end(at);
    kit_alone();
}

/* `gyre mr ...`, as it was submitted; its fork servers and their processes have no arguments.
 */
static inline bool cluster_is_manager(pid_t process)
{
    char path[64], words[4096];
    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)process);
    const int file = open(path, O_RDONLY);
    const ssize_t got = file >= 0 ? read(file, words, sizeof(words)) : 0;
    if (file >= 0) {
        close(file);
    }
    return got > 0 && memmem(words, (size_t)got, "\0mr\0", 4) != NULL;
}

/* The manager that runs now, and the daemon that it runs at, whose child's child it is; 0: none
 * does. */
static inline pid_t cluster_manager(const cluster *at, int *daemon)
{
    for (int i = 0; i < CLUSTER_DAEMONS; i++) {
        pid_t children[64], manager = 0;
        const int count = at->daemons[i] > 0 ? kit_children(at->daemons[i], children, 64) : 0;
        for (int k = 0; k < count; k++) {
            if (kit_children(children[k], &manager, 1) == 1 && cluster_is_manager(manager)) {
                *daemon = i;
                return manager;
            }
        }
    }
    return 0;
}

#endif
