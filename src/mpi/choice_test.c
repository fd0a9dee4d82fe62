/*
 * Goal: MPI's own collectives as a choice of Gyre's give a serial oracle's answers under the
 * real mpirun of Open MPI and mpiexec of MPICH, over shared memory and over messages; calls
 * that differ, come late or cannot be MPI's end in words. With an argument this program plays a
 * rank.
 */
#include "coll/coll.h"
#include "coll/kernels.h"
#include "mpi_kit.h"

typedef struct launcher {
    const char *command;
    bool is_built;
} launcher;

static const launcher launchers[] = {
    {"mpirun.openmpi --allow-run-as-root --oversubscribe", GYRE_HAS_OPENMPI},
    {"env UCX_TLS=posix,self mpiexec.mpich", GYRE_HAS_MPICH},
};

/* ---- Parts of a rank ---- */

enum { CASES = 32, CASES_SANITIZED = 24, FLYING = 3, LARGEST = 1200000, MPI_OPERATIONS = 7 };

#define TYPES(X)                                                                               \
    X(F64, double)                                                                             \
    X(F32, float) X(I64, int64_t) X(I32, int32_t) X(U64, uint64_t) X(U32, uint32_t)

static double value_of(int rank, size_t index)
{
    return (double)((index * 7 + (size_t)rank * 3 + index / 11) % 3 + 1);
}

static void put(void *data, gy_dtype dtype, size_t index, double value)
{
    switch ((int)dtype) {
#define X(name, type)                                                                          \
    case GY_##name:                                                                            \
        ((type *)data)[index] = (type)value;                                                   \
        break;
        TYPES(X)
#undef X
    default:
        abort();
    }
}

static double get(const void *data, gy_dtype dtype, size_t index)
{
    switch ((int)dtype) {
#define X(name, type)                                                                          \
    case GY_##name:                                                                            \
        return (double)((const type *)data)[index];
        TYPES(X)
#undef X
    default:
        abort();
    }
}

/* Exact in every order: the numbers are small. */
static double fold(const gy_coll_call *call, int size, size_t index)
{
    double sum = 0, product = 1, least = 9, most = 0;
    uint64_t all = ~UINT64_C(0), any = 0, odd = 0;
    for (int rank = 0; rank < size; rank++) {
        double value = value_of(rank, index);
        sum += value;
        product *= value;
        least = value < least ? value : least;
        most = value > most ? value : most;
        all &= (uint64_t)value;
        any |= (uint64_t)value;
        odd ^= (uint64_t)value;
    }
    bool is_real = call->dtype == GY_F64 || call->dtype == GY_F32;
    double average = is_real ? sum / size : (double)((int64_t)sum / size);
    average = call->dtype == GY_F32 ? (double)((float)sum / (float)size) : average;
    const double results[] = {[GY_SUM] = sum,
                              [GY_PROD] = product,
                              [GY_MIN] = least,
                              [GY_MAX] = most,
                              [GY_AVG] = average,
                              [GY_BIT_AND] = (double)all,
                              [GY_BIT_OR] = (double)any,
                              [GY_BIT_XOR] = (double)odd};
    return results[call->reduction];
}

/* Parts of the operation's input and output. */
static size_t parts_in(gy_operation operation, int size)
{
    bool has = operation == GY_OPERATION_REDUCE_SCATTER || operation == GY_OPERATION_ALLTOALL;
    return has ? (size_t)size : 1;
}

static size_t parts_out(gy_operation operation, int size)
{
    bool has = operation == GY_OPERATION_ALLGATHER || operation == GY_OPERATION_ALLTOALL;
    return has ? (size_t)size : 1;
}

