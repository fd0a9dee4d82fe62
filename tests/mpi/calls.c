/*
 * An MPI program like any other; its test loads Gyre in front of the library. Random
 * collectives, blocking and not, on the world, duplicates and splits of it: each answer must
 * be, bit for bit, that of the library itself (asked as PMPI_).
 *
 *     mpirun -n P calls SEED ROUNDS
 */
#include <mpi.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMS = 5, OPEN_MAX = 6, BUFFER_BYTES = 6 << 20, EXTRA = 64 };

typedef enum verb {
    ALLREDUCE,
    REDUCE,
    REDUCE_SCATTER,
    REDUCE_SCATTER_BLOCK,
    ALLGATHER,
    ALLGATHERV,
    BCAST,
    ALLTOALL,
    BARRIER,
    VERBS
} verb;

static const char *const verb_names[] = {
    "allreduce", "reduce",     "reduce_scatter", "reduce_scatter_block",
    "allgather", "allgatherv", "bcast",          "alltoall",
    "barrier"};

typedef struct kind {
    MPI_Datatype type;
    char letter; /* i integer, b byte, f floating, c complex, l logical */
} kind;

/* One collective: what all ranks agree on, and this rank's memory. */
typedef struct call {
    verb verb;
    MPI_Comm comm;
    int rank, size, count, root;
    MPI_Datatype type, send_type, recv_type; /* alike in what they move */
    int send_count, recv_count;
    MPI_Op op;
    int is_in_place, is_open;
    int counts[64], displacements[64];
    unsigned char *in, *out, *expected;
    size_t bytes;
    MPI_Request request;
} call;

static uint64_t shared_state, own_state; /* chance alike on all ranks, and of this one */
static MPI_Comm comms[COMMS];
static kind kinds[20];
static int kind_count, world_rank;
static MPI_Datatype spread_int; /* an int of every two */
static call calls[OPEN_MAX];

static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int below(int limit)
{
    return (int)(next(&shared_state) % (uint64_t)limit);
}

