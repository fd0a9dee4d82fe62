/**
 * Test hosts: network namespaces joined by a bridge, or, where the system does not permit them,
 * loopback with a line that says so. `gyre run` is started once on each.
 */
#ifndef HOSTS_KIT_H
#define HOSTS_KIT_H

#include "base/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gy_test.h"

enum { KIT_HOSTS = 3, KIT_WORDS = 32, KIT_PATH = 256 };

typedef struct kit_hosts {
    bool is_real;        /* namespaces; else loopback */
    char folder[64];     /* for what nodes and ranks write */
    char key[KIT_PATH];  /* of the cluster */
    char rendezvous[64]; /* of the next run: each has a port of its own */
    int port, owner;     /* the process whose hosts these are: part of their names */
    pid_t launchers[KIT_HOSTS];
} kit_hosts;

/* Run a command to its end, quietly; its status. */
static inline int kit_command(const char *line)
{
    pid_t child = fork();
    if (child == 0) {
        int nothing = open("/dev/null", O_RDWR);
        dup2(nothing, STDOUT_FILENO);
        dup2(nothing, STDERR_FILENO);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline const char *kit_name(const kit_hosts *hosts, int host, char out[32])
{
    snprintf(out, 32, "gy%d-%d", hosts->owner, host);
    return out;
}

/* The switch is a namespace of its own, host KIT_HOSTS. */
static inline bool kit_join_host(const kit_hosts *hosts, int host)
{
    char line[1024], name[32], hub[32];
    kit_name(hosts, host, name);
    kit_name(hosts, KIT_HOSTS, hub);
    snprintf(line, sizeof(line),
             "ip netns add %s && ip -n %s link set lo up && "
             "ip -n %s link add port%d type veth peer name eth0 netns %s && "
             "ip -n %s link set port%d master bridge up && "
             "ip -n %s addr add 10.7.7.%d/24 dev eth0 && ip -n %s link set eth0 up",
             name, name, hub, host, name, hub, host, name, host + 1, name);
    return kit_command(line) == 0;
}

/* Delete the namespaces of test programs that were killed before they could. */
static inline void kit_sweep_hosts(void)
{
    char line[128];
    int owner = 0, host = 0, end = 0;
    DIR *spaces = opendir("/run/netns");
    for (struct dirent *entry; spaces != NULL && (entry = readdir(spaces)) != NULL;) {
        if (sscanf(entry->d_name, "gy%9d-%2d%n", &owner, &host, &end) == 2 && owner > 0 &&
            entry->d_name[end] == '\0' && kill(owner, 0) != 0 && errno == ESRCH) {
            snprintf(line, sizeof(line), "ip netns del gy%d-%d", owner, host);
            (void)kit_command(line); /* or another test's sweep did it */
        }
    }
    if (spaces != NULL) {
        closedir(spaces);
    }
}

static inline void kit_hosts_open(kit_hosts *hosts)
{
    char line[512], hub[32];
    kit_sweep_hosts();
    *hosts = (kit_hosts){.port = 20000 + (int)getpid() % 10000, .owner = (int)getpid()};
    snprintf(hosts->folder, sizeof(hosts->folder), "/tmp/gyre-hosts-XXXXXX");
    assert_non_null(mkdtemp(hosts->folder));
    kit_name(hosts, KIT_HOSTS, hub);
    snprintf(line, sizeof(line),
             "ip netns add %s && ip -n %s link add bridge type bridge && "
             "ip -n %s link set bridge up",
             hub, hub, hub);
    hosts->is_real = kit_command(line) == 0;
    for (int host = 0; host < KIT_HOSTS && hosts->is_real; host++) {
        hosts->is_real = kit_join_host(hosts, host);
    }
    if (!hosts->is_real) {
        printf("no network namespaces with veth here: the hosts are loopback\n");
    }
}

static inline void kit_hosts_close(kit_hosts *hosts)
{
    char line[128], name[32];
    for (int host = 0; host <= KIT_HOSTS; host++) {
        snprintf(line, sizeof(line), "ip netns del %s", kit_name(hosts, host, name));
        (void)kit_command(line);
    }
    snprintf(line, sizeof(line), "rm -rf %s", hosts->folder);
    (void)kit_command(line);
}

static inline const char *kit_path(const kit_hosts *hosts, const char *name, char out[KIT_PATH])
{
    snprintf(out, KIT_PATH, "%s/%s", hosts->folder, name);
    return out;
}

/* Text of a file in the folder; "" when there is none. */
static inline const char *kit_read(const kit_hosts *hosts, const char *name, char *out,
                                   size_t size)
{
    char path[KIT_PATH];
    FILE *file = fopen(kit_path(hosts, name, path), "rb");
    size_t got = file != NULL ? fread(out, 1, size - 1, file) : 0;
    out[got] = '\0';
    if (file != NULL) {
        fclose(file);
    }
    return out;
}

static inline void kit_write(const kit_hosts *hosts, const char *name, const char *text)
{
    char path[KIT_PATH];
    FILE *file = fopen(kit_path(hosts, name, path), "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Choose a fresh port; every run has its own. */
static inline void kit_next_run(kit_hosts *hosts)
{
    snprintf(hosts->rendezvous, sizeof(hosts->rendezvous), "%s:%d",
             hosts->is_real ? "10.7.7.1" : "127.0.0.1", ++hosts->port);
}

/* In the child: become `gyre` with `words` on a host; what it says goes to node-HOST.err. */
static inline void kit_become(const kit_hosts *hosts, int host, char **words)
{
    char *all[KIT_WORDS + 8], name[32], path[KIT_PATH], file[32];
    char ip[] = "ip", netns[] = "netns", exec[] = "exec";
    int count = 0;
    snprintf(file, sizeof(file), "node-%d.err", host);
    int out = open(kit_path(hosts, file, path), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(out, STDERR_FILENO);
    if (hosts->is_real) {
        kit_name(hosts, host, name);
        all[count++] = ip;
        all[count++] = netns;
        all[count++] = exec;
        all[count++] = name;
    }
    while (*words != NULL && count < KIT_WORDS + 7) {
        all[count++] = *words++;
    }
    all[count] = NULL;
    execvp(all[0], all);
    _exit(127);
}

/* Start `gyre run` of a node; `options` and `program` are NULL-terminated. */
static inline void kit_start(kit_hosts *hosts, int nodes, int host, const char *const *options,
                             const char *const *program)
{
    char text[2][16];
    snprintf(text[0], 16, "%d", nodes);
    snprintf(text[1], 16, "%d", host);
    const char *words[KIT_WORDS] = {getenv("GYRE_BIN"), "run",
                                    "--timeout",        "60",
                                    "--nodes",          text[0],
                                    "--node",           text[1],
                                    "--rendezvous",     hosts->rendezvous};
    int count = 10;
    for (; *options != NULL && count < KIT_WORDS - 1; options++) {
        words[count++] = *options;
    }
    for (; *program != NULL && count < KIT_WORDS - 1; program++) {
        words[count++] = *program;
    }
    fflush(NULL);
    hosts->launchers[host] = fork();
    assert_true(hosts->launchers[host] >= 0);
    if (hosts->launchers[host] == 0) {
        char *copies[KIT_WORDS] = {NULL};
        for (int i = 0; i < count; i++) {
            copies[i] = gy_copy_text("test", words[i]);
        }
        kit_become(hosts, host, copies);
    }
}

/* The exit status of a node's `gyre run`. */
static inline int kit_wait(kit_hosts *hosts, int host)
{
    int status = 0;
    assert_int_equal(waitpid(hosts->launchers[host], &status, 0), hosts->launchers[host]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* All hosts' runs end with that status. */
static inline void kit_expect_all(kit_hosts *hosts, int status)
{
    char text[4096], name[32];
    int got[KIT_HOSTS];
    bool is_right = true;
    for (int host = 0; host < KIT_HOSTS; host++) {
        got[host] = kit_wait(hosts, host);
        is_right = is_right && got[host] == status;
    }
    for (int host = 0; host < KIT_HOSTS && !is_right; host++) {
        snprintf(name, sizeof(name), "node-%d.err", host);
        print_message("node %d ended with %d, expected %d: %s\n", host, got[host], status,
                      kit_read(hosts, name, text, sizeof(text)));
    }
    assert_true(is_right);
}

static inline void kit_wait_for_file(const kit_hosts *hosts, const char *name)
{
    char path[KIT_PATH];
    gy_deadline deadline = gy_deadline_after(30);
    while (access(kit_path(hosts, name, path), F_OK) != 0) {
        assert_true(gy_now_ns(gy_env_real()) < deadline.at_ns);
        gy_env_real()->ops->pause(gy_env_real(), UINT64_MAX);
    }
}

static inline void kit_make_key(kit_hosts *hosts)
{
    char line[2 * KIT_PATH];
    kit_path(hosts, "key", hosts->key);
    snprintf(line, sizeof(line), "%s key %s", getenv("GYRE_BIN"), hosts->key);
    assert_int_equal(kit_command(line), 0);
}

/* ---- Before and after a program's tests ---- */

static kit_hosts kit_own;

static inline int kit_open_hosts(void **state)
{
    (void)state;
    kit_hosts_open(&kit_own);
    kit_make_key(&kit_own);
    return 0;
}

static inline int kit_close_hosts(void **state)
{
    (void)state;
    kit_hosts_close(&kit_own);
    return 0;
}

#endif
