gyre_test_defines(system_query_random_test GYRE_SOURCE="${CMAKE_SOURCE_DIR}")
