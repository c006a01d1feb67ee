#pragma once

// Plans with sparse attention that are really executed, and what they are held against.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exec/profiling/synthetic_shard.hpp"
#include "planner/search/search.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/device_runs.hpp"
#include "tests/support/serial_executor.hpp"
#include "tests/support/sparse_reference.hpp"

namespace tandem::testing {

inline constexpr std::int32_t kSparseTokens = 4;

// Devices of two routers, which are far from one another; the first half is the master's.
inline model::Cluster two_rooms(int devices) {
  std::vector<model::Device> all = star_of(devices).devices();
  std::vector<model::Link> links;
  std::vector<model::Edge> edges;
  const auto link = [&](const std::string& from, const std::string& to, double seconds) {
    links.push_back({from + "-" + to, model::Seconds{seconds}, model::BytesPerSecond{1e8},
                     model::Sharing::shared});
    edges.push_back({from,
                     to,
                     {{static_cast<model::LinkIndex>(links.size() - 1), model::Direction::none}},
                     true});
  };
  for (int i = 0; i < devices; ++i)
    link(all[static_cast<std::size_t>(i)].name, 2 * i < devices ? "near" : "far", 1e-4);
  link("near", "far", 5e-3);
  return {"rooms", all, {"near", "far"}, links, edges};
}

inline model::Transformer five_layers() {
  model::Transformer t = eight_heads();
  t.layers = 5;
  return t;
}

// Of one device, `local`.
inline planner::Plan sparse_plan(const std::string& strategy, const model::Transformer& geometry,
                                 int devices, std::int64_t prompt,
                                 std::optional<planner::SparseRequest> sparse,
                                 const std::string& partition = "equal",
                                 model::WireFormat wire = model::WireFormat::f32,
                                 planner::DecodeMoves moves = planner::DecodeMoves::queries) {
  const planner::Request request{.model = geometry,
                                 .cluster = two_rooms(devices),
                                 .strategy = devices == 1 ? "local" : strategy,
                                 .partition = devices == 1 ? "auto" : partition,
                                 .tiles = std::nullopt,
                                 .decode_moves = moves,
                                 .workload = {prompt, kSparseTokens},
                                 .wire = wire,
                                 .sparse = sparse};
  return std::get<planner::Plan>(make_plan(request));
}

inline std::vector<std::int32_t> prompt_of(std::int64_t size) {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < size; ++i) ids.push_back((17 + i * 31 + i * i % 7) % 250);
  return ids;
}

inline std::vector<exec::Shard> shards_of(const planner::Plan& plan) {
  std::vector<exec::Shard> shards;
  for (const planner::DevicePlan& device : plan.devices)
    shards.push_back(exec::synthetic_shard(plan.model, device.share, RandomWeights{.scale = 0.3}));
  return shards;
}

inline Ran executed(const planner::Plan& plan) {
  std::vector<exec::Shard> shards = shards_of(plan);
  return executed(plan, prompt_of(plan.workload.prompt_tokens),
                  [&](std::size_t device) { return std::move(shards[device]); });
}

inline Ran in_order(const planner::Plan& plan) {
  Ran ran{.logits = {}, .tokens = {}, .sent = {}};
  SerialExecutor executor(plan, shards_of(plan));
  ran.tokens = executor.generate(prompt_of(plan.workload.prompt_tokens), kSparseTokens, ran.logits);
  return ran;
}

