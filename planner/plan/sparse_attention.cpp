#include "planner/plan/sparse_attention.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "model/base/error.hpp"
#include "model/base/text_table.hpp"
#include "planner/collective/proximity.hpp"

namespace tandem::planner {
namespace {

constexpr const char* kSparseRemedy = "; make the plan again with `tandem plan`";
constexpr double kWhole = 1e-9;

[[noreturn]] void refuse(const std::string& what, const std::string& expected) {
  throw Error("plan: sparse attention: " + what + ": expected " + expected + kSparseRemedy);
}

void check_groups(const std::vector<std::int32_t>& groups, std::size_t places) {
  if (groups.size() != places)
    refuse(std::to_string(groups.size()) + " groups",
           "one for each of the " + std::to_string(places) + " devices");
  std::int32_t largest = groups.front();
  for (std::size_t i = 1; i < groups.size(); ++i) {
    if (groups[i] == groups[i - 1]) continue;
    if (groups[i] <= largest)
      refuse("group " + std::to_string(groups[i]) + " after group " + std::to_string(largest),
             "groups of adjacent devices, in ascending order");
    largest = groups[i];
  }
}

// Checks the ratios of one layer, which `of` names, by level.
void check_ratios(const std::vector<DropRatio>& by_level, const std::string& of,
                  std::int64_t kv_heads) {
  for (std::size_t level = 0; level < by_level.size(); ++level) {
    const std::vector<double>& parts = by_level[level].parts;
    if (parts.size() != 1 && static_cast<std::int64_t>(parts.size()) != kv_heads)
      refuse(
          of + std::to_string(parts.size()) + " drop ratios of level " + std::to_string(level + 2),
          "one number, or one for each of the " + std::to_string(kv_heads) + " key/value heads");
    const bool by_head = parts.size() != 1 || (level > 0 && by_level[level - 1].parts.size() != 1);
    for (std::int32_t head = 0; head < static_cast<std::int32_t>(kv_heads); ++head) {
      const double part = by_level[level].of(head);
      const double before = level == 0 ? 0.0 : by_level[level - 1].of(head);
      const std::string whose =
          of + (by_head ? "key/value head " + std::to_string(head) + " " : "");
      if (!(0.0 <= part && part < 1.0))
        refuse(whose + "drops " + model::fixed(part, 4), "0 or more, and less than 1");
      if (part < before)
        refuse(whose + "drops " + model::fixed(part, 4) + " after " + model::fixed(before, 4),
               "ratios that do not fall with the level");
    }
  }
}

// Groups in the order of their first devices, at each level. `nested`: groups by device, of each
// level.
std::vector<model::DeviceIndex> with_groups_adjacent(
    std::vector<model::DeviceIndex> order, const std::vector<std::vector<std::int32_t>>& nested) {
  std::vector<std::vector<std::size_t>> met;  // where a device's group is first met
  for (const std::vector<std::int32_t>& groups : nested) {
    std::vector<std::size_t> first(order.size(), order.size());  // by group
    const auto of = [&](std::size_t device) -> std::size_t& {
      return first[static_cast<std::size_t>(groups[device])];
    };
    for (std::size_t i = order.size(); i-- > 0;) of(static_cast<std::size_t>(order[i])) = i;
    std::vector<std::size_t>& by_device = met.emplace_back();
    for (std::size_t d = 0; d < groups.size(); ++d) by_device.push_back(of(d));
  }
  std::ranges::stable_sort(order, [&](model::DeviceIndex a, model::DeviceIndex b) {
    for (std::size_t level = met.size(); level-- > 0;) {
      const std::size_t of_a = met[level][static_cast<std::size_t>(a)];
      const std::size_t of_b = met[level][static_cast<std::size_t>(b)];
      if (of_a != of_b) return of_a < of_b;
    }
    return false;
  });
  return order;
}

// Groups by place, numbers from 0 in that order.
std::vector<std::vector<std::int32_t>> numbered(
    const std::vector<model::DeviceIndex>& order,
    const std::vector<std::vector<std::int32_t>>& nested) {
  std::vector<std::vector<std::int32_t>> all;
  for (const std::vector<std::int32_t>& by_device : nested) {
    std::vector<std::int32_t>& groups = all.emplace_back();
    std::int32_t number = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto at = [&](std::size_t place) {
        return by_device[static_cast<std::size_t>(order[place])];
      };
      if (i > 0 && at(i) != at(i - 1)) ++number;
      groups.push_back(number);
    }
  }
  return all;
}

}  // namespace

