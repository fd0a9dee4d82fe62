/* Goal: `gyre run --hosts` starts ranks on as many hosts as it says, all or none, and ends as
 * `gyre run` does; a job trains over hosts and gives the bytes that it gives locally, also when
 * one of its hosts is killed; nothing is left. With GYRE_SOAK hosts are network namespaces. */
#include "cluster_work.h"

#include <libgen.h>

static char learn[4096];

static int begin(void **state)
{
    char binary[4096];
    if (kit_begin(state) != 0) {
        return 1;
    }
    if (getenv("GYRE_SOAK") != NULL) {
        work_open(NULL);
    } else {
        cluster_start(&at);
    }
    snprintf(binary, sizeof(binary), "%s", at.binary);
    snprintf(learn, sizeof(learn), "%s/example_learn", dirname(binary));
    assert_int_equal(setenv("LEARN", learn, 1), 0);
    /* A rank's parent is the keeper, a process of the program as its daemon has it. */
    assert_int_equal(shell("echo 'd=$(readlink /proc/$PPID/exe); d=${d%/jobs/*}; "
                           "echo $GYRE_RANK of $GYRE_SIZE ${d##*/} >'$T'/rank-$GYRE_RANK; "
                           "until [ \"$1\" = \"\" ] || [ -e \"$1\" ]; do sleep 0.02; done; "
                           "echo x >>'$T'/ended' >where"),
                     0);
    return shell(
        "for i in 0 1 2; do awk -v s=$i 'BEGIN { srand(s + 1); for (i = 0; i < 150; i++) "
        "{ c = int(rand() * 3); printf \"%d\", c; for (k = 0; k < 8; k++) "
        "printf \" %.4f\", (k % 3 == c) + rand() - 0.5; print \"\" } }' >t$i; done");
}

/* What shows nothing more under a sanitizer, where a start takes a second. */
static void skip_sanitized(void)
{
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    skip();
#endif
}

static int end(void **state)
{
    if (getenv("GYRE_SOAK") != NULL) {
        work_close();
    } else {
        cluster_stop(&at);
    }
    return kit_end(state);
}

GY_TEST(ranks_are_on_so_many_hosts)
{
    skip_sanitized();
    assert_int_equal(
        shell("$GYRE run $N --hosts 2 -n 4 sh $T/where && [ $(wc -l <ended) = 4 ] && "
              "[ \"$(cut -d' ' -f 2,3 rank-? | sort -u)\" = 'of 4' ] && "
              "[ $(cut -d' ' -f 4 rank-? | sort | uniq -c | grep -c ' 2 d') = 2 ] && "
              "[ $(cut -d' ' -f 4 rank-[01] | sort -u | wc -l) = 1 ] && "
              "[ $(cut -d' ' -f 4 rank-[23] | sort -u | wc -l) = 1 ]"),
        0);
    /* They speak to each other, as the one program that was brought. */
    assert_int_equal(shell("$GYRE run $N --hosts 3 $GYRE bench allreduce --duration 0.001"), 0);
}

/* Lines come whole, and while the ranks go on. */
GY_TEST(what_they_print_comes)
{
    assert_int_equal(
        shell(
            "rm -f go; $GYRE run $N --hosts 2 -n 2 --prefix sh -c 'echo begun $GYRE_RANK; "
            "until "
            "[ -e '$T'/go ]; do sleep 0.02; done; seq 2000; echo over >&2' >said & p=$!; "
            "for i in $(seq 500); do [ $(grep -c begun said) = 2 ] && break; sleep 0.02; done; "
            "[ $i -lt 500 ] && touch go && wait $p && [ $(wc -l <said) = 4004 ] && "
            "grep -v '^\\[[01]\\] [a-z0-9]*' said | wc -l | grep -qx 0 && "
            "[ $(grep -c over said) = 2 ] && [ $(sort -u said | wc -l) = 4004 ]"),
        0);
}

GY_TEST(ends_are_those_of_run)
{
    static const struct {
        const char *line;
        int status;
    } ends[] = {
        {"$GYRE run $N --hosts 2 -n 4 sh -c 'exit $((GYRE_RANK / 3 * 7))'", 7},
        {"$GYRE run $N --hosts 2 -n 2 --timeout 0.3 sleep 100", 124},
        {"$GYRE run $N --hosts 2 -n 3 true", 2},
        {"$GYRE run $N --hosts 2 -n 2 no-such-program", 127},
        {"$GYRE run $N --hosts 2 --record x true", 2},
        {"$GYRE run $N -n 2 true", 2},
        {"$GYRE run --hosts 2 true", 2},
        /* nobody is there, and it is looked for no longer than it says */
        {"timeout -s KILL 5 $GYRE run --nameservers 127.0.0.1:1 --key ring --connect-timeout "
         "0.1 --hosts 2 "
         "true",
         1},
    };
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    const size_t step = GY_COUNT(ends);
#else
    const size_t step = 1;
#endif
    for (size_t i = 0; i < GY_COUNT(ends); i += step) {
        const int status = cluster_shell(&at, said, sizeof(said), ends[i].line);
        if (status != ends[i].status) {
            fail_msg("%s: %d, expected %d: %s", ends[i].line, status, ends[i].status, said);
        }
    }
}

