# The exchange of frames with pyarrow, where a Python has it. A sanitizer has to be in the program, which is Python here.
find_program(GYRE_PYARROW_PYTHON NAMES python3 DOC "a Python with pyarrow, for the test arrow_pyarrow")
foreach(python ${GYRE_PYARROW_PYTHON} ${Python3_EXECUTABLE} /usr/bin/python3)
    execute_process(COMMAND ${python} -c "import pyarrow" RESULT_VARIABLE lacks OUTPUT_QUIET ERROR_QUIET)
    if(NOT lacks AND NOT TEST arrow_pyarrow)
        add_test(NAME arrow_pyarrow COMMAND ${python} ${CMAKE_SOURCE_DIR}/tests/python/arrow_pyarrow_test.py
            $<TARGET_FILE:gyre>)
        set_tests_properties(arrow_pyarrow PROPERTIES LABELS frame TIMEOUT 60)
    endif()
endforeach()
if(NOT TEST arrow_pyarrow)
    add_test(NAME arrow_pyarrow COMMAND ${CMAKE_COMMAND} -E echo
        "skipped: no Python with pyarrow (-DGYRE_PYARROW_PYTHON=PATH names one)")
    set_tests_properties(arrow_pyarrow PROPERTIES LABELS frame SKIP_REGULAR_EXPRESSION "^skipped")
endif()
