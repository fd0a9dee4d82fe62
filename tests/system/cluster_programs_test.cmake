# The programs that it submits.
foreach(program bad_records flow_faults)
    add_dependencies(system_cluster_programs_test system_${program}_test)
    string(TOUPPER ${program} variable)
    set_property(TEST system_cluster_programs_test APPEND PROPERTY ENVIRONMENT
        "GYRE_TEST_${variable}=$<TARGET_FILE:system_${program}_test>")
endforeach()
