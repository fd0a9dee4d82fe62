# bench_messages: send and receive rows between two ranks over shared memory.
add_executable(bench_messages ${CMAKE_CURRENT_LIST_DIR}/messages.c)
target_link_libraries(bench_messages PRIVATE gy_ops)
