# The loops are worth full optimisation in every build. Nobody looks at the flags of floating-point
# exceptions: without them min and max take a sum under a mask instead of a jump or a second compare.
set_source_files_properties(
    ${CMAKE_SOURCE_DIR}/src/coll/kernels/fold.c ${CMAKE_SOURCE_DIR}/src/coll/kernels/stream.c
    PROPERTIES COMPILE_OPTIONS "-O3")
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/coll/kernels/combine.c
    PROPERTIES COMPILE_OPTIONS "-O3;-fno-trapping-math")

# The example of work that survives its ranks, built as a user would.
if(GYRE_TESTS)
    gyre_example(survive)
    add_test(NAME coll_example COMMAND ${CMAKE_BINARY_DIR}/gyre run -n 3 --on-failure=restart
        $<TARGET_FILE:example_survive>)
    set_tests_properties(coll_example PROPERTIES LABELS coll TIMEOUT 120
        PASS_REGULAR_EXPRESSION "^[0-9.e+]+\n$")
endif()
