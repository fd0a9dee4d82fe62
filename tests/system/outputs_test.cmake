# The real server is installed by npm when it is not there (scripts/s3rver says why it cannot be).
set_property(TEST system_outputs_test APPEND PROPERTY ENVIRONMENT
    "GYRE_TEST_SERVERS=${CMAKE_SOURCE_DIR}/tests/servers"
    "GYRE_TEST_S3RVER=${CMAKE_SOURCE_DIR}/build/s3rver/node_modules/s3rver/bin/s3rver.js")
set_tests_properties(system_outputs_test PROPERTIES LABELS "system;store;flow" FIXTURES_REQUIRED s3rver
    TIMEOUT 300)
