# The libraries of the stand-in for a device, in a folder that GYRE_CUDA_LIBRARIES names.
if(NOT TARGET standin_cuda)
    set(standin ${CMAKE_SOURCE_DIR}/tests/standin)
    add_library(standin_cuda SHARED ${standin}/driver.c ${standin}/graph.c ${standin}/memory.c ${standin}/order.c ${standin}/work.c)
    add_library(standin_nvrtc SHARED ${standin}/nvrtc.c)
    add_library(standin_cublasLt SHARED ${standin}/blas.c)
    foreach(name cuda nvrtc cublasLt)
        target_include_directories(standin_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
        target_link_libraries(standin_${name} PRIVATE gyre_flags)
        set_target_properties(standin_${name} PROPERTIES OUTPUT_NAME ${name}
            LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/standin)
    endforeach()
    target_link_libraries(standin_nvrtc PRIVATE standin_cuda)
    target_link_libraries(standin_cublasLt PRIVATE standin_cuda)
    target_compile_definitions(standin_nvrtc PRIVATE GYRE_TEST_CC="${CMAKE_C_COMPILER}"
        GYRE_TEST_FOLDER="${CMAKE_SOURCE_DIR}/tests"
        GYRE_TEST_KERNELS="${CMAKE_BINARY_DIR}/standin/kernels")
    set_target_properties(standin_cuda PROPERTIES SUFFIX .so.1)
    set_target_properties(standin_nvrtc standin_cublasLt PROPERTIES SUFFIX .so.12)
endif()

# A test that finds a device's libraries there.
function(gyre_test_standin name)
    gyre_test_depends(${name} standin_cuda standin_nvrtc standin_cublasLt)
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
        "GYRE_CUDA_LIBRARIES=${CMAKE_BINARY_DIR}/standin" GYRE_CACHE_DIR=none) # texts are what is tested
endfunction()
