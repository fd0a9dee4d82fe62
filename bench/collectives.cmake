# Beside each MPI library that room mpi found; its launcher starts the ranks.
foreach(library IN LISTS GYRE_MPI_LIBRARIES)
    add_executable(bench_collectives_${library} ${CMAKE_CURRENT_LIST_DIR}/collectives.c)
    target_link_libraries(bench_collectives_${library} PRIVATE gy_coll gyre_${library})
endforeach()
