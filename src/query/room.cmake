# The kernels of expressions run at full speed in every build but those of sanitizers.
if(GYRE_SANITIZE STREQUAL "")
    set_source_files_properties(${CMAKE_SOURCE_DIR}/src/query/expr/arith.c
        ${CMAKE_SOURCE_DIR}/src/query/expr/compare.c
        ${CMAKE_SOURCE_DIR}/src/query/expr/work.c PROPERTIES COMPILE_OPTIONS "-O3")
endif()

# The example of a program's own functions, built as a user would: the public headers and libgyre alone.
if(GYRE_TESTS)
    gyre_example(functions)
    add_test(NAME query_example COMMAND sh ${CMAKE_SOURCE_DIR}/src/query/example_test.sh
        $<TARGET_FILE:example_functions>)
    set_tests_properties(query_example PROPERTIES LABELS query TIMEOUT 120)
endif()

# The example of rows, built as a user would: the public headers and libgyre alone.
if(GYRE_TESTS)
    gyre_example(rows)
    add_test(NAME query_rows_example COMMAND sh ${CMAKE_SOURCE_DIR}/src/query/api/example_test.sh
        $<TARGET_FILE:example_rows>)
    set_tests_properties(query_rows_example PROPERTIES LABELS query TIMEOUT 120)
endif()
