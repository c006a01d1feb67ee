#include "planner/partition/layer_partition.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "planner/partition/exact/largest_remainder.hpp"

namespace tandem::planner {

model::Share whole_layers(const model::Transformer& t, bool master, model::LayerRuns layers) {
  model::Share share{.layers = std::move(layers), .embedding = master, .head = master};
  if (!share.layers.empty()) {
    share.heads = {0, static_cast<std::int32_t>(t.heads)};
    share.columns = {0, static_cast<std::int32_t>(t.intermediate)};
  }
  return share;
}

std::int64_t most_layers(const Budget& budget, std::size_t device) {
  return most_layers(budget, device, budget.window(device));
}

std::int64_t most_layers(const Budget& budget, std::size_t device, Window window) {
  const Plan& plan = budget.plan();
  const bool master = device == static_cast<std::size_t>(plan.master);
  std::int64_t good = 0;
  for (std::int64_t bad = plan.model.layers + 1; bad - good > 1;) {
    const std::int64_t middle = good + (bad - good) / 2;
    const model::Share share =
        whole_layers(plan.model, master, model::Range{0, static_cast<std::int32_t>(middle)});
    const bool fits = budget.use(device, share, window).total() <= budget.bytes(device);
    (fits ? good : bad) = middle;
  }
  return good;
}

std::vector<model::Share> layer_shares(const model::Transformer& transformer,
                                       std::span<const model::DeviceIndex> order,
                                       model::DeviceIndex master,
                                       std::span<const std::int64_t> counts, std::int32_t rounds) {
  std::vector<std::vector<model::Range>> runs(counts.size());
  std::int32_t next = 0;
  for (std::int32_t round = 0; round < rounds; ++round) {
    for (const model::DeviceIndex device : order) {
      const auto d = static_cast<std::size_t>(device);
      const std::int32_t begin = next;
      // Fewer than one a round are in the last ones, but the master's, which begins every step.
      const std::int64_t up = device == master && counts[d] < rounds ? rounds - 1 : 0;
      next += static_cast<std::int32_t>((counts[d] * (round + 1) + up) / rounds -
                                        (counts[d] * round + up) / rounds);
      runs[d].push_back({begin, next});
    }
  }
  std::vector<model::Share> shares(counts.size());
  for (const model::DeviceIndex device : order) {
    const auto d = static_cast<std::size_t>(device);
    shares[d] = whole_layers(transformer, device == master, model::LayerRuns(runs[d]));
  }
  return shares;
}

std::vector<std::int64_t> balanced_layers(const Budget& budget,
                                          std::span<const double> capacities) {
  std::vector<std::int64_t> caps;
  for (std::size_t d = 0; d < budget.devices(); ++d) caps.push_back(most_layers(budget, d));
  const std::int64_t total = std::min(budget.plan().model.layers,
                                      std::accumulate(caps.begin(), caps.end(), std::int64_t{0}));
  std::vector<double> quotas(caps.size(), 0.0);
  std::vector<bool> full(caps.size(), false);
  for (bool changed = true; changed;) {
    changed = false;
    double rest = static_cast<double>(total);
    double weight = 0.0;
    for (std::size_t d = 0; d < caps.size(); ++d) {
      if (full[d]) {
        rest -= static_cast<double>(caps[d]);
      } else {
        weight += capacities[d];
      }
    }
    for (std::size_t d = 0; d < caps.size(); ++d) {
      if (full[d]) continue;
      quotas[d] = rest * capacities[d] / weight;
      if (quotas[d] <= static_cast<double>(caps[d])) continue;
      quotas[d] = static_cast<double>(caps[d]);
      full[d] = changed = true;
    }
  }
  return largest_remainder(quotas, total, caps);
}

std::optional<std::vector<std::int64_t>> fastest_layers(const Budget& budget,
                                                        std::span<const double> capacities) {
  std::vector<std::size_t> fastest(budget.devices());
  std::iota(fastest.begin(), fastest.end(), std::size_t{0});
  std::stable_sort(fastest.begin(), fastest.end(),
                   [&](std::size_t a, std::size_t b) { return capacities[a] > capacities[b]; });
  std::vector<std::int64_t> layers(budget.devices(), 1);
  std::int64_t missing = budget.plan().model.layers - static_cast<std::int64_t>(layers.size());
  for (const std::size_t d : fastest) {
    const std::int64_t most = most_layers(budget, d);
    if (most < 1) return std::nullopt;
    const std::int64_t more = std::clamp<std::int64_t>(missing, 0, most - 1);
    layers[d] += more;
    missing -= more;
  }
  if (missing != 0) return std::nullopt;
  return layers;
}

}  // namespace tandem::planner
