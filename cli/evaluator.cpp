#include "cli/evaluator.hpp"

#include <string>

#include "model/error.hpp"

namespace tandem::cli {

void check_analytic(const model::Cluster& cluster) {
  const std::string varies = variation(cluster);
  if (varies.empty()) return;
  throw Error(varies +
              ", expected none with the analytic evaluator, which knows of none; take "
              "'--evaluator simgrid'");
}

}  // namespace tandem::cli
