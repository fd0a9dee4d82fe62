# All machines of a cluster, and of a manager's carrier what it rents.
gyre_planted(sim_whole_test control names daemon)
gyre_planted(sim_whole_test sched state hosts manager)
gyre_planted(sim_whole_test persist journal)
gyre_planted(sim_whole_test driver lease/lease_client.c lease/renting.c)
