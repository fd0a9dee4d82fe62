# Kernels of tiles: one text, compiled for each instruction set that room ops chooses from at run
# time. Vectors of 64 bytes are split where registers are shorter (hence no ABI warning), and the
# order of operations is the same everywhere.
# With a sanitizer full optimisation takes a seventh of the whole build and shows nothing more.
set(tile_level $<IF:$<STREQUAL:${GYRE_SANITIZE},>,-O3,-O1>)
set(tile_flags ${tile_level} -fno-math-errno -fno-trapping-math -Wno-psabi $<$<C_COMPILER_ID:Clang>:-Wno-pass-failed>)
set(kernels ${CMAKE_SOURCE_DIR}/src/ops/kernels)
set(lanes ${CMAKE_SOURCE_DIR}/src/ops/avx512)
set_source_files_properties(${kernels}/tiles_baseline.c PROPERTIES COMPILE_OPTIONS "${tile_flags}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set_source_files_properties(${kernels}/tiles_avx2.c PROPERTIES
        COMPILE_OPTIONS "${tile_flags};-mavx2;-mfma;-mbmi2")
    set_source_files_properties(${kernels}/tiles_avx512.c PROPERTIES
        COMPILE_OPTIONS "${tile_flags};-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mfma;-mbmi2;-mprefer-vector-width=512")
    set_source_files_properties(${lanes}/winograd.c ${lanes}/narrow.c PROPERTIES
        COMPILE_OPTIONS "${tile_flags};-ffp-contract=fast;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mfma;-mprefer-vector-width=512")
    set_source_files_properties(${lanes}/pairs.c PROPERTIES
        COMPILE_OPTIONS "${tile_flags};-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512bf16;-mfma;-mprefer-vector-width=512")
endif()
