gyre_planted(sim_manager_test cluster manager hosts)
