#include "planner/plan/outdated_profiles.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace tandem::planner {

namespace {

// Returns why `profile` is outdated for the kernels `here`; empty if it is not.
std::string fault_of(const model::DeviceProfile& profile,
                     const std::vector<model::MeasuredKernels>& all) {
  if (!profile.measured()) return "";
  if (!profile.kernels) return "measured by a tandem that did not say with which kernels";
  const model::MeasuredKernels& there = *profile.kernels;
  const model::MeasuredKernels& here = all.front();
  if (there.generation != here.generation) {
    return "measured with kernels of generation " + std::to_string(there.generation) + ", " +
           (there.generation < here.generation ? "older" : "newer") + " than this program's " +
           std::to_string(here.generation);
  }
  const bool known = !here.processor.empty() && there.processor == here.processor;
  if (!known) return "";
  std::string names;
  for (const model::MeasuredKernels& kernels : all) {
    if (kernels.instruction_sets == there.instruction_sets) return "";
    names += (names.empty() ? "" : ", or ") + kernels.instruction_sets;
  }
  return "measured with " + there.instruction_sets + ", but on this processor the program uses " +
         names;
}

std::string remark_on(const model::Cluster& cluster,
                      const std::vector<model::DeviceProfile>& profiles,
                      const std::vector<model::MeasuredKernels>& here,
                      std::optional<model::DeviceIndex> only) {
  constexpr std::size_t kNamed = 4;
  std::vector<std::pair<std::string, std::vector<std::string>>> faults;  // of which devices
  for (std::size_t d = 0; d < profiles.size(); ++d) {
    if (only && static_cast<std::size_t>(*only) != d) continue;
    const std::string fault = fault_of(profiles[d], here);
    if (fault.empty()) continue;
    auto found = std::ranges::find(faults, fault, &decltype(faults)::value_type::first);
    if (found == faults.end()) found = faults.insert(found, {fault, {}});
    found->second.push_back(cluster.devices()[d].name);
  }
  std::string text;
  for (const auto& [fault, names] : faults) {
    text += std::string(text.empty() ? "" : "; ") + (names.size() > 1 ? "devices " : "device ");
    for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i)
      text += (i == 0 ? "'" : ", '") + names[i] + "'";
    if (names.size() > kNamed) text += " and " + std::to_string(names.size() - kNamed) + " more";
    text += ": " + fault;
  }
  if (text.empty()) return "";
  return text +
         ": predicted times, and shares that were chosen by them, are of those kernels; measure "
         "again with `tandem profile` and the run's `--kernels`, and plan again";
}

}  // namespace

std::string threads_remark(const Plan& plan, std::span<const int> threads) {
  std::string text;
  for (std::size_t d = 0; d < plan.profiles.size(); ++d) {
    const int measured = plan.profiles[d].threads;
    if (!plan.profiles[d].measured() || threads[d] == 0 || measured == threads[d]) continue;
    const auto count = [](int n) { return std::to_string(n) + (n == 1 ? " thread" : " threads"); };
    text += (text.empty() ? "device '" : "; device '") + plan.cluster.devices()[d].name +
            "' computes with " + count(threads[d]) + ", but its profile " +
            (measured > 0 ? "is of " + count(measured) : "does not tell of how many it is");
  }
  if (text.empty()) return "";
  return text +
         ": predicted times may not be this run's; give `tandem plan` and `tandem run` or `tandem "
         "worker` the same '--threads' (emulated devices but the master have 1), and measure again "
         "where a profile does not tell";
}

std::string outdated_remark(const Plan& plan, const std::vector<model::MeasuredKernels>& here,
                            std::optional<model::DeviceIndex> only) {
  return remark_on(plan.cluster, plan.profiles, here, only);
}

std::string outdated_remark(const model::Cluster& cluster,
                            const std::vector<model::DeviceProfile>& profiles,
                            const std::vector<model::MeasuredKernels>& here) {
  return remark_on(cluster, profiles, here, std::nullopt);
}

}  // namespace tandem::planner
