#include "cli/views/ring_view.hpp"

#include <optional>
#include <ostream>
#include <string>

#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "planner/search/rate_search.hpp"
#include "planner/strategy/common/stages.hpp"
#include "planner/strategy/stage_ring.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string rate_text(double period_s) { return model::fixed(1.0 / period_s, 2); }

double gap_percent(const planner::RateBound& bound) {
  return (bound.planned_s / bound.lower_bound_s - 1.0) * 100.0;
}

}  // namespace

void print_ring(const planner::Plan& plan, const model::Ring& ring, std::ostream& out) {
  const std::int64_t samples = planner::samples_in_flight(plan);
  const std::int64_t least = model::least_samples(ring);
  const model::RingBottleneck most = model::ring_bottleneck(ring);
  if (planner::has_groups(plan)) {
    const model::Ring lanes = planner::typical_lane_ring(plan);
    const model::RingBottleneck busiest = model::ring_bottleneck(lanes);
    out << "\na new token's round takes " << to_text(model::Seconds{model::round_time(ring)})
        << ", of which " << most.name << " " << to_text(model::Seconds{most.seconds}) << ": with "
        << samples << " going round at least " << rate_text(model::token_period(ring, samples))
        << " tokens a second, at most " << rate_text(model::token_period(lanes, samples))
        << "; never more than " << rate_text(busiest.seconds) << ", as " << busiest.name
        << " is busy for " << to_text(model::Seconds{busiest.seconds}) << " of it\n";
    return;
  }
  out << "\na new token's round takes " << to_text(model::Seconds{model::round_time(ring)})
      << ", of which " << most.name << " " << to_text(model::Seconds{most.seconds}) << ": "
      << rate_text(model::token_period(ring, samples)) << " tokens a second with " << samples
      << " going round, at most " << rate_text(most.seconds) << ", with " << least
      << (least > planner::kMostSteps
              ? " (more than the " + std::to_string(planner::kMostSteps) + " that can)"
              : " or more")
      << '\n';
}

void print_rate_bound(const planner::Plan& plan, std::ostream& out) {
  const std::optional<planner::RateBound> bound = planner::rate_bound(plan);
  if (!bound) return;
  out << "a request every " << to_text(model::Seconds{bound->planned_s}) << ", "
      << model::fixed(gap_percent(*bound), 1) << "% more than the lower bound "
      << to_text(model::Seconds{bound->lower_bound_s}) << " of any split of the layers\n";
}

Json rate_bound_json(const planner::Plan& plan) {
  const std::optional<planner::RateBound> bound = planner::rate_bound(plan);
  if (!bound) return {};
  return {{"objective", "throughput"},
          {"planned_s", bound->planned_s},
          {"lower_bound_s", bound->lower_bound_s},
          {"gap_percent", gap_percent(*bound)},
          {"exact_order", bound->exact}};
}

Json ring_json(const planner::Plan& plan, const model::Ring& ring) {
  const std::int64_t samples = planner::samples_in_flight(plan);
  const model::RingBottleneck most = model::ring_bottleneck(ring);
  const bool groups = planner::has_groups(plan);
  const model::Ring lanes = groups ? planner::typical_lane_ring(plan) : ring;
  return {{"samples", samples},
          {"least_samples", model::least_samples(ring)},
          {"round_s", model::round_time(ring)},
          {"bottleneck", most.name},
          {"bottleneck_s", most.seconds},
          {"throughput_tokens_per_s", 1.0 / model::token_period(ring, samples)},
          {"throughput_bound_per_s", 1.0 / model::token_period(lanes, samples)},
          {"most_tokens_per_s", 1.0 / model::ring_bottleneck(lanes).seconds}};
}

}  // namespace tandem::cli
