# The example of batch norm, built as a user would: the public headers and libgyre alone.
if(GYRE_TESTS)
    add_executable(example_batch_norm ${CMAKE_SOURCE_DIR}/examples/batch_norm.c)
    target_link_libraries(example_batch_norm PRIVATE gyre m)
    target_include_directories(example_batch_norm PRIVATE ${CMAKE_SOURCE_DIR}/include)
    if(NOT GYRE_SANITIZE STREQUAL "") # the runtime must be there before the library
        target_compile_options(example_batch_norm PRIVATE -fsanitize=${GYRE_SANITIZE})
        target_link_options(example_batch_norm PRIVATE -fsanitize=${GYRE_SANITIZE})
    endif()
    add_test(NAME train_example COMMAND sh ${CMAKE_SOURCE_DIR}/src/train/example_test.sh
        $<TARGET_FILE:example_batch_norm> ${CMAKE_BINARY_DIR}/gyre)
    set_tests_properties(train_example PROPERTIES LABELS train TIMEOUT 120)
endif()
