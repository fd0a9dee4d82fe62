# bench_manager: the job manager alone, a million tasks.
if(TARGET gy_cluster)
    add_executable(bench_manager ${CMAKE_CURRENT_LIST_DIR}/manager.c)
    target_link_libraries(bench_manager PRIVATE gy_cluster)
endif()
