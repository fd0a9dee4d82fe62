/*
 * An MPI program like any other; its test loads Gyre in front of the library. MPI's rules at
 * their edges: what one rank alone can see (a null handle, buffers that overlap, its own
 * length, the name that it called) must not make the others wait, and what comes after it is
 * right again.
 *
 *     mpirun -n P edges CASE
 */
#include <mpi.h>

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 16, GUARD = 77 };

static int rank, ranks;

static void expect(int is_so, const char *what, int which)
{
    if (!is_so) {
        fprintf(stderr, "edges: rank %d: %s (%d)\n", rank, what, which);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

/* What all do right is right, whatever came before. */
static void is_sound(MPI_Comm comm, int which)
{
    int mine = rank + 1, all = 0, later = 0, expected = ranks * (ranks + 1) / 2;
    static double in[20000], out[20000];
    MPI_Request request;
    expect(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS,
           "a right call fails after a wrong one", which);
    expect(all == expected, "a right call is wrong after a wrong one", which);
    in[19999] = mine;
    expect(MPI_Allreduce(in, out, 20000, MPI_DOUBLE, MPI_SUM, comm) == MPI_SUCCESS &&
               out[19999] == (double)expected,
           "a long call is wrong after a wrong one", which);
    expect(MPI_Iallreduce(&mine, &later, 1, MPI_INT, MPI_SUM, comm, &request) == MPI_SUCCESS &&
               MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && later == expected,
           "a nonblocking call is wrong after a wrong one", which);
}

/* ---- Wrong arguments ---- */

typedef struct wrong {
    const char *what;
    MPI_Datatype type;
    MPI_Op op;
    int count, root;
    int has_input, has_result; /* buffers that are there */
} wrong;

/* One of seven operations; the arguments of the blocking and the nonblocking form. */
static int call(int operation, const wrong *with, int *in, int *out, MPI_Request *request)
{
    const void *from = with->has_input ? in : NULL;
    void *to = with->has_result ? out : NULL;
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Datatype type = with->type;
    int n = with->count;
    switch (operation) {
    case 0:
        return MPI_Allreduce(from, to, n, type, with->op, comm);
    case 1:
        return MPI_Bcast(to, n, type, with->root, comm);
    case 2:
        return MPI_Allgather(from, n, type, to, n, type, comm);
    case 3:
        return MPI_Reduce(from, to, n, type, with->op, with->root, comm);
    case 4:
        return MPI_Reduce_scatter_block(from, to, n, type, with->op, comm);
    case 5:
        return MPI_Alltoall(from, n, type, to, n, type, comm);
    case 6:
        return MPI_Iallreduce(from, to, n, type, with->op, comm, request);
    case 7:
        return MPI_Ibcast(to, n, type, with->root, comm, request);
    default:
        return MPI_Ialltoall(from, n, type, to, n, type, comm, request);
    }
}

/* `who` gives something wrong (everybody: -1), the others nothing. */
static void one_is_wrong(int who)
{
    const wrong right = {"right", MPI_INT, MPI_SUM, 1, 0, 1, 1};
    wrong cases[] = {{"null type", MPI_DATATYPE_NULL, MPI_SUM, 1, 0, 1, 1},
                     {"null operation", MPI_INT, MPI_OP_NULL, 1, 0, 1, 1},
                     {"negative count", MPI_INT, MPI_SUM, -1, 0, 1, 1},
                     {"no rank as root", MPI_INT, MPI_SUM, 1, ranks, 1, 1},
                     {"no input", MPI_INT, MPI_SUM, 1, 0, 0, 1},
                     {"no result", MPI_INT, MPI_SUM, 1, 0, 1, 0}};
    for (int operation = 0; operation < 9; operation++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            int is_rooted = operation == 1 || operation == 3 || operation == 7;
            int is_reduction =
                operation == 0 || operation == 3 || operation == 4 || operation == 6;
            int has_no_input = operation == 1 || operation == 7;
            if ((i == 1 && !is_reduction) || (i == 3 && !is_rooted) ||
                (i == 4 && has_no_input) || (i == 5 && operation == 3)) {
                continue;
            }
            int in[LENGTH] = {1}, out[LENGTH], is_mine = who < 0 || who == rank;
            MPI_Request request = MPI_REQUEST_NULL;
            for (int k = 0; k < LENGTH; k++) {
                out[k] = GUARD;
            }
            int code = call(operation, is_mine ? &cases[i] : &right, in, out, &request);
            if (request != MPI_REQUEST_NULL) {
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            }
            int which = operation * 10 + (int)i;
            expect(!is_mine || code != MPI_SUCCESS, cases[i].what, which);
            expect(!is_mine || (out[0] == GUARD && out[1] == GUARD), "memory is overwritten",
                   which);
            is_sound(MPI_COMM_WORLD, which);
        }
    }
}

static void wrong_arguments(void)
{
    one_is_wrong(-1);
    one_is_wrong(0);
    one_is_wrong(ranks - 1);
}

/* ---- Buffers that overlap, lengths, MPI_IN_PLACE ---- */

/* An error or the right answer, on each rank. */
static void buffers_overlap(void)
{
    for (int which = 0; which < 9; which++) {
        int mine[LENGTH], apart[LENGTH], code = 0, got = 0, expected = 0;
        for (int k = 0; k < LENGTH; k++) {
            mine[k] = rank + 1;
            apart[k] = -1;
        }
        int sum = ranks * (ranks + 1) / 2, *to = rank == 0 ? mine : apart;
        const int *from = rank == 0 ? mine + 1 : mine;
        MPI_Comm comm = MPI_COMM_WORLD;
        switch (which) {
        case 0:
            code = MPI_Allreduce(mine, to, 1, MPI_INT, MPI_SUM, comm);
            break;
        case 1:
            code = MPI_Allreduce(from, to, 4, MPI_INT, MPI_SUM, comm);
            break;
        case 2:
            code = MPI_Reduce(mine, to, 1, MPI_INT, MPI_SUM, 0, comm);
            break;
        case 3:
            code = MPI_Allgather(mine, 1, MPI_INT, to, 1, MPI_INT, comm);
            break;
        case 4:
            code = MPI_Alltoall(mine, 1, MPI_INT, to, 1, MPI_INT, comm);
            break;
        case 5:
            code = MPI_Reduce_scatter_block(mine, to, 1, MPI_INT, MPI_SUM, comm);
            break;
        case 6: /* rank 0 has its part elsewhere in the result */
            code = MPI_Allgather(from, 1, MPI_INT, to, 1, MPI_INT, comm);
            break;
        case 7: /* its own length does not fit */
            code = MPI_Allgather(mine, rank == 0 ? 1 : 3, MPI_INT, apart, 3, MPI_INT, comm);
            expect(code != MPI_SUCCESS, "another length is taken", which);
            break;
        default: /* only the root may be in place */
            code = MPI_Reduce(rank == ranks - 1 ? MPI_IN_PLACE : mine, apart, 1, MPI_INT,
                              MPI_SUM, 0, comm);
            expect(rank < ranks - 1 || code != MPI_SUCCESS, "in place is taken", which);
            break;
        }
        int is_sum = which == 0 || which == 1 || which == 2 || which == 5;
        got = which == 2 && rank != 0 ? sum : to[is_sum ? 0 : ranks - 1];
        expected = is_sum ? sum : ranks;
        expect(which >= 7 || code != MPI_SUCCESS || got == expected, "wrong result", which);
        is_sound(MPI_COMM_WORLD, which);
    }
}

/* ---- Calls that differ ---- */

static void calls_differ(void)
{
    for (int round = 0; round < 12; round++) {
        for (int which = 0; which < 5; which++) {
            int in[LENGTH] = {1}, out[LENGTH] = {0}, is_odd = rank == 0, code = 0;
            MPI_Request request = MPI_REQUEST_NULL;
            MPI_Comm comm = MPI_COMM_WORLD;
            if (which == 0) {
                code = MPI_Allreduce(in, out, is_odd ? 1 : 2, MPI_INT, MPI_SUM, comm);
            } else if (which == 1) {
                code = MPI_Bcast(out, is_odd ? 4 : 2, MPI_INT, 0, comm);
            } else if (which == 2) {
                code = MPI_Allreduce(in, out, 1, MPI_INT, is_odd ? MPI_SUM : MPI_MAX, comm);
            } else if (is_odd == (which == 3)) { /* blocking here, nonblocking there */
                code = MPI_Allreduce(in, out, 1, MPI_INT, MPI_SUM, comm);
            } else {
                code = MPI_Iallreduce(in, out, 1, MPI_INT, MPI_SUM, comm, &request);
                if (code == MPI_SUCCESS) {
                    code = MPI_Wait(&request, MPI_STATUS_IGNORE);
                }
            }
            expect(code != MPI_SUCCESS, "calls that differ are taken", which);
            is_sound(MPI_COMM_WORLD, which);
        }
    }
}

/* ---- Names ---- */

/* Each rank calls another name of the same operation. */
static void names_differ(void)
{
    for (int round = 0; round < 20; round++) {
        int mine = rank + 1, all = 0, parts[LENGTH] = {0}, way = (rank + round) % 3;
        MPI_Comm comm = MPI_COMM_WORLD;
        MPI_Request request;
        if (way == 0) {
            MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, comm);
            MPI_Allgather(&mine, 1, MPI_INT, parts, 1, MPI_INT, comm);
            MPI_Ibcast(&mine, 1, MPI_INT, 0, comm, &request);
        } else if (way == 1) {
            PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, comm);
            PMPI_Allgather(&mine, 1, MPI_INT, parts, 1, MPI_INT, comm);
            PMPI_Ibcast(&mine, 1, MPI_INT, 0, comm, &request);
        } else {
#if MPI_VERSION >= 4
            MPI_Allreduce_c(&mine, &all, 1, MPI_INT, MPI_SUM, comm);
            PMPI_Allgather_c(&mine, 1, MPI_INT, parts, 1, MPI_INT, comm);
            MPI_Ibcast_c(&mine, 1, MPI_INT, 0, comm, &request);
#else
            PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, comm);
            MPI_Allgather(&mine, 1, MPI_INT, parts, 1, MPI_INT, comm);
            MPI_Ibcast(&mine, 1, MPI_INT, 0, comm, &request);
#endif
        }
        (round % 2 == 0 ? MPI_Wait : PMPI_Wait)(&request, MPI_STATUS_IGNORE);
        expect(all == ranks * (ranks + 1) / 2, "wrong sum by another name", way);
        expect(parts[ranks - 1] == ranks && mine == 1, "wrong parts by another name", way);
    }
}

