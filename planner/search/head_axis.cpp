#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/partition/exact/largest_remainder.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/partition/galaxy_partition.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/search/axes.hpp"
#include "planner/search/request_checks.hpp"
#include "planner/search/share_candidates.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

using model::Range;

// Unit of rows, where there are many times as many: whole cache lines of logits, and products of
// whole groups of rows.
constexpr std::int64_t kHeadUnit = 64;
constexpr std::int64_t kMany = 32;
constexpr int kRetries = 4;  // of rows, where they do not fit as they were first split

// By device: its speed with the logits of a token.
std::vector<double> head_speeds(const Plan& plan) {
  const model::CostModel costs = plan.cost_model();
  const model::Batch token = decode_batch(0);
  model::Task task;
  task.kind = model::TaskKind::lm_head;
  task.block = model::WeightBlock::head;
  task.rows = {0, 1};
  task.columns = {0, static_cast<std::int32_t>(plan.model.vocab)};
  std::vector<double> speeds;
  for (model::DeviceIndex d = 0; d < plan.cluster.size(); ++d) {
    task.device = d;
    const double seconds = costs.compute_time(token, task).value();
    require(seconds > 0.0, "head_speeds: an LM head takes some time");
    speeds.push_back(1.0 / seconds);
  }
  return speeds;
}

bool is_given(const std::string& partition) {
  return partition == "equal" || partition.find(':') != std::string::npos;
}

std::vector<double> weights_of(const Plan& plan) {
  return is_given(plan.partition) ? given_proportions(plan) : head_speeds(plan);
}

std::int64_t unit_of(const Plan& plan) {
  return plan.model.vocab >= kMany * kHeadUnit ? kHeadUnit : 1;
}

// Who samples computes some.
void give_master(std::vector<std::int64_t>& units, model::DeviceIndex master) {
  if (units[static_cast<std::size_t>(master)] > 0) return;
  --*std::ranges::max_element(units);
  ++units[static_cast<std::size_t>(master)];
}

// Returns, by device, its memory without the program and, on the master, the embedding.
std::vector<double> rooms(const Plan& plan) {
  std::vector<double> bytes;
  for (std::size_t d = 0; d < plan.profiles.size(); ++d) {
    const bool master = d == static_cast<std::size_t>(plan.master);
    const auto embedding = static_cast<double>(plan.model.embedding_bytes());
    bytes.push_back(std::max(1.0, plan.cluster.devices()[d].memory.value() -
                                      plan.profiles[d].program_bytes - (master ? embedding : 0.0)));
  }
  return bytes;
}

std::vector<std::int64_t> units_by(std::span<const double> weights, const Plan& plan,
                                   std::int64_t unit) {
  std::vector<std::int64_t> units = proportional_shares(weights, plan.model.vocab / unit);
  give_master(units, plan.master);
  return units;
}

std::vector<std::int64_t> units_by_speed(const Plan& plan, std::int64_t unit) {
  return units_by(weights_of(plan), plan, unit);
}

double lacks(const Plan& plan, std::size_t d) {
  return plan.devices[d].memory.total() - plan.cluster.devices()[d].memory.value();
}

bool fits_all(const Plan& plan) {
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    if (lacks(plan, d) > 0.0) return false;
  }
  return true;
}

