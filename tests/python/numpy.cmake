# The exchange of tensors with numpy, where a Python has it. A sanitizer has to be in the program, which is Python here.
foreach(python ${Python3_EXECUTABLE} /usr/bin/python3)
    execute_process(COMMAND ${python} -c "import numpy; numpy.from_dlpack" RESULT_VARIABLE lacks OUTPUT_QUIET ERROR_QUIET)
    if(NOT lacks AND NOT TEST dlpack_numpy)
        add_test(NAME dlpack_numpy COMMAND ${python} ${CMAKE_SOURCE_DIR}/tests/python/dlpack_numpy_test.py
            $<TARGET_FILE:gyre>)
        set_tests_properties(dlpack_numpy PROPERTIES LABELS tensor TIMEOUT 60)
    endif()
endforeach()
if(NOT TEST dlpack_numpy)
    message(STATUS "no Python with numpy found: the test dlpack_numpy is left out")
endif()
