include(${CMAKE_SOURCE_DIR}/tests/standin/standin.cmake)
gyre_test_standin(cuda_ranks_test)
if(TEST cuda_ranks_test) # some thirty trainings
    set_tests_properties(cuda_ranks_test PROPERTIES TIMEOUT 600)
endif()
