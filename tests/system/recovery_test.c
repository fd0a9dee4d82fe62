/*
 * Goal: real processes that are killed at random moments: the others agree, shrink and end with
 * right sums, over shared memory and over TCP; the run goes on or ends as its options say. With
 * arguments this program plays a rank.
 */
#include "launch_kit.h"
#include "replay_kit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "gy_test.h"

static char own_path[4096];

static int usage_failure(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, gy_error_text());
    return 70;
}

static void kill_self(int number)
{
    (void)number;
    kill(getpid(), SIGKILL);
}

/* Some ranks, never the first one, are killed within `within_us`. */
static void draw_death(uint64_t seed, int rank, uint64_t within_us)
{
    gy_random random = {.key = seed * 64 + (uint64_t)rank};
    if (rank == 0 || gy_random_below(&random, 3) == 0) {
        return;
    }
    long after_us = (long)gy_random_below(&random, within_us) + 1;
    struct itimerval timer = {.it_value = {.tv_usec = after_us}};
    signal(SIGALRM, kill_self);
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* 0: all sums were right; 1: a rank died; 2: a wrong sum. */
static int sum_members(gy_comm *comm, int rank)
{
    enum { SUMS = 40, COUNT = 40000 };
    static uint64_t data[COUNT];
    for (int i = 0; i < SUMS; i++) {
        size_t count = i % 2 == 0 ? 3 : COUNT;
        for (size_t at = 0; at < count; at++) {
            data[at] = UINT64_C(1) << rank;
        }
        if (gy_allreduce(comm, data, data, count, GY_U64, GY_SUM) < 0) {
            return 1;
        }
        for (size_t at = 0; at < count; at++) {
            if (data[at] != data[0] || __builtin_popcountll(data[at]) != gy_comm_size(comm)) {
                fprintf(stderr, "rank %d: sum %d of %zu is %llx at %zu, of %d ranks\n", rank, i,
                        count, (unsigned long long)data[at], at, gy_comm_size(comm));
                return 2;
            }
        }
    }
    return 0;
}

static int part_shrink(uint64_t seed)
{
    gy_comm *comm = NULL;
    if (gy_comm_world(&comm) < 0) {
        return strstr(gy_error_text(), "rank ") != NULL ? 0 : usage_failure("world");
    }
    gy_comm *first = comm;
    int rank = gy_comm_rank(comm);
    draw_death(seed, rank, 15000);
    for (;;) {
        gy_comm *next = NULL;
        int result = sum_members(comm, rank);
        gy_agreement agreement = {.flags = result == 0};
        if (result == 2 || (result == 1 && strstr(gy_error_text(), "rank ") == NULL) ||
            gy_comm_agree(comm, &agreement) < 0) {
            return usage_failure("agree");
        }
        if (agreement.flags == 1) {
            break;
        }
        if (gy_comm_shrink(comm, &next) < 0) {
            return usage_failure("shrink");
        }
        if (comm != first) {
            gy_comm_free(comm);
        }
        comm = next;
    }
    if (comm != first) {
        gy_comm_free(comm);
    }
    gy_comm_world_close();
    return 0;
}

/* ---- Ranks that are started anew ---- */

enum { STEPS = 60, CHECKPOINT_EVERY = 17, REPLICAS_ALL = 7 };

static bool write_result(const char *folder, int rank, const replay_work *state)
{
    char path[300];
    snprintf(path, sizeof(path), "%s/%d", folder, rank);
    FILE *file = fopen(path, "wb");
    bool is_written = file != NULL && fwrite(state, sizeof(*state), 1, file) == 1;
    return file != NULL && fclose(file) == 0 && is_written;
}

/* mode 0: nobody is killed; 1: any rank, often; 2: rank 1 alone, one replica. */
static int part_restart(int mode, const char *folder)
{
    static replay_work state;
    int64_t version = 0;
    gy_recoverable *replay = NULL;
    const char *place = getenv("GYRE_RANK");
    if (mode == 1 || (mode == 2 && place != NULL && strcmp(place, "1") == 0)) {
        draw_death((uint64_t)getpid(), 1, 20000);
    }
    gy_comm *comm = NULL;
    gy_recoverable_options options = {.replicas = mode == 2 ? 1 : REPLICAS_ALL};
    if (gy_comm_world(&comm) < 0 || gy_recoverable_new(comm, &options, &replay) < 0 ||
        gy_recoverable_load(replay, &state, replay_state_bytes(gy_comm_rank(comm)), &version) <
            0) {
        return usage_failure("load");
    }
    int rank = gy_comm_rank(comm);
    while (state.step < STEPS) {
        if (replay_step(replay, &state, CHECKPOINT_EVERY) < 0) {
            return usage_failure("step");
        }
    }
    if (!write_result(folder, rank, &state) || gy_recoverable_finish(replay) < 0) {
        return usage_failure("finish");
    }
    gy_recoverable_free(replay);
    gy_comm_world_close();
    return 0;
}

static void run_part(const gy_run_options *options, const char *part, uint64_t seed,
                     int expected)
{
    char words[2][32];
    snprintf(words[0], sizeof(words[0]), "%s", part);
    snprintf(words[1], sizeof(words[1]), "%llu", (unsigned long long)seed);
    char *const argv[] = {own_path, words[0], words[1], NULL};
    int status = launch_run(options, argv);
    if (status != expected) {
        fail_msg("%s %s: status %d, expected %d", part, words[1], status, expected);
    }
}

GY_TEST(survivors_go_on_without_the_dead)
{
    uint64_t seed = gy_test_seed();
    for (int i = 0; i < (int)gy_test_cases(24); i++) {
        run_part(&(gy_run_options){.ranks = 2 + i % 4,
                                   .timeout_s = 60,
                                   .is_tcp = i % 3 == 2,
                                   .on_failure = GY_RUN_CONTINUE},
                 "shrink", seed + (uint64_t)i, 0);
    }
}

static void run_restarts(int mode, int ranks, bool is_tcp, const char *folder)
{
    char words[3][64];
    snprintf(words[0], sizeof(words[0]), "restart");
    snprintf(words[1], sizeof(words[1]), "%d", mode);
    snprintf(words[2], sizeof(words[2]), "%s", folder);
    char *const argv[] = {own_path, words[0], words[1], words[2], NULL};
    const gy_run_options options = {.ranks = ranks,
                                    .timeout_s = 100,
                                    .on_failure = GY_RUN_RESTART,
                                    .restarts = 1000,
                                    .is_tcp = is_tcp};
    assert_int_equal(launch_run(&options, argv), 0);
}

static void read_result(const char *folder, int rank, replay_work *state)
{
    char path[300];
    snprintf(path, sizeof(path), "%s/%d", folder, rank);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(state, sizeof(*state), 1, file), 1);
    fclose(file);
    assert_int_equal(unlink(path), 0);
}

