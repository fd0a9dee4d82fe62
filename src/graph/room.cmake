# The lecture's example, built as a user would: the public headers and libgyre alone.
if(GYRE_TESTS)
    add_executable(example_softmax ${CMAKE_SOURCE_DIR}/examples/softmax.c)
    target_link_libraries(example_softmax PRIVATE gyre)
    target_include_directories(example_softmax PRIVATE ${CMAKE_SOURCE_DIR}/include)
    if(NOT GYRE_SANITIZE STREQUAL "") # the runtime must be there before the library
        target_compile_options(example_softmax PRIVATE -fsanitize=${GYRE_SANITIZE})
        target_link_options(example_softmax PRIVATE -fsanitize=${GYRE_SANITIZE})
    endif()
    set(digits ${CMAKE_SOURCE_DIR}/../shared/data/mnist)
    add_test(NAME graph_example COMMAND sh ${CMAKE_SOURCE_DIR}/src/graph/example_test.sh
        $<TARGET_FILE:example_softmax> ${digits})
    set_tests_properties(graph_example PROPERTIES LABELS graph TIMEOUT 120 SKIP_RETURN_CODE 77)
endif()
