/**
 * A real Slurm of this machine for the time of a test: munged, slurmctld and `nodes` slurmd, in
 * a folder of its own under /tmp.
 */
#ifndef SLURM_KIT_H
#define SLURM_KIT_H

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"
#include "mpi_kit.h"

enum { SLURM_NODES_MAX = 4, SLURM_PATH_BYTES = 64, SLURM_HOST_BYTES = 65 };

static struct {
    char folder[SLURM_PATH_BYTES];
    const char *why_not; /* NULL: it runs */
    int nodes;
    pid_t daemons[2 + SLURM_NODES_MAX];
} slurm;

/* The status of a line of shell in the folder; what it says is printed where it fails. */
static inline int slurm_line(const char *line)
{
    char whole[6144];
    outcome result;
    snprintf(whole, sizeof(whole),
             "cd %s && export SLURM_CONF=$PWD/conf PATH=$PATH:/usr/sbin && {\n%s\n} 2>&1",
             slurm.folder, line);
    run_command(whole, &result);
    if (result.status != 0) {
        fprintf(stderr, "%s\nended with %d:\n%s\n", line, result.status, result.said);
    }
    return result.status;
}

/* Dies with the test. */
static inline pid_t slurm_start(const char *command)
{
    char line[2048];
    pid_t test = getpid(), child = fork();
    if (child == 0) {
        snprintf(line, sizeof(line), "cd %s && PATH=$PATH:/usr/sbin && exec %s >>out 2>&1",
                 slurm.folder, command);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == test) {
            execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        }
        _exit(127);
    }
    return child;
}

/* Free just now. */
static inline bool slurm_ports(int *ports, int count)
{
    int sockets[1 + SLURM_NODES_MAX];
    bool is_found = true;
    for (int i = 0; i < count; i++) {
        struct sockaddr_in name = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(name);
        sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        is_found = bind(sockets[i], (struct sockaddr *)&name, size) == 0 &&
                   getsockname(sockets[i], (struct sockaddr *)&name, &size) == 0 && is_found;
        ports[i] = ntohs(name.sin_port);
    }
    for (int i = 0; i < count; i++) {
        close(sockets[i]);
    }
    return is_found;
}

static inline bool slurm_write(void)
{
    char line[4096], nodes[1024] = "", host[SLURM_HOST_BYTES] = "";
    int ports[1 + SLURM_NODES_MAX];
    if (gethostname(host, sizeof(host) - 1) != 0 || !slurm_ports(ports, 1 + slurm.nodes)) {
        return false;
    }
    host[strcspn(host, ".")] = '\0';
    size_t used = 0;
    for (int i = 0; i < slurm.nodes; i++) {
        used += gy_print(nodes + used, sizeof(nodes) - used,
                         "NodeName=w%d NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=4 "
                         "RealMemory=100\n",
                         i + 1, host, ports[1 + i]);
    }
    snprintf(
        line, sizeof(line),
        "chmod 755 . && mkdir run state && head -c 64 /dev/urandom >key && "
        "chmod 400 key && cat >conf <<END\n"
        "ClusterName=gyre\nSlurmctldHost=%s(127.0.0.1)\nSlurmctldPort=%d\n"
        "AuthType=auth/munge\nAuthInfo=socket=$PWD/run/munge\nSlurmUser=root\nSlurmdUser=root\n"
        "StateSaveLocation=$PWD/state\nSlurmdSpoolDir=$PWD/spool.%%n\n"
        "SlurmctldPidFile=$PWD/run/slurmctld\nSlurmdPidFile=$PWD/run/slurmd.%%n\n"
        "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"
        "JobAcctGatherType=jobacct_gather/none\nSelectType=select/cons_tres\n"
        "ReturnToService=2\nSlurmdParameters=config_overrides\n"
        "%sPartitionName=all Nodes=w[1-%d] Default=YES MaxTime=5 State=UP\nEND\n",
        host, ports[0], nodes, slurm.nodes);
    return slurm_line(line) == 0;
}

