# The example that it runs, built as a user would.
add_executable(popular ${CMAKE_SOURCE_DIR}/examples/popular.c)
target_link_libraries(popular PRIVATE gyre_flags gyre)
target_compile_options(popular PRIVATE -U_GNU_SOURCE) # the program defines it
gyre_test_depends(system_words_test popular)
set_property(TEST system_words_test APPEND PROPERTY ENVIRONMENT
    "GYRE_TEST_POPULAR=$<TARGET_FILE:popular>")
