# Name server and daemon.
gyre_planted(sim_cluster_test cluster names daemon control)
