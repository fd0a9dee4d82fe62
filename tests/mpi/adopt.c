/*
 * Goal: communicators of Gyre that are made of MPI's have their ranks and order, give what MPI
 * gives, outlive them, and are refused on all ranks alike.
 */
#include <gyre/mpi.h>

#include <stdio.h>
#include <string.h>

enum { COUNT = 8192 };

static int failures;

static void expect(int is_so, const char *what)
{
    if (!is_so) {
        int rank = 0;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        printf("rank %d: not so: %s (%s)\n", rank, what, gy_error_text());
        failures++;
    }
}

/* Sums of all sizes as MPI has them, a message from anybody, a broadcast. */
static void compare(gy_comm *comm, MPI_Comm mpi, int rank, int size)
{
    static double in[COUNT], ours[COUNT], theirs[COUNT];
    static const int counts[] = {1, 8, 1000, COUNT};
    expect(gy_comm_rank(comm) == rank && gy_comm_size(comm) == size, "rank and size");
    expect(gy_comm_local_size(comm) == size && gy_comm_host_count(comm) == 1, "one host");
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < counts[k]; i++) {
            in[i] = rank * 3 + i;
        }
        if (mpi != MPI_COMM_NULL) {
            MPI_Allreduce(in, theirs, counts[k], MPI_DOUBLE, MPI_SUM, mpi);
        } else {
            for (int i = 0; i < counts[k]; i++) {
                theirs[i] = 3 * size * (size - 1) / 2.0 + (double)i * size;
            }
        }
        expect(gy_allreduce(comm, in, ours, (size_t)counts[k], GY_F64, GY_SUM) == GY_OK,
               "allreduce");
        expect(memcmp(ours, theirs, sizeof(double) * (size_t)counts[k]) == 0, "the same sums");
    }
    for (int i = 1; rank == 0 && i < size; i++) {
        int from = -1, got = -1;
        expect(gy_recv_any(comm, &got, 1, GY_I32, 1, &from) == GY_OK && got == from * 5,
               "a message from anybody");
    }
    int mine = rank * 5;
    if (rank != 0) {
        expect(gy_send(comm, &mine, 1, GY_I32, 0, 1) == GY_OK, "send");
    }
    expect(gy_broadcast(comm, &mine, 1, GY_I32, size - 1) == GY_OK && mine == (size - 1) * 5,
           "broadcast");
}

/* An exchange that changes one bit of what the last rank tells, so many bytes from its start.
 */
static size_t changed;
static gy_status from_elsewhere(void *arg, const void *mine, void *all, size_t size_bytes)
{
    int size = 0;
    gy_status status = gy_mpi_bootstrap_allgather(arg, mine, all, size_bytes);
    MPI_Comm_size(*(MPI_Comm *)arg, &size);
    ((unsigned char *)all)[(size_t)(size - 1) * size_bytes + changed] ^= 1;
    return status;
}

static gy_status cannot(void *arg, const void *mine, void *all, size_t size_bytes)
{
    (void)arg;
    (void)mine;
    (void)all;
    (void)size_bytes;
    return GY_PEER;
}

static void refuse(int rank, int size)
{
    gy_comm *comm = NULL;
    MPI_Comm world = MPI_COMM_WORLD;
    gy_bootstrap bad = {rank, size, from_elsewhere, &world};
    expect(gy_comm_from_mpi(MPI_COMM_NULL, &comm) == GY_ARG, "no communicator is refused");
    if (size > 1) { /* a rank begins with its protocol, then names its host */
        char text[64];
        snprintf(text, sizeof(text), "rank %d has rank protocol ", size - 1);
        expect(gy_comm_from_bootstrap(&bad, &comm) == GY_FORMAT, "two builds are refused");
        expect(rank == size - 1 || strstr(gy_error_text(), text) == gy_error_text(),
               "by the name of the rank");
        changed = sizeof(int64_t);
        expect(gy_comm_from_bootstrap(&bad, &comm) == GY_UNSUPPORTED, "two hosts are refused");
        expect(strstr(gy_error_text(), "different hosts") != NULL, "in words");
    }
    bad.allgather = cannot;
    expect(gy_comm_from_bootstrap(&bad, &comm) == GY_PEER, "an exchange that fails");
    bad.rank = size;
    expect(gy_comm_from_bootstrap(&bad, &comm) == GY_ARG, "a rank outside");
    expect(comm == NULL, "nothing is made");
}

int main(int argc, char **argv)
{
    int rank = 0, size = 0, part_rank = 0, part_size = 0, all = 0;
    gy_comm *whole = NULL, *part = NULL, *alone = NULL;
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    expect(gy_comm_from_mpi(MPI_COMM_WORLD, &whole) == GY_OK, "the world");
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_rank(half, &part_rank);
    MPI_Comm_size(half, &part_size);
    expect(gy_comm_from_mpi(half, &part) == GY_OK, "a half, backwards");
    expect(gy_comm_from_mpi(MPI_COMM_SELF, &alone) == GY_OK, "one rank");
    if (failures == 0) {
        compare(whole, MPI_COMM_WORLD, rank, size);
        compare(part, half, part_rank, part_size);
        compare(alone, MPI_COMM_SELF, 0, 1);
        MPI_Comm_free(&half);
        compare(part, MPI_COMM_NULL, part_rank, part_size);
        refuse(rank, size);
        compare(whole, MPI_COMM_WORLD, rank, size);
    }
    gy_comm_free(alone);
    gy_comm_free(part);
    gy_comm_free(whole);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && all == 0) {
        printf("all adopted\n");
    }
    MPI_Finalize();
    return all == 0 ? 0 : 1;
}
