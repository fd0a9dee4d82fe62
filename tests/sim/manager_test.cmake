gyre_planted(sim_manager_test sched manager hosts)
