#include "cli/plan_report.hpp"

#include <algorithm>
#include <ostream>
#include <utility>

#include "cli/views/answer_view.hpp"
#include "cli/views/bound_view.hpp"
#include "cli/views/choice_view.hpp"
#include "cli/views/free_view.hpp"
#include "cli/views/loss_view.hpp"
#include "cli/views/model_view.hpp"
#include "cli/views/plan_view.hpp"
#include "cli/views/predicted_view.hpp"
#include "cli/views/ring_view.hpp"
#include "cli/views/ways_view.hpp"
#include "planner/bounds/bound.hpp"
#include "planner/search/streaming_cost.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/stage_ring.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

// Whether requests go round the stages of the plan.
bool goes_round(const Found& found) {
  return found.served && found.served->policy->alone() &&
         planner::sharding_of(found.plan()).splits_layers();
}

// Of new tokens, which an encoder has none of.
std::optional<model::Ring> ring_of(const Found& found) {
  if (!goes_round(found) || !found.plan().model.architecture().generates()) return std::nullopt;
  return planner::typical_ring(found.plan());
}

// Of the one request that the plan is for, or of its first token; many share steps, which no bound
// knows of, nor is there one of new tokens alone.
std::optional<planner::RequestBound> bound_of(const Found& found) {
  if (found.served || found.objective == planner::Objective::latency) return std::nullopt;
  planner::Plan plan = found.plan();
  if (found.objective == planner::Objective::ttft)
    plan.workload.new_tokens = std::min<std::int64_t>(1, plan.workload.new_tokens);
  return planner::request_bound(plan);
}

FreeWords words_of(const Found& found) {
  return {.objective = found.objective,
          .many = found.served && !found.served->is_one(),
          .command = "this command",
          .given = found.given};
}

// The request of strategy, devices and sums that were found, for streaming_cost().
planner::Request as_found(planner::Request request, const Found& found) {
  const planner::Plan& plan = found.plan();
  if (found.choice) {
    request.strategy = plan.strategy;
    request.model = plan.model;
    request.cluster = plan.cluster;
    request.profiles = plan.profiles;
    request.master = plan.cluster.devices()[static_cast<std::size_t>(plan.master)].name;
  }
  request.open_axes = {};
  request.allreduce.reset();
  if (!plan.allreduce.prompt.empty())
    request.allreduce = plan.allreduce.prompt + "," + plan.allreduce.decode;
  if (found.of_two) request.strategy = plan.strategy;
  request.decode_moves = plan.decode_moves;
  request.gather_weights = plan.gather_weights;
  return request;
}

// What the prediction has of the devices, as `tandem simulate` prints it.
std::vector<model::MemoryUse> peaks_of(const Found& found) {
  std::vector<model::MemoryUse> peaks;
  peaks.reserve(found.predicted.devices.size());
  for (const model::DeviceMetrics& device : found.predicted.devices)
    peaks.push_back(device.peak_memory);
  return peaks.empty() ? reserved_memory(found.plan()) : peaks;
}

}  // namespace

nlohmann::ordered_json summary_of(const Found& found, const planner::Request& request,
                                  const Shown& show) {
  const planner::Plan& plan = found.plan();
  const std::optional<model::Ring> ring = ring_of(found);
  const std::optional<planner::RequestBound> bound = bound_of(found);
  const std::optional<Served>& served = found.served;
  Json summary = summary_json(plan, peaks_of(found), show.file.value_or(""));
  if (plan.model.experts || plan.model.latent)
    add_experts(plan.model, plan.workload.prompt_tokens, summary);
  summary["choice"] = found.choice ? choice_json(*found.choice) : Json();
  if (found.fitted) summary["fit"] = found.fitted->json;
  if (found.cap) summary["caps"] = cap_json(*found.cap);
  if (found.few) summary["fewest"] = fewest_json(*found.few, request.cluster);
  if (found.of_two) summary["sp"] = sp_json(*found.of_two);
  if (found.of_moves) summary["decode_moves"] = moves_json(*found.of_moves);
  if (found.drop) summary["sparse"] = drop_json(*found.drop, *found.bounded, found.loss->model);
  if (found.types) summary["loss"] = loss_json(*found.types);
  summary["recurrent"] = ring ? ring_json(plan, *ring) : Json();
  summary["requests"] = served ? served->requests.size() : 1;
  summary["policy"] = served ? Json(served->policy->name) : Json();
  summary["chunk"] = served && served->chunk > 0 ? Json(served->chunk) : Json();
  summary["bound"] = goes_round(found) ? rate_bound_json(plan)
                     : bound           ? bound_json(*bound, found.objective)
                                       : Json();
  if (show.file) {
    summary["predicted"] = predicted_json(found.predicted);
    summary["free_changes"] = found.free ? free_json(*found.free, words_of(found)) : Json();
  }
  summary["equation5"] = bound ? equation5_json(*bound) : Json();
  return summary;
}

void print_tables(const Found& found, const planner::Request& request, const Shown& show,
                  const std::string& shortened, std::ostream& out) {
  const planner::Plan& plan = found.plan();
  const std::optional<Served>& served = found.served;
  const model::Result& predicted = found.predicted;
  if (found.fitted) out << found.fitted->text << scarcest_memory(plan) << "\n\n";
  print_answer({.plan = plan,
                .served = served,
                .predicted = predicted,
                .choice = found.choice,
                .objective = found.objective,
                .platform_devices = found.platform_devices,
                .shortened = shortened,
                .print_free =
                    [&](std::ostream& to) {
                      if (found.free) print_free(*found.free, words_of(found), to);
                    }},
               out);
  if (found.cap) out << cap_text(*found.cap) << '\n';
  print_plan(plan, peaks_of(found), show.file.value_or(""), out);
  if (found.choice) print_choice(*found.choice, out);
  print_predicted(predicted, out);
  if (found.few) out << '\n' << fewest_text(*found.few, request.cluster);
  if (found.of_two) out << '\n' << describe(*found.of_two, found.objective);
  if (found.of_moves) out << '\n' << describe(*found.of_moves, found.objective);
  if (found.drop) print_drop(*found.drop, *found.bounded, found.loss->model, out);
  if (found.types) print_loss(*found.types, out);
  if (const auto ring = ring_of(found)) print_ring(plan, *ring, out);
  if (goes_round(found)) print_rate_bound(plan, out);
  if (const auto bound = bound_of(found)) print_bound(*bound, found.objective, out);
  if (served && served->best_chunk) {
    const std::string rows = std::to_string(served->chunk);
    out << "\nby prediction, prompts are best read "
        << (served->chunk > 0 ? "in chunks (--chunk " + rows + ")" : "whole (--chunk whole)")
        << '\n';
  }
  const std::string cost = planner::streaming_cost(as_found(request, found), plan);
  if (!cost.empty()) out << '\n' << cost;
  if (served && !served->is_one()) out << "\nthe plan is for " << to_text(*served) << '\n';
}

}  // namespace tandem::cli
