# bench_words_bound: the bound under word count, for bench/jobs.py.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    add_executable(bench_words_bound ${CMAKE_CURRENT_LIST_DIR}/words_bound.c)
    target_link_libraries(bench_words_bound PRIVATE gyre_flags)
    target_compile_options(bench_words_bound PRIVATE -O3 -march=native)
endif()
