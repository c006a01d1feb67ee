#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "model/base/text_table.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/search/axes.hpp"
#include "planner/search/idle_devices.hpp"
#include "planner/search/objective.hpp"
#include "planner/search/share_candidates.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/positions.hpp"

namespace tandem::planner {
namespace {

constexpr std::size_t kMostDevices = 8;  // with more, moves between pairs take long
constexpr double kFirstMoved = 1.0 / 4.0;
constexpr double kLastMoved = 1.0 / 64.0;
constexpr int kMostPasses = 4;  // of each size

bool parts_open(const Draft& draft) {
  const Request& request = draft.request;
  const Sharding& sharding = find_strategy(request.strategy).sharding;
  const auto devices = static_cast<std::size_t>(request.cluster.size());
  return request.open_axes.parts && sharding.replicates() && sharding.has_partition() &&
         request.partition == kAutoPartition && devices > 1 && devices <= kMostDevices;
}

// Returns the part of the prompt's positions, or of the FFN columns, that each device has.
std::vector<double> parts_of(const Plan& plan) {
  const bool by_position = sharding_of(plan).splits_positions();
  std::vector<double> parts;
  double sum = 0.0;
  for (const DevicePlan& device : plan.devices) {
    const model::Part& part = device.share.part;
    parts.push_back(static_cast<double>((by_position ? part.positions : part.columns).size()));
    sum += parts.back();
  }
  for (double& part : parts) part /= std::max(sum, 1.0);
  return parts;
}

// Returns `plan` with these parts, if every device has some and memory suffices.
Answer with_parts(Plan plan, const std::vector<double>& parts) {
  const Strategy& strategy = find_strategy(plan.strategy);
  const bool by_position = strategy.sharding.splits_positions();
  Shares shares = by_position ? shares_by_position(plan, positions_in_proportion(plan, parts))
                              : shares_in_parts(plan, parts);
  if (std::string idle = idle_devices(plan, strategy, shares); !idle.empty())
    return Infeasible{std::move(idle)};
  for (std::size_t d = 0; d < shares.size(); ++d) {
    if (by_position) shares[d].part.columns = plan.devices[d].share.part.columns;
    shares[d].head = plan.devices[d].share.head;
    shares[d].vocabulary = plan.devices[d].share.vocabulary;
    plan.devices[d].share = shares[d];
  }
  plan = with_predicted_memory(std::move(plan));
  if (!fits(plan)) return Infeasible{"it does not fit"};
  return plan;
}

std::string label_of(const std::vector<double>& parts) {
  std::string label;
  for (const double part : parts) label += (label.empty() ? "" : ":") + model::fixed(part, 3);
  return label;
}

void walk_parts(const Draft& draft, Alternatives& all) {
  Draft next = draft;
  next.request.open_axes.parts = false;
  const Request& request = next.request;
  const Found found = all.plan(next);
  const auto seconds_of = [&](const Plan& plan) {
    return predicted_time(plan, request.objective, request.evaluate);
  };
  all.compare_by(seconds_of);
  all.offer("as found", [&] {
    Found same = found;
    return same;
  });
  const Plan* const plan = found.plan();
  if (plan == nullptr || found.chunk > 0 || plan->gather_weights || plan->sparse ||
      (sharding_of(*plan).splits_positions() && !splits_prompt(*plan)))
    return;
  std::vector<double> parts = parts_of(*plan);
  const auto move = [&](std::size_t from, std::size_t to, double moved) {
    if (from == to || parts[from] <= moved) return false;
    std::vector<double> changed = parts;
    changed[from] -= moved;
    changed[to] += moved;
    const bool is_better = all.offer(label_of(changed), [&]() -> Found {
      Answer answer = with_parts(*plan, changed);
      if (!std::holds_alternative<Plan>(answer)) return {.answer = std::move(answer)};
      const double seconds = seconds_of(std::get<Plan>(answer));
      return {.answer = std::move(answer), .decisions = found.decisions, .seconds = seconds};
    });
    if (is_better) parts = std::move(changed);
    return is_better;
  };
  for (double moved = kFirstMoved; moved >= kLastMoved; moved /= 2.0) {
    bool improves = true;
    for (int pass = 0; pass < kMostPasses && improves && !all.ended(); ++pass) {
      improves = false;
      for (std::size_t from = 0; from < parts.size(); ++from) {
        for (std::size_t to = 0; to < parts.size(); ++to) {
          if (move(from, to, moved)) improves = true;
        }
      }
    }
  }
}

}  // namespace

const Axis& parts_axis() {
  static constexpr Axis axis{.name = "parts", .applies = parts_open, .walk = walk_parts};
  return axis;
}

}  // namespace tandem::planner
