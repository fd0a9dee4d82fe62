/*
 * An ordinary MPI program, which knows nothing of Gyre: pi as the integral of 4 / (1 + x^2),
 * one allreduce for each of 1,000 sums. With Gyre's library in LD_PRELOAD the allreduces go
 * over Gyre's shared memory (README, "Unchanged MPI programs").
 *
 *     mpicc pi.c -o pi
 *     mpirun -n 2 ./pi
 */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    enum { SUMS = 1000, PARTS = 10000 };
    int rank, size;
    double pi = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const double start = MPI_Wtime();
    for (int sum = 0; sum < SUMS; sum++) {
        double part = 0, whole;
        for (int i = rank; i < PARTS; i += size) {
            const double x = (sum + (i + 0.5) / PARTS) / SUMS;
            part += 4 / (1 + x * x);
        }
        MPI_Allreduce(&part, &whole, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        pi += whole / ((double)PARTS * SUMS);
    }
    if (rank == 0) {
        fprintf(stderr, "%d ranks, %.3f s\n", size, MPI_Wtime() - start);
        printf("pi is %.9f\n", pi);
    }
    MPI_Finalize();
    return 0;
}