// Returns `plan` with so many units of rows on each device; the last device with any gets the rest.
// If that leaves a device no more blocks than its window holds, all its weights stay in memory. If
// these or the messages do not fit, a window that `may_narrow` gets fewer blocks.
Plan with_units(Plan plan, const std::vector<std::int64_t>& units, std::int64_t unit,
                bool may_narrow) {
  const auto vocab = static_cast<std::int32_t>(plan.model.vocab);
  std::vector<Window> given;
  std::size_t last = 0;
  for (std::size_t d = 0; d < units.size(); ++d) last = units[d] > 0 ? d : last;
  std::int32_t next = 0;
  for (std::size_t d = 0; d < units.size(); ++d) {
    DevicePlan& device = plan.devices[d];
    const std::int32_t end = d == last ? vocab : next + static_cast<std::int32_t>(units[d] * unit);
    device.share.vocabulary = units[d] > 0 ? Range{next, end} : Range{};
    device.share.head = units[d] > 0;
    given.push_back(device.window);
    device.window = normalized(plan.model, device.share, device.window);
    next = units[d] > 0 ? end : next;
  }
  plan = with_predicted_memory(std::move(plan));
  bool narrower = false;
  for (std::size_t d = 0; d < units.size(); ++d) {
    DevicePlan& device = plan.devices[d];
    if (!may_narrow || !given[d].streams() || lacks(plan, d) <= 0.0) continue;
    const bool streams = device.window.streams();
    Window window = given[d];
    const auto bytes = [&] {
      const bool pages = plan.profiles[d].program_bytes > 0.0;
      return weight_bytes(plan.model, device.share, window) +
             (pages ? page_padding(plan.model, device.share, window) : 0.0);
    };
    if (!streams)
      window.blocks =
          static_cast<std::int32_t>(std::ssize(streamed_blocks(plan.model, device.share, window)));
    do {
      --window.blocks;
    } while (window.streams() && lacks(plan, d) > device.memory.weights - bytes());
    if (!window.streams()) continue;
    device.window = window;
    narrower = true;
  }
  return narrower ? with_predicted_memory(std::move(plan)) : plan;
}

// The most units on each device that its memory has room for, as `plan` has `units` of them.
std::vector<std::int64_t> caps_of(const Plan& plan, const std::vector<std::int64_t>& units,
                                  std::int64_t unit) {
  std::vector<std::int64_t> caps;
  for (std::size_t d = 0; d < units.size(); ++d) {
    const model::Share& share = plan.devices[d].share;
    // Streamed rows, or those of the embedding, take no memory.
    const bool free =
        plan.devices[d].window.streams() || (share.embedding && plan.model.tied_embeddings);
    // The master has room for all logits in any case, unless candidates are sent.
    const bool has_logits = share.embedding && plan.candidates == 0;
    const double bytes =
        static_cast<double>(unit * (plan.model.head_row_bytes() +
                                    (has_logits ? 0 : 4 * extents_of(plan.reserved()).sequences)));
    const double room = std::floor(-lacks(plan, d) / bytes);
    caps.push_back(free ? std::numeric_limits<std::int32_t>::max()
                        : std::max<std::int64_t>(0, units[d] + static_cast<std::int64_t>(
                                                                   std::clamp(room, -1e9, 1e9))));
  }
  return caps;
}

Answer split_head(Plan plan, std::int32_t candidates, bool may_narrow) {
  plan.candidates = candidates;
  const std::int64_t unit = unit_of(plan);
  const std::int64_t total = plan.model.vocab / unit;
  std::vector<std::int64_t> units = units_by_speed(plan, unit);
  Plan made = with_units(plan, units, unit, may_narrow);
  // The memory of messages also depends on the split of rows.
  for (int deal = 0; deal < kRetries && !fits_all(made); ++deal) {
    units = shares_within(units, caps_of(made, units, unit), weights_of(plan), total);
    give_master(units, plan.master);
    if (units[static_cast<std::size_t>(plan.master)] == total) {
      return Infeasible{
          "no device beside the master has room for rows of the LM head\nremedy: '--head master', "
          "or more memory"};
    }
    made = with_units(plan, units, unit, may_narrow);
  }
  for (std::size_t d = 0; d < units.size(); ++d) {
    if (lacks(made, d) <= 0.0) continue;
    return Infeasible{"device '" + made.cluster.devices()[d].name + "': lacks " +
                      to_text(model::Bytes{lacks(made, d)}) + " with its rows of the LM head, " +
                      std::to_string(made.devices[d].share.vocabulary.size()) + " of " +
                      std::to_string(plan.model.vocab) +
                      "\nremedy: '--head master', more devices or memory, or a window"};
  }
  made.validate();
  return made;
}

// Returns whether windows are chosen rather than requested.
bool may_narrow(const Request& request) { return !request.window.blocks.has_value(); }

