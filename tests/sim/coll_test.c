/*
 * Goal: collectives over messages end right under random delays at up to 65 ranks, and, when a
 * rank crashes or the network splits, on every survivor with an error that names a culprit;
 * never in a hang.
 */
#include "coll/coll.h"
#include "transport/simnet.h"

#include <stdio.h>
#include <string.h>

#include "gy_test.h"
#include "seeds_kit.h"

enum { RANKS_MAX = 65, FLIGHTS = 4, COUNT_MAX = 300 };

typedef struct flight_note {
    int status; /* 1 under way, 0 fine, below 0 failed */
    char text[256];
    int32_t in[COUNT_MAX * RANKS_MAX], out[COUNT_MAX * RANKS_MAX];
} flight_note;

typedef struct sim_world {
    gy_sim *sim;
    int size, crashed; /* -1: nobody */
    gy_comm *comms[RANKS_MAX];
    gy_coll_call calls[FLIGHTS];
    flight_note *flights; /* (size, FLIGHTS) */
} sim_world;

static void note_end(void *arg, gy_status status)
{
    flight_note *flight = arg;
    flight->status = (int)status;
    snprintf(flight->text, sizeof(flight->text), "%s", status != GY_OK ? gy_error_text() : "");
}

static flight_note *flight_of(sim_world *world, int rank, int at)
{
    return &world->flights[rank * FLIGHTS + at];
}

static void open_world(sim_world *world, int size, uint64_t seed, const char *algorithm)
{
    const gy_sim_options options = {
        .seed = seed,
        .nodes = size,
        .link = {.latency_ns = 20000, .jitter_ns = 300000, .bytes_per_second = 1e9}};
    *world = (struct sim_world){.size = size, .crashed = -1};
    assert_ok(gy_sim_new(&options, &world->sim));
    for (int rank = 0; rank < size; rank++) {
        gy_transport *transport = NULL;
        assert_ok(gy_transport_simnet_open(world->sim, rank, &transport));
        assert_ok(gy_comm_new(transport,
                              &(gy_comm_options){.timeout_s = 5, .algorithm = algorithm},
                              &world->comms[rank]));
    }
    world->flights = gy_alloc_zero("test", (size_t)size * FLIGHTS, sizeof(*world->flights));
    assert_non_null(world->flights);
}

static void close_world(sim_world *world)
{
    for (int rank = 0; rank < world->size; rank++) {
        gy_comm_free(world->comms[rank]);
    }
    gy_free(world->flights);
    gy_sim_free(world->sim);
    assert_int_equal(gy_alloc_live(), 0);
}

static int32_t element(int rank, int at, size_t i)
{
    return (int32_t)(rank * 7 + at * 13 + (int)(i % 11));
}

/* The same calls on all ranks, begun at once, of all kinds. */
static void begin_all(sim_world *world, gy_random *random)
{
    static const gy_operation kinds[] = {GY_OPERATION_ALLREDUCE, GY_OPERATION_REDUCE_SCATTER,
                                         GY_OPERATION_ALLGATHER, GY_OPERATION_BROADCAST,
                                         GY_OPERATION_REDUCE,    GY_OPERATION_BARRIER};
    for (int at = 0; at < FLIGHTS; at++) {
        world->calls[at] =
            (gy_coll_call){.operation = kinds[gy_random_below(random, GY_COUNT(kinds))],
                           .dtype = GY_I32,
                           .root = (int)gy_random_below(random, (uint64_t)world->size),
                           .count = gy_random_below(random, COUNT_MAX + 1),
                           .priority = (int)gy_random_below(random, 2)};
        for (int rank = 0; rank < world->size; rank++) {
            flight_note *flight = flight_of(world, rank, at);
            gy_coll_call call = world->calls[at];
            bool is_root = call.operation == GY_OPERATION_BROADCAST && rank == call.root;
            for (size_t i = 0; i < call.count * (size_t)world->size; i++) {
                flight->in[i] = element(rank, at, i);
                flight->out[i] = is_root ? flight->in[i] : -1;
            }
            call.in = flight->in;
            call.out = flight->out;
            flight->status = 1;
            assert_ok(gy_coll_begin(world->comms[rank], &call, note_end, flight));
        }
    }
}