static inline const char *slurm_missing(const char *sanitized)
{
    outcome result;
    if (strlen(GYRE_SANITIZE) > 0) {
        return sanitized;
    }
    if (geteuid() != 0) {
        return "slurmd runs tasks as root only";
    }
    run_command("PATH=$PATH:/usr/sbin; command -v munged && command -v slurmctld && "
                "command -v slurmd && command -v srun",
                &result);
    return result.status != 0 ? "slurm-wlm and munge are not installed" : NULL;
}

/* slurmd looks for a freezer though this configuration needs none. */
static inline bool slurm_has_cgroups(void)
{
    outcome result;
    run_command("grep -qE '^[^ ]+ [^ ]+ cgroup2? ' /proc/self/mounts", &result);
    return result.status == 0;
}

/* All nodes idle; false: that does not come, which a daemon that has ended shows at once. */
static inline bool slurm_comes_up(void)
{
    char line[512], daemons[128] = "";
    size_t used = 0;
    for (int i = 0; i < 2 + slurm.nodes; i++) {
        used += gy_print(daemons + used, sizeof(daemons) - used, "%d ", (int)slurm.daemons[i]);
    }
    snprintf(
        line, sizeof(line),
        "timeout 60 sh -c 'until [ \"$(sinfo -h -o %%T/%%D)\" = idle/%d ]; do for p in %s; "
        "do [ -e /proc/$p/exe ] || exit 1; done; sleep 0.1; done' || "
        "{ tail -n 40 out; sinfo -N; false; }",
        slurm.nodes, daemons);
    return slurm_line(line) == 0;
}

/* `sanitized`: why this test is not run under a sanitizer. 0; 1: it does not come up. */
static inline int slurm_open(int nodes, const char *sanitized)
{
    assert_in_range(nodes, 1, SLURM_NODES_MAX);
    slurm.nodes = nodes;
    slurm.why_not = slurm_missing(sanitized);
    if (slurm.why_not != NULL) {
        return 0;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    snprintf(slurm.folder, sizeof(slurm.folder), "/tmp/gyre-slurm-XXXXXX");
    if (mkdtemp(slurm.folder) == NULL || !slurm_write()) {
        return 1;
    }
    slurm.daemons[0] =
        slurm_start("munged --force --foreground --key-file=$PWD/key --socket=$PWD/run/munge "
                    "--pid-file=$PWD/run/munged --log-file=$PWD/out --seed-file=$PWD/seed");
    if (slurm_line("timeout 30 sh -c 'until [ -S run/munge ]; do sleep 0.05; done' || "
                   "{ cat out; false; }") != 0) {
        return 1;
    }
    slurm.daemons[1] = slurm_start("slurmctld -D -f $PWD/conf");
    char line[512];
    for (int i = 0; i < nodes; i++) {
        snprintf(line, sizeof(line), "slurmd -D -N w%d -f $PWD/conf", i + 1);
        slurm.daemons[2 + i] = slurm_start(line);
    }
    if (!slurm_comes_up()) {
        if (slurm_has_cgroups()) {
            return 1; /* nothing here hinders them: their log, above, says why */
        }
        slurm.why_not = "slurmd does not come up without cgroups, as in a bare chroot";
    }
    return 0;
}

/* What a daemon leaves behind becomes this process's child. */
static inline void slurm_end(void)
{
    for (int i = 0; i < 2 + slurm.nodes; i++) {
        if (slurm.daemons[i] > 0) {
            kill(slurm.daemons[i], SIGKILL);
        }
    }
    for (;;) {
        FILE *file = fopen("/proc/thread-self/children", "r");
        int child = 0;
        while (file != NULL && fscanf(file, "%d", &child) == 1) {
            kill(child, SIGKILL);
        }
        if (file != NULL) {
            fclose(file);
        }
        if (waitpid(-1, NULL, 0) < 0 && errno == ECHILD) {
            return;
        }
    }
}

static inline int slurm_close(void)
{
    if (slurm.folder[0] == '\0') {
        return 0;
    }
    slurm_end();
    return slurm_line("rm -r \"$PWD\"");
}

#endif
