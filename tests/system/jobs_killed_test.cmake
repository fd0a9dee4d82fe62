# What makes a manager die at an exact call; preloaded into the command.
add_library(mortal MODULE ${CMAKE_SOURCE_DIR}/tests/system/mortal.c)
target_compile_definitions(mortal PRIVATE _GNU_SOURCE)
target_compile_options(mortal PRIVATE -Wall -Wextra -Wpedantic -Werror)
set_target_properties(mortal PROPERTIES C_VISIBILITY_PRESET default)
add_dependencies(system_jobs_killed_test mortal)
get_test_property(system_jobs_killed_test ENVIRONMENT mortal_environment)
set_tests_properties(system_jobs_killed_test PROPERTIES
    ENVIRONMENT "${mortal_environment};GYRE_TEST_PRELOAD=$<TARGET_FILE:mortal>")
