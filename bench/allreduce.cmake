# Beside an MPI library where there is one; mpirun starts the ranks.
find_package(MPI COMPONENTS C)
if(MPI_C_FOUND)
    add_executable(bench_allreduce ${CMAKE_CURRENT_LIST_DIR}/allreduce.c)
    target_link_libraries(bench_allreduce PRIVATE gy_coll MPI::MPI_C)
else()
    message(STATUS "no MPI found: bench_allreduce is left out")
endif()
