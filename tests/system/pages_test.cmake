# The examples that it runs are made in words_test.cmake.
gyre_test_defines(system_pages_test GYRE_SOURCE="${CMAKE_SOURCE_DIR}")
gyre_test_depends(system_pages_test popular popular_jobs)
set_property(TEST system_pages_test APPEND PROPERTY ENVIRONMENT
    "GYRE_TEST_POPULAR=$<TARGET_FILE:popular>" "GYRE_TEST_POPULAR_JOBS=$<TARGET_FILE:popular_jobs>")