/* More hosts than there are, none with the label, others that have the slots: it waits, says
 * why, and ends with its user's signal. One that starts at once says nothing of that. */
GY_TEST(one_that_cannot_be_waits_and_ends)
{
    skip_sanitized();
    assert_int_equal(
        shell(
            "trap 'kill $p $has 2>nothing' EXIT; waits() { $GYRE run $N $2 --name $1 true "
            "2>$1.err & p=$!; for i in $(seq 500); "
            "do grep \"gyre run: job [0-9a-f]* waits: .*$3\" $1.err && break; sleep 0.02; "
            "done; [ $i -lt 500 ] || exit 9; $GYRE job list $N | grep \"$1 .*$4\" || exit 8; "
            "kill -TERM $p; wait $p; [ $? = 143 ] && [ $(grep -c waits $1.err) = 1 ] && "
            "$GYRE job list $N | grep \" $1 \" | grep -q killed; }; "
            "waits wide '--hosts 4' 'for 1 slots on each of 4 hosts' 'on each of 4 hosts' && "
            "waits bare '--hosts 1 --label gpu' '3 without the label' 'without the label' && "
            "{ [ -n \"$GYRE_SOAK\" ] || { " /* there a gang is preempted at once */
            "rm -f gone ended rank-*; { $GYRE run $N --hosts 3 -n 9 sh $T/where $T/gone "
            "2>has.err & has=$!; } && for i in $(seq 500); do [ $(ls rank-? | wc -l) = 9 ] && "
            "break; sleep 0.02; done; [ $i -lt 500 ] && "
            "waits late '--hosts 3' 'for free slots on 3 hosts' ranks && touch gone && "
            "wait $has && ! grep waits has.err; }; }"),
        0);
}

/* On one host each rank has a slot, too, or it cannot be. */
GY_TEST(ranks_of_one_host_have_a_slot_each)
{
    skip_sanitized();
    assert_int_equal(
        shell(
            "trap 'kill $p 2>nothing' EXIT; rm -f gone ended rank-*; "
            "{ $GYRE run $N --hosts 1 -n 3 --name three sh $T/where $T/gone & p=$!; } && "
            "for i in $(seq 500); do [ $(ls rank-? | wc -l) = 3 ] && break; sleep 0.02; done; "
            "[ $i -lt 500 ] || exit 9; for i in $(seq 500); do $GYRE job list $N | "
            "grep ' 3/3 .* three' && break; sleep 0.02; done; [ $i -lt 500 ] || exit 8; "
            "touch gone && wait $p && [ $(cut -d' ' -f 4 rank-? | sort -u | wc -l) = 1 ] || "
            "exit 7; ! $GYRE run $N --hosts 1 -n 4 true >four.err 2>&1 && "
            "grep 'need 4 slots on one host: the job can have 3' four.err"),
        0);
}

/* Its name, share, side file, variables and the folder of its notes; ranks that are started
 * anew. */
GY_TEST(what_options_say_is_so)
{
    skip_sanitized();
    assert_int_equal(
        shell("printf '#!/bin/sh\nuntil [ -e $1 ]; do sleep 0.02; done; cat ${0%%/*}/side; "
              "echo $HERE $GIVEN\n' >tell; chmod 755 tell; mkdir notes; echo beside >side; "
              "HERE=here $GYRE run $N --hosts 2 --name called --weight 7 --file side -e HERE "
              "--env GIVEN=given --folder $T/notes ./tell $T/told >said & p=$!; "
              "for i in $(seq 500); do ls notes/journal* 2>nothing && break; sleep 0.02; done; "
              "[ $i -lt 500 ] || exit 9; $GYRE job show $N $($GYRE job list $N | "
              "sed -n 's/ .* called .*//p') | grep -x 'weight   7' && touch told && wait $p && "
              "[ \"$(sort said | tr '\\n' ' ')\" = 'beside beside here given here given ' ] && "
              "! ls notes/journal*"),
        0);
    assert_int_equal(
        shell("! $GYRE run $N --hosts 2 --on-failure restart --restarts-max 2 sh -c "
              "'[ $GYRE_RANK = 1 ] || { echo >>starts; exit 3; }; sleep 50' && "
              "[ $(wc -l <starts) = 3 ] && : >starts && "
              "$GYRE run $N --hosts 2 --on-failure restart sh -c 'if [ $GYRE_RANK = 0 ]; then "
              "echo >>starts; [ $(wc -l <starts) = 2 ] || exit 3; "
              "else until [ $(wc -l <starts) = 2 ]; do sleep 0.02; done; fi'"),
        0);
}

