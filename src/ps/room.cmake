gyre_proto(ps ps)

# The example, built as a user would: the public headers and libgyre alone.
if(GYRE_TESTS)
    find_package(Threads REQUIRED)
    add_executable(example_clicks ${CMAKE_SOURCE_DIR}/examples/clicks.c)
    target_link_libraries(example_clicks PRIVATE gyre m Threads::Threads)
    target_include_directories(example_clicks PRIVATE ${CMAKE_SOURCE_DIR}/include)
    if(NOT GYRE_SANITIZE STREQUAL "") # the runtime must be there before the library
        target_compile_options(example_clicks PRIVATE -fsanitize=${GYRE_SANITIZE})
        target_link_options(example_clicks PRIVATE -fsanitize=${GYRE_SANITIZE})
    endif()
    add_test(NAME ps_clicks COMMAND sh ${CMAKE_SOURCE_DIR}/src/ps/clicks_test.sh
        $<TARGET_FILE:example_clicks> ${CMAKE_BINARY_DIR}/gyre
        ${CMAKE_SOURCE_DIR}/../shared/data/tabular/w6a.libsvm)
    set_tests_properties(ps_clicks PROPERTIES LABELS ps TIMEOUT 120 SKIP_RETURN_CODE 77)
endif()