static bool is_over(sim_world *world)
{
    for (int rank = 0; rank < world->size; rank++) {
        for (int at = 0; at < FLIGHTS && rank != world->crashed; at++) {
            if (flight_of(world, rank, at)->status == 1) {
                return false;
            }
        }
    }
    return true;
}

/* Drive all until everything has ended; at most `seconds` of virtual time. */
static void drive(sim_world *world, double seconds)
{
    int64_t limit_ns = gy_sim_now_ns(world->sim) + (int64_t)(seconds * 1e9);
    while (!is_over(world)) {
        bool has_moved = false;
        for (int rank = 0; rank < world->size; rank++) {
            if (gy_sim_is_up(world->sim, rank)) {
                has_moved = gy_comm_progress(world->comms[rank]) || has_moved;
            } else {
                world->crashed = rank;
            }
        }
        if (!has_moved && !gy_sim_step(world->sim)) {
            gy_sim_run_until(world->sim, gy_sim_now_ns(world->sim) + 1000000);
        }
        assert_true(gy_sim_now_ns(world->sim) < limit_ns);
    }
}

static int32_t expected_at(const sim_world *world, int at, int rank, size_t i)
{
    const gy_coll_call *call = &world->calls[at];
    int32_t sum = 0;
    size_t from = i;
    if (call->operation == GY_OPERATION_ALLGATHER) {
        return element((int)(i / call->count), at, i % call->count);
    }
    if (call->operation == GY_OPERATION_BROADCAST) {
        return element(call->root, at, i);
    }
    if (call->operation == GY_OPERATION_REDUCE_SCATTER) {
        from += (size_t)rank * call->count;
    }
    for (int other = 0; other < world->size; other++) {
        sum += element(other, at, from);
    }
    return sum;
}

static void check_results(sim_world *world, int at)
{
    const gy_coll_call *call = &world->calls[at];
    size_t count = call->count;
    if (call->operation == GY_OPERATION_BARRIER) {
        return;
    }
    count *= call->operation == GY_OPERATION_ALLGATHER ? (size_t)world->size : 1;
    for (int rank = 0; rank < world->size; rank++) {
        const flight_note *flight = flight_of(world, rank, at);
        if (flight->status != GY_OK ||
            (call->operation == GY_OPERATION_REDUCE && rank != call->root)) {
            continue;
        }
        for (size_t i = 0; i < count; i++) {
            if (flight->out[i] != expected_at(world, at, rank, i)) {
                fail_msg("%s of %zu, %d ranks: rank %d has %d at %zu, expected %d",
                         gy_operation_name(call->operation), call->count, world->size, rank,
                         flight->out[i], i, expected_at(world, at, rank, i));
            }
        }
    }
}

GY_TEST(delays_change_nothing)
{
    static const int sizes[] = {1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 64, 65};
    static const char *const names[] = {NULL, "ring", "tree"};
    gy_random random = {.key = gy_test_seed()};
    for (size_t i = 0; i < GY_COUNT(sizes); i++) {
        for (size_t n = 0; n < GY_COUNT(names); n++) {
            if (gy_test_serial_cases(32) == 1 && n != i % GY_COUNT(names)) {
                continue; /* all ranks are one thread: each size by one of the names */
            }
            sim_world world;
            open_world(&world, sizes[i], gy_random_u64(&random), names[n]);
            begin_all(&world, &random);
            drive(&world, 5);
            for (int at = 0; at < FLIGHTS; at++) {
                for (int rank = 0; rank < world.size; rank++) {
                    const flight_note *flight = flight_of(&world, rank, at);
                    if (flight->status != GY_OK) {
                        fail_msg("rank %d of %d: %s", rank, world.size, flight->text);
                    }
                }
                check_results(&world, at);
            }
            close_world(&world);
        }
    }
}

typedef struct crash_spec {
    gy_sim *sim;
    int node;
} crash_spec;

