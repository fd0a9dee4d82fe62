# All machines of a cluster, and of a manager's carrier what it rents.
gyre_planted(sim_whole_test cluster names daemon control manager hosts journal)
target_sources(sim_whole_test PRIVATE ${CMAKE_SOURCE_DIR}/src/cluster/remote/tenant.c
    ${CMAKE_SOURCE_DIR}/src/cluster/remote/rent.c)