bool DropRatio::drops() const {
  return std::ranges::any_of(parts, [](double part) { return part > 0.0; });
}

std::vector<DropRatio> for_all_heads(const std::vector<double>& by_level) {
  std::vector<DropRatio> ratios;
  ratios.reserve(by_level.size());
  for (const double part : by_level) ratios.push_back({.parts = {part}});
  return ratios;
}

model::Range SparseAttention::group(std::int32_t level, std::size_t place) const {
  const auto all = static_cast<std::int32_t>(order.size());
  const auto own = static_cast<std::int32_t>(place);
  require(level >= 1 && level <= levels() && own < all, "sparse attention: a level and a place");
  if (level == 1) return {own, own + 1};
  if (level == levels()) return {0, all};
  const std::vector<std::int32_t>& at = groups[static_cast<std::size_t>(level - 2)];
  const auto [first, last] = std::equal_range(at.begin(), at.end(), at[place]);
  return {static_cast<std::int32_t>(first - at.begin()),
          static_cast<std::int32_t>(last - at.begin())};
}

double SparseAttention::dropped(std::int32_t layer, std::int32_t level,
                                std::int32_t kv_head) const {
  if (level == 1) return 0.0;
  return drop.at(static_cast<std::size_t>(layer))
      .at(static_cast<std::size_t>(level - 2))
      .of(kv_head);
}

std::int32_t SparseAttention::tiles_of(std::int32_t layer, std::int32_t level) const {
  if (tiles.empty()) return 1;
  return tiles.at(static_cast<std::size_t>(layer)).at(static_cast<std::size_t>(level - 2));
}

bool SparseAttention::tiled(std::int32_t layer) const {
  for (std::int32_t level = 2; level <= levels(); ++level) {
    if (tiles_of(layer, level) > 1) return true;
  }
  return false;
}

void SparseAttention::set_tiles(const std::vector<std::int32_t>& by_level) {
  tiles.clear();
  if (std::ranges::all_of(by_level, [](std::int32_t count) { return count == 1; })) return;
  const auto beyond_first = static_cast<std::size_t>(levels()) - 1;
  tiles.assign(drop.size(), by_level.size() == 1
                                ? std::vector<std::int32_t>(beyond_first, by_level.front())
                                : by_level);
}

std::vector<model::Range> SparseAttention::head_runs(std::int32_t layer, std::int32_t level,
                                                     std::int64_t kv_heads) const {
  const auto all = static_cast<std::int32_t>(kv_heads);
  std::vector<model::Range> runs;
  for (std::int32_t begin = 0, end = 0; begin < all; begin = end) {
    const double part = dropped(layer, level, begin);
    while (end < all && dropped(layer, level, end) == part) ++end;
    runs.push_back({begin, end});
  }
  return runs;
}

bool SparseAttention::drops(std::int32_t layer) const {
  if (layer < 0 || static_cast<std::size_t>(layer) >= drop.size()) return false;
  return std::ranges::any_of(drop[static_cast<std::size_t>(layer)], &DropRatio::drops);
}

bool SparseAttention::drops() const {
  for (std::size_t layer = 0; layer < drop.size(); ++layer) {
    if (drops(static_cast<std::int32_t>(layer))) return true;
  }
  return false;
}

SparseAttention SparseAttention::in_order(std::vector<model::DeviceIndex> devices) const {
  std::vector<std::vector<std::int32_t>> nested;  // by device
  for (const std::vector<std::int32_t>& by_place : groups) {
    std::vector<std::int32_t>& by_device = nested.emplace_back(order.size());
    for (std::size_t place = 0; place < order.size(); ++place)
      by_device[static_cast<std::size_t>(order[place])] = by_place[place];
  }
  SparseAttention moved = *this;
  moved.order = with_groups_adjacent(std::move(devices), nested);
  moved.groups = numbered(moved.order, nested);
  return moved;
}

