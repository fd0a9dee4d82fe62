# The lecture's example, built as a user would: the public headers and libgyre alone.
if(GYRE_TESTS)
    add_executable(example_popular ${CMAKE_SOURCE_DIR}/examples/popular.c)
    target_link_libraries(example_popular PRIVATE gyre)
    target_include_directories(example_popular PRIVATE ${CMAKE_SOURCE_DIR}/include)
    if(NOT GYRE_SANITIZE STREQUAL "") # the runtime must be there before the library
        target_compile_options(example_popular PRIVATE -fsanitize=${GYRE_SANITIZE})
        target_link_options(example_popular PRIVATE -fsanitize=${GYRE_SANITIZE})
    endif()
    add_test(NAME flow_example COMMAND sh ${CMAKE_SOURCE_DIR}/src/flow/example_test.sh
        $<TARGET_FILE:example_popular>)
    set_tests_properties(flow_example PROPERTIES LABELS flow TIMEOUT 120)
endif()

# The example of a job that trains, which tests of clusters submit.
if(GYRE_TESTS)
    add_executable(example_learn ${CMAKE_SOURCE_DIR}/examples/learn.c)
    target_link_libraries(example_learn PRIVATE gyre)
    target_include_directories(example_learn PRIVATE ${CMAKE_SOURCE_DIR}/include)
    if(NOT GYRE_SANITIZE STREQUAL "")
        target_compile_options(example_learn PRIVATE -fsanitize=${GYRE_SANITIZE})
        target_link_options(example_learn PRIVATE -fsanitize=${GYRE_SANITIZE})
    endif()
endif()
