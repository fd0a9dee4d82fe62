# bench_steps: Gyre's side of bench/steps.py.
add_executable(bench_steps ${CMAKE_CURRENT_LIST_DIR}/steps.c)
target_link_libraries(bench_steps PRIVATE gy_train)