/* Whoever is killed whenever: the same bits as without. */
GY_TEST(killed_ranks_are_made_up_for)
{
    enum { RANKS = 3 };
    static replay_work expected[2][RANKS], got;
    char folder[] = "/tmp/gyre-recovery-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (int is_tcp = 0; is_tcp < 2; is_tcp++) {
        run_restarts(0, RANKS, is_tcp == 1, folder);
        for (int rank = 0; rank < RANKS; rank++) {
            read_result(folder, rank, &expected[is_tcp][rank]);
        }
    }
    for (int i = 0; i < (int)gy_test_cases(16); i++) {
        int is_tcp = i % 4 == 3;
        run_restarts(1 + i % 2, RANKS, is_tcp == 1, folder);
        for (int rank = 0; rank < RANKS; rank++) {
            read_result(folder, rank, &got);
            assert_true(replay_is_same(&got, &expected[is_tcp][rank]));
        }
    }
    assert_int_equal(rmdir(folder), 0);
}

GY_TEST(what_cannot_be_kept_is_told)
{
    double data[8] = {0};
    gy_recoverable *replay = NULL;
    gy_comm *comm = NULL, *whole = NULL;
    assert_ok(gy_comm_world(&comm));
    assert_status(gy_comm_recover(comm, &whole), GY_UNSUPPORTED);
    assert_non_null(strstr(gy_error_text(), "gyre run --on-failure=restart"));
    assert_ok(gy_recoverable_new(comm, &(gy_recoverable_options){.limit_bytes = 128}, &replay));
    assert_true(gy_recoverable_comm(replay) == comm);
    assert_ok(gy_recoverable_allreduce(replay, data, data, 8, GY_F64, GY_SUM));
    assert_ok(gy_recoverable_allreduce(replay, data, data, 8, GY_F64, GY_SUM)); /* just so */
    assert_ok(gy_recoverable_allreduce(replay, data, data, 0, GY_F64, GY_SUM));
    assert_status(gy_recoverable_allreduce(replay, data, data, 1, GY_F64, GY_SUM), GY_LIMIT);
    assert_non_null(strstr(gy_error_text(), "136 bytes since checkpoint 0, the limit is 128"));
    assert_status(gy_recoverable_run(replay, &(gy_coll_call){.operation = GY_OPERATION_SCAN,
                                                             .dtype = GY_F64,
                                                             .in = data,
                                                             .out = data}),
                  GY_UNSUPPORTED);
    int64_t version = 0;
    assert_status(gy_recoverable_load(replay, data, 8, &version), GY_STATE);
    assert_ok(gy_recoverable_checkpoint(replay, data, sizeof(data)));
    assert_status(gy_recoverable_load(replay, data, 8, &version), GY_STATE);
    for (int i = 0; i < 2; i++) {
        assert_ok(gy_recoverable_allreduce(replay, data, data, 8, GY_F64, GY_SUM));
    }
    assert_status(gy_recoverable_allreduce(replay, data, data, 1, GY_F64, GY_SUM), GY_LIMIT);
    assert_non_null(strstr(gy_error_text(), "136 bytes since checkpoint 1, the limit is 128"));
    assert_ok(gy_recoverable_finish(replay));
    gy_recoverable_free(replay);
    gy_comm_world_close();
}

