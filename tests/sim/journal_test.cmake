gyre_planted(sim_journal_test persist journal)
