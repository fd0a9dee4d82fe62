#All machines of a cluster again, with bugs that can be switched on : their objects stand before
#the room's.
file(GLOB whole_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cluster/names/*.c
    ${CMAKE_SOURCE_DIR}/src/cluster/daemon/*.c ${CMAKE_SOURCE_DIR}/src/cluster/control/*.c
    ${CMAKE_SOURCE_DIR}/src/cluster/manager/*.c ${CMAKE_SOURCE_DIR}/src/cluster/hosts/*.c
    ${CMAKE_SOURCE_DIR}/src/cluster/journal/*.c)
list(FILTER whole_sources EXCLUDE REGEX "_test\\.c$")
target_sources(sim_whole_test PRIVATE ${whole_sources}
    ${CMAKE_SOURCE_DIR}/src/cluster/remote/tenant.c ${CMAKE_SOURCE_DIR}/src/cluster/remote/rent.c)
target_compile_definitions(sim_whole_test PRIVATE GYRE_PLANTED=1)
