# bench_wires: allreduce over TCP beside each MPI library, and gloo where its headers are.
find_path(GYRE_GLOO_INCLUDE gloo/allreduce.h)
find_library(GYRE_GLOO_LIBRARY gloo)
if(GYRE_GLOO_INCLUDE AND GYRE_GLOO_LIBRARY)
    enable_language(CXX)
    foreach(library IN LISTS GYRE_MPI_LIBRARIES)
        add_executable(bench_wires_${library} ${CMAKE_CURRENT_LIST_DIR}/wires.c
            ${CMAKE_CURRENT_LIST_DIR}/wires_floor.c ${CMAKE_CURRENT_LIST_DIR}/wires_gloo.cc)
        target_include_directories(bench_wires_${library} PRIVATE ${CMAKE_CURRENT_LIST_DIR})
        target_include_directories(bench_wires_${library} SYSTEM PRIVATE ${GYRE_GLOO_INCLUDE})
        target_link_libraries(bench_wires_${library} PRIVATE gy_coll gyre_${library}
            ${GYRE_GLOO_LIBRARY})
        set_target_properties(bench_wires_${library} PROPERTIES LINKER_LANGUAGE CXX)
    endforeach()
else()
    message(STATUS "no gloo (libgloo-dev): bench_wires is left out")
endif()
