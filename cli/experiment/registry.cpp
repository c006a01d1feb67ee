#include "cli/experiment/experiment.hpp"

namespace tandem::cli {

const std::vector<Experiment>& experiments() {
  static const std::vector<Experiment> table{
      {"tpi-table1", "TPI-LLM, Table 1: first token, latency and memory on 8 devices",
       "experiment_table.py", tpi_table1},
      {"tpi-table2", "TPI-LLM, Tables 2 and 6: peak memory against the number of devices",
       "experiment_table.py", tpi_table2},
  };
  return table;
}

}  // namespace tandem::cli
