/*
 * Goal: `gyre doctor` tells from outside what real ranks do: one that is stopped, live; one
 * that was killed, calls that differ, one that comes late, from the file that the run left.
 * With an argument this program plays a rank.
 */
#include "command_kit.h"
#include "launch_kit.h"

#include "base/base.h"
#include "coll/coll_priv.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>

enum { RANKS = 3, ROUNDS = 12, FAILED = 44 };
static char own_path[4096];

/* ---- Parts of a rank ---- */

static void wait_until_entered(gy_comm *comm, int rank)
{
    gy_flight_record record;
    gy_flight_record_area *area = gy_transport_records(comm->transport, rank);
    while (!gy_flight_record_latest(area, &record) || record.number != comm->next_number ||
           record.state != GY_RECORD_MEETING) {
        gy_env_real()->ops->pause(gy_env_real(), UINT64_MAX);
    }
}

/* The last rank enters a millisecond after the others have. */
static int part_late(gy_comm *comm)
{
    for (int round = 0; round < ROUNDS; round++) {
        if (gy_comm_rank(comm) == RANKS - 1) {
            for (int rank = 0; rank < RANKS - 1; rank++) {
                wait_until_entered(comm, rank);
            }
            int64_t until_ns = gy_now_ns(gy_env_real()) + 1000000;
            while (gy_now_ns(gy_env_real()) < until_ns) {
                gy_env_real()->ops->pause(gy_env_real(), UINT64_MAX);
            }
        }
        if (gy_barrier(comm) != GY_OK) {
            return FAILED;
        }
    }
    return 0;
}

static int part_signal(gy_comm *comm, int number)
{
    float data[4] = {0};
    gy_status status = gy_barrier(comm);
    if (gy_comm_rank(comm) == 1) {
        raise(number);
    }
    if (status == GY_OK) {
        status = gy_allreduce(comm, data, data, 4, GY_F32, GY_SUM);
    }
    return status == GY_OK ? 0 : FAILED;
}

static int part_differ(gy_comm *comm)
{
    int64_t data[4] = {0};
    size_t count = gy_comm_rank(comm) == 2 ? 4 : 3;
    return gy_allreduce(comm, data, data, count, GY_I64, GY_SUM) == GY_OK ? 0 : FAILED;
}

static int play(const char *part)
{
    gy_comm *comm = NULL;
    if (gy_comm_world(&comm) < 0) {
        return 90;
    }
    int status = strcmp(part, "late") == 0     ? part_late(comm)
                 : strcmp(part, "differ") == 0 ? part_differ(comm)
                 : strcmp(part, "stop") == 0   ? part_signal(comm, SIGSTOP)
                                               : part_signal(comm, SIGKILL);
    if (status == 0) {
        gy_comm_world_close();
    }
    return status;
}

/* ---- The test's side ---- */

/* The launcher of three ranks; what it says goes to the file `err`. */
static pid_t start(const char *part, bool is_tcp, const char *record)
{
    char word[32], path[128], file[128];
    snprintf(word, sizeof(word), "%s", part);
    snprintf(path, sizeof(path), "%s/err", folder);
    snprintf(file, sizeof(file), "%s/%s", folder, record != NULL ? record : "");
    char *const argv[] = {own_path, word, NULL};
    pid_t launcher = fork();
    assert_true(launcher >= 0);
    if (launcher == 0) {
        int err = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(err, STDERR_FILENO);
        _exit(launch_run(&(gy_run_options){.ranks = RANKS,
                                           .timeout_s = 100,
                                           .is_tcp = is_tcp,
                                           .record = record != NULL ? file : NULL},
                         argv));
    }
    return launcher;
}

