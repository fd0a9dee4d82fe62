set_property(TEST system_cluster_page_test APPEND PROPERTY ENVIRONMENT
    "GYRE_TEST_SERVERS=${CMAKE_SOURCE_DIR}/tests/servers")
set_tests_properties(system_cluster_page_test PROPERTIES LABELS "system;cluster")
