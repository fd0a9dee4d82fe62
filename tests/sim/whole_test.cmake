# All machines of a cluster, and of a manager's carrier what it rents.
gyre_planted(sim_whole_test cluster names daemon control manager hosts journal remote/tenant.c remote/rent.c)
