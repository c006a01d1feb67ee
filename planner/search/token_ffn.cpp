#include "planner/search/token_ffn.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/partition/budget.hpp"
#include "planner/partition/exact/largest_remainder.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/strategy/common/block.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/positions.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;
using model::Range;

double ffn_seconds(const Plan& plan, const model::CostModel& costs, DeviceIndex device) {
  model::TaskGraph graph(decode_batch(static_cast<std::int32_t>(plan.workload.prompt_tokens)));
  DeviceTasks tasks(graph, plan.model, device);
  tasks.ffn(plan.model.usual_layer(), {0, static_cast<std::int32_t>(plan.model.intermediate)}, -1);
  double seconds = 0.0;
  for (const model::Task& task : graph.tasks())
    seconds += costs.compute_time(graph.batch(), task).value();
  require(seconds > 0.0, "ffn_seconds: an FFN takes some time");
  return seconds;
}

// To the device and back.
double message_seconds(const Plan& plan, DeviceIndex owner, DeviceIndex device) {
  if (device == owner) return 0.0;
  const auto bytes = static_cast<double>(model::wire_row_bytes(plan.wire, plan.model.hidden));
  double seconds = 0.0;
  for (const auto& [from, to] : {std::pair(owner, device), std::pair(device, owner)}) {
    const model::Route& route = plan.cluster.route(from, to);
    seconds += route.latency.value() + bytes / route.bandwidth.value();
  }
  return seconds;
}

// max(0, T - M_d) / t_d, which add up to 1.
std::vector<double> parts_by_time(const std::vector<double>& messages,
                                  const std::vector<double>& seconds) {
  std::vector<double> starts = messages;
  std::ranges::sort(starts);
  double end = 0.0;
  // Devices whose message is shorter than T take part; each of them reduces T.
  for (std::size_t count = 1; count <= starts.size(); ++count) {
    const double last = starts[count - 1];
    if (count > 1 && last >= end) break;
    double rate = 0.0;
    double begun = 0.0;  // sum of M / t
    for (std::size_t d = 0; d < messages.size(); ++d) {
      if (messages[d] > last) continue;
      rate += 1.0 / seconds[d];
      begun += messages[d] / seconds[d];
    }
    end = (1.0 + begun) / rate;
  }
  std::vector<double> parts;
  for (std::size_t d = 0; d < messages.size(); ++d)
    parts.push_back(std::max(0.0, end - messages[d]) / seconds[d]);
  return parts;
}

Range columns_of(const DevicePlan& device) { return device.share.part.columns; }

// Returns whether devices other than a token's owner have columns.
bool has_others(const Plan& plan) {
  return std::ranges::count_if(plan.devices, [](const DevicePlan& device) {
           return !device.share.part.columns.empty();
         }) > 1;
}

std::string shortage(const Plan& plan) {
  std::string lines;
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const model::Device& device = plan.cluster.devices()[d];
    const double needs = plan.devices[d].memory.total();
    if (needs <= device.memory.value()) continue;
    lines += "device '" + device.name + "': lacks " +
             model::to_text(model::Bytes{needs - device.memory.value()}) +
             " with the FFN of new tokens shared out\n";
  }
  return lines + "remedy: the FFN at a token's owner (--decode-ffn owner), or more memory";
}

// Of several requests each token's owner computes it alone.
bool tokens_ffn_open(const Draft& draft) {
  const Request& request = draft.request;
  return request.token_ffn == TokenFfn::shared ||
         (request.token_ffn == TokenFfn::automatic && request.capacity.sequences == 0);
}

void walk_tokens_ffn(const Draft& draft, Alternatives& all) {
  Draft next = draft;
  const TokenFfn wanted = std::exchange(next.request.token_ffn, TokenFfn::owner);
  const Request& request = next.request;
  all.compare_by(
      [&](const Plan& plan) { return predicted_time(plan, request.objective, request.evaluate); });
  Found alone = all.plan(next);
  const auto offer_shared = [&](const std::string& label, bool by_messages) {
    all.offer(label, [&]() -> Found {
      Plan shared = with_shared_ffn(*alone.plan(), by_messages);
      if (!fits(shared)) return {.answer = Infeasible{shortage(shared)}};
      if (wanted == TokenFfn::automatic && !has_others(shared))
        return {.answer = Infeasible{"only the owner has columns"}};
      shared.validate();
      return {.answer = std::move(shared), .decisions = alone.decisions};
    });
  };
  if (alone.plan() == nullptr || wanted == TokenFfn::automatic)
    all.offer("owner", [&] { return alone; });
  if (alone.plan() == nullptr) return;
  if (wanted == TokenFfn::automatic) offer_shared("shared by speed and messages", true);
  offer_shared("shared by speed", false);
}

}  // namespace

Plan with_shared_ffn(Plan plan, bool by_messages) {
  const DeviceIndex owner = position_parts(plan).back().device;
  const model::CostModel costs = plan.cost_model();
  std::vector<double> messages;
  std::vector<double> seconds;
  for (DeviceIndex d = 0; d < plan.cluster.size(); ++d) {
    messages.push_back(by_messages ? message_seconds(plan, owner, d) : 0.0);
    seconds.push_back(ffn_seconds(plan, costs, d));
  }
  const std::vector<std::int64_t> columns =
      proportional_shares(parts_by_time(messages, seconds), plan.model.intermediate,
                          column_unit(plan.model), least_column_unit(plan.model));
  std::int32_t next = 0;
  for (std::size_t d = 0; d < columns.size(); ++d) {
    const auto size = static_cast<std::int32_t>(columns[d]);
    plan.devices[d].share.part.columns = size > 0 ? Range{next, next + size} : Range{};
    next += size;
  }
  return with_predicted_memory(std::move(plan));
}

TokenFfn token_ffn_of(const Plan& plan) {
  if (!shares_token_ffn(plan)) return TokenFfn::owner;
  const Plan by_speed = with_shared_ffn(plan, false);
  const bool same = std::ranges::equal(plan.devices, by_speed.devices, {}, columns_of, columns_of);
  return same ? TokenFfn::shared : TokenFfn::automatic;
}

const Axis& token_ffn_axis() {
  static constexpr Axis axis{
      .name = "FFN of new tokens", .applies = tokens_ffn_open, .walk = walk_tokens_ffn};
  return axis;
}

}  // namespace tandem::planner