static int end_of(pid_t launcher)
{
    int status = 0;
    assert_int_equal(waitpid(launcher, &status, 0), launcher);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect_said(const char *words)
{
    if (strstr(output, words) == NULL) {
        fail_msg("expected \"%s\" in: %s", words, output);
    }
}

/* Ask again until the doctor says both at once. */
static void await(pid_t launcher, const char *words, const char *more)
{
    char line[64];
    gy_deadline deadline = gy_deadline_after(60);
    snprintf(line, sizeof(line), "gyre doctor %d", (int)launcher);
    do {
        (void)shell(line);
        if (gy_now_ns(gy_env_real()) > deadline.at_ns) {
            fail_msg("expected \"%s\" and \"%s\" in: %s", words, more, output);
        }
    } while (strstr(output, words) == NULL || strstr(output, more) == NULL);
}

GY_TEST(a_stopped_rank_is_named_live)
{
    for (int is_tcp = 0; is_tcp < 2; is_tcp++) {
        int process = 0;
        char line[64];
        pid_t launcher = start("stop", is_tcp == 1, NULL);
        /* Plans over messages start before the calls are compared: crowded ranks fold. */
        cpu_set_t cores;
        assert_int_equal(sched_getaffinity(0, sizeof(cores), &cores), 0);
        bool is_crowded = CPU_COUNT(&cores) < 3;
        /* The others may be about to leave the barrier when rank 1 is stopped, or be there
         * before. */
        await(launcher, "is stopped, by a signal or a debugger; ranks 0, 2 wait for it",
              is_tcp == 0 ? "has entered collective 1, allreduce of 4 f32 by sum, called "
              : is_crowded
                  ? "is in collective 1, allreduce of 4 f32 by sum (folded), called "
                  : "is in collective 1, allreduce of 4 f32 by sum (doubling), called ");
        expect_said("3 ranks");
        const char *named = strstr(output, "* rank 1 (process ");
        assert_non_null(named);
        assert_int_equal(sscanf(named, "* rank 1 (process %d)", &process), 1);
        /* Any process of the run will do. */
        snprintf(line, sizeof(line), "gyre doctor --json %d", process);
        assert_int_equal(shell(line), 0);
        expect_said("{\"kind\": \"stopped\"");
        expect_said("\"is_stopped\": true");
        assert_int_equal(kill(process, SIGCONT), 0);
        assert_int_equal(end_of(launcher), 0);
    }
}

GY_TEST(a_killed_rank_is_named_afterwards)
{
    assert_int_equal(end_of(start("kill", false, "killed")), 128 + SIGKILL);
    assert_int_equal(shell("gyre doctor --recording killed"), 0);
    expect_said("ended: rank 1 (process ");
    expect_said("is lost: it ended without leaving the launch");
    expect_said("collective 0, barrier");
    assert_int_equal(shell("stat -c %a killed; ls"), 0);
    expect_said("600\n");
    assert_null(strstr(output, ".part"));
}

/* Without --record a failure leaves one file, of which the last few are kept. */
GY_TEST(a_failure_leaves_a_file)
{
    char state_path[128];
    snprintf(state_path, sizeof(state_path), "%s/state", folder);
    assert_int_equal(shell("mkdir -p state/gyre; cd state/gyre; "
                           "for i in 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27; do "
                           ">flight-000000000000000000$i-1; done; >other"),
                     0);
    assert_int_equal(setenv("XDG_STATE_HOME", state_path, 1), 0);
    assert_int_equal(end_of(start("differ", false, NULL)), FAILED);
    assert_int_equal(shell("cat err"), 0);
    expect_said("gyre: what the ranks did: gyre doctor --recording ");
    assert_int_equal(end_of(start("late", false, NULL)), 0);
    assert_int_equal(shell("ls state/gyre"), 0);
    assert_null(strstr(output, "0012-1"));
    expect_said("0013-1");
    expect_said("other");
    assert_int_equal(shell("ls state/gyre/flight-* | wc -l"), 0);
    expect_said("16\n");
    assert_int_equal(shell("gyre doctor --recording $(ls state/gyre/flight-* | tail -n 1)"), 0);
    expect_said("ranks disagree: rank ");
    expect_said("rank 2 called collective 0, allreduce of 4 i64 by sum");
    expect_said("allreduce of 3 i64 by sum");
    expect_said("failed: ");
}

GY_TEST(a_late_rank_is_named)
{
    assert_int_equal(end_of(start("late", false, "late")), 0);
    assert_int_equal(shell("gyre doctor --recording late"), 0);
    expect_said("* rank 2 was the last to enter 12 of 12 collectives");
    expect_said("has left");
    assert_int_equal(shell("gyre doctor --recording late --json"), 0);
    expect_said("\"kind\": \"late\"");
}

/* Also the exchanges of a micro-batch, which its statistics have beside those of the update. */
GY_TEST(the_time_of_ranks_that_train_is_told)
{
    assert_int_equal(
        shell("seq 900 >text; gyre run -n 2 --record trained $GYRE_BIN train gpt --data text "
              "--layers 1 --model-width 8 --heads 1 --context 4 --batch 4 -m 2 --mesh pipe=2 "
              "--steps 2 --stats -q -o out | sed '1,/^== of a micro-batch/d'"),
        0);
    expect_said("  send           pipe ");
    expect_said("  receive        pipe ");
    assert_int_equal(shell("gyre doctor --recording trained | grep -cx "
                           "'  rank [01] *\\([0-9.]* *\\)\\{7\\}2'"),
                     0);
    expect_said("2\n");
    assert_int_equal(shell("gyre doctor --recording trained --json"), 0);
    expect_said("\"account\": {\"steps\": 2, \"wall_s\": ");
}

GY_TEST(wrong_questions_are_answered)
{
    assert_int_equal(shell("gyre doctor 1x"), 2);
    expect_said("expected a process number");
    assert_int_equal(shell("gyre doctor 1 --recording x"), 2);
    assert_int_equal(shell("gyre doctor $$"), 1);
    expect_said("belongs to no launch");
    assert_int_equal(shell("gyre doctor --recording none"), 1);
    expect_said("cannot open none");
    assert_int_equal(shell("head -c 5000 /dev/zero >zeros; gyre doctor --recording zeros"), 1);
    expect_said("not a flight recorder");
    assert_int_equal(shell("gyre run -n 1 --record no/where true"), 0);
    expect_said("cannot write no/where");
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        return play(argv[1]);
    }
    ssize_t size = readlink("/proc/self/exe", own_path, sizeof(own_path) - 1);
    own_path[size > 0 ? size : 0] = '\0';
    return GY_TESTS_RUN(kit_make_folder, kit_remove_folder);
}
