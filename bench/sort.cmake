# bench_sort: sorting of records beside its floor; sort.py compares it with GNU sort.
add_executable(bench_sort ${CMAKE_CURRENT_LIST_DIR}/sort.c)
target_link_libraries(bench_sort PRIVATE gy_mapreduce)
