gyre_planted(sim_ps_test ps part server.c)
