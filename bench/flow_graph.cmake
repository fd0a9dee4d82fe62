add_executable(bench_flow_graph ${CMAKE_CURRENT_LIST_DIR}/flow_graph.c)
target_link_libraries(bench_flow_graph PRIVATE gyre_flags gyre)
