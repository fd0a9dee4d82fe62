include(${CMAKE_SOURCE_DIR}/tests/standin/standin.cmake)
gyre_test_standin(cuda_random_training_test)
# Several hundred kernels go through the C compiler, one process each.
set_tests_properties(cuda_random_training_test PROPERTIES TIMEOUT 300)
