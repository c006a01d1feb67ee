#include "study/experiment/experiment.hpp"

namespace tandem::study {

const std::vector<Experiment>& experiments() {
  static const std::vector<Experiment> table{
      {"tpi-table1", "TPI-LLM, Table 1: first token, latency and memory on 8 devices",
       "experiment_table.py", tpi_table1},
      {"tpi-table2", "TPI-LLM, Tables 2 and 6: peak memory against the number of devices",
       "experiment_table.py", tpi_table2},
      {"tpi-table3", "TPI-LLM, Tables 3 and 8: laptops, against swapping and offloading",
       "experiment_table.py", tpi_table3},
      {"tpi-figure1", "TPI-LLM, figure 1: share of communication", "experiment_table.py",
       tpi_figure1},
      {"tpi-figure3", "TPI-LLM, figure 3: all-reduce against the latency of a link",
       "collectives.py", tpi_figure3},
      {"tpi-figure5", "TPI-LLM, figure 5: Llama 2-70B against devices, cores and bandwidth",
       "experiment_table.py", tpi_figure5},
      {"tpi-figure6", "TPI-LLM, figure 6: standalone, model parallelism and TPI-LLM",
       "experiment_table.py", tpi_figure6},
      {"mdi-figure13", "MDI-LLM, figure 13: jitter, and what waiting samples absorb of it",
       "experiment_table.py", mdi_figure13},
      {"mdi-memory", "MDI-LLM, Tables IV, VII and X: memory of every node", "experiment_table.py",
       mdi_memory},
      {"mdi-rates", "MDI-LLM, section 4: tokens a second on one to three boards",
       "experiment_table.py", mdi_rates},
      {"measured-clusters",
       "distributed-llama's users: token times and bytes of one to eight Raspberry Pi",
       "experiment_table.py", measured_clusters},
      {"galaxy-table1", "Galaxy, Table I: one Jetson Nano, latency and memory",
       "experiment_table.py", galaxy_table1},
      {"galaxy-table4", "Galaxy, Table IV: speed-up over Megatron-LM and sequence parallelism",
       "experiment_table.py", galaxy_table4},
      {"galaxy-table5", "Galaxy, Table V: the same on GPUs", "experiment_table.py", galaxy_table5},
      {"galaxy-figure8", "Galaxy, figure 8: speed-up against bandwidth", "experiment_table.py",
       galaxy_figure8},
      {"galaxy-figure9", "Galaxy, figure 9: speed-up on devices that differ", "experiment_table.py",
       galaxy_figure9},
      {"galaxy-scaling", "Galaxy, figures 10 and 11: weak and strong scaling",
       "experiment_table.py", galaxy_scaling},
      {"csps-consistency", "CSPS: its text beside what its own tables and claims imply",
       "experiment_table.py", csps_consistency},
      {"csps-figure2",
       "CSPS, figures 2 and 3: Sarathi-Serve's first token, tokens and throughput by length",
       "experiment_table.py", csps_figure2},
      {"csps-figure5", "CSPS, figure 5: shares of communication and attention in the first token",
       "experiment_table.py", csps_figure5},
      {"csps-figure10", "CSPS, figures 10 and 11: new tokens over spread caches, by length",
       "experiment_table.py", csps_figure10},
      {"csps-figure14",
       "CSPS, figures 14 to 17 and Table 4: against Sarathi-Serve, by data sets' lengths",
       "experiment_table.py", csps_figure14},
      {"collectives", "which all-reduce is fastest, over size, latency, bandwidth and devices",
       "collectives.py", collectives_map},
  };
  return table;
}

}  // namespace tandem::study
