#pragma once

// Clusters and costs at random, and how spans are compared, for the tests of sim/.

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/sim/sim_fixture.hpp"

namespace tandem::sim::testing {

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  int in(int first, int last) { return std::uniform_int_distribution<int>(first, last)(random_); }
  double real(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  // Spread evenly over the orders of magnitude.
  double scale(double low, double high) { return std::exp(real(std::log(low), std::log(high))); }

 private:
  std::mt19937 random_;
};

// A link, or two in a row, of its own for each pair: nothing contends, as a channel sends one
// message at a time and the two directions are apart.
inline model::Cluster random_cluster(Dice& dice, int devices) {
  std::vector<model::Device> list;
  list.reserve(static_cast<std::size_t>(devices));
  std::vector<model::Link> links;
  std::vector<model::Edge> edges;
  for (int d = 0; d < devices; ++d) list.push_back(device("d" + std::to_string(d)));
  for (int a = 0; a < devices; ++a) {
    for (int b = a + 1; b < devices; ++b) {
      model::Edge edge{
          list[static_cast<std::size_t>(a)].name, list[static_cast<std::size_t>(b)].name, {}, true};
      for (int hop = dice.in(1, 2); hop > 0; --hop) {
        const bool fat = dice.in(0, 3) == 0;
        edge.hops.push_back({static_cast<model::LinkIndex>(links.size()),
                             fat                  ? model::Direction::none
                             : dice.in(0, 1) == 0 ? model::Direction::up
                                                  : model::Direction::down});
        links.push_back(link(
            "l" + std::to_string(links.size()), dice.in(0, 9) == 0 ? 0.0 : dice.scale(1e-6, 0.05),
            dice.scale(1e4, 1e9), fat ? model::Sharing::fatpipe : model::Sharing::split_duplex));
      }
      edges.push_back(edge);
    }
  }
  return {"random", list, {}, links, edges};
}

inline model::CostModel random_costs(Dice& dice, const model::Cluster& cluster) {
  std::vector<model::DeviceProfile> profiles;
  for (int d = 0; d < cluster.size(); ++d) {
    model::DeviceProfile profile = free_profile();
    for (auto& rate : profile.rate) {
      rate.overhead_s = dice.in(0, 3) == 0 ? 0.0 : dice.scale(1e-7, 1e-2);
      rate.points = {{1.0, dice.scale(1e-11, 1e-8)}, {8.0, dice.scale(1e-11, 1e-8)}};
    }
    const auto any = [&] {
      return model::KindRate{dice.scale(1e-7, 1e-2), {{1.0, dice.scale(1e-11, 1e-8)}}};
    };
    if (dice.in(0, 1) == 0)
      profile.inlined = model::InlineRates{.send = any(), .transfer = any(), .receive = any()};
    profiles.push_back(profile);
  }
  return {small_llama(), profiles};
}

inline bool same(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

inline int differences(const Spans& a, const Spans& b) {
  int count = a.size() == b.size() ? 0 : 1;
  for (const auto& [id, span] : a) {
    const auto other = b.find(id);
    if (other == b.end() || !same(span.start, other->second.start) ||
        !same(span.end, other->second.end) ||
        std::abs(span.stall - other->second.stall) > 1e-9 * span.end ||
        span.bytes != other->second.bytes || span.flops != other->second.flops ||
        span.device != other->second.device || span.peer != other->second.peer ||
        span.kind != other->second.kind || span.lane != other->second.lane ||
        span.layer != other->second.layer) {
      ++count;
    }
  }
  return count;
}

}  // namespace tandem::sim::testing