// How far apart at most, of the largest.
inline double apart(const std::vector<std::vector<float>>& got,
                    const std::vector<std::vector<float>>& wanted) {
  double worst = got.size() == wanted.size() ? 0.0 : 1.0;
  for (std::size_t step = 0; step < std::min(got.size(), wanted.size()); ++step) {
    double largest = 0.0;
    double difference = got[step].size() == wanted[step].size() ? 0.0 : 1.0;
    for (std::size_t i = 0; i < std::min(got[step].size(), wanted[step].size()); ++i) {
      const double d = std::abs(static_cast<double>(got[step][i]) - wanted[step][i]);
      difference = std::isnan(d) ? 1e9 : std::max(difference, d);
      largest = std::max(largest, std::abs(static_cast<double>(wanted[step][i])));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

// Rows of csps by place: by D'Hondt's highest averages, one after another.
inline std::vector<int> rows_by_columns(const planner::Plan& plan) {
  const planner::SparseAttention& sparse = *plan.sparse;
  const std::size_t places = sparse.order.size();
  std::vector<double> weight;
  for (const model::DeviceIndex d : sparse.order)
    weight.push_back(plan.devices[static_cast<std::size_t>(d)].share.part.columns.size());
  std::vector<int> rows(places);
  for (std::int64_t row = 0; row < plan.workload.prompt_tokens; ++row) {
    std::size_t next = 0;
    for (std::size_t i = 1; i < places; ++i) {
      if (weight[i] / (rows[i] + 1) > weight[next] / (rows[next] + 1)) next = i;
    }
    ++rows[next];
  }
  if (std::ranges::find(rows, 0) != rows.end()) {
    std::ranges::fill(rows, 0);
    rows.back() = static_cast<int>(plan.workload.prompt_tokens);
  }
  return rows;
}

// Rows of galaxy: equal parts over the ranks that have both heads and columns.
inline std::vector<int> equal_rows(const planner::Plan& plan) {
  std::vector<int> rows;
  std::vector<std::size_t> owners;
  for (const model::DeviceIndex d : plan.layout.order) {
    const model::Share& share = plan.devices[static_cast<std::size_t>(d)].share;
    if (share.heads.size() > 0 && share.columns.size() > 0) owners.push_back(rows.size());
    rows.push_back(0);
  }
  for (std::int64_t row = 0; row < plan.workload.prompt_tokens; ++row)
    ++rows[owners[static_cast<std::size_t>(row) % owners.size()]];
  return rows;
}

inline SparseRule rule_of(const planner::Plan& plan) {
  const planner::SparseAttention& sparse = *plan.sparse;
  const std::size_t places = sparse.order.size();
  const std::vector<int> rows = plan.strategy == "csps" ? rows_by_columns(plan) : equal_rows(plan);
  SparseRule rule{.place = {}, .group = sparse.groups, .drop = {}};
  // What one device has alone is one level.
  rule.overlap =
      sparse.overlap && std::ranges::count_if(rows, [](int count) { return count > 0; }) > 1;
  for (const std::vector<planner::DropRatio>& by_level : sparse.drop) {
    auto& layer = rule.drop.emplace_back();
    for (const planner::DropRatio& ratio : by_level)
      layer.push_back(ratio.parts.size() > 1
                          ? ratio.parts
                          : std::vector<double>(static_cast<std::size_t>(plan.model.kv_heads),
                                                ratio.parts.front()));
  }
  rule.group.emplace_back(places, 0);
  for (std::size_t i = 0; i < places; ++i)
    rule.place.insert(rule.place.end(), static_cast<std::size_t>(rows[i]), static_cast<int>(i));
  return rule;
}

// The reference's logits of each step, the run's own tokens given.
inline std::vector<std::vector<float>> wanted_logits(const planner::Plan& plan,
                                                     const std::vector<std::int32_t>& tokens) {
  std::vector<std::int32_t> text = prompt_of(plan.workload.prompt_tokens);
  text.insert(text.end(), tokens.begin(), tokens.end() - 1);
  const Matrix all = sparse_logits(plan.model, RandomWeights{.scale = 0.3}, text, rule_of(plan));
  std::vector<std::vector<float>> logits;
  for (std::int64_t row = plan.workload.prompt_tokens - 1; row < all.rows; ++row) {
    std::vector<float>& one = logits.emplace_back();
    for (std::int64_t c = 0; c < all.columns; ++c)
      one.push_back(static_cast<float>(all.at(row, c)));
  }
  return logits;
}

// Runs it: the bits of the serial order, the reference's logits, the predicted bytes.
inline Ran check_runs_as_ruled(const planner::Plan& plan) {
  Ran ran = executed(plan);
  CHECK(ran.logits == in_order(plan).logits);
  CHECK(apart(ran.logits, wanted_logits(plan, ran.tokens)) < 1e-4);
  CHECK(ran.sent == predicted_bytes(plan));
  return ran;
}

// Of a plan whose levels overlap: each key once is another result.
inline void check_counts_more_than_once(const planner::Plan& plan, const Ran& ran) {
  if (!rule_of(plan).overlap) return;
  planner::Plan once = plan;
  once.sparse->overlap = false;
  CHECK(apart(ran.logits, wanted_logits(once, ran.tokens)) > 1e-3);
}

}  // namespace tandem::testing
