# bench_jobs: the jobs that bench/jobs.py compares with other programs.
add_executable(bench_jobs ${CMAKE_CURRENT_LIST_DIR}/jobs.c)
target_link_libraries(bench_jobs PRIVATE gyre gyre_flags)