/* Rank 1 ends the run or revokes; the others wait for it or would run on. */
static int part_leave(bool is_abort)
{
    gy_comm *comm = NULL;
    if (gy_comm_world(&comm) < 0) {
        return usage_failure("world");
    }
    int rank = gy_comm_rank(comm);
    if (rank == 1 && is_abort) {
        gy_comm_abort(comm, 7, "out of fuel");
    }
    if (rank == 1) {
        gy_comm_revoke(comm);
    }
    gy_status status = gy_barrier(comm);
    bool is_right = status == GY_CANCELLED &&
                    strstr(gy_error_text(), is_abort ? "rank 1 aborted the launch: out of fuel"
                                                     : "rank 1 revoked") != NULL;
    if (!is_right) {
        return usage_failure("barrier");
    }
    /* Who leaves at once may cut off its own words. */
    gy_agreement agreement = {.flags = 0};
    return is_abort || gy_comm_agree(comm, &agreement) == GY_OK ? 0 : usage_failure("agree");
}

GY_TEST(revoked_ones_hear_who_did_it)
{
    for (int is_tcp = 0; is_tcp < 2; is_tcp++) {
        run_part(&(gy_run_options){.ranks = 3, .timeout_s = 60, .is_tcp = is_tcp == 1},
                 "revoke", 0, 0);
    }
}

GY_TEST(abort_ends_the_run)
{
    run_part(&(gy_run_options){.ranks = 3, .timeout_s = 60}, "abort", 0, 7);
    run_part(&(gy_run_options){.ranks = 3, .timeout_s = 60, .on_failure = GY_RUN_CONTINUE},
             "abort", 0, 7);
}

int main(int argc, char **argv)
{
    if (argc > 3) {
        return part_restart((int)strtol(argv[2], NULL, 10), argv[3]);
    }
    if (argc > 2) {
        uint64_t seed = strtoull(argv[2], NULL, 10);
        return strcmp(argv[1], "shrink") == 0 ? part_shrink(seed)
                                              : part_leave(strcmp(argv[1], "abort") == 0);
    }
    ssize_t size = readlink("/proc/self/exe", own_path, sizeof(own_path) - 1);
    if (size <= 0) {
        return 1;
    }
    return GY_TESTS_RUN(NULL, NULL);
}
