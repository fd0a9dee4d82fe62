# bench_device: products, copies and launches of a device (scripts/device).
add_executable(bench_device ${CMAKE_CURRENT_LIST_DIR}/device.c)
target_link_libraries(bench_device PRIVATE gy_ops)
