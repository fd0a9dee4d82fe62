# bench_jobs: ready-made jobs as programs; log.py and index.py compare them with DuckDB and mawk.
add_executable(bench_jobs ${CMAKE_CURRENT_LIST_DIR}/jobs.c)
target_link_libraries(bench_jobs PRIVATE gy_mapreduce)
