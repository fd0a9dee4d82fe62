# bench_log: a log and its most popular pages; log.py compares it with DuckDB.
add_executable(bench_log ${CMAKE_CURRENT_LIST_DIR}/log.c)
target_link_libraries(bench_log PRIVATE gy_mapreduce m)
