# The examples as users build them, for bench/pages.py; bench/cluster.py runs the first, whose vertices run at once.
foreach(program popular popular_jobs)
    add_executable(bench_${program} ${PROJECT_SOURCE_DIR}/examples/${program}.c)
    target_link_libraries(bench_${program} PRIVATE gyre gyre_flags)
    target_compile_options(bench_${program} PRIVATE -U_GNU_SOURCE) # they say so themselves
endforeach()
