/*
 * Goal: real processes that are killed at random moments: the others agree, shrink and end with
 * right sums, over shared memory and over TCP; the run goes on or ends as its options say. With
 * arguments this program plays a rank.
 */
#include "base/base.h"
#include "coll/coll.h"

#include <gyre/launch.h>

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
    gy_comm *comm = gy_comm_world(), *first = comm;
    if (comm == NULL) {
        return strstr(gy_error_text(), "rank ") != NULL ? 0 : usage_failure("world");
    }
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

static void run_part(const gy_run_options *options, const char *part, uint64_t seed,
                     int expected)
{
    char words[2][32];
    snprintf(words[0], sizeof(words[0]), "%s", part);
    snprintf(words[1], sizeof(words[1]), "%llu", (unsigned long long)seed);
    char *const argv[] = {own_path, words[0], words[1], NULL};
    int status = gy_run(options, argv);
    if (status != expected) {
        fail_msg("%s %s: status %d, expected %d", part, words[1], status, expected);
    }
}

static void survivors_go_on_without_the_dead(void **state)
{
    (void)state;
    uint64_t seed = gy_test_seed();
    for (int i = 0; i < (int)gy_test_cases(24); i++) {
        run_part(&(gy_run_options){.ranks = 2 + i % 4,
                                   .timeout_seconds = 60,
                                   .is_tcp = i % 3 == 2,
                                   .on_failure = GY_RUN_CONTINUE},
                 "shrink", seed + (uint64_t)i, 0);
    }
}

/* Rank 1 ends the run or revokes; the others wait for it or would run on. */
static int part_leave(bool is_abort)
{
    gy_comm *comm = gy_comm_world();
    if (comm == NULL) {
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
                    strstr(gy_error_text(), is_abort ? "rank 1 aborted the run: out of fuel"
                                                     : "rank 1 revoked") != NULL;
    if (!is_right) {
        return usage_failure("barrier");
    }
    /* Who leaves at once may cut off its own words. */
    gy_agreement agreement = {.flags = 0};
    return is_abort || gy_comm_agree(comm, &agreement) == GY_OK ? 0 : usage_failure("agree");
}

static void revoked_ones_hear_who_did_it(void **state)
{
    (void)state;
    for (int is_tcp = 0; is_tcp < 2; is_tcp++) {
        run_part(&(gy_run_options){.ranks = 3, .timeout_seconds = 60, .is_tcp = is_tcp == 1},
                 "revoke", 0, 0);
    }
}

static void abort_ends_the_run(void **state)
{
    (void)state;
    run_part(&(gy_run_options){.ranks = 3, .timeout_seconds = 60}, "abort", 0, 7);
    run_part(
        &(gy_run_options){.ranks = 3, .timeout_seconds = 60, .on_failure = GY_RUN_CONTINUE},
        "abort", 0, 7);
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        uint64_t seed = strtoull(argv[2], NULL, 10);
        return strcmp(argv[1], "shrink") == 0 ? part_shrink(seed)
                                              : part_leave(strcmp(argv[1], "abort") == 0);
    }
    ssize_t size = readlink("/proc/self/exe", own_path, sizeof(own_path) - 1);
    if (size <= 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survivors_go_on_without_the_dead),
        cmocka_unit_test(revoked_ones_hear_who_did_it),
        cmocka_unit_test(abort_ends_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
