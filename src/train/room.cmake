# The examples, built as a user would: the public headers and libgyre alone.
function(gyre_train_example name)
    add_executable(example_${name} ${CMAKE_SOURCE_DIR}/examples/${name}.c)
    target_link_libraries(example_${name} PRIVATE gyre m)
    target_include_directories(example_${name} PRIVATE ${CMAKE_SOURCE_DIR}/include)
    if(NOT GYRE_SANITIZE STREQUAL "") # the runtime must be there before the library
        target_compile_options(example_${name} PRIVATE -fsanitize=${GYRE_SANITIZE})
        target_link_options(example_${name} PRIVATE -fsanitize=${GYRE_SANITIZE})
    endif()
endfunction()

if(GYRE_TESTS)
    gyre_train_example(batch_norm)
    gyre_train_example(own_model)
    add_test(NAME train_example COMMAND sh ${CMAKE_SOURCE_DIR}/src/train/example_test.sh
        $<TARGET_FILE:example_batch_norm> ${CMAKE_BINARY_DIR}/gyre)
    add_test(NAME train_own_model COMMAND sh ${CMAKE_SOURCE_DIR}/src/train/example_test.sh
        $<TARGET_FILE:example_own_model> ${CMAKE_BINARY_DIR}/gyre model=2)
    set_tests_properties(train_example train_own_model PROPERTIES LABELS train TIMEOUT 120)
endif()
