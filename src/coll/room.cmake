# The loops are worth full optimisation in every build.
set_source_files_properties(
    ${CMAKE_SOURCE_DIR}/src/coll/kernels/combine.c ${CMAKE_SOURCE_DIR}/src/coll/kernels/fold.c
    ${CMAKE_SOURCE_DIR}/src/coll/kernels/stream.c
    PROPERTIES COMPILE_OPTIONS "-O3")
