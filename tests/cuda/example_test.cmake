include(${CMAKE_SOURCE_DIR}/tests/standin/standin.cmake)
gyre_test_standin(cuda_example_test)
gyre_example(device)
gyre_test_depends(cuda_example_test example_device)
