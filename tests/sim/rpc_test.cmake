# The sessions again, with bugs that can be switched on: their objects stand before the room's.
file(GLOB session_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/rpc/session/*.c)
list(FILTER session_sources EXCLUDE REGEX "_test\\.c$")
target_sources(sim_rpc_test PRIVATE ${session_sources})
target_compile_definitions(sim_rpc_test PRIVATE GYRE_PLANTED=1)