/* What stands at `index` of this rank's output. */
static double expected(const gy_coll_call *call, int rank, int size, size_t index)
{
    size_t part = index / GY_MAX(call->count, (size_t)1);
    switch ((int)call->operation) {
    case GY_OPERATION_BROADCAST:
        return value_of(call->root, index);
    case GY_OPERATION_ALLGATHER:
        return value_of((int)part, index % call->count);
    case GY_OPERATION_ALLTOALL:
        return value_of((int)part, (size_t)rank * call->count + index % call->count);
    case GY_OPERATION_REDUCE_SCATTER:
        return fold(call, size, (size_t)rank * call->count + index);
    default:
        return fold(call, size, index);
    }
}

/* One call with memory of its own. */
typedef struct sample {
    gy_coll_call call;
    uint8_t *in, *out;
    gy_request *request;
} sample;

static sample draw(gy_random *random, int rank, int size)
{
    static const gy_operation operations[MPI_OPERATIONS] = {
        GY_OPERATION_ALLREDUCE, GY_OPERATION_BROADCAST,      GY_OPERATION_REDUCE,
        GY_OPERATION_ALLGATHER, GY_OPERATION_REDUCE_SCATTER, GY_OPERATION_ALLTOALL,
        GY_OPERATION_BARRIER};
    static const gy_dtype dtypes[] = {GY_F64, GY_F32, GY_I64, GY_I32, GY_U64, GY_U32};
    static const size_t counts[] = {0, 1, 3, 17, 1000, 5000, 70000};
    sample made = {.in = NULL};
    gy_coll_call *call = &made.call;
    call->operation = operations[gy_random_below(random, MPI_OPERATIONS)];
    call->dtype = dtypes[gy_random_below(random, GY_COUNT(dtypes))];
    bool is_real = call->dtype == GY_F64 || call->dtype == GY_F32;
    call->reduction =
        (gy_reduction)gy_random_below(random, is_real ? GY_BIT_AND : GY_REDUCTION_COUNT);
    bool is_extreme = call->reduction == GY_MIN || call->reduction == GY_MAX;
    if (is_real ? is_extreme : call->reduction == GY_AVG) {
        call->reduction = GY_SUM; /* MPI settles no NaN there, and its sums wrap */
    }
    call->root = (int)gy_random_below(random, (uint64_t)size);
    call->count = counts[gy_random_below(random, GY_COUNT(counts))];
    call->count = gy_random_below(random, 40) == 0 ? LARGEST : call->count; /* several legs */
    call->priority = (int)gy_random_below(random, 3);
    bool in_place = gy_random_below(random, 2) == 0;
    if (call->operation == GY_OPERATION_BARRIER) {
        call->count = 0;
    }
    size_t element = gy_dtype_bytes(call->dtype), part = call->count * element;
    size_t in = parts_in(call->operation, size), out = parts_out(call->operation, size);
    made.in = gy_alloc("test", GY_MAX(part * GY_MAX(in, out), (size_t)1));
    made.out = gy_alloc("test", GY_MAX(part * out, (size_t)1));
    uint8_t *from = made.in, *to = made.out;
    if (call->operation == GY_OPERATION_BROADCAST) {
        from = to;
    } else if (in_place && in == out) {
        to = from;
    } else if (in_place && in > out) {
        to = from + (size_t)rank * part;
    } else if (in_place) {
        to = made.in;
        from = made.in + (size_t)rank * part;
    }
    for (size_t i = 0; i < call->count * in; i++) {
        put(from, call->dtype, i, value_of(rank, i));
    }
    call->in = from;
    call->out = to;
    return made;
}

static int check(const sample *done, int rank, int size)
{
    const gy_coll_call *call = &done->call;
    bool gets = call->operation != GY_OPERATION_REDUCE || rank == call->root;
    size_t count = call->count * parts_out(call->operation, size);
    for (size_t i = 0; i < count && gets && call->operation != GY_OPERATION_BARRIER; i++) {
        double got = get(call->out, call->dtype, i), want = expected(call, rank, size, i);
        if (got != want) {
            printf("rank %d: %s of %zu %s by %s, root %d: element %zu is %g, expected %g\n",
                   rank, gy_operation_name(call->operation), call->count,
                   gy_dtype_name(call->dtype), gy_reduction_name(call->reduction), call->root,
                   i, got, want);
            return 1;
        }
    }
    return 0;
}

