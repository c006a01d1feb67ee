#include "planner/search/equal_devices.hpp"

#include <cstddef>
#include <numeric>

#include "model/cluster/cluster_edit.hpp"

namespace tandem::planner {
namespace {

constexpr model::DeviceIndex kMostCompared = 64;
// Edges of compared networks, over all comparisons: half a second of one core. All pairs of a mesh
// of kMostCompared equal devices need 127,000.
constexpr std::size_t kMostVisited = 150'000;

bool are_alike(const model::Device& a, model::Device b) {
  b.name = a.name;
  return a == b;
}

}  // namespace

std::vector<model::DeviceIndex> first_equals(const model::Cluster& cluster,
                                             const std::vector<model::DeviceProfile>& profiles) {
  std::vector<model::DeviceIndex> first;
  if (cluster.size() > kMostCompared) {
    first.resize(cluster.devices().size());
    std::iota(first.begin(), first.end(), model::DeviceIndex{0});
    return first;
  }
  const model::Cluster original = model::anonymous(cluster);
  std::size_t visited = 0;
  for (model::DeviceIndex b = 0; b < cluster.size(); ++b) {
    const auto at = static_cast<std::size_t>(b);
    first.push_back(b);
    for (model::DeviceIndex a = 0; a < b; ++a) {
      const auto other = static_cast<std::size_t>(a);
      if (first[other] != a || (!profiles.empty() && profiles[other] != profiles[at]) ||
          !are_alike(cluster.devices()[other], cluster.devices()[at]))
        continue;
      visited += cluster.edges().size();
      if (visited > kMostVisited) break;
      if (model::anonymous(model::with_exchanged(cluster, a, b)) != original) continue;
      first.back() = a;
      break;
    }
  }
  return first;
}

}  // namespace tandem::planner
