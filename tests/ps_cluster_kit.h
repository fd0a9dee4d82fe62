/**
 * A lead and parameter servers as processes of this test, which end with it.
 */
#ifndef GY_PS_CLUSTER_KIT_H
#define GY_PS_CLUSTER_KIT_H

#include <gyre/ps.h>

#include "base/base.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gy_test.h"

enum { CLUSTER_SERVERS = 4, CLUSTER_LEADS = 2, CLUSTER_ARGUMENTS = 40, CLUSTER_PARTS = 4 };

typedef struct cluster {
    char folder[64];   /* port files, logs and, without `table`, the lead's table */
    const char *table; /* NULL: sqlite in the folder */
    /* key files of clients, servers and leads; all, or NULL: plain text */
    const char *key, *server_key, *lead_key;
    /* arguments of leads, and of servers, NULL behind the last; or NULL */
    char *const *lead_more, *const *server_more;
    bool has_folders; /* server i keeps snapshots in snapshotsI of the folder */
    pid_t leads[CLUSTER_LEADS], servers[CLUSTER_SERVERS];
    char lead_addresses[CLUSTER_LEADS][64], addresses[CLUSTER_SERVERS][64];
    char lead_list[160]; /* of leads that were started, for clients and servers */
} cluster;

/** Zero, or with the members that are given beforehand. */
static inline void cluster_begin(cluster *at)
{
    snprintf(at->folder, sizeof(at->folder), "/tmp/gyre-ps-XXXXXX");
    assert_non_null(mkdtemp(at->folder));
}

/** The command under test with arguments up to NULL; what it says goes to a file of the folder.
 * It dies with this process. */
static inline pid_t cluster_start(const cluster *at, const char *log, char *const *arguments)
{
    const char *binary = getenv("GYRE_BIN");
    char path[160];
    snprintf(path, sizeof(path), "%s/%s.log", at->folder, log);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        const int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
        (void)dup2(file, STDOUT_FILENO);
        (void)dup2(file, STDERR_FILENO);
        execv(binary != NULL ? binary : "build/dev/gyre", arguments);
        _exit(127);
    }
    assert_true(child > 0);
    return child;
}

/* Wait until a process says where it listens. */
static inline void cluster_read_address(const char *path, char out[64])
{
    gy_env *env = gy_env_real();
    gy_deadline deadline = gy_env_deadline(env, 30);
    for (;;) {
        FILE *file = fopen(path, "r");
        bool is_there = file != NULL && fgets(out, 64, file) != NULL;
        if (file != NULL) {
            fclose(file);
        }
        if (is_there) {
            out[strcspn(out, "\n")] = '\0';
            return;
        }
        if (gy_now_ns(env) > deadline.at_ns) {
            fail_msg("%s does not appear", path);
        }
        (void)gy_env_poll(env, gy_env_deadline(env, 0.002));
    }
}

/* `words` up to NULL behind what there is. */
static inline void cluster_add(char **arguments, char *const *words)
{
    size_t count = 0;
    while (arguments[count] != NULL) {
        count++;
    }
    for (; words != NULL && *words != NULL; words++) {
        assert_true(count < CLUSTER_ARGUMENTS - 1);
        arguments[count++] = *words;
    }
}

static inline void cluster_add_key(char **arguments, const char *file)
{
    char *const plain[] = {"--plaintext", NULL};
    char *const key[] = {"--key", (char *)(uintptr_t)file, NULL};
    cluster_add(arguments, file != NULL ? key : plain);
}

