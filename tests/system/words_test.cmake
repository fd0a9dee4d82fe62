# The examples that it runs, built as a user would.
foreach(program popular popular_jobs)
    add_executable(${program} ${CMAKE_SOURCE_DIR}/examples/${program}.c)
    target_link_libraries(${program} PRIVATE gyre_flags gyre)
    target_compile_options(${program} PRIVATE -U_GNU_SOURCE) # the program defines it
endforeach()
gyre_test_depends(system_words_test popular popular_jobs)
set_property(TEST system_words_test APPEND PROPERTY ENVIRONMENT
    "GYRE_TEST_POPULAR=$<TARGET_FILE:popular>" "GYRE_TEST_POPULAR_JOBS=$<TARGET_FILE:popular_jobs>")
