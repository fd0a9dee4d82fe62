# bench_records: inputs of bench/jobs.py and the floors under its rows.
add_executable(bench_records ${CMAKE_CURRENT_LIST_DIR}/records.c)
target_link_libraries(bench_records PRIVATE gy_base m)
