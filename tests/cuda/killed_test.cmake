include(${CMAKE_SOURCE_DIR}/tests/standin/standin.cmake)
gyre_test_standin(cuda_killed_test)