/** A lead that is started again listens where it did. */
static inline void cluster_start_lead(cluster *at, int index)
{
    char path[128], table[128], listen[64], log[16];
    char *address = at->lead_addresses[index];
    snprintf(listen, sizeof(listen), "%s", address[0] != '\0' ? address : "127.0.0.1:0");
    snprintf(path, sizeof(path), "%s/lead%d", at->folder, index);
    snprintf(log, sizeof(log), "lead%d", index);
    snprintf(table, sizeof(table), "sqlite:%s/lead.db", at->folder);
    (void)unlink(path);
    char *arguments[CLUSTER_ARGUMENTS] = {
        "gyre",
        "ps",
        "lead",
        "--listen",
        listen,
        "--table",
        at->table != NULL ? (char *)(uintptr_t)at->table : table,
        "--replicas",
        "2",
        "--lease",
        "1" /* s, which a loaded host keeps; a server silent for twice as long is replaced */,
        "--port-file",
        path};
    cluster_add_key(arguments, at->lead_key);
    cluster_add(arguments, at->lead_more);
    at->leads[index] = cluster_start(at, log, arguments);
    const bool is_new = address[0] == '\0';
    cluster_read_address(path, address);
    if (is_new) {
        const size_t used = strlen(at->lead_list);
        snprintf(at->lead_list + used, sizeof(at->lead_list) - used, "%s%s",
                 used > 0 ? "," : "", address);
    }
}

/** Of the leads that were started, if any. */
static inline void cluster_begin_server(cluster *at, int index)
{
    char path[128], log[16], own[128];
    snprintf(path, sizeof(path), "%s/server%d", at->folder, index);
    snprintf(own, sizeof(own), "%s/snapshots%d", at->folder, index);
    snprintf(log, sizeof(log), "server%d", index);
    (void)unlink(path);
    char *arguments[CLUSTER_ARGUMENTS] = {"gyre",        "ps",          "serve", "--listen",
                                          "127.0.0.1:0", "--port-file", path};
    char *const lead[] = {"--lead", at->lead_list, NULL};
    char *const keeps[] = {"--folder", own, NULL};
    cluster_add_key(arguments, at->server_key);
    cluster_add(arguments, at->lead_list[0] != '\0' ? lead : NULL);
    cluster_add(arguments, at->has_folders ? keeps : NULL);
    cluster_add(arguments, at->server_more);
    at->servers[index] = cluster_start(at, log, arguments);
}

static inline void cluster_await_server(cluster *at, int index)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/server%d", at->folder, index);
    cluster_read_address(path, at->addresses[index]);
}

static inline void cluster_start_server(cluster *at, int index)
{
    cluster_begin_server(at, index);
    cluster_await_server(at, index);
}

static inline void cluster_kill(pid_t *process)
{
    assert_int_equal(kill(*process, SIGKILL), 0);
    assert_int_equal(waitpid(*process, NULL, 0), *process);
    *process = 0;
}

/** Those that run, all at once: none is heard of when another one is known to be dead. */
static inline void cluster_kill_all(pid_t *processes, int count)
{
    for (int i = 0; i < count; i++) {
        assert_int_equal(processes[i] > 0 ? kill(processes[i], SIGKILL) : 0, 0);
    }
    for (int i = 0; i < count; i++) {
        if (processes[i] > 0) {
            assert_int_equal(waitpid(processes[i], NULL, 0), processes[i]);
            processes[i] = 0;
        }
    }
}

/** It is stopped when this returns; SIGCONT lets it go on. */
static inline void cluster_freeze(pid_t process)
{
    assert_int_equal(kill(process, SIGSTOP), 0);
    assert_int_equal(waitpid(process, NULL, WUNTRACED), process);
}

static inline void cluster_end(cluster *at)
{
    char line[128], said[256];
    cluster_kill_all(at->servers, CLUSTER_SERVERS);
    cluster_kill_all(at->leads, CLUSTER_LEADS);
    snprintf(line, sizeof(line), "rm -r %s", at->folder);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
}

/** What clients and operators say to reach it. */
static inline gy_ps_options cluster_options(const cluster *at, uint32_t worker,
                                            uint32_t workers)
{
    return (gy_ps_options){.lead = at->lead_list,
                           .key_file = at->key,
                           .is_plaintext = at->key == NULL,
                           .worker = worker,
                           .workers = workers,
                           .timeout_s = 30};
}

/* ---- What servers say of their parts ---- */

