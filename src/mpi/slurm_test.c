/*
 * Goal: under the real srun of a real Slurm (munged, slurmctld and slurmd of this machine, for
 * the time of the test) the command and unmodified MPI programs give what they give elsewhere.
 */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mpi_kit.h"

enum { DAEMONS = 3, PATH_BYTES = 64, HOST_BYTES = 65 };

static struct {
    char folder[PATH_BYTES];
    const char *why_not; /* NULL: it runs */
    pid_t daemons[DAEMONS];
} slurm;

typedef struct way {
    const char *library, *plugin; /* of MPI; of Slurm */
    bool is_built;
} way;

/* The status of a line of shell in the folder; what it says is printed where it fails. */
static int in_folder(const char *line)
{
    char whole[4096];
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
static pid_t start_daemon(const char *command)
{
    char line[1024];
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
static bool find_ports(int ports[2])
{
    int sockets[2];
    bool is_found = true;
    for (int i = 0; i < 2; i++) {
        struct sockaddr_in name = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(name);
        sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        is_found = bind(sockets[i], (struct sockaddr *)&name, size) == 0 &&
                   getsockname(sockets[i], (struct sockaddr *)&name, &size) == 0 && is_found;
        ports[i] = ntohs(name.sin_port);
    }
    close(sockets[0]);
    close(sockets[1]);
    return is_found;
}

static bool write_files(void)
{
    char line[2048], host[HOST_BYTES] = "";
    int ports[2];
    if (gethostname(host, sizeof(host) - 1) != 0 || !find_ports(ports)) {
        return false;
    }
    host[strcspn(host, ".")] = '\0';
    snprintf(
        line, sizeof(line),
        "chmod 755 . && mkdir run state spool && head -c 64 /dev/urandom >key && "
        "chmod 400 key && cat >conf <<END\n"
        "ClusterName=gyre\nSlurmctldHost=%s(127.0.0.1)\nSlurmctldPort=%d\n"
        "AuthType=auth/munge\nAuthInfo=socket=$PWD/run/munge\nSlurmUser=root\nSlurmdUser=root\n"
        "StateSaveLocation=$PWD/state\nSlurmdSpoolDir=$PWD/spool\n"
        "SlurmctldPidFile=$PWD/run/slurmctld\nSlurmdPidFile=$PWD/run/slurmd\n"
        "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"
        "JobAcctGatherType=jobacct_gather/none\nSelectType=select/cons_tres\n"
        "ReturnToService=2\nSlurmdParameters=config_overrides\n"
        "NodeName=w1 NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=4 RealMemory=100\n"
        "PartitionName=all Nodes=w1 Default=YES MaxTime=5 State=UP\nEND\n",
        host, ports[0], host, ports[1]);
    return in_folder(line) == 0;
}

static const char *missing_part(void)
{
    outcome result;
    if (strlen(GYRE_SANITIZE) > 0) {
        return "the plain build runs it; under a sanitizer mpi_launchers covers the same code";
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
static bool has_cgroups(void)
{
    outcome result;
    run_command("grep -qE '^[^ ]+ [^ ]+ cgroup2? ' /proc/self/mounts", &result);
    return result.status == 0;
}

static int open_cluster(void **state)
{
    (void)state;
    slurm.why_not = missing_part();
    if (slurm.why_not != NULL) {
        return 0;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    snprintf(slurm.folder, sizeof(slurm.folder), "/tmp/gyre-slurm-XXXXXX");
    if (mkdtemp(slurm.folder) == NULL || !write_files()) {
        return 1;
    }
    slurm.daemons[0] =
        start_daemon("munged --force --foreground --key-file=$PWD/key --socket=$PWD/run/munge "
                     "--pid-file=$PWD/run/munged --log-file=$PWD/out --seed-file=$PWD/seed");
    if (in_folder("timeout 30 sh -c 'until [ -S run/munge ]; do sleep 0.05; done' || "
                  "{ cat out; false; }") != 0) {
        return 1;
    }
    slurm.daemons[1] = start_daemon("slurmctld -D -f $PWD/conf");
    slurm.daemons[2] = start_daemon("slurmd -D -N w1 -f $PWD/conf");
    if (in_folder("timeout 60 sh -c 'until [ \"$(sinfo -h -o %T)\" = idle ]; do sleep 0.1; "
                  "done' || { tail -n 40 out; false; }") != 0) {
        if (has_cgroups()) {
            return 1; /* nothing here hinders them: their log, above, says why */
        }
        slurm.why_not = "slurmd does not come up without cgroups, as in a bare chroot";
    }
    return 0;
}

/* What a daemon leaves behind becomes this process's child. */
static void end_children(void)
{
    for (int i = 0; i < DAEMONS; i++) {
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

static int close_cluster(void **state)
{
    (void)state;
    if (slurm.folder[0] == '\0') {
        return 0;
    }
    end_children();
    return in_folder("rm -r \"$PWD\"");
}

static const way *way_of(void **state)
{
    const way *with = *state;
    char command[256];
    outcome look;
    if (slurm.why_not != NULL) {
        print_message("skipped: %s\n", slurm.why_not);
        skip();
    }
    if (!with->is_built) {
        print_message("skipped: the headers of %s were not there\n", with->library);
        skip();
    }
    snprintf(command, sizeof(command), "SLURM_CONF=%s/conf srun --mpi=list 2>&1 | grep -qw %s",
             slurm.folder, with->plugin);
    run_command(command, &look);
    if (look.status != 0) {
        print_message("skipped: this Slurm has no %s\n", with->plugin);
        skip();
    }
    return with;
}

static void the_command_trains_alike(void **state)
{
    const way *with = way_of(state);
    char digits[1024], how[512], folder[2 * PATH_BYTES];
    if (gy_test_data(digits, "mnist/t10k-labels-idx1-ubyte.gz") == NULL) {
        print_message("skipped: no digits to train on\n");
        skip();
    }
    *strrchr(digits, '/') = '\0';
    snprintf(how, sizeof(how), "%s/gyre run -n 2", GYRE_BUILD);
    snprintf(folder, sizeof(folder), "%s/%s-own", slurm.folder, with->plugin);
    assert_int_equal(train(how, digits, folder), 0);
    snprintf(how, sizeof(how), "env SLURM_CONF=%s/conf srun -n 2 --mpi=%s", slurm.folder,
             with->plugin);
    snprintf(folder, sizeof(folder), "%s/%s-theirs", slurm.folder, with->plugin);
    assert_int_equal(train(how, digits, folder), 0);
    snprintf(how, sizeof(how), "cmp %s-own/model.safetensors %s-theirs/model.safetensors",
             with->plugin, with->plugin);
    assert_int_equal(in_folder(how), 0);
}

static void programs_are_served(void **state)
{
    const way *with = way_of(state);
    char command[2048];
    outcome result;
    snprintf(command, sizeof(command),
             "SLURM_CONF=%s/conf timeout -k 5 60 srun -n 2 --mpi=%s "
             "--export=ALL,GYRE_LOG=info,LD_PRELOAD=%s/libgyre-mpi-%s.so "
             "%s/mpi_calls_%s 7 50 2>&1",
             slurm.folder, with->plugin, GYRE_BUILD, with->library, GYRE_BUILD, with->library);
    run_command(command, &result);
    if (result.status != 0) {
        fprintf(stderr, "%s\nended with %d:\n%s\n", command, result.status, result.said);
    }
    assert_int_equal(result.status, 0);
    assert_true(taken_over(result.said) > 10);
}

int main(void)
{
    way pmi2 = {"mpich", "pmi2", GYRE_HAS_MPICH}, pmix = {"openmpi", "pmix", GYRE_HAS_OPENMPI};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(the_command_trains_alike, &pmi2),
        cmocka_unit_test_prestate(programs_are_served, &pmi2),
        cmocka_unit_test_prestate(the_command_trains_alike, &pmix),
        cmocka_unit_test_prestate(programs_are_served, &pmix),
    };
    return cmocka_run_group_tests(tests, open_cluster, close_cluster);
}
