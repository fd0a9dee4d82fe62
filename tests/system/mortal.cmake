# What makes a manager die at an exact call; preloaded into a command.
include_guard(GLOBAL)
add_library(mortal MODULE ${CMAKE_SOURCE_DIR}/tests/system/mortal.c)
target_compile_definitions(mortal PRIVATE _GNU_SOURCE)
target_compile_options(mortal PRIVATE -Wall -Wextra -Wpedantic -Werror)
set_target_properties(mortal PROPERTIES C_VISIBILITY_PRESET default)
