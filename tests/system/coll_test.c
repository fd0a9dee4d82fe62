/*
 * Goal: collectives between real processes: the run's communicator works as `gyre run` starts
 * it, a killed rank is named by all survivors within half a second, a stopped one at the
 * deadline. With an argument this program plays a rank.
 */
#include "base/base.h"
#include "coll/coll.h"
#include "launch_kit.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gy_test.h"

static char own_path[4096];

/* A rank of a run: sums of every size must be right. */
static int part_sum(void)
{
    static double data[200000];
    gy_comm *comm = NULL;
    if (gy_comm_world(&comm) < 0) {
        fprintf(stderr, "no world: %s\n", gy_error_text());
        return 90;
    }
    static const size_t counts[] = {0, 1, 3, 1024, 1025, 200000};
    double ranks = gy_comm_size(comm), sum = ranks * (ranks - 1) / 2;
    for (size_t c = 0; c < GY_COUNT(counts); c++) {
        for (size_t i = 0; i < counts[c]; i++) {
            data[i] = (double)gy_comm_rank(comm) + (double)i;
        }
        if (gy_allreduce(comm, data, data, counts[c], GY_F64, GY_SUM) != GY_OK) {
            fprintf(stderr, "%s\n", gy_error_text());
            return 91;
        }
        for (size_t i = 0; i < counts[c]; i++) {
            if (data[i] != sum + ranks * (double)i) {
                return 92;
            }
        }
    }
    bool is_shared = gy_comm_size(comm) == 1 || gy_comm_pool(comm) != gy_pool_heap();
    gy_comm_world_close();
    return is_shared && gy_comm_world(&comm) == GY_STATE ? 0 : 93;
}

GY_TEST(the_world_sums_under_the_launcher)
{
    char part[] = "sum";
    char *const argv[] = {own_path, part, NULL};
    for (int ranks = 1; ranks <= 4; ranks++) {
        assert_int_equal(launch_run(&(gy_run_options){.ranks = ranks, .timeout_s = 60}, argv),
                         0);
    }
}

enum { LATE = 84 }; /* a survivor's exit status */

typedef struct victim_spec {
    int signal;       /* what rank 1 gives itself */
    size_t count;     /* of the collective it stays away from */
    gy_status status; /* that the others get */
    double least_s, most_s;
    bool is_reserved; /* it has taken the numbers of two before, and started neither */
} victim_spec;

typedef struct told {
    gy_status status;
    char text[1024];
} told;

static void note_end(void *arg, gy_status status)
{
    told *end = arg;
    end->status = status;
    snprintf(end->text, sizeof(end->text), "%s", status < 0 ? gy_error_text() : "");
}

/* What all reserved before rank 1 ended; the later one first. The first failure is returned. */
static gy_status start_reserved(gy_comm *comm, gy_coll *colls[2], float *data, size_t count)
{
    told ends[2] = {{.status = GY_AGAIN}, {.status = GY_AGAIN}};
    for (int i = 1; i >= 0; i--) {
        gy_coll_start(colls[i],
                      &(gy_coll_call){.operation = GY_OPERATION_ALLREDUCE,
                                      .dtype = GY_F32,
                                      .count = count,
                                      .in = data,
                                      .out = data},
                      note_end, &ends[i]);
    }
    gy_deadline deadline = gy_deadline_after(30);
    while ((ends[0].status == GY_AGAIN || ends[1].status == GY_AGAIN) &&
           gy_now_ns(gy_env_real()) < deadline.at_ns) {
        (void)gy_comm_progress(comm);
        gy_env_real()->ops->pause(gy_env_real(), 1000);
    }
    return ends[0].status == ends[1].status ? gy_fail(ends[0].status, "%s", ends[0].text)
                                            : GY_AGAIN;
}

