# The real server is installed by npm when it is not there (scripts/s3rver says why it cannot be).
set_property(TEST system_s3_test APPEND PROPERTY ENVIRONMENT
    "GYRE_TEST_SERVERS=${CMAKE_SOURCE_DIR}/tests/servers"
    "GYRE_TEST_S3RVER=${CMAKE_SOURCE_DIR}/build/s3rver/node_modules/s3rver/bin/s3rver.js")
add_test(NAME s3rver COMMAND ${CMAKE_SOURCE_DIR}/scripts/s3rver)
set_tests_properties(s3rver PROPERTIES LABELS store TIMEOUT 250 SKIP_RETURN_CODE 77 FIXTURES_SETUP s3rver)
set_tests_properties(system_s3_test PROPERTIES LABELS "system;store" FIXTURES_REQUIRED s3rver)
