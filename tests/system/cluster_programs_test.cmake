# The programs that it submits.
foreach(program bad_records flow_faults)
    string(TOUPPER ${program} variable)
    set_property(TEST system_cluster_programs_test APPEND PROPERTY ENVIRONMENT
        "GYRE_TEST_${variable}=${CMAKE_BINARY_DIR}/system_${program}_test")
endforeach()