/* Some blocking, some in flight together, started in one order, with priorities. */
static int part_oracle(gy_comm *comm, uint64_t seed)
{
    const long cases = GY_MAX(gy_test_cases(CASES), CASES_SANITIZED);
    gy_random random = {.key = seed};
    int rank = gy_comm_rank(comm), size = gy_comm_size(comm), wrong = 0;
    for (long i = 0; i < cases && wrong == 0; i++) {
        sample samples[FLYING];
        int count = 1 + (int)gy_random_below(&random, FLYING);
        for (int k = 0; k < count; k++) {
            samples[k] = draw(&random, rank, size);
        }
        for (int k = 0; k < count && wrong == 0; k++) {
            gy_status status =
                count == 1 ? gy_coll_run(comm, &samples[k].call)
                           : gy_request_begin(comm, &samples[k].call, &samples[k].request);
            wrong += status != GY_OK;
        }
        for (int k = count - 1; k >= 0 && count > 1 && wrong == 0; k--) {
            wrong += gy_request_wait(samples[k].request, gy_deadline_after(60)) != GY_OK;
            gy_request_free(samples[k].request);
        }
        if (wrong > 0) {
            printf("rank %d failed: %s\n", rank, gy_error_text());
        }
        for (int k = 0; k < count; k++) {
            wrong += wrong == 0 ? check(&samples[k], rank, size) : 0;
            gy_free(samples[k].in);
            gy_free(samples[k].out);
        }
    }
    return wrong;
}

/* What the call takes. */
static void say_choice(gy_comm *comm)
{
    char choice[GY_CHOICE_BYTES] = "";
    gy_coll_call call = {.operation = GY_OPERATION_ALLREDUCE, .dtype = GY_F32, .count = 100000};
    bool is_known = gy_coll_choice(comm, &call, false, choice) == GY_OK;
    printf("rank %d takes %s\n", gy_comm_rank(comm), is_known ? choice : gy_error_text());
}

static void say_end(gy_comm *comm, gy_status status)
{
    printf("rank %d: %s: %s\n", gy_comm_rank(comm), gy_status_text(status), gy_error_text());
    fflush(stdout);
}

static gy_status sum_of(gy_comm *comm, size_t count, gy_dtype dtype)
{
    static double data[5000];
    return gy_allreduce(comm, data, data, count, dtype, GY_SUM);
}

static void take_left(void *to, const void *a, const void *b, size_t count, void *context)
{
    (void)b;
    (void)context;
    memmove(to, a, count * sizeof(double));
}

static gy_status refused(gy_comm *comm, int which)
{
    static double data[5000];
    static const gy_user_reduction left = {.name = "left", .combine = take_left};
    static const int64_t counts[2] = {10, 20};
    gy_comm *group = NULL;
    switch (which) {
    case 0:
        return sum_of(comm, 3000, GY_F16);
    case 1:
        return gy_coll_run(comm, &(gy_coll_call){.operation = GY_OPERATION_ALLREDUCE,
                                                 .dtype = GY_F64,
                                                 .user = &left,
                                                 .count = 5000,
                                                 .in = data,
                                                 .out = data});
    case 2:
        GY_TRY(gy_comm_split(comm, 0, 0, &group));
        return sum_of(group, 5000, GY_F64);
    case 3:
        return gy_allgatherv(comm, data, data + 100, &(gy_parts){.counts = counts}, GY_F64);
    default:
        return sum_of(comm, 5000, GY_F64);
    }
}

/* The last rank is somewhere else. */
static gy_status late(gy_comm *comm)
{
    double nothing;
    if (gy_comm_rank(comm) == gy_comm_size(comm) - 1) {
        return gy_recv(comm, &nothing, 1, GY_F64, 0, 5);
    }
    return sum_of(comm, 5000, GY_F64);
}

