add_executable(bench_flow_tasks ${CMAKE_CURRENT_LIST_DIR}/flow_tasks.c)
target_link_libraries(bench_flow_tasks PRIVATE gy_cluster)