/* In a child: rank `rank` of 3. 0: as expected. */
static int play_rank(int segment, int rank, const victim_spec *spec)
{
    static float data[100000];
    gy_transport *transport = NULL;
    gy_comm *comm = NULL;
    if (gy_transport_shm_open(segment, rank, gy_env_real(), &transport) != GY_OK ||
        gy_comm_new(transport, &(gy_comm_options){.timeout_s = 1}, &comm) != GY_OK ||
        gy_transport_meet(transport, gy_deadline_after(30)) != GY_OK) {
        return 80;
    }
    for (int i = 0; i < 5; i++) {
        if (gy_allreduce(comm, data, data, spec->count, GY_F32, GY_SUM) != GY_OK) {
            return 81;
        }
    }
    gy_coll *colls[2];
    for (int i = 0; spec->is_reserved && i < 2; i++) {
        if (gy_coll_reserve(comm, &colls[i]) != GY_OK) {
            return 83;
        }
    }
    if (rank == 1) {
        raise(spec->signal);
    }
    int64_t start_ns = gy_now_ns(gy_env_real());
    gy_status status = spec->is_reserved
                           ? start_reserved(comm, colls, data, spec->count)
                           : gy_allreduce(comm, data, data, spec->count, GY_F32, GY_SUM);
    double took = (double)(gy_now_ns(gy_env_real()) - start_ns) * 1e-9;
    bool is_named = strstr(gy_error_text(), "rank 1") != NULL &&
                    (spec->is_reserved || strstr(gy_error_text(), "allreduce of") != NULL);
    bool is_right = status == spec->status && is_named && took >= spec->least_s;
    bool is_late = took > spec->most_s;
    if (!is_right || is_late) {
        fprintf(stderr, "rank %d: %s after %.3f s: %s\n", rank, gy_status_text(status), took,
                gy_error_text());
        return is_right ? LATE : 82;
    }
    gy_comm_free(comm);
    return 0;
}

/* All that is right but the time: on a machine that does much else. */
static bool survivors_are_late(const victim_spec *spec)
{
    bool is_late = false;
    int segment = -1;
    pid_t children[3];
    assert_ok(gy_transport_segment_make(
        &(gy_transport_segment_options){.ranks = 3, .pool_bytes = 1 << 20}, &segment));
    fflush(NULL);
    for (int rank = 0; rank < 3; rank++) {
        children[rank] = fork();
        assert_true(children[rank] >= 0);
        if (children[rank] == 0) {
            _exit(play_rank(segment, rank, spec));
        }
    }
    close(segment);
    for (int rank = 0; rank < 3; rank++) {
        int status = 0;
        if (rank != 1) {
            assert_int_equal(waitpid(children[rank], &status, 0), children[rank]);
            assert_true(WIFEXITED(status));
            assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == LATE);
            is_late = is_late || WEXITSTATUS(status) == LATE;
        }
    }
    kill(children[1], SIGKILL);
    assert_int_equal(waitpid(children[1], NULL, 0), children[1]);
    return is_late;
}

/* What takes too long by itself does so each time. */
static void run_victim(const victim_spec *spec)
{
    for (int attempt = 0; survivors_are_late(spec); attempt++) {
        assert_true(attempt < 2);
    }
}

GY_TEST(killed_rank_is_named_at_once)
{
    run_victim(&(victim_spec){.signal = SIGKILL,
                              .count = 4,
                              .status = GY_PEER,
                              .least_s = 0,
                              .most_s = gy_test_named_s()});
    run_victim(&(victim_spec){.signal = SIGKILL,
                              .count = 100000,
                              .status = GY_PEER,
                              .least_s = 0,
                              .most_s = gy_test_named_s()});
}

/* It cannot poison what it took numbers for: its end is the only sign. */
GY_TEST(killed_rank_leaves_reserved_ones_to_fail)
{
    static const size_t counts[] = {4, 50000};
    for (size_t i = 0; i < GY_COUNT(counts); i++) {
        run_victim(&(victim_spec){.signal = SIGKILL,
                                  .count = counts[i],
                                  .status = GY_PEER,
                                  .most_s = gy_test_named_s(),
                                  .is_reserved = true});
    }
}

GY_TEST(stopped_rank_is_named_at_the_deadline)
{
    run_victim(&(victim_spec){
        .signal = SIGSTOP, .count = 4, .status = GY_TIMEOUT, .least_s = 0.9, .most_s = 10});
    run_victim(&(victim_spec){.signal = SIGSTOP,
                              .count = 100000,
                              .status = GY_TIMEOUT,
                              .least_s = 0.9,
                              .most_s = 10});
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "sum") == 0) {
        return part_sum();
    }
    ssize_t size = readlink("/proc/self/exe", own_path, sizeof(own_path) - 1);
    if (size <= 0) {
        return 1;
    }
    return GY_TESTS_RUN(NULL, NULL);
}