static void crash(void *arg)
{
    const crash_spec *spec = arg;
    gy_sim_crash(spec->sim, spec->node);
}

/* A rank dies at a random moment: what ended fine is right, what failed names the dead. */
GY_TEST(crashes_are_named_by_all_survivors)
{
    gy_random random = {.key = gy_test_seed()};
    int failed = 0, fine = 0;
    for (long round = 0; round < GY_MAX(gy_test_serial_cases(150), 50); round++) {
        sim_world world;
        int size = 2 + (int)gy_random_below(&random, 9);
        open_world(&world, size, gy_random_u64(&random), round % 2 == 0 ? "ring" : NULL);
        crash_spec spec = {.sim = world.sim,
                           .node = (int)gy_random_below(&random, (uint64_t)size)};
        int64_t at_ns = gy_sim_now_ns(world.sim) + (int64_t)gy_random_below(&random, 3000000);
        assert_ok(gy_sim_at(world.sim, at_ns, crash, &spec));
        begin_all(&world, &random);
        drive(&world, 20);
        char name[32];
        snprintf(name, sizeof(name), "rank %d", spec.node);
        for (int at = 0; at < FLIGHTS; at++) {
            for (int rank = 0; rank < size; rank++) {
                const flight_note *flight = flight_of(&world, rank, at);
                fine += flight->status == GY_OK;
                if (rank == spec.node || flight->status == GY_OK) {
                    continue;
                }
                failed++;
                if (strstr(flight->text, name) == NULL) {
                    fail_msg("round %ld: rank %d says \"%s\", expected %s", round, rank,
                             flight->text, name);
                }
            }
            check_results(&world, at);
        }
        close_world(&world);
    }
    printf("%d ended fine, %d named the dead\n", fine, failed);
    assert_true(failed > 100 && fine > 100);
}

GY_TEST(split_network_ends_at_the_deadline)
{
    gy_random random = {.key = gy_test_seed()};
    for (int round = 0; round < 20; round++) {
        sim_world world;
        open_world(&world, 4, gy_random_u64(&random), NULL);
        for (int a = 0; a < 2; a++) {
            for (int b = 2; b < 4; b++) {
                assert_ok(gy_sim_cut(world.sim, a, b, true));
                assert_ok(gy_sim_cut(world.sim, b, a, true));
            }
        }
        begin_all(&world, &random);
        drive(&world, 20);
        for (int rank = 0; rank < 4; rank++) {
            const flight_note *flight = flight_of(&world, rank, 0);
            assert_int_equal(flight->status, GY_TIMEOUT);
            assert_non_null(strstr(flight->text, "rank "));
        }
        close_world(&world);
    }
}

/* ---- The swarm: every seed draws its ranks, algorithm, calls, links and faults ---- */

enum { SWARM_RANKS = 12, SWARM_CUTS = 4 };

typedef enum fault_kind { CRASH, DELAY, CUT, HEAL, FAULT_KINDS } fault_kind;

typedef struct swarm_fault {
    sim_world *world;
    int kind; /* fault_kind */
    int from, to;
    int64_t latency_ns; /* DELAY */
} swarm_fault;

static void strike(void *arg)
{
    const swarm_fault *fault = arg;
    gy_sim *sim = fault->world->sim;
    const gy_sim_link slow = {.latency_ns = fault->latency_ns, .bytes_per_second = 1e6};
    switch ((fault_kind)fault->kind) {
    case CRASH:
        fault->world->crashed = fault->from;
        gy_sim_crash(sim, fault->from);
        break;
    case DELAY:
        assert_ok(gy_sim_set_link(sim, fault->from, fault->to, &slow));
        break;
    case CUT:
    case HEAL:
        /* A group of ranks on one side: [0, from) and the rest. */
        for (int a = 0; a < fault->from; a++) {
            for (int b = fault->from; b < fault->world->size; b++) {
                assert_ok(gy_sim_cut(sim, a, b, fault->kind == CUT));
                assert_ok(gy_sim_cut(sim, b, a, fault->kind == CUT));
            }
        }
        break;
    case FAULT_KINDS:
    default:
        break;
    }
}

