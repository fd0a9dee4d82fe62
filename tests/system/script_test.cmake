gyre_test_defines(system_script_test GYRE_SOURCE="${CMAKE_SOURCE_DIR}")
