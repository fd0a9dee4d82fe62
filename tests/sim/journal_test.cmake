gyre_planted(sim_journal_test cluster journal)
