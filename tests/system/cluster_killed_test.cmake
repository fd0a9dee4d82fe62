include(${CMAKE_SOURCE_DIR}/tests/system/mortal.cmake)
gyre_test_depends(system_cluster_killed_test mortal)
set_property(TEST system_cluster_killed_test APPEND PROPERTY ENVIRONMENT
    "GYRE_TEST_PRELOAD=$<TARGET_FILE:mortal>")
