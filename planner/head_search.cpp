#include "planner/head_search.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/error.hpp"
#include "model/quantity_text.hpp"
#include "planner/lowering.hpp"
#include "planner/partition/galaxy.hpp"
#include "planner/partition/largest_remainder.hpp"
#include "planner/share_candidates.hpp"
#include "planner/storage.hpp"

namespace tandem::planner {
namespace {

using model::Range;

constexpr double kBetter = 1.0 - 1e-9;  // less is rounding
// Rows are dealt in units of so many, where there are many times as many: whole cache lines of
// logits, and products of whole groups of rows.
constexpr std::int64_t kUnit = 64;
constexpr std::int64_t kMany = 32;

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

std::vector<double> weights_of(const Plan& plan) {
  const bool given = plan.partition == "equal" || plan.partition.find(':') != std::string::npos;
  return given ? given_proportions(plan) : head_speeds(plan);
}

// `plan` with so many units of rows on each device; the last with any has what is left.
Plan with_units(Plan plan, const std::vector<std::int64_t>& units, std::int64_t unit) {
  const auto vocab = static_cast<std::int32_t>(plan.model.vocab);
  std::size_t last = 0;
  for (std::size_t d = 0; d < units.size(); ++d) last = units[d] > 0 ? d : last;
  std::int32_t next = 0;
  for (std::size_t d = 0; d < units.size(); ++d) {
    DevicePlan& device = plan.devices[d];
    const std::int32_t end = d == last ? vocab : next + static_cast<std::int32_t>(units[d] * unit);
    device.share.vocabulary = units[d] > 0 ? Range{next, end} : Range{};
    device.share.head = units[d] > 0;
    device.window = normalized(plan.model, device.share, device.window);
    next = units[d] > 0 ? end : next;
  }
  const std::vector<model::MemoryUse> memory = predicted_memory(plan);
  for (std::size_t d = 0; d < plan.devices.size(); ++d) plan.devices[d].memory = memory[d];
  return plan;
}

double lacks(const Plan& plan, std::size_t d) {
  return plan.devices[d].memory.total() - plan.cluster.devices()[d].memory.value();
}

// The most units on each device that its memory has room for, as `plan` has `units` of them.
std::vector<std::int64_t> caps_of(const Plan& plan, const std::vector<std::int64_t>& units,
                                  std::int64_t unit) {
  std::vector<std::int64_t> caps;
  for (std::size_t d = 0; d < units.size(); ++d) {
    const model::Share& share = plan.devices[d].share;
    // What streams, or is the embedding's, takes no memory.
    const bool free =
        plan.devices[d].window.streams() || (share.embedding && plan.model.tied_embeddings);
    const double bytes = static_cast<double>(
        unit * (plan.model.head_row_bytes() +
                (share.embedding ? 0 : 4 * extents_of(plan.reserved()).sequences)));
    const double room = std::floor(-lacks(plan, d) / bytes);
    caps.push_back(free ? std::numeric_limits<std::int32_t>::max()
                        : std::max<std::int64_t>(0, units[d] + static_cast<std::int64_t>(
                                                                   std::clamp(room, -1e9, 1e9))));
  }
  return caps;
}

std::variant<Plan, Infeasible> split_head(const Plan& plan) {
  const std::int64_t unit = plan.model.vocab >= kMany * kUnit ? kUnit : 1;
  const std::int64_t total = plan.model.vocab / unit;
  const std::vector<double> weights = weights_of(plan);
  std::vector<std::int64_t> units = proportional_shares(weights, total);
  const auto master = static_cast<std::size_t>(plan.master);
  // Who samples computes some.
  const auto give_master = [&] {
    if (units[master] > 0) return;
    --*std::ranges::max_element(units);
    ++units[master];
  };
  give_master();
  Plan made = with_units(plan, units, unit);
  const auto fits = [&] {
    for (std::size_t d = 0; d < units.size(); ++d) {
      if (lacks(made, d) > 0.0) return false;
    }
    return true;
  };
  if (!fits()) {
    units = shares_within(units, caps_of(made, units, unit), weights, total);
    give_master();
    if (units[master] == total) {
      return Infeasible{
          "no device beside the master has room for rows of the LM head\nremedy: '--head master', "
          "or more memory"};
    }
    made = with_units(plan, units, unit);
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

}  // namespace

std::string head_obstacle(const Request& request) {
  const Strategy& strategy = find_strategy(request.strategy);
  if (!strategy.splits_head)
    return "strategy '" + strategy.name + "' keeps the LM head at the master";
  if (request.model.head_rows() == 0) return request.model.name + " is an encoder, which has none";
  if (request.cluster.size() == 1) return "there is one device alone";
  if (request.model.vocab < request.cluster.size())
    return "a vocabulary of " + std::to_string(request.model.vocab) + " for " +
           std::to_string(request.cluster.size()) + " devices";
  if (request.capacity.steps > 1) return "several steps are in flight";
  return {};
}

std::variant<Plan, Infeasible> make_head_plan(Request request) {
  const HeadPlacement wanted = std::exchange(request.head, HeadPlacement::master);
  const std::string no = head_obstacle(request);
  if (!no.empty() && wanted == HeadPlacement::split) {
    throw Error(
        "LM head split: " + no +
        ", expected a decoder on several devices, one step at a time, with strategy tensor, "
        "galaxy, csps or pipeline; plan with '--head master'");
  }
  auto answer = make_plan(request);
  if (wanted == HeadPlacement::master || !no.empty() || std::holds_alternative<Infeasible>(answer))
    return answer;
  const Plan& whole = std::get<Plan>(answer);
  auto parted = split_head(whole);
  if (wanted == HeadPlacement::split) return parted;
  if (std::holds_alternative<Infeasible>(parted)) return answer;
  const auto time = [&](const Plan& plan) {
    return predicted_time(plan, request.objective, request.evaluate);
  };
  return time(std::get<Plan>(parted)) < time(whole) * kBetter ? parted : answer;
}

}  // namespace tandem::planner
