# Name server and daemon again, with bugs that can be switched on: their objects stand before the
# room's.
file(GLOB control_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cluster/names/*.c
    ${CMAKE_SOURCE_DIR}/src/cluster/daemon/*.c ${CMAKE_SOURCE_DIR}/src/cluster/control/*.c)
list(FILTER control_sources EXCLUDE REGEX "_test\\.c$")
target_sources(sim_cluster_test PRIVATE ${control_sources})
target_compile_definitions(sim_cluster_test PRIVATE GYRE_PLANTED=1)
