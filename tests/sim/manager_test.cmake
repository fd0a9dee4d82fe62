# The manager again, with bugs that can be switched on: its objects stand before the room's.
file(GLOB manager_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cluster/manager/*.c
    ${CMAKE_SOURCE_DIR}/src/cluster/hosts/*.c)
list(FILTER manager_sources EXCLUDE REGEX "_test\\.c$")
target_sources(sim_manager_test PRIVATE ${manager_sources})
target_compile_definitions(sim_manager_test PRIVATE GYRE_PLANTED=1)
