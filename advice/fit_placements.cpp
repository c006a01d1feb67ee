#include "advice/fit_placements.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <set>
#include <utility>

#include "planner/collective/proximity.hpp"

namespace tandem::study {
namespace {

using model::DeviceIndex;
using planner::Strategy;

// Of larger subsets, so many of the devices with most memory, and the first, may be master.
constexpr std::size_t kMostMasters = 8;

std::ptrdiff_t position(const std::vector<bool>& used, DeviceIndex d) {
  return std::count(used.begin(), used.begin() + d, true);
}

}  // namespace

Placements::Placements(const planner::Request& request, bool any_strategy,
                       std::vector<double> memory)
    : request_(&request),
      any_strategy_(any_strategy),
      memory_(std::move(memory)),
      named_(request.master.empty() ? std::nullopt
                                    : std::optional(request.cluster.find(request.master))),
      near_(planner::proximity(request.cluster, named_.value_or(0)).order),
      large_(near_) {
  std::ranges::stable_sort(large_, std::ranges::greater{},
                           [&](DeviceIndex d) { return memory_[static_cast<std::size_t>(d)]; });
}

std::vector<Placement> Placements::of_size(std::size_t count) const {
  std::vector<Placement> all;
  std::set<std::vector<double>> seen;
  for (const std::vector<bool>& used : subsets(count)) {
    for (const DeviceIndex master : masters(used)) {
      std::vector<double> key{static_cast<double>(position(used, master))};
      for (std::size_t d = 0; d < used.size(); ++d) {
        if (!used[d]) continue;
        key.push_back(memory_[d]);
        key.push_back(request_->profiles[d].program_bytes);
      }
      if (seen.insert(std::move(key)).second) add(used, master, all);
    }
  }
  return all;
}

std::vector<Placement> Placements::all() const {
  std::vector<Placement> placements;
  if (!any_strategy_) return of_size(devices());
  for (std::size_t count = devices(); count >= 1; --count) {
    std::vector<Placement> some = of_size(count);
    std::ranges::move(some, std::back_inserter(placements));
  }
  return placements;
}

void Placements::add(const std::vector<bool>& used, DeviceIndex master,
                     std::vector<Placement>& all) const {
  if (!any_strategy_) {
    all.push_back({.used = used, .master = master});
    return;
  }
  const bool alone = std::ranges::count(used, true) == 1;
  for (const Strategy& strategy : planner::strategies()) {
    if (strategy.sharding.is_local() != alone) continue;
    all.push_back({.strategy = &strategy, .used = used, .master = master});
    if (strategy.sharding.gather_weights && request_->window.blocks == 0)
      all.push_back(
          {.strategy = &strategy, .gathers_weights = true, .used = used, .master = master});
  }
}

// Of a named strategy that every plan without a named master uses: the first device.
std::vector<DeviceIndex> Placements::masters(const std::vector<bool>& used) const {
  std::vector<DeviceIndex> all;
  const auto is_used = [&](DeviceIndex d) { return used[static_cast<std::size_t>(d)]; };
  if (named_) {
    if (is_used(*named_)) all.push_back(*named_);
    return all;
  }
  const auto first = static_cast<DeviceIndex>(std::ranges::find(used, true) - used.begin());
  all.push_back(first);
  if (!any_strategy_) return all;
  for (const DeviceIndex d : large_) {
    if (is_used(d) && d != first && all.size() < kMostMasters) all.push_back(d);
  }
  return all;
}

// Returns the sets of `count` devices, those near the master first.
std::vector<std::vector<bool>> Placements::subsets(std::size_t count) const {
  std::vector<std::pair<std::size_t, std::vector<bool>>> ranked;
  const std::size_t n = near_.size();
  if (has_all_subsets()) {
    for (std::uint32_t bits = 1; bits < (1U << n); ++bits) {
      if (static_cast<std::size_t>(std::popcount(bits)) != count) continue;
      std::vector<bool> used(n, false);
      std::size_t distance = 0;
      for (std::size_t rank = 0; rank < n; ++rank) {
        if ((bits >> rank & 1U) == 0) continue;
        used[static_cast<std::size_t>(near_[rank])] = true;
        distance += rank;
      }
      ranked.emplace_back(distance, std::move(used));
    }
  } else {
    for (const std::vector<DeviceIndex>* const order : {&near_, &large_}) {
      std::vector<bool> used(n, false);
      if (named_) used[static_cast<std::size_t>(*named_)] = true;
      for (const DeviceIndex d : *order) {
        if (static_cast<std::size_t>(std::ranges::count(used, true)) < count)
          used[static_cast<std::size_t>(d)] = true;
      }
      ranked.emplace_back(ranked.size(), std::move(used));
    }
  }
  std::ranges::stable_sort(ranked, {}, [](const auto& one) { return one.first; });
  std::vector<std::vector<bool>> sets;
  sets.reserve(ranked.size());
  for (auto& [unused, used] : ranked) sets.push_back(std::move(used));
  return sets;
}

}  // namespace tandem::study
