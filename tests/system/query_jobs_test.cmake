gyre_test_defines(system_query_jobs_test GYRE_SOURCE="${CMAKE_SOURCE_DIR}")
