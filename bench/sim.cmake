tandem_bench(sim_replay_bench tandem::sim tandem::planner)