static int play(const char *part, uint64_t number)
{
    gy_comm *comm = NULL;
    int result = 0;
    if (gy_comm_world(&comm) < 0) {
        printf("no world: %s\n", gy_error_text());
        return 90;
    }
    if (strcmp(part, "oracle") == 0) {
        say_choice(comm);
        result = part_oracle(comm, number);
        printf("rank %d: %d wrong\n", gy_comm_rank(comm), result);
    } else if (strcmp(part, "differ") == 0) {
        say_end(comm, sum_of(comm, gy_comm_rank(comm) == 1 ? 4000 : 5000, GY_F64));
    } else if (strcmp(part, "late") == 0) {
        say_end(comm, late(comm));
    } else {
        say_end(comm, refused(comm, (int)number));
    }
    fflush(stdout);
    gy_comm_world_close();
    return result;
}

/* ---- Launching ---- */

typedef struct job {
    const char *environment;
    int ranks;
    const char *words;
} job;

static void launch(const char *command, const job *what, outcome *result)
{
    char line[2048];
    snprintf(
        line, sizeof(line),
        "%s GYRE_TUNE=none GYRE_COLL=mpi %s timeout -k 5 60 %s -n %d %s/mpi_choice %s 2>&1",
        sanitizers(), what->environment, command, what->ranks, GYRE_BUILD, what->words);
    run_command(line, result);
}

static const launcher *launcher_of(void **state)
{
    const launcher *with = *state;
    char command[128];
    outcome look;
    snprintf(command, sizeof(command), "command -v %s", strstr(with->command, "mpi"));
    run_command(command, &look);
    if (!with->is_built || look.status != 0) {
        print_message("skipped: not here: %s\n", with->command);
        skip();
    }
    return with;
}

/* How often the words stand there. */
static int count_of(const outcome *result, const char *words)
{
    int count = 0;
    for (const char *at = strstr(result->said, words); at != NULL; at = strstr(at + 1, words)) {
        count++;
    }
    if (count == 0) {
        print_error("\"%s\" is missing:\n%s\n", words, result->said);
    }
    return count;
}

static const char *const ways[] = {"", "GYRE_TRANSPORT=mpi"};

/* Twelve launches, each with cases of its own: the fewer of them a launch needs. With a
 * sanitizer two ranks by one way, three by the other: it looks at memory and threads. */
static void answers_are_the_oracles(void **state)
{
    const launcher *with = launcher_of(state);
    const uint64_t seed = gy_test_seed() % 100000;
    const bool is_short = strlen(GYRE_SANITIZE) > 0;
    for (size_t way = 0; way < GY_COUNT(ways); way++) {
        const int least = is_short ? 2 + (int)way : 2, most = is_short ? least : 4;
        for (int ranks = least; ranks <= most; ranks++) {
            char words[64];
            outcome result;
            uint64_t own = seed + (uint64_t)ranks + (way > 0 ? 10 : 0);
            snprintf(words, sizeof(words), "oracle %llu", (unsigned long long)own);
            launch(with->command, &(job){ways[way], ranks, words}, &result);
            assert_int_equal(count_of(&result, "takes mpi (GYRE_COLL)"), ranks);
            assert_int_equal(count_of(&result, ": 0 wrong"), ranks);
            assert_int_equal(result.status, 0);
        }
    }
}

static void calls_that_differ_are_named(void **state)
{
    const launcher *with = launcher_of(state);
    for (size_t way = 0; way < GY_COUNT(ways); way++) {
        outcome result;
        launch(with->command, &(job){ways[way], 4, "differ 0"}, &result);
        assert_true(count_of(&result, "allreduce of 4000 f64 by sum") >= 4);
        assert_true(count_of(&result, "allreduce of 5000 f64 by sum") >= 4);
        assert_true(count_of(&result, "rank 1 called") >= 1);
    }
}