#if MPI_VERSION >= 4
/* The large forms with all that they have. */
static void large_forms(void)
{
    MPI_Count counts[LENGTH];
    MPI_Aint places[LENGTH];
    int in[LENGTH * LENGTH], out[LENGTH * LENGTH] = {0}, own = 0, first = 0;
    MPI_Request request;
    for (int k = 0; k < ranks; k++) {
        counts[k] = k + 1;
        places[k] = first;
        first += k + 1;
    }
    for (int k = 0; k < LENGTH * LENGTH; k++) {
        in[k] = rank + 1;
    }
    MPI_Allgatherv_c(in, rank + 1, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD);
    expect(out[0] == 1 && out[first - 1] == ranks, "wrong parts", 0);
    MPI_Iallgatherv_c(in, rank + 1, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD,
                      &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(out[first - 1] == ranks, "wrong parts", 1);
    MPI_Reduce_scatter_c(in, out, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(out[rank] == ranks * (ranks + 1) / 2, "wrong sum", 2);
    MPI_Reduce_c(in, &own, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    expect(rank != 0 || own == ranks, "wrong maximum", 3);
    MPI_Alltoall_c(in, 1, MPI_INT, out, 1, MPI_INT, MPI_COMM_WORLD);
    expect(out[ranks - 1] == ranks, "wrong exchange", 4);
}
#endif

/* ---- Types ---- */

/* One signature, another form on each rank: an element above what the library packs at once
 * (GYRE_MPI_CHUNK, 2^30 else), blocks, with gaps, at absolute addresses. */
static void forms_of_types(void)
{
    enum { BLOCKS = 100, BLOCK = 2000, BYTES = BLOCKS * BLOCK };
    MPI_Datatype block, one, spread, inner, absolute;
    char *data = calloc(2, BYTES);
    MPI_Aint at = 0;
    MPI_Type_contiguous(BLOCK, MPI_CHAR, &block);
    MPI_Type_contiguous(BLOCKS, block, &one);
    MPI_Type_create_resized(block, 0, 2 * BLOCK, &inner);
    MPI_Type_contiguous(BLOCKS, inner, &spread);
    MPI_Get_address(data, &at);
    MPI_Type_create_hindexed(1, (const int[]){BYTES}, &at, MPI_CHAR, &absolute);
    MPI_Datatype all[] = {block, one, inner, spread, absolute};
    for (int i = 0; i < 5; i++) {
        MPI_Type_commit(&all[i]);
    }
    for (int round = 0; round < 8; round++) {
        int root = round % ranks, form = (rank + round) % 4;
        memset(data, rank == root ? round + 1 : 0, 2 * BYTES);
        void *where = form == 3 ? MPI_BOTTOM : data;
        MPI_Datatype type = form == 0 ? one : form == 1 ? block : form == 2 ? spread : absolute;
        int count = form == 1 ? BLOCKS : 1;
        if (round < 4) {
            MPI_Bcast(where, count, type, root, MPI_COMM_WORLD);
        } else {
            MPI_Request request;
            MPI_Ibcast(where, count, type, root, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        size_t last = form == 2 ? 2 * BYTES - BLOCK - 1 : BYTES - 1;
        expect(data[0] == round + 1 && data[last] == round + 1, "wrong data in a form", form);
        expect(form != 2 || rank == root || data[BLOCK] == 0, "a gap is overwritten", form);
    }
    for (int i = 0; i < 5; i++) {
        MPI_Type_free(&all[i]);
    }
    free(data);
}

/* Every way in which a type is made, above what is packed at once, one way and back. */
static void makers_of_types(void)
{
    enum { SIDE = 400, ALL = SIDE * SIDE, MAKERS = 10 };
    static char data[2 * ALL], before[ALL], after[ALL];
    const int lengths[] = {SIDE, 3 * SIDE, 50 * SIDE}, places[] = {100 * SIDE, 7 * SIDE, 9};
    const int sizes[] = {SIDE, SIDE}, parts[] = {300, 150}, starts[] = {20, 30};
    const MPI_Aint addresses[] = {100 * SIDE, 7 * SIDE, 9};
    MPI_Datatype many[MAKERS], inner;
    MPI_Type_contiguous(SIDE, MPI_CHAR, &inner);
    MPI_Type_vector(90, 100, 300, MPI_CHAR, &many[0]);
    MPI_Type_create_hvector(90, 1, 2 * SIDE, inner, &many[1]);
    MPI_Type_indexed(3, lengths, places, MPI_CHAR, &many[2]);
    MPI_Type_create_hindexed(3, lengths, addresses, MPI_CHAR, &many[3]);
    MPI_Type_create_indexed_block(3, 90 * SIDE, places, MPI_CHAR, &many[4]);
    MPI_Type_create_hindexed_block(3, 90, addresses, inner, &many[5]);
    MPI_Type_create_struct(2, (const int[]){90, 33333}, (const MPI_Aint[]){ALL, 5},
                           (const MPI_Datatype[]){inner, MPI_CHAR}, &many[6]);
    MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_CHAR, &many[7]);
    MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_CHAR, &many[8]);
    MPI_Type_dup(many[2], &many[9]);
    for (int i = 0; i < MAKERS; i++) {
        int bytes = 0, position = 0, is_typed = (rank + i) % 2;
        MPI_Type_commit(&many[i]);
        MPI_Type_size(many[i], &bytes);
        for (int k = 0; k < 2 * ALL; k++) {
            data[k] = (char)(k % 251);
        }
        MPI_Pack(data, 1, many[i], before, bytes, &position, MPI_COMM_SELF);
        memcpy(after, before, (size_t)bytes);
        if (rank != 0) {
            memset(data, 0, sizeof(data));
            memset(after, 0, sizeof(after));
        }
        MPI_Bcast(is_typed ? data : after, is_typed ? 1 : bytes, is_typed ? many[i] : MPI_CHAR,
                  0, MPI_COMM_WORLD);
        position = 0;
        if (is_typed) {
            MPI_Pack(data, 1, many[i], after, bytes, &position, MPI_COMM_SELF);
        }
        expect(memcmp(after, before, (size_t)bytes) == 0, "wrong data by a type", i);
        MPI_Type_free(&many[i]);
    }
    MPI_Type_free(&inner);
}

/* 2.3e9 bytes: one element above INT_MAX at the root, blocks elsewhere. */
static void huge_type(void)
{
    enum { BLOCKS = 1100, BLOCK = 2 << 20 };
    MPI_Datatype block, one;
    MPI_Type_contiguous(BLOCK, MPI_CHAR, &block);
    MPI_Type_contiguous(BLOCKS, block, &one);
    MPI_Type_commit(&block);
    MPI_Type_commit(&one);
    size_t bytes = (size_t)BLOCKS * BLOCK;
    char *data = malloc(bytes);
    expect(data != NULL, "no memory", 0);
    memset(data, rank == 0 ? 3 : 0, bytes);
    MPI_Bcast(data, rank == 0 ? 1 : BLOCKS, rank == 0 ? one : block, 0, MPI_COMM_WORLD);
    expect(data[0] == 3 && data[bytes / 2] == 3 && data[bytes - 1] == 3, "wrong data", 0);
    MPI_Type_free(&one);
    MPI_Type_free(&block);
    free(data);
}

/* ---- Communicators ---- */

static int open_files(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    expect(folder != NULL, "no /proc", 0);
    while (readdir(folder) != NULL) {
        count++;
    }
    closedir(folder);
    return count;
}

static long mapped_places(void)
{
    long count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    expect(maps != NULL, "no /proc", 1);
    for (int c = getc(maps); c != EOF; c = getc(maps)) {
        count += c == '\n';
    }
    fclose(maps);
    return count;
}

/* A communicator that nobody calls collectives on costs what the library's does. */
static void idle_communicators(void)
{
    enum { COMMS = 60 };
    MPI_Comm comms[COMMS];
    int files = open_files();
    long maps = mapped_places();
    for (int i = 0; i < COMMS; i++) {
        if (i % 2 == 0) {
            MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        } else {
            MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &comms[i]);
        }
    }
    expect(open_files() < files + COMMS / 2, "an idle communicator has files", 0);
    expect(mapped_places() < maps + COMMS, "an idle communicator has memory", 1);
    for (int i = 0; i < COMMS; i++) {
        MPI_Comm_free(&comms[i]);
    }
}

/* Those that are used are served, freed with requests in flight too; between worlds as well. */
static void used_communicators(void)
{
    MPI_Group all, pair;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 2, (const int[]){0, 1}, &pair);
    for (int round = 0; round < 6; round++) {
        MPI_Comm brief = MPI_COMM_NULL;
        if (round % 2 == 0) {
            MPI_Comm_dup(MPI_COMM_WORLD, &brief);
        } else if (rank < 2) {
            MPI_Comm_create_group(MPI_COMM_WORLD, pair, round, &brief);
        }
        if (brief == MPI_COMM_NULL) {
            continue;
        }
        int size = 0, one = 1, sum = 0, later = 0;
        MPI_Request request;
        MPI_Comm_size(brief, &size);
        for (int i = 0; i < 12; i++) {
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, brief);
            expect(sum == size, "wrong sum on a communicator", i);
        }
        MPI_Iallreduce(&one, &later, 1, MPI_INT, MPI_SUM, brief, &request);
        MPI_Comm_free(&brief);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        expect(later == size, "wrong sum after a free", round);
    }
    for (int round = 0; round < 6; round++) { /* freed before it has ended, at once */
        MPI_Comm brief;
        int one = 1, later = 0;
        MPI_Request request;
        MPI_Comm_dup(MPI_COMM_WORLD, &brief);
        MPI_Iallreduce(&one, &later, 1, MPI_INT, MPI_SUM, brief, &request);
        MPI_Comm_free(&brief);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        expect(later == ranks, "wrong sum after an early free", round);
    }
    MPI_Comm half, across = MPI_COMM_NULL;
    int side = rank % 2, one = rank + 1, sum = 0, expected = 0;
    MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 5, &across);
    for (int i = 0; i < ranks; i++) {
        expected += i % 2 != side ? i + 1 : 0;
    }
    for (int i = 0; i < 8; i++) {
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, across);
        expect(sum == expected, "wrong sum between groups", i);
    }
    MPI_Comm_free(&across);
    MPI_Comm_free(&half);
    MPI_Group_free(&pair);
    MPI_Group_free(&all);
}

