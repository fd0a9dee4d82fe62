gyre_test_defines(system_query_tpch_test GYRE_SOURCE="${CMAKE_SOURCE_DIR}")
