# Compiler flags that every target shares.
add_library(gyre_flags INTERFACE)
target_include_directories(gyre_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_compile_definitions(gyre_flags INTERFACE _GNU_SOURCE GYRE_VERSION="${PROJECT_VERSION}")
target_compile_options(gyre_flags INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wstrict-prototypes;-Wmissing-prototypes;-Wvla;-Wundef;-Wcast-qual;-Wformat=2;-Wswitch-enum;-Werror>
    -fno-strict-aliasing -fno-omit-frame-pointer -fno-semantic-interposition
    -ffp-contract=off)
find_package(Threads REQUIRED)
target_link_libraries(gyre_flags INTERFACE Threads::Threads m dl)

if(GYRE_SANITIZE STREQUAL "address")
    target_compile_options(gyre_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all)
    target_link_options(gyre_flags INTERFACE -fsanitize=address,undefined)
    target_compile_definitions(gyre_flags INTERFACE GYRE_ASAN=1)
elseif(GYRE_SANITIZE STREQUAL "thread")
    target_compile_options(gyre_flags INTERFACE -fsanitize=thread)
    target_link_options(gyre_flags INTERFACE -fsanitize=thread)
    target_compile_definitions(gyre_flags INTERFACE GYRE_TSAN=1)
elseif(NOT GYRE_SANITIZE STREQUAL "")
    message(FATAL_ERROR "GYRE_SANITIZE is '${GYRE_SANITIZE}': expected address, thread or nothing")
endif()

if(GYRE_FUZZ) # what the rooms do guides the fuzzer only when they are instrumented too
    target_compile_options(gyre_flags INTERFACE -fsanitize=fuzzer-no-link)
    target_link_options(gyre_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Tests are a program a folder, and gold links one in little more than half the time. What users get is linked as usual.
set(GYRE_TEST_LINKER "")
if(GYRE_TESTS)
    include(CheckLinkerFlag)
    check_linker_flag(C -fuse-ld=gold GYRE_HAS_GOLD)
    if(GYRE_HAS_GOLD)
        set(GYRE_TEST_LINKER -fuse-ld=gold)
    endif()
endif()

find_program(CCACHE ccache)
if(CCACHE)
    set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