/* Some algorithm that needs messages alone; NULL: what is chosen. */
static const char *draw_algorithm(gy_random *random)
{
    size_t row = gy_random_below(random, gy_algorithm_count + 4);
    return row < gy_algorithm_count && gy_algorithms[row].need == GY_NEED_MESSAGES
               ? gy_algorithms[row].name
               : NULL;
}

static int draw_faults(sim_world *world, gy_random *random, swarm_fault faults[SWARM_CUTS])
{
    int count = (int)gy_random_below(random, SWARM_CUTS);
    bool has_crash = false;
    for (int i = 0; i < count; i++) {
        int kind = (int)gy_random_below(random, FAULT_KINDS);
        bool is_second = kind == CRASH && (has_crash || world->size == 1);
        has_crash = has_crash || kind == CRASH;
        faults[i] = (swarm_fault){
            .world = world,
            .kind = is_second ? (int)DELAY : kind,
            .from = (int)gy_random_below(random, (uint64_t)world->size),
            .to = (int)gy_random_below(random, (uint64_t)world->size),
            .latency_ns = (int64_t)gy_random_below(random, 2000000000),
        };
        int64_t within_ns = kind == HEAL ? 8000000000 : 5000000;
        assert_ok(gy_sim_at(world->sim,
                            gy_sim_now_ns(world->sim) +
                                (int64_t)gy_random_below(random, (uint64_t)within_ns),
                            strike, &faults[i]));
    }
    return count;
}

/* A failure must name a rank of the run other than the one that tells it. */
static bool names_somebody(const char *text, int self, int size)
{
    for (const char *at = strstr(text, "rank "); at != NULL; at = strstr(at + 1, "rank ")) {
        char *end = NULL;
        long rank = strtol(at + 5, &end, 10);
        if (end != at + 5 && rank >= 0 && rank < size && rank != self) {
            return true;
        }
    }
    return false;
}

typedef struct swarm_tally {
    long fine, failed;
} swarm_tally;

static void run_swarm(uint64_t seed, swarm_tally *tally)
{
    static sim_world world;
    gy_random random = {.key = seed};
    swarm_fault faults[SWARM_CUTS];
    int size = 1 + (int)gy_random_below(&random, SWARM_RANKS);
    const char *algorithm = draw_algorithm(&random);
    open_world(&world, size, gy_random_u64(&random), algorithm);
    int count = draw_faults(&world, &random, faults);
    begin_all(&world, &random);
    drive(&world, 60);
    for (int at = 0; at < FLIGHTS; at++) {
        for (int rank = 0; rank < size; rank++) {
            const flight_note *flight = flight_of(&world, rank, at);
            if (rank == world.crashed) {
                continue;
            }
            tally->fine += flight->status == GY_OK;
            tally->failed += flight->status != GY_OK;
            if (flight->status != GY_OK &&
                (count == 0 || !names_somebody(flight->text, rank, size))) {
                fail_msg("GYRE_SEED=%llu: %d ranks by %s, %d faults: rank %d says \"%s\", "
                         "expected %s",
                         (unsigned long long)seed, size,
                         algorithm == NULL ? "choice" : algorithm, count, rank, flight->text,
                         count == 0 ? "no failure" : "the name of a rank");
            }
        }
        check_results(&world, at);
    }
    close_world(&world);
}

/* Whatever crashes, is delayed or split: the right answer, or an error that names a rank. */
GY_TEST(swarms_of_faults_end_right_or_name_a_rank)
{
    uint64_t first = gy_test_seed();
    long seeds = seeds_count(500);
    swarm_tally tally = {.fine = 0};
    for (long i = 0; i < seeds; i++) {
        run_swarm(first + (uint64_t)i, &tally);
    }
    printf("soak: seeds %llu to %llu: %ld ended fine, %ld failed by name\n",
           (unsigned long long)first, (unsigned long long)(first + (uint64_t)seeds - 1),
           tally.fine, tally.failed);
    assert_true(tally.fine > 0 && tally.failed > 0);
}

GY_TEST_MAIN(NULL, NULL)
