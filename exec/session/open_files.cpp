#include "exec/session/open_files.hpp"

#include <algorithm>
#include <system_error>
#include <vector>

#include "exec/gguf/gguf_file.hpp"
#include "exec/session/plan_workers.hpp"
#include "exec/weights/source/layout.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

std::size_t weight_files(const std::filesystem::path& weights) {
  if (is_gguf(weights)) return 1;
  std::size_t files = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(weights, ignored)) {
    if (entry.path().extension() == ".safetensors") ++files;
  }
  return files;
}

std::size_t blocks_of(const planner::Plan& plan, std::size_t d) {
  return layout_of(plan.model, plan.devices[d].share).blocks.size();
}

}  // namespace

std::size_t run_files(const planner::Plan& plan, model::DeviceIndex self,
                      const std::filesystem::path& weights) {
  const std::vector<bool> workers = workers_of(plan);
  const auto others = static_cast<std::size_t>(std::count(workers.begin(), workers.end(), true));
  const auto own = static_cast<std::size_t>(self);
  const bool streams = plan.devices[own].window.streams();
  std::size_t files = 4 * others;
  if (streams) files += blocks_of(plan, own);
  if (streams || self != plan.master) files += blocks_of(plan, own);
  if (self != plan.master) return files;
  files += others + weight_files(weights);
  for (std::size_t d = 0; d < workers.size(); ++d) {
    if (workers[d]) files += blocks_of(plan, d);
  }
  return files;
}

void check_open_files(const planner::Plan& plan, const std::filesystem::path& weights,
                      bool one_machine) {
  const std::vector<bool> workers = workers_of(plan);
  std::size_t most = run_files(plan, plan.master, weights);
  for (std::size_t d = 0; one_machine && d < workers.size(); ++d) {
    if (workers[d]) most = std::max(most, run_files(plan, static_cast<model::DeviceIndex>(d)));
  }
  constexpr std::size_t kAlone = 7;  // two events, a ring, files for a moment
  const bool alone = std::ranges::find(workers, true) == workers.end();
  model::require_open_files((alone ? kAlone : kSessionFiles) + most, "a run of this plan");
}

}  // namespace tandem::exec
