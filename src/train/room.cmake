if(GYRE_TESTS)
    gyre_example(batch_norm m)
    gyre_example(own_model m)
    add_test(NAME train_example COMMAND sh ${CMAKE_SOURCE_DIR}/src/train/example_test.sh
        $<TARGET_FILE:example_batch_norm> ${CMAKE_BINARY_DIR}/gyre)
    add_test(NAME train_own_model COMMAND sh ${CMAKE_SOURCE_DIR}/src/train/example_test.sh
        $<TARGET_FILE:example_own_model> ${CMAKE_BINARY_DIR}/gyre model=2)
    set_tests_properties(train_example train_own_model PROPERTIES LABELS train TIMEOUT 120)
    if(GYRE_SANITIZE STREQUAL "") # eight ranks of a script take minutes
        add_test(NAME train_five_ways COMMAND sh ${CMAKE_SOURCE_DIR}/src/train/five_ways_test.sh
            ${CMAKE_SOURCE_DIR}/examples/five_ways.sh ${CMAKE_BINARY_DIR})
        set_tests_properties(train_five_ways PROPERTIES LABELS train TIMEOUT 120 SKIP_RETURN_CODE 77)
    endif()
endif()
