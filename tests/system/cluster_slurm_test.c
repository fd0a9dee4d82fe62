/*
 * Goal: daemons that srun starts inside an allocation of a real Slurm (munged, slurmctld, four
 * slurmd) serve a job, whose output has the bytes that it has at home; when the allocation
 * ends, so do they, and a job in the middle of its work goes on when there are others.
 */
#include "slurm_kit.h"

enum { NODES = 4 };

static pid_t names_server, allocation;

static bool runs_here(void)
{
    if (slurm.why_not != NULL) {
        print_message("skipped: %s\n", slurm.why_not);
    }
    return slurm.why_not == NULL;
}

/* A line of shell in Slurm's folder, with words of its own. */
static int line(const char *words)
{
    char whole[5000];
    snprintf(whole, sizeof(whole),
             "export GYRE=%s/gyre XDG_STATE_HOME=$PWD/home\n"
             "at() { echo \"--nameservers $(cat names) --key ring\"; }\n"
             "daemons() { $GYRE cluster list $(at) | awk '$2 == \"up\"' | wc -l; }\n"
             "until_() { for i in $(seq 400); do eval \"$1\" && return; sleep 0.05; done; "
             "echo \"never: $1\"; $GYRE cluster list $(at); cat daemon.*; return 1; }\n%s",
             GYRE_BUILD, words);
    return slurm_line(whole);
}

static pid_t start_daemons(const char *name, int nodes)
{
    char command[1024];
    snprintf(
        command, sizeof(command),
        "env SLURM_CONF=$PWD/conf srun --job-name=%s --nodes=%d --ntasks-per-node=1 --mem=10 "
        "--output=daemon.%s.%%n sh -c 'exec %s/gyre daemon --nameservers $(cat names) --key "
        "ring "
        "--listen 127.0.0.1:0 --work-folder %s.$SLURM_NODEID --hostname $SLURMD_NODENAME "
        "--slots 2 --disk-free-min 1MB'",
        name, nodes, name, GYRE_BUILD, name);
    return slurm_start(command);
}

static int open_all(void **state)
{
    (void)state;
    char command[512];
    if (slurm_open(NODES, "the plain build runs it; under a sanitizer cluster_jobs_test covers "
                          "the same code") != 0) {
        return 1;
    }
    if (slurm.why_not != NULL) {
        return 0;
    }
    if (slurm_line("mkdir home && seq 30000 | sed 's/\\(.\\)/\\1 /g' >input && "
                   "for i in 1 2 3 4 5 6 7 8; do sed \"s/^/$i /\" input >input.$i; done") !=
        0) {
        return 1;
    }
    snprintf(command, sizeof(command), "%s/gyre key new ring", GYRE_BUILD);
    if (slurm_line(command) != 0) {
        return 1;
    }
    snprintf(command, sizeof(command),
             "%s/gyre nameserver --listen 127.0.0.1:0 --table sqlite:table --key ring "
             "--port-file names",
             GYRE_BUILD);
    names_server = slurm_start(command);
    return line("until_ '[ -s names ]'");
}

static int close_all(void **state)
{
    (void)state;
    (void)names_server; /* a child: ended with the others */
    return slurm_close();
}

GY_TEST(jobs_run_in_an_allocation)
{
    if (!runs_here()) {
        skip();
    }
    allocation = start_daemons("first", NODES);
    assert_int_equal(line("until_ '[ $(daemons) = 4 ]'"), 0);
    assert_int_equal(
        line("$GYRE mr wordcount -r 8 -o there input.* >said && "
             "$GYRE job submit $(at) -- $GYRE mr wordcount -r 8 -o here input.* && "
             "for f in there/part-*; do cmp $f here/${f##*/}; done"),
        0);
    /* Each node has run some of it. */
    assert_int_equal(line("for n in 0 1 2 3; do [ -d first.$n/jobs ]; done"), 0);
}

GY_TEST(the_allocation_ends_under_a_job)
{
    if (!runs_here()) {
        skip();
    }
    pid_t second = start_daemons("second", 2);
    assert_int_equal(line("until_ '[ $(daemons) = 6 ]'"), 0);
    assert_int_equal(line("$GYRE job submit --no-wait $(at) -- $GYRE mr wordcount -o left -r "
                          "16 --split 100KiB "
                          "input.* input.* input.* input.* >id && "
                          "scancel --name=first && $GYRE job wait $(at) $(cat id) && "
                          "until_ '[ $(daemons) = 2 ]' && "
                          "$GYRE mr wordcount -o right -r 16 --split 100KiB input.* input.* "
                          "input.* input.* >said && "
                          "for f in right/part-*; do cmp $f left/${f##*/}; done"),
                     0);
    kill(allocation, SIGTERM);
    kill(second, SIGTERM);
}

GY_TEST_MAIN(open_all, close_all)
