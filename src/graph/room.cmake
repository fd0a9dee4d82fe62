# The lecture's example, built as a user would: the public headers and libgyre alone.
if(GYRE_TESTS)
    gyre_example(softmax)
    set(digits ${CMAKE_SOURCE_DIR}/../shared/data/mnist)
    add_test(NAME graph_example COMMAND sh ${CMAKE_SOURCE_DIR}/src/graph/example_test.sh
        $<TARGET_FILE:example_softmax> ${digits})
    set_tests_properties(graph_example PROPERTIES LABELS graph TIMEOUT 120 SKIP_RETURN_CODE 77)
endif()
