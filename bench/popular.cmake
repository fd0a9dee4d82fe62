# bench_popular: the example, whose vertices run at once, for bench/cluster.py.
add_executable(bench_popular ${PROJECT_SOURCE_DIR}/examples/popular.c)
target_link_libraries(bench_popular PRIVATE gyre gyre_flags)
target_compile_options(bench_popular PRIVATE -U_GNU_SOURCE) # it says so itself
