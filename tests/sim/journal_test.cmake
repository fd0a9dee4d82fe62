# The journal again, with bugs that can be switched on: its objects stand before the room's.
file(GLOB journal_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cluster/journal/*.c)
list(FILTER journal_sources EXCLUDE REGEX "_test\\.c$")
target_sources(sim_journal_test PRIVATE ${journal_sources})
target_compile_definitions(sim_journal_test PRIVATE GYRE_PLANTED=1)