// Returns the plan of `request` with the LM head split, and heads and columns split to leave memory
// for its rows: those of the model without a vocabulary, on devices without the memory of their
// rows and, on the master, of the embedding. (Its time does not matter: the head begins when all
// have ended.) Nothing if weights stream: a window's contents depend on the head's tiles.
std::optional<Found> plan_beside_head(const Draft& draft, const Alternatives& axis,
                                      std::int32_t candidates) {
  const Request& request = draft.request;
  Draft without = draft;  // a vocabulary
  Request& bare = without.request;
  bare.model.vocab = bare.cluster.size();
  if (const auto limit = std::exchange(bare.memory_limit, std::nullopt)) {
    bare.cluster = model::with_devices(bare.cluster, [&](model::Device& device) {
      device.memory = std::min(device.memory, *limit);
    });
  }
  const model::Cluster cluster = bare.cluster;
  const auto planned = [&]() -> std::optional<Found> {
    Found found = axis.plan(without);
    if (found.plan() == nullptr || found.plan()->streams()) return std::nullopt;
    return found;
  };
  const auto split = [&](Found found) -> std::optional<Found> {
    Plan plan = std::get<Plan>(std::move(found.answer));
    plan.model = request.model;
    plan.cluster = cluster;
    found.answer = split_head(std::move(plan), candidates, may_narrow(request));
    if (found.plan() == nullptr) return std::nullopt;
    return found;
  };
  std::optional<Found> found = planned();
  if (!found) return std::nullopt;
  const Plan first = *found->plan();
  Plan whole = first;
  whole.model = request.model;
  whole.candidates = candidates;
  const std::int64_t unit = unit_of(whole);
  // If rows by speed leave no memory for heads and columns, by memory.
  for (const std::vector<double>& weights : {weights_of(whole), rooms(whole)}) {
    const Plan parted =
        with_units(whole, units_by(weights, whole, unit), unit, may_narrow(request));
    bool fits = true;
    bare.cluster = model::with_devices(cluster, [&](model::Device& device) {
      const auto d = static_cast<std::size_t>(cluster.find(device.name));
      const double all = parted.devices[d].memory.total();
      const double vocabulary = all - first.devices[d].memory.total();
      fits = fits && all <= device.memory.value();
      device.memory = model::Bytes{std::max(1.0, device.memory.value() - vocabulary)};
    });
    if (fits) break;
    if (std::optional<Found> second = planned()) {
      if (auto made = split(*std::move(second))) return made;
    }
  }
  return split(*std::move(found));
}

bool head_open(const Draft& draft) {
  return draft.request.head != HeadPlacement::master || draft.request.candidates > 0;
}

void walk_head(const Draft& draft, Alternatives& all) {
  Draft next = draft;
  const HeadPlacement wanted = std::exchange(next.request.head, HeadPlacement::master);
  const std::int32_t candidates = std::exchange(next.request.candidates, 0);
  const Request& request = next.request;
  Found found = all.plan(next);
  const auto as_found = [&] { return found; };
  if (wanted == HeadPlacement::master || !head_obstacle(request).empty()) {
    all.offer("master", as_found);
    return;
  }
  all.compare_by(
      [&](const Plan& plan) { return predicted_time(plan, request.objective, request.evaluate); });
  const Plan* const whole = found.plan();
  const bool split = wanted == HeadPlacement::split;
  if (!split || whole == nullptr) all.offer("master", as_found);
  const auto offer_split = [&](std::int32_t sent) {
    if (all.ended()) return;
    const std::string label =
        sent == 0 ? "split" : "split, " + std::to_string(sent) + " candidates";
    if (whole != nullptr) {
      all.offer(label, [&] {
        return Found{.answer = split_head(*whole, sent, may_narrow(request)),
                     .decisions = found.decisions};
      });
      if (is_given(whole->partition)) return;  // the shares are what they are
    }
    if (auto beside = plan_beside_head(next, all, sent))
      all.offer(label + ", shares beside it", [&] { return *std::move(beside); });
  };
  if (!split || candidates == 0) offer_split(0);
  if (candidates > 0) offer_split(candidates);
}

}  // namespace

const Axis& head_axis() {
  static constexpr Axis axis{.name = "LM head", .applies = head_open, .walk = walk_head};
  return axis;
}

}  // namespace tandem::planner
