# bench_rpc: a call, and a bulk transfer, over loopback: plain, under TLS, and bare sockets.
if(TARGET gy_rpc)
    add_executable(bench_rpc ${CMAKE_CURRENT_LIST_DIR}/rpc.c)
    target_link_libraries(bench_rpc PRIVATE gy_rpc)
endif()
