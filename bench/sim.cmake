tandem_bench(sim_replay_bench tandem::sim tandem::planner)
tandem_bench(sim_scale_bench tandem::sim tandem::planner)
tandem_bench(planner_serving_bench tandem::sim tandem::planner)
tandem_bench(planner_division_bench tandem::planner)
