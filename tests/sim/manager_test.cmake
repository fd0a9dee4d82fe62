gyre_planted(sim_manager_test sched state hosts manager)
