/* The process's beginning and end, and where communicators come from: those that a blocking
 * collective never sees first get their doors here. */
#include "mpi/door_priv.h"

GY_MPI_API int MPI_Init(int *argc, char ***argv)
{
    int code = PMPI_Init(argc, argv);
    if (code == MPI_SUCCESS) {
        gy_doors_open();
    }
    return code;
}

GY_MPI_API int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int code = PMPI_Init_thread(argc, argv, required, provided);
    if (code == MPI_SUCCESS) {
        gy_doors_open();
    }
    return code;
}

GY_MPI_API int MPI_Finalize(void)
{
    gy_doors_close();
    return PMPI_Finalize();
}

static int attach(int code, const MPI_Comm *made)
{
    if (code == MPI_SUCCESS) {
        gy_door_attach(*made);
    }
    return code;
}

GY_MPI_API int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *newcomm)
{
    return attach(PMPI_Comm_dup(comm, newcomm), newcomm);
}

GY_MPI_API int MPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm)
{
    return attach(PMPI_Comm_dup_with_info(comm, info, newcomm), newcomm);
}

GY_MPI_API int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *newcomm)
{
    return attach(PMPI_Comm_split(comm, color, key, newcomm), newcomm);
}

GY_MPI_API int MPI_Comm_split_type(MPI_Comm comm, int split_type, int key, MPI_Info info,
                                   MPI_Comm *newcomm)
{
    return attach(PMPI_Comm_split_type(comm, split_type, key, info, newcomm), newcomm);
}

GY_MPI_API int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *newcomm)
{
    return attach(PMPI_Comm_create(comm, group, newcomm), newcomm);
}

GY_MPI_API int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *newcomm)
{
    return attach(PMPI_Comm_create_group(comm, group, tag, newcomm), newcomm);
}

GY_MPI_API int MPI_Comm_free(MPI_Comm *comm)
{
    int code = PMPI_Comm_free(comm);
    gy_doors_sweep();
    return code;
}
