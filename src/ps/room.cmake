gyre_proto(ps ps)

# The example, built as a user would: the public headers and libgyre alone.
if(GYRE_TESTS)
    find_package(Threads REQUIRED)
    gyre_example(clicks m Threads::Threads)
    add_test(NAME ps_clicks COMMAND sh ${CMAKE_SOURCE_DIR}/src/ps/clicks_test.sh
        $<TARGET_FILE:example_clicks> ${CMAKE_BINARY_DIR}/gyre
        ${CMAKE_SOURCE_DIR}/../shared/data/tabular/w6a.libsvm)
    set_tests_properties(ps_clicks PROPERTIES LABELS ps TIMEOUT 120 SKIP_RETURN_CODE 77)
endif()
