# bench_kernels: single kernels and the kernels of a training step, beside their floors.
add_executable(bench_kernels ${CMAKE_CURRENT_LIST_DIR}/kernels.c)
target_link_libraries(bench_kernels PRIVATE gy_ops)
