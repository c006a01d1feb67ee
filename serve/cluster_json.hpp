#pragma once

// What is served and by which devices, as JSON.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "planner/plan/plan.hpp"

namespace tandem::serve {

struct ClusterFacts {
  std::string model{};        // its name in the API
  bool chats = false;         // whether it has a chat template
  bool embeds = false;        // whether it is an encoder
  std::string policy{};       // planner::Policy::name
  std::int64_t together = 1;  // most requests that share steps
  std::string devices{};      // "this machine", "emulated" or "real"
  double dilation = 1.0;      // emulated time passes so many times more slowly
  // Why the planner cannot be asked; empty: it can, for weights in `formats`.
  std::string no_planner{};
  std::vector<std::string> formats{};
};

// Returns the devices of `plan` as in cluster_json.
[[nodiscard]] nlohmann::ordered_json devices_json(const planner::Plan& plan);

// Returns the part of /v1/cluster that does not change while the server runs:
//   model, chats, embeds, strategy, policy, together, platform, devices_are, dilation
//   devices  [{name, is_master, layers: [[first, last], ...], heads, columns, vocabulary: [begin,
//            end) or null where it holds all or none, embedding, head, weights_share, streams,
//            memory_bytes: {weights, kv_cache, activations, buffers, program, total},
//            budget_bytes}], in the plan's order; weights_share is of the bytes of all devices
//   routers  [name]
//   links    [{name, bandwidth_bytes_per_s, latency_s, shared}]
//   edges    [{from, to, links: [name]}]
//   planner  {available, reason, formats, prompt_tokens, new_tokens}: the latter of the plan's
//   request
[[nodiscard]] nlohmann::ordered_json cluster_json(const planner::Plan& plan,
                                                  const ClusterFacts& facts);

}  // namespace tandem::serve
