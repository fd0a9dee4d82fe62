# Name server and daemon.
gyre_planted(sim_cluster_test control names daemon)
