# The lecture's example, built as a user would: the public headers and libgyre alone.
if(GYRE_TESTS)
    gyre_example(popular)
    add_test(NAME flow_example COMMAND sh ${CMAKE_SOURCE_DIR}/src/flow/example_test.sh
        $<TARGET_FILE:example_popular>)
    set_tests_properties(flow_example PROPERTIES LABELS flow TIMEOUT 120)
endif()

# The example of a job that trains, which tests of clusters submit.
if(GYRE_TESTS)
    gyre_example(learn)
endif()
