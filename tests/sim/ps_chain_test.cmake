gyre_planted(sim_ps_chain_test ps part server.c chain)
