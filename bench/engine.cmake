# bench_engine: empty tasks against libgomp.
find_package(OpenMP COMPONENTS C)
if(OpenMP_C_FOUND)
    add_executable(bench_engine ${CMAKE_CURRENT_LIST_DIR}/engine.c
        ${CMAKE_CURRENT_LIST_DIR}/engine_openmp.c)
    target_include_directories(bench_engine PRIVATE ${CMAKE_CURRENT_LIST_DIR})
    target_link_libraries(bench_engine PRIVATE gy_engine OpenMP::OpenMP_C)
    set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/engine.c PROPERTIES COMPILE_OPTIONS
        "-fno-openmp")
else()
    message(STATUS "no OpenMP: bench_engine is left out")
endif()