static void fail(const call *what, const char *why)
{
    char type[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    MPI_Type_get_name(what->type, type, &length);
    fprintf(
        stderr,
        "calls: rank %d: %s of %d %s (operation %llx), root %d, in place %d, request %d, rank "
        "%d of %d: %s\n",
        world_rank, verb_names[what->verb], what->count, type,
        (unsigned long long)(uintptr_t)what->op, what->root, what->is_in_place, what->is_open,
        what->rank, what->size, why);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void add_kind(MPI_Datatype type, char letter)
{
    kinds[kind_count++] = (kind){type, letter};
}

static void make_kinds(void)
{
    add_kind(MPI_INT, 'i');
    add_kind(MPI_DOUBLE, 'f');
    add_kind(MPI_FLOAT, 'f');
    add_kind(MPI_LONG, 'i');
    add_kind(MPI_UNSIGNED, 'i');
    add_kind(MPI_SHORT, 'i');
    add_kind(MPI_UNSIGNED_SHORT, 'i');
    add_kind(MPI_SIGNED_CHAR, 'i');
    add_kind(MPI_UNSIGNED_CHAR, 'i');
    add_kind(MPI_UINT64_T, 'i');
    add_kind(MPI_INT8_T, 'i');
    add_kind(MPI_UNSIGNED_LONG_LONG, 'i');
    add_kind(MPI_BYTE, 'b');
    add_kind(MPI_C_FLOAT_COMPLEX, 'c');
    add_kind(MPI_C_DOUBLE_COMPLEX, 'c');
    add_kind(MPI_C_BOOL, 'l');
    add_kind(MPI_LONG_DOUBLE, 'f'); /* stays with the library */
    MPI_Type_create_resized(MPI_INT, 0, 8, &spread_int);
    MPI_Type_commit(&spread_int);
}

static MPI_Op pick_op(char letter)
{
    static MPI_Op all[10];
    int n = 0;
    if (letter == 'i' || letter == 'f') {
        all[n++] = MPI_SUM;
        all[n++] = MPI_PROD;
        all[n++] = MPI_MIN;
        all[n++] = MPI_MAX;
    }
    if (letter == 'c') {
        all[n++] = MPI_SUM; /* products of complex zeros differ in sign by order */
    }
    if (letter == 'i' || letter == 'b') {
        all[n++] = MPI_BAND;
        all[n++] = MPI_BOR;
        all[n++] = MPI_BXOR;
    }
    if (letter == 'i' || letter == 'l') {
        all[n++] = MPI_LAND;
        all[n++] = MPI_LOR;
        all[n++] = MPI_LXOR;
    }
    return all[below(n)];
}

/* Small whole numbers: sums and products of them are exact in any order. */
static void fill(unsigned char *to, size_t bytes, MPI_Datatype type)
{
    if (type == MPI_FLOAT || type == MPI_C_FLOAT_COMPLEX) {
        for (size_t i = 0; i < bytes / 4; i++) {
            ((float *)(void *)to)[i] = (float)(next(&own_state) % 4);
        }
    } else if (type == MPI_DOUBLE || type == MPI_C_DOUBLE_COMPLEX) {
        for (size_t i = 0; i < bytes / 8; i++) {
            ((double *)(void *)to)[i] = (double)(next(&own_state) % 4);
        }
    } else if (type == MPI_LONG_DOUBLE) {
        memset(to, 0, bytes);
        for (size_t i = 0; i < bytes / sizeof(long double); i++) {
            ((long double *)(void *)to)[i] = (long double)(next(&own_state) % 4);
        }
    } else if (type == MPI_C_BOOL) {
        for (size_t i = 0; i < bytes; i++) {
            to[i] = (unsigned char)(next(&own_state) & 1);
        }
    } else {
        /* No sum or product of bytes overflows: some loops of Open MPI saturate instead. */
        for (size_t i = 0; i < bytes; i++) {
            to[i] = (unsigned char)(next(&own_state) % 3);
        }
    }
}

static int pick_count(int ranks)
{
    static const int counts[] = {0,    1,    2,    3,    7,     13,    31,    127,   509,
                                 1021, 1024, 2048, 4099, 16384, 16411, 65521, 65536, 131101};
    int count = counts[below((int)(sizeof(counts) / sizeof(counts[0])))];
    return count * 16 * ranks > BUFFER_BYTES / 2 ? 997 : count;
}

/* The types may look different from rank to rank as long as they move the same. */
static void pick_forms(call *what)
{
    what->send_type = what->recv_type = what->type;
    what->send_count = what->recv_count = what->count;
    int is_reduction = what->verb <= REDUCE_SCATTER_BLOCK;
    if (!is_reduction && what->type == MPI_INT && what->verb != ALLGATHERV) {
        what->recv_type = next(&own_state) % 3 == 0 ? spread_int : MPI_INT;
        what->send_type =
            what->verb == BCAST || next(&own_state) % 3 == 0 ? what->recv_type : MPI_INT;
        what->send_type = what->verb == BCAST ? what->recv_type : what->send_type;
    }
    int in_all = 0;
    for (int rank = 0; rank < what->size; rank++) {
        what->counts[rank] = what->count > 0 ? below(what->count + 1) : 0;
    }
    if (what->verb == REDUCE_SCATTER && below(2) == 0) {
        for (int rank = 0; rank < what->size; rank++) {
            what->counts[rank] = what->count;
        }
    }
    for (int rank = 0; rank < what->size; rank++) {
        what->displacements[rank] = in_all + rank;
        in_all += what->counts[rank];
    }
    if (what->verb == ALLGATHERV) {
        what->send_count = what->counts[what->rank];
    }
}

/*
 * The answer to an in-place call is asked for with a copy of its input beside: the libraries'
 * own in-place forms are not all sound (Open MPI 4.1 answers Ireduce_scatter wrongly, MPICH 4.0
 * crashes in Reduce).
 */
static void copy_input(call *what)
{
    MPI_Aint low = 0, extent = 0;
    size_t at = 0;
    MPI_Type_get_extent(what->recv_type, &low, &extent);
    if (what->verb == ALLGATHER) {
        at = (size_t)what->rank * (size_t)what->count * (size_t)extent;
    } else if (what->verb == ALLGATHERV) {
        at = (size_t)what->displacements[what->rank] * (size_t)extent;
    }
    what->send_type = what->recv_type;
    what->send_count = what->verb == ALLGATHERV ? what->counts[what->rank] : what->count;
    memcpy(what->in, what->out + at, what->bytes - at);
}

/* Does Gyre take it over? Else the library's own in-place form would be tested. */
static int may_be_in_place(const call *what)
{
    return what->type != MPI_LONG_DOUBLE && what->size > 1 &&
           (what->verb != REDUCE || what->rank == what->root);
}

static void prepare(call *what)
{
    int which = below(COMMS), form = below(kind_count);
    what->comm = comms[which];
    what->verb = (verb)below(VERBS);
    MPI_Comm_rank(what->comm, &what->rank);
    MPI_Comm_size(what->comm, &what->size);
    /* Halves of different sizes must draw alike: chance goes by the world. */
    what->count = pick_count(16);
    what->root = below(1 << 20) % what->size;
    what->type = kinds[form].type;
    what->op = pick_op(kinds[form].letter);
    what->is_in_place = below(4) == 0 && may_be_in_place(what);
    uint64_t kept = shared_state;
    pick_forms(what);
    shared_state = kept;
    (void)below(2);
    what->bytes = BUFFER_BYTES;
    size_t used = (size_t)(what->count + 1) * (size_t)what->size * 16 * 2 + 256;
    what->bytes = used < BUFFER_BYTES ? used : BUFFER_BYTES;
    fill(what->in, what->bytes, what->type);
    fill(what->out, what->bytes, what->type);
    memcpy(what->expected, what->out, what->bytes);
    if (what->is_in_place) {
        copy_input(what);
    }
}

/* With `out` as the memory of the result; PMPI_ when `is_expected`. */
static void run(call *what, int is_expected)
{
    void *out = is_expected ? what->expected : what->out;
    const void *in = what->is_in_place && !is_expected ? MPI_IN_PLACE : what->in;
    int count = what->count;
    MPI_Comm comm = what->comm;
    const int *c = what->counts, *d = what->displacements;
    MPI_Datatype t = what->type, st = what->send_type, rt = what->recv_type;
    switch (what->verb) {
    case ALLREDUCE:
        (is_expected ? PMPI_Allreduce : MPI_Allreduce)(in, out, count, t, what->op, comm);
        break;
    case REDUCE:
        (is_expected ? PMPI_Reduce : MPI_Reduce)(in, out, count, t, what->op, what->root, comm);
        break;
    case REDUCE_SCATTER:
        (is_expected ? PMPI_Reduce_scatter : MPI_Reduce_scatter)(in, out, c, t, what->op, comm);
        break;
    case REDUCE_SCATTER_BLOCK:
        (is_expected ? PMPI_Reduce_scatter_block : MPI_Reduce_scatter_block)(in, out, count, t,
                                                                             what->op, comm);
        break;
    case ALLGATHER:
        (is_expected ? PMPI_Allgather : MPI_Allgather)(in, what->send_count, st, out, count, rt,
                                                       comm);
        break;
    case ALLGATHERV:
        (is_expected ? PMPI_Allgatherv : MPI_Allgatherv)(in, what->send_count, st, out, c, d,
                                                         rt, comm);
        break;
    case BCAST:
        (is_expected ? PMPI_Bcast : MPI_Bcast)(out, count, rt, what->root, comm);
        break;
    case ALLTOALL:
        (is_expected ? PMPI_Alltoall : MPI_Alltoall)(in, what->send_count, st, out, count, rt,
                                                     comm);
        break;
    case BARRIER:
    case VERBS:
    default:
        (is_expected ? PMPI_Barrier : MPI_Barrier)(comm);
        break;
    }
}

static void start(call *what)
{
    void *out = what->out;
    const void *in = what->is_in_place ? MPI_IN_PLACE : what->in;
    int n = what->count, c0 = what->send_count;
    MPI_Comm comm = what->comm;
    const int *c = what->counts, *d = what->displacements;
    MPI_Datatype t = what->type, st = what->send_type, rt = what->recv_type;
    MPI_Request *request = &what->request;
    switch (what->verb) {
    case ALLREDUCE:
        MPI_Iallreduce(in, out, n, t, what->op, comm, request);
        break;
    case REDUCE:
        MPI_Ireduce(in, out, n, t, what->op, what->root, comm, request);
        break;
    case REDUCE_SCATTER:
        MPI_Ireduce_scatter(in, out, c, t, what->op, comm, request);
        break;
    case REDUCE_SCATTER_BLOCK:
        MPI_Ireduce_scatter_block(in, out, n, t, what->op, comm, request);
        break;
    case ALLGATHER:
        MPI_Iallgather(in, c0, st, out, n, rt, comm, request);
        break;
    case ALLGATHERV:
        MPI_Iallgatherv(in, c0, st, out, c, d, rt, comm, request);
        break;
    case BCAST:
        MPI_Ibcast(out, n, rt, what->root, comm, request);
        break;
    case ALLTOALL:
        MPI_Ialltoall(in, c0, st, out, n, rt, comm, request);
        break;
    case BARRIER:
    case VERBS:
    default:
        MPI_Ibarrier(comm, request);
        break;
    }
    what->is_open = 1;
}

/* An in-place reduce-scatter leaves nothing behind its result that could be compared. */
static size_t defined_bytes(const call *what)
{
    int size = 0;
    MPI_Type_size(what->type, &size);
    if (!what->is_in_place ||
        (what->verb != REDUCE_SCATTER && what->verb != REDUCE_SCATTER_BLOCK)) {
        return what->bytes;
    }
    int own = what->verb == REDUCE_SCATTER ? what->counts[what->rank] : what->count;
    return (size_t)own * (size_t)size;
}

static void compare(call *what)
{
    if (memcmp(what->out, what->expected, defined_bytes(what)) != 0) {
        size_t at = 0;
        while (what->out[at] == what->expected[at]) {
            at++;
        }
        char why[160];
        snprintf(why, sizeof(why), "byte %zu of %zu is %d, the library says %d", at,
                 what->bytes, what->out[at], what->expected[at]);
        fail(what, why);
    }
    what->is_open = 0;
}

/* In one of the ways that MPI has, with a message around the ring among the requests. */
static void end_all(void)
{
    MPI_Request requests[OPEN_MAX + 2];
    int token = world_rank, got = -1, ranks = 0, way = (int)(next(&own_state) % 6);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Irecv(&got, 1, MPI_INT, (world_rank + ranks - 1) % ranks, 9, MPI_COMM_WORLD,
              &requests[OPEN_MAX]);
    MPI_Isend(&token, 1, MPI_INT, (world_rank + 1) % ranks, 9, MPI_COMM_WORLD,
              &requests[OPEN_MAX + 1]);
    for (int i = 0; i < OPEN_MAX; i++) {
        requests[i] = calls[i].is_open ? calls[i].request : MPI_REQUEST_NULL;
    }
    MPI_Status statuses[OPEN_MAX + 2];
    int indices[OPEN_MAX + 2], done = 0, flag = 0;
    switch (way) {
    case 0:
        MPI_Waitall(OPEN_MAX + 2, requests, statuses);
        break;
    case 1:
        do {
            MPI_Waitany(OPEN_MAX + 2, requests, &done, MPI_STATUS_IGNORE);
        } while (done != MPI_UNDEFINED);
        break;
    case 2:
        do {
            MPI_Waitsome(OPEN_MAX + 2, requests, &done, indices, statuses);
        } while (done != MPI_UNDEFINED);
        break;
    case 3:
        do {
            MPI_Testall(OPEN_MAX + 2, requests, &flag, statuses);
        } while (!flag);
        break;
    case 4:
        do {
            MPI_Testsome(OPEN_MAX + 2, requests, &done, indices, statuses);
        } while (done != MPI_UNDEFINED);
        break;
    default:
        do {
            MPI_Testany(OPEN_MAX + 2, requests, &done, &flag, MPI_STATUS_IGNORE);
        } while (!(flag && done == MPI_UNDEFINED));
        break;
    }
    for (int i = 0; i < OPEN_MAX; i++) {
        if (calls[i].is_open) {
            compare(&calls[i]);
        }
    }
    if (got != (world_rank + ranks - 1) % ranks) {
        fprintf(stderr, "calls: the message around says %d\n", got);
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
}

static void renew(int which)
{
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (comms[which] != MPI_COMM_WORLD && comms[which] != MPI_COMM_NULL) {
        MPI_Comm_free(&comms[which]);
    }
    if (which == 1) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[which]);
    } else if (which == 2) {
        MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &comms[which]);
    } else if (which == 3) {
        MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, world_rank, &comms[which]);
    } else if (which == 4) {
        MPI_Request made;
        MPI_Comm_idup(MPI_COMM_WORLD, &comms[which], &made); /* meets in a blocking call */
        MPI_Wait(&made, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    int rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 100;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    shared_state = seed;
    own_state = seed * 1000 + (uint64_t)world_rank;
    comms[0] = MPI_COMM_WORLD;
    for (int i = 1; i < COMMS; i++) {
        comms[i] = MPI_COMM_NULL;
        renew(i);
    }
    make_kinds();
    for (int i = 0; i < OPEN_MAX; i++) {
        calls[i].in = malloc(BUFFER_BYTES + EXTRA);
        calls[i].out = malloc(BUFFER_BYTES + EXTRA);
        calls[i].expected = malloc(BUFFER_BYTES + EXTRA);
    }
    for (int round = 0, used = 0; round < rounds; round++) {
        call *what = &calls[used];
        prepare(what);
        run(what, 1);
        if (below(2) == 0) {
            run(what, 0);
            compare(what);
        } else {
            start(what);
            used++;
        }
        if (used == OPEN_MAX || below(4) == 0) {
            end_all();
            used = 0;
            if (below(8) == 0) {
                renew(1 + below(COMMS - 1));
            }
        }
    }
    end_all();
    if (world_rank == 0) {
        printf("calls: %d rounds of seed %llu agree\n", rounds, (unsigned long long)seed);
    }
    MPI_Type_free(&spread_int);
    MPI_Finalize();
    return 0;
}
