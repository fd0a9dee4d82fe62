# bench_hot: jobs with a hot key, shared and not; driven by hot.py.
add_executable(bench_hot ${CMAKE_CURRENT_LIST_DIR}/hot.c)
target_link_libraries(bench_hot PRIVATE gy_mapreduce)
