include(${CMAKE_SOURCE_DIR}/tests/standin/standin.cmake)
gyre_test_standin(cuda_trained_test)
# As those of random trainings: several hundred kernels.
set_tests_properties(cuda_trained_test PROPERTIES TIMEOUT 300)