/* ---- The C half of tests/mpi/coupled.f90 ---- */

static void coupled(void)
{
    int b[8], sum = 0, later = 0, truth = 1, all = 0, mine = rank;
    float real = (float)rank;
    double parts[LENGTH] = {0}, part = rank;
    MPI_Request request;
    MPI_Comm other;
    for (int i = 0; i < 8; i++) {
        b[i] = rank == 0 ? 7 : 0;
    }
    MPI_Bcast(b, 8, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &real, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&truth, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    MPI_Allgather(&part, 1, MPI_DOUBLE, parts, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    MPI_Iallreduce(&rank, &later, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    for (int i = 0; i < 10; i++) {
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, other);
        MPI_Barrier(other);
    }
    MPI_Comm_free(&other);
    int expected = ranks * (ranks - 1) / 2;
    expect(b[7] == 7 && mine == expected && later == expected && sum == expected &&
               real == (float)expected && all == 1 && parts[ranks - 1] == ranks - 1,
           "wrong beside Fortran", sum);
    printf("c ok\n");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
        int returns; /* errors come back */
    } cases[] = {
        {"arguments", wrong_arguments, 1},
        {"overlap", buffers_overlap, 1},
        {"differ", calls_differ, 1},
        {"names", names_differ, 0},
#if MPI_VERSION >= 4
        {"large", large_forms, 0},
#endif
        {"types", forms_of_types, 0},
        {"makers", makers_of_types, 0},
        {"huge", huge_type, 0},
        {"idle", idle_communicators, 0},
        {"used", used_communicators, 0},
        {"coupled", coupled, 0}
    };
    const char *wanted = argc > 1 ? argv[1] : "all";
    int done = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int is_special = cases[i].run == huge_type || cases[i].run == coupled;
        if (strcmp(wanted, cases[i].name) == 0 || (strcmp(wanted, "all") == 0 && !is_special)) {
            MPI_Comm_set_errhandler(MPI_COMM_WORLD, cases[i].returns ? MPI_ERRORS_RETURN
                                                                     : MPI_ERRORS_ARE_FATAL);
            cases[i].run();
            done++;
        }
    }
    int one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(done > 0 && sum == ranks, "no such case", done);
    printf("edges: rank %d ends\n", rank);
    MPI_Finalize();
    return 0;
}