typedef struct cluster_look {
    const char *server; /* whose parts are counted; NULL: all */
    const char *table;  /* of this table; NULL: any */
    int replicas[CLUSTER_PARTS], count;
    char head_addresses[CLUSTER_PARTS][64], tail_addresses[CLUSTER_PARTS][64];
} cluster_look;

static inline gy_status cluster_count(void *arg, const gy_ps_facts *facts)
{
    cluster_look *look = arg;
    const bool is_wanted = facts->place > 0 &&
                           (look->table == NULL || strcmp(facts->table, look->table) == 0) &&
                           (look->server == NULL || strcmp(facts->server, look->server) == 0);
    if (is_wanted && facts->part < CLUSTER_PARTS) {
        char *address = facts->place == 1 ? look->head_addresses[facts->part]
                                          : look->tail_addresses[facts->part];
        snprintf(address, 64, "%s", facts->server);
        look->replicas[facts->part]++;
        look->count++;
    }
    return GY_OK;
}

/** A look at all servers; false: one of them did not answer. */
static inline bool cluster_see(const cluster *at, cluster_look *look)
{
    gy_ps_options options = cluster_options(at, 0, 1);
    options.timeout_s = 1;
    return gy_ps_show(&options, cluster_count, look) == GY_OK;
}

/** The server at an address; -1: none of this cluster's. */
static inline int cluster_server_at(const cluster *at, const char *address)
{
    for (int i = 0; i < CLUSTER_SERVERS; i++) {
        if (at->servers[i] > 0 && strcmp(at->addresses[i], address) == 0) {
            return i;
        }
    }
    return -1;
}

/** Wait until each part of a table stands on two servers: by two looks, since servers hear of a
 * map one after the other. `check` is called meanwhile; it may be NULL. */
static inline void cluster_await_replicas(const cluster *at, const char *table,
                                          void (*check)(void), cluster_look *last)
{
    gy_env *env = gy_env_real();
    const gy_deadline deadline = gy_env_deadline(env, 40);
    for (int looks = 0; looks < 2;) {
        cluster_look look = {.table = table};
        bool is_whole = cluster_see(at, &look);
        for (int part = 0; part < CLUSTER_PARTS; part++) {
            is_whole = is_whole && look.replicas[part] == 2;
        }
        looks = is_whole ? looks + 1 : 0;
        if (check != NULL) {
            check();
        }
        if (gy_now_ns(env) > deadline.at_ns) {
            fail_msg("the %d parts have not got two replicas each", CLUSTER_PARTS);
        }
        if (last != NULL) {
            *last = look;
        }
        (void)gy_env_poll(env, gy_env_deadline(env, 0.02));
    }
}

/* Replicas of the table that a server has. */
static inline int cluster_load(const cluster_look *look, const char *address)
{
    int load = 0;
    for (int part = 0; part < CLUSTER_PARTS; part++) {
        load += strcmp(look->head_addresses[part], address) == 0;
        load += strcmp(look->tail_addresses[part], address) == 0;
    }
    return load;
}

/** Wait until no server has two replicas more than another one, so that none is moved. All
 * servers that were started run. */
static inline void cluster_await_level(const cluster *at, const char *table,
                                       void (*check)(void))
{
    gy_env *env = gy_env_real();
    const gy_deadline deadline = gy_env_deadline(env, 40);
    for (bool is_level = false; !is_level;) {
        cluster_look look;
        int most = 0, least = CLUSTER_PARTS;
        cluster_await_replicas(at, table, check, &look);
        for (int i = 0; i < CLUSTER_SERVERS; i++) {
            if (at->servers[i] > 0) {
                most = GY_MAX(most, cluster_load(&look, at->addresses[i]));
                least = GY_MIN(least, cluster_load(&look, at->addresses[i]));
            }
        }
        is_level = most - least <= 1;
        if (gy_now_ns(env) > deadline.at_ns) {
            fail_msg("a server has %d replicas, and another one %d", most, least);
        }
    }
}

#endif
