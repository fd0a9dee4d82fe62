# bench_csv: what reading CSV gives, in bytes a core and second.
add_executable(bench_csv ${CMAKE_CURRENT_LIST_DIR}/csv.c)
target_link_libraries(bench_csv PRIVATE gy_frame)