/* By messages rank 0 stands inside MPI's collective: nobody next to it is late. */
static void a_late_rank_ends_in_a_deadline(void **state)
{
    const launcher *with = launcher_of(state);
    for (size_t way = 0; way < GY_COUNT(ways); way++) {
        outcome result;
        char environment[64];
        snprintf(environment, sizeof(environment), "GYRE_TIMEOUT=0.4 %s", ways[way]);
        launch(with->command, &(job){environment, 4, "late 0"}, &result);
        for (int rank = 0; rank < 4; rank++) {
            char words[64];
            snprintf(words, sizeof(words), "rank %d: %s", rank, gy_status_text(GY_TIMEOUT));
            assert_int_equal(count_of(&result, words), 1);
        }
        assert_true(result.status != 124);
    }
}

static void impossible_calls_are_refused(void **state)
{
    const launcher *with = launcher_of(state);
    static const char *const words[] = {
        "allreduce of f16 by sum by mpi: only numbers of 32 and 64 bits",
        "MPI does not know the operation \"left\"",
        "MPI has no communicator for a group of the ranks", "not with counts of its own"};
    const size_t step = strlen(GYRE_SANITIZE) > 0 ? 3 : 1; /* a launch each */
    for (size_t i = 0; i < GY_COUNT(words); i += step) {
        char part[32];
        outcome result;
        snprintf(part, sizeof(part), "refuse %zu", i);
        launch(with->command, &(job){"", 2, part}, &result);
        assert_int_equal(count_of(&result, words[i]), 2);
    }
}

static void without_mpi_it_is_refused(void **state)
{
    (void)state;
    outcome result;
    launch(GYRE_BUILD "/gyre run", &(job){"", 2, "refuse 9"}, &result);
    assert_int_equal(count_of(&result, "were not started by an MPI's launcher"), 2);
}

/* `gyre tune` tries it, a table may name it. */
static void tables_take_it(void **state)
{
    const launcher *with = launcher_of(state);
    char line[1024], name[] = "/tmp/gyre-choice-XXXXXX";
    outcome result;
    assert_non_null(mkdtemp(name));
    snprintf(line, sizeof(line),
             "%s env GYRE_LOG=debug GYRE_TUNE=none GYRE_TRANSPORT=mpi timeout -k 5 60 %s -n 2 "
             "%s/gyre tune --duration 0.2 --output %s/t 2>&1 | grep -c ' by mpi: '",
             sanitizers(), with->command, GYRE_BUILD, name);
    run_command(line, &result);
    assert_true(strtol(result.said, NULL, 10) > 0);
    snprintf(
        line, sizeof(line),
        "printf 'gyre tune 1\\nmachine any\\ntake allreduce plain messages 2 1 0 mpi 5\\n"
        "end 1\\n' > %s/t && %s env GYRE_TUNE=%s/t GYRE_TRANSPORT=mpi timeout -k 5 60 %s -n "
        "2 %s/mpi_choice oracle 1 2>&1",
        name, sanitizers(), name, with->command, GYRE_BUILD);
    run_command(line, &result);
    assert_int_equal(count_of(&result, "takes mpi (measured, 5 us)"), 2);
    assert_int_equal(count_of(&result, ": 0 wrong"), 2);
    snprintf(line, sizeof(line), "rm -r %s", name);
    run_command(line, &result);
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        return play(argv[1], strtoull(argv[2], NULL, 10));
    }
    launcher first = launchers[0], second = launchers[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(answers_are_the_oracles, &first),
        cmocka_unit_test_prestate(calls_that_differ_are_named, &first),
        cmocka_unit_test_prestate(a_late_rank_ends_in_a_deadline, &first),
        cmocka_unit_test_prestate(impossible_calls_are_refused, &first),
        cmocka_unit_test_prestate(tables_take_it, &first),
        cmocka_unit_test_prestate(answers_are_the_oracles, &second),
        cmocka_unit_test_prestate(calls_that_differ_are_named, &second),
        cmocka_unit_test_prestate(a_late_rank_ends_in_a_deadline, &second),
        cmocka_unit_test_prestate(tables_take_it, &second),
        cmocka_unit_test(without_mpi_it_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