GY_TEST(a_job_trains_over_hosts)
{
    assert_int_equal(
        shell("$LEARN home 2 2 t0 t1 t2 && $GYRE job submit $N -- $LEARN $T/far 2 2 "
              "$T/t0 $T/t1 $T/t2 && cmp home/w-00000 far/w-00000 && "
              "[ $(wc -l <far/w-00000) = 24 ]"),
        0);
}

/* The daemon that the last word of a file names; -1: none does. */
static int find_daemon(const char *file)
{
    size_t size = 0;
    char path[160];
    char *bytes = kit_read(cluster_path(path, file), &size);
    const char *at_d = bytes != NULL ? memrchr(bytes, 'd', size) : NULL;
    const int found = at_d != NULL ? at_d[1] - '0' : -1;
    gy_free(bytes);
    return found;
}

#define BOTH_BEGIN                                                                             \
    "for i in $(seq 600); do [ -s rank-0 ] && [ -s rank-1 ] && break; sleep 0.05; done; "      \
    "[ $i -lt 600 ] && "

/* Twelve seconds: two until it is lost, ten until its ranks cannot be there any more. */
GY_TEST(a_lost_host_is_replaced)
{
    int victim = -1;
    char line[512];
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
    assert_int_equal(shell("rm -f rank-* go ended; $GYRE run $N --hosts 2 sh $T/where $T/go "
                           ">run.log 2>&1 & " BOTH_BEGIN "ls -d d?/jobs/*/manager >manager"),
                     0);
    victim = find_daemon("rank-1") == find_daemon("manager") ? find_daemon("rank-0")
                                                             : find_daemon("rank-1");
    assert_true(victim >= 0 && victim < CLUSTER_DAEMONS);
    assert_int_equal(kill(at.daemons[victim], SIGKILL), 0);
    (void)kit_wait(at.daemons[victim]);
    at.daemons[victim] = 0;
    snprintf(line, sizeof(line),
             "rm -f rank-*; " BOTH_BEGIN "! grep d%d rank-? && touch go && "
             "for i in $(seq 200); do $GYRE job list $N | grep ' sh ' | grep -v done || break; "
             "sleep 0.05; done; [ $(wc -l <ended) = 2 ]",
             victim);
    assert_int_equal(shell(line), 0);
    at.daemons[victim] = cluster_daemon(&at, victim);
    KIT_UNTIL(cluster_up(&at) == CLUSTER_DAEMONS);
}

/* The same while it trains: what comes out is what comes out locally. */
GY_TEST(a_lost_host_changes_no_byte)
{
    int victim = -1;
    if (getenv("GYRE_SOAK") == NULL) {
        skip();
    }
    assert_int_equal(
        shell("for i in $(seq 400); do cat t0; done >t3; $LEARN home2 2 2 t3 t1 && "
              "$GYRE job submit $N --no-wait -- $LEARN $T/far2 2 2 $T/t3 $T/t1 "
              ">id && for i in $(seq 2000); do find d? -path '*/inputs/1' >parts "
              "2>nothing; [ $(wc -l <parts) = 2 ] && break; sleep 0.01; done; "
              "ls -d d?/jobs/*/manager >manager; "
              "grep -v ^$(cut -c 1-2 manager) parts | sed 's,/.*,,' >there"),
        0);
    victim = find_daemon("there");
    assert_true(victim >= 0 && victim < CLUSTER_DAEMONS);
    assert_int_equal(kill(at.daemons[victim], SIGKILL), 0);
    (void)kit_wait(at.daemons[victim]);
    at.daemons[victim] = 0;
    assert_int_equal(shell("$GYRE job wait $N --wait-timeout 50 $(cat id) && "
                           "cmp home2/w-00000 far2/w-00000"),
                     0);
    at.daemons[victim] = cluster_daemon(&at, victim);
    KIT_UNTIL(cluster_up(&at) == CLUSTER_DAEMONS);
}

GY_TEST_MAIN(begin, end)
