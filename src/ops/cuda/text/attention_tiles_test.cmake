gyre_test_defines(ops_attention_tiles_test GYRE_TEST_CC="${CMAKE_C_COMPILER}" GYRE_TEST_CXX="${CMAKE_CXX_COMPILER}"
    GYRE_TEST_FOLDER="${CMAKE_SOURCE_DIR}/tests")
