# Tests: each *_test.c is a CTest test and a process of its own; those of one folder are linked as one program, which has a
# hard link for each of them. The link's name says whose main() runs (tests/program.h), so that `build/dev/plan_check_test`
# is run, and starts itself again, like a program of its own; `scripts/build dev plan_check_test` makes it.

# A test: `label` is its room or folder, `folder` where its source lies. A file NAME_test.cmake beside the source says what
# it needs beyond that, with the functions below.
function(gyre_test name label source)
    get_filename_component(folder ${source} DIRECTORY)
    file(RELATIVE_PATH program ${CMAKE_SOURCE_DIR} ${folder})
    string(REGEX REPLACE "^src/(.*)$" "\\1_tests" program ${program})
    string(REPLACE "/" "_" program ${program})
    if(GYRE_SANITIZE STREQUAL "thread" AND name IN_LIST GYRE_ONE_THREAD) # built by name alone
        set(program ${name}_program)
    endif()
    if(NOT TARGET ${program})
        set(starts ${CMAKE_BINARY_DIR}/starts/${program}.c)
        add_executable(${program} ${starts})
        target_include_directories(${program} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
        target_link_libraries(${program} PRIVATE cmocka)
        target_link_options(${program} PRIVATE ${GYRE_TEST_LINKER})
        set_property(GLOBAL APPEND PROPERTY GYRE_TEST_PROGRAMS ${program})
    endif()
    target_sources(${program} PRIVATE ${source})
    set_property(TARGET ${program} APPEND PROPERTY GYRE_TESTS ${name})
    set_property(GLOBAL PROPERTY GYRE_TEST_PROGRAM_${name} ${program})
    set_property(GLOBAL PROPERTY GYRE_TEST_SOURCE_${name} ${source})
    set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -include ${CMAKE_SOURCE_DIR}/tests/program.h)
    gyre_test_defines(${name} GYRE_TEST_MAIN=gyre_main_${name})
    if(NOT GYRE_SANITIZE STREQUAL "" AND label IN_LIST GYRE_LIGHT_TESTS)
        set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -O0)
    endif()
    if(NOT GYRE_SANITIZE STREQUAL "thread" OR NOT name IN_LIST GYRE_ONE_THREAD)
        add_test(NAME ${name} COMMAND ${CMAKE_BINARY_DIR}/${name})
        set_tests_properties(${name} PROPERTIES LABELS ${label}
            ENVIRONMENT "GYRE_TUNE=none;XDG_STATE_HOME=${CMAKE_BINARY_DIR}/state;GYRE_DATA=${CMAKE_SOURCE_DIR}/../shared/data;GYRE_BIN=${CMAKE_BINARY_DIR}/gyre;GYRE_MAN=${CMAKE_SOURCE_DIR}/docs/gyre.1")
    endif()
    gyre_one_thread(${name})
endfunction()

# examples/NAME.c as a user would build it: the public headers and libgyre (and LIBRARIES) alone.
function(gyre_example name)
    add_executable(example_${name} ${CMAKE_SOURCE_DIR}/examples/${name}.c)
    target_link_libraries(example_${name} PRIVATE gyre ${ARGN})
    target_include_directories(example_${name} PRIVATE ${CMAKE_SOURCE_DIR}/include)
    if(NOT GYRE_SANITIZE STREQUAL "") # the runtime must be there before the library
        target_compile_options(example_${name} PRIVATE -fsanitize=${GYRE_SANITIZE})
        target_link_options(example_${name} PRIVATE -fsanitize=${GYRE_SANITIZE})
    endif()
endfunction()

# What a test needs: libraries that its program links, targets that are there when it runs, definitions of its source.
function(gyre_test_links name)
    get_property(program GLOBAL PROPERTY GYRE_TEST_PROGRAM_${name})
    target_link_libraries(${program} PRIVATE ${ARGN})
endfunction()

function(gyre_test_depends name)
    get_property(program GLOBAL PROPERTY GYRE_TEST_PROGRAM_${name})
    add_dependencies(${program} ${ARGN})
endfunction()

function(gyre_test_defines name)
    get_property(source GLOBAL PROPERTY GYRE_TEST_SOURCE_${name})
    set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS ${ARGN})
endfunction()

function(gyre_test_extras source)
    string(REGEX REPLACE "\\.c$" ".cmake" extras ${source})
    if(EXISTS ${extras})
        include(${extras})
    endif()
endfunction()

# The tests of a room of src.
function(gyre_room_tests room)
    file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${room}/*_test.c
        ${CMAKE_SOURCE_DIR}/src/${room}/*/*_test.c ${CMAKE_SOURCE_DIR}/src/${room}/*/*/*_test.c)
    foreach(source IN LISTS tests)
        get_filename_component(stem ${source} NAME_WE)
        gyre_test(${room}_${stem} ${room} ${source})
        gyre_test_links(${room}_${stem} gy_${room})
        gyre_test_extras(${source})
    endforeach()
endfunction()

# The tests of a folder of tests/, which link all rooms.
function(gyre_test_folder folder)
    file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${folder}/*_test.c)
    foreach(source IN LISTS tests)
        get_filename_component(stem ${source} NAME_WE)
        set(name ${folder}_${stem})
        gyre_test(${name} ${folder} ${source})
        list(TRANSFORM GYRE_ROOMS PREPEND gy_ OUTPUT_VARIABLE rooms)
        gyre_test_links(${name} ${rooms})
        if(TARGET gyre_command)
            gyre_test_depends(${name} gyre_command)
        endif()
        gyre_test_extras(${source})
    endforeach()
endfunction()

# When all tests are known: the table of each program, and its links.
function(gyre_test_programs)
    get_property(programs GLOBAL PROPERTY GYRE_TEST_PROGRAMS)
    set(sources "") # for tools/select_tests.py
    foreach(program IN LISTS programs)
        get_property(names TARGET ${program} PROPERTY GYRE_TESTS)
        set(rows "")
        set(links "")
        foreach(name IN LISTS names)
            string(APPEND rows "GYRE_TEST(${name})\n")
            list(APPEND links ${CMAKE_BINARY_DIR}/${name})
            get_property(source GLOBAL PROPERTY GYRE_TEST_SOURCE_${name})
            file(RELATIVE_PATH source ${CMAKE_SOURCE_DIR} ${source})
            string(APPEND sources "${name} ${source}\n")
        endforeach()
        file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/starts/${program}.inc CONTENT "${rows}")
        file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/starts/${program}.c
            CONTENT "#define GYRE_TESTS_FILE \"${CMAKE_BINARY_DIR}/starts/${program}.inc\"\n#include \"${CMAKE_SOURCE_DIR}/tests/program.c\"\n")
        add_custom_command(OUTPUT ${links} DEPENDS ${program} VERBATIM
            COMMAND sh -c "for link; do ln -f \"$0\" \"$link\" || cp -f \"$0\" \"$link\"; done"
            $<TARGET_FILE:${program}> ${links})
        get_property(is_left_out TARGET ${program} PROPERTY EXCLUDE_FROM_ALL)
        # A target for each program: what is made for a target waits for all that the target needs.
        if(is_left_out)
            add_custom_target(${program}_links DEPENDS ${links})
        else()
            add_custom_target(${program}_links ALL DEPENDS ${links})
        endif()
    endforeach()
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/tests.txt CONTENT "${sources}")
endfunction()

# With a sanitizer what these tests do themselves is compiled faster than it runs: not the oracles
# and worlds of the others.
set(GYRE_LIGHT_TESTS cli cluster control doctor driver graph launch mpi persist rpc sched store system train transport worker)
