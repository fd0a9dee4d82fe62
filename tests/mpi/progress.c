/*
 * An MPI program like any other; its test loads Gyre in front of the library. Each case is
 * legal MPI in which a rank depends on what another one does while it waits: a preload that
 * waits without driving the library, or needs a rank after its nonblocking call returned, hangs
 * here.
 *
 *     mpirun -n 2 progress
 */
#include <mpi.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = 8 << 20, THREADS = 3, THREAD_ROUNDS = 60 };

static int rank, ranks;
static char *large;
static MPI_Comm other;

static void expect(int is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "progress: rank %d: %s\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static void sum(MPI_Comm comm)
{
    int mine = rank + 1, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, comm);
    expect(all == ranks * (ranks + 1) / 2, "wrong sum");
}

/* The rest of the message moves only while rank 0 is inside the library. */
static void message_across_an_allreduce(void)
{
    memset(large, rank, LARGE);
    if (rank == 0) {
        MPI_Request sent;
        MPI_Isend(large, LARGE, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &sent);
        sum(MPI_COMM_WORLD);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
    } else {
        if (rank == 1) {
            MPI_Recv(large, LARGE, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            expect(large[0] == 0 && large[LARGE - 1] == 0, "wrong message");
        }
        sum(MPI_COMM_WORLD);
    }
}

/* The same across a long vector, a barrier and an all-to-all. */
static void message_across_others(int which)
{
    static double in[100000], out[100000];
    MPI_Request sent = MPI_REQUEST_NULL;
    if (rank == 0) {
        MPI_Isend(large, LARGE, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &sent);
    } else if (rank == 1) {
        MPI_Recv(large, LARGE, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (which == 0) {
        MPI_Allreduce(in, out, 100000, MPI_DOUBLE, MPI_SUM, other);
    } else if (which == 1) {
        MPI_Barrier(other);
    } else {
        MPI_Alltoall(in, 100, MPI_DOUBLE, out, 100, MPI_DOUBLE, MPI_COMM_WORLD);
    }
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
}

/* A message across the Wait of a collective. */
static void message_across_a_wait(void)
{
    double in = rank, out = -1;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    if (rank == 0) {
        MPI_Isend(large, LARGE, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &requests[0]);
    } else if (rank == 1) {
        MPI_Recv(large, LARGE, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Iallreduce(&in, &out, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &requests[1]);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    expect(out == ranks - 1, "wrong maximum");
}

/* Rank 0 sits in a receive until rank 1 has finished a collective that both have started. */
static void receive_during_a_collective(int count)
{
    float *in = calloc((size_t)count, sizeof(*in)), *out = calloc((size_t)count, sizeof(*out));
    int token = 0;
    MPI_Request request;
    in[count - 1] = 1;
    MPI_Iallreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    if (rank == 0) {
        for (int peer = 1; peer < ranks; peer++) {
            MPI_Recv(&token, 1, MPI_INT, peer, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(out[count - 1] == (float)ranks, "wrong sum of a nonblocking collective");
    if (rank != 0) {
        MPI_Send(&token, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
    }
    free(in);
    free(out);
}

/* Each rank waits for two collectives in an order of its own. */
static void collectives_crosswise(void)
{
    int in = 1, first = 0, second = 0;
    MPI_Request a, b;
    MPI_Iallreduce(&in, &first, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &a);
    MPI_Iallreduce(&in, &second, 1, MPI_INT, MPI_SUM, other, &b);
    if (rank % 2 == 0) {
        MPI_Barrier(other);
        MPI_Wait(&b, MPI_STATUS_IGNORE);
        MPI_Wait(&a, MPI_STATUS_IGNORE);
    } else {
        MPI_Wait(&a, MPI_STATUS_IGNORE);
        MPI_Barrier(other);
        MPI_Wait(&b, MPI_STATUS_IGNORE);
    }
    expect(first == ranks && second == ranks, "wrong sums crosswise");
}

/* Started before its communicator is freed and its type too: ends all the same. */
static void freed_early(void)
{
    int values[8] = {rank, rank, rank, rank, rank, rank, rank, rank},
        *all = malloc((size_t)ranks * 16 * sizeof(int));
    MPI_Comm brief;
    MPI_Datatype gaps, spread;
    MPI_Request request;
    MPI_Comm_dup(MPI_COMM_WORLD, &brief);
    MPI_Type_vector(8, 1, 2, MPI_INT, &gaps);
    MPI_Type_create_resized(gaps, 0, 16 * (MPI_Aint)sizeof(int), &spread);
    MPI_Type_free(&gaps);
    MPI_Type_commit(&spread);
    MPI_Iallgather(values, 8, MPI_INT, all, 1, spread, brief, &request);
    MPI_Type_free(&spread);
    MPI_Comm_free(&brief);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < ranks; i++) {
        expect(all[i * 16] == i && all[i * 16 + 14] == i, "wrong parts after a free");
    }
    free(all);
}

/* Debian's MPICH checks no arguments: it crashes on these, with Gyre or without. */
#ifdef OPEN_MPI
/* Wrong arguments come back as the library's own errors, through the communicator's handler. */
static void errors_return(void)
{
    int in = 0, out = 0, kind = 0;
    MPI_Comm_set_errhandler(other, MPI_ERRORS_RETURN);
    int code = MPI_Allreduce(&in, &out, -1, MPI_INT, MPI_SUM, other);
    MPI_Error_class(code, &kind);
    expect(kind == MPI_ERR_COUNT, "a count below zero is taken");
    code = MPI_Bcast(&in, 1, MPI_INT, ranks, other);
    MPI_Error_class(code, &kind);
    expect(kind == MPI_ERR_ROOT, "a root that is no rank is taken");
    MPI_Comm_set_errhandler(other, MPI_ERRORS_ARE_FATAL);
}
#endif

static void *one_thread(void *arg)
{
    MPI_Comm comm = *(MPI_Comm *)arg;
    for (int i = 0; i < THREAD_ROUNDS; i++) {
        int in = i, out = 0, later = 0;
        MPI_Request request;
        MPI_Iallreduce(&in, &later, 1, MPI_INT, MPI_SUM, comm, &request);
        MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, comm);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        expect(out == i * ranks && later == i * ranks, "wrong sum in a thread");
    }
    return NULL;
}

static void several_threads(void)
{
    pthread_t threads[THREADS];
    MPI_Comm comms[THREADS];
    for (int i = 0; i < THREADS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, one_thread, &comms[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        MPI_Comm_free(&comms[i]);
    }
}

int main(int argc, char **argv)
{
    int level = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    large = malloc(LARGE);
    message_across_an_allreduce();
    for (int which = 0; which < 3; which++) {
        message_across_others(which);
    }
    message_across_a_wait();
    receive_during_a_collective(1);
    receive_during_a_collective(1000000);
    collectives_crosswise();
    freed_early();
#ifdef OPEN_MPI
    errors_return();
#endif
    if (level == MPI_THREAD_MULTIPLE) {
        several_threads();
    }
    sum(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("progress: all cases end%s\n",
               level == MPI_THREAD_MULTIPLE ? ", with threads" : ", without threads");
    }
    MPI_Comm_free(&other);
    free(large);
    MPI_Finalize();
    return 0;
}