void SparseAttention::validate(const std::vector<model::Device>& devices, model::DeviceIndex master,
                               std::span<const model::DeviceIndex> ranks,
                               const model::Transformer& model) const {
  if (devices.size() < 2) refuse("levels of one device", "several devices");
  std::vector<bool> seen(devices.size());
  for (const model::DeviceIndex device : order) {
    const auto d = static_cast<std::size_t>(device);
    require(device >= 0 && d < devices.size(), "sparse attention: a device of the cluster");
    if (seen[d]) refuse("device '" + devices[d].name + "' twice", "every device once");
    seen[d] = true;
  }
  if (order.size() != devices.size())
    refuse(std::to_string(order.size()) + " devices", "all " + std::to_string(devices.size()));
  const auto name = [&](model::DeviceIndex device) {
    return "'" + devices[static_cast<std::size_t>(device)].name + "'";
  };
  for (std::size_t place = 0; place < ranks.size(); ++place) {
    if (order[place] != ranks[place])
      refuse("device " + name(order[place]) + " at place " + std::to_string(place),
             "device " + name(ranks[place]) + ", as the layout has it, whose ranks places are");
  }
  if (ranks.empty() && order.back() != master)
    refuse("device " + name(order.back()) + " last", "the master, " + name(master));
  if (levels() > kMostLevels)
    refuse(std::to_string(levels()) + " levels", "at most " + std::to_string(kMostLevels));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    check_groups(groups[i], order.size());
    for (std::size_t place = 1; i > 0 && place < order.size(); ++place) {
      if (groups[i - 1][place] == groups[i - 1][place - 1] &&
          groups[i][place] != groups[i][place - 1])
        refuse("level " + std::to_string(i + 2) + " parts a group of the level before",
               "each within one of the next");
    }
  }
  if (static_cast<std::int64_t>(drop.size()) != model.layers)
    refuse("drop ratios of " + std::to_string(drop.size()) + " layers",
           "those of " + std::to_string(model.layers));
  for (std::size_t layer = 0; layer < drop.size(); ++layer) {
    const std::string of = "layer " + std::to_string(layer) + ": ";
    if (static_cast<std::int32_t>(drop[layer].size()) != levels() - 1)
      refuse(of + std::to_string(drop[layer].size()) + " drop ratios",
             std::to_string(levels() - 1) + ", of levels 2 to " + std::to_string(levels()));
    check_ratios(drop[layer], of, model.kv_heads);
    if ((layer < 2 || layer + 1 == drop.size()) && drops(static_cast<std::int32_t>(layer)))
      refuse(of + "drops rows",
             "0 in the first two layers and the last, of which nothing is dropped");
  }
}

std::int32_t kept_rows(double drop, std::int32_t rows) {
  const double kept = std::ceil((1.0 - drop) * static_cast<double>(rows) - kWhole);
  return std::clamp(static_cast<std::int32_t>(kept), std::min(1, rows), rows);
}

SparseAttention sparse_attention(const SparseRequest& request, const model::Cluster& cluster,
                                 model::DeviceIndex master, std::int64_t layers) {
  if (cluster.size() < 2)
    throw Error("levels " + std::to_string(request.levels) +
                ": of one device, expected several; leave out '--levels' and '--drop'");
  if (request.levels < 2 || request.levels > kMostLevels)
    throw Error("levels " + std::to_string(request.levels) + ": expected 2 to " +
                std::to_string(kMostLevels) + "; leave them out for none");
  if (!(0.0 <= request.drop && request.drop < 1.0))
    throw Error("drop " + model::fixed(request.drop, 4) +
                ": expected 0 or more, and less than 1, the part of rows that level 2 drops");
  if (request.tiles.size() > 1 &&
      request.tiles.size() != static_cast<std::size_t>(request.levels - 1))
    throw Error("tiles of " + std::to_string(request.tiles.size()) + " levels: expected " +
                std::to_string(request.levels - 1) + ", of levels 2 to " +
                std::to_string(request.levels) + ", or one number for all");
  const auto nested = nested_groups(cluster, master, static_cast<std::size_t>(request.levels - 2));
  if (static_cast<std::int32_t>(nested.size()) + 2 < request.levels)
    throw Error("levels " + std::to_string(request.levels) + ": the network tells " +
                std::to_string(nested.size() + 2) +
                " apart by its latencies, expected no more; give '--levels " +
                std::to_string(nested.size() + 2) + "'");
  SparseAttention sparse{.order = proximity(cluster, master).order, .overlap = request.overlap};
  sparse.order = with_groups_adjacent(std::move(sparse.order), nested);
  std::ranges::reverse(sparse.order);
  sparse.groups = numbered(sparse.order, nested);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    std::vector<double> by_level;
    const bool keeps = layer < 2 || layer + 1 == layers;
    for (std::int32_t n = 0; n + 2 <= request.levels; ++n)
      by_level.push_back(keeps || request.drop == 0.0
                             ? 0.0
                             : 1.0 - (1.0 - request.drop) / std::exp2(static_cast<double>(n)));
    sparse.drop.push_back(for_all_heads(by_level));
  }
  sparse.set_tiles(request.tiles);
  return sparse;
}

}  // namespace tandem::planner
