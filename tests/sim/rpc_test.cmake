gyre_planted(sim_rpc_test rpc session)
