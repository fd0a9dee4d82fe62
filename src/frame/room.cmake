# The separators of CSV are found at full speed in every build but those of sanitizers.
if(GYRE_SANITIZE STREQUAL "")
    set_source_files_properties(${CMAKE_SOURCE_DIR}/src/frame/csv/marks.c
        ${CMAKE_SOURCE_DIR}/src/frame/csv/fields.c PROPERTIES COMPILE_OPTIONS "-O3")
endif()

# The example of columns, built as a user would: the public headers and libgyre alone.
if(GYRE_TESTS)
    gyre_example(columns)
    add_test(NAME frame_example COMMAND sh ${CMAKE_SOURCE_DIR}/src/frame/example_test.sh
        $<TARGET_FILE:example_columns>)
    set_tests_properties(frame_example PROPERTIES LABELS frame TIMEOUT 120)
endif()
