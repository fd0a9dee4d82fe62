# The kernels of expressions run at full speed in every build but those of sanitizers.
if(GYRE_SANITIZE STREQUAL "")
    set_source_files_properties(${CMAKE_SOURCE_DIR}/src/query/expr/arith.c
        ${CMAKE_SOURCE_DIR}/src/query/expr/compare.c
        ${CMAKE_SOURCE_DIR}/src/query/expr/work.c PROPERTIES COMPILE_OPTIONS "-O3")
endif()
