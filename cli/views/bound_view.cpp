#include "cli/views/bound_view.hpp"

#include <algorithm>
#include <optional>
#include <ostream>
#include <string>

#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

// How much longer than the bound; nothing of a bound of nothing.
std::optional<double> gap_percent(double planned_s, double bound_s) {
  if (bound_s <= 0.0) return std::nullopt;
  return std::max(0.0, (planned_s / bound_s - 1.0) * 100.0);
}

std::string gap_text(double planned_s, double bound_s) {
  const std::optional<double> gap = gap_percent(planned_s, bound_s);
  return gap ? "within " + model::fixed(*gap, 1) + "%" : "not comparable with the bound";
}

Json json_of(const std::string& objective, double planned_s, double bound_s) {
  const std::optional<double> gap = gap_percent(planned_s, bound_s);
  return {{"objective", objective},
          {"planned_s", planned_s},
          {"lower_bound_s", bound_s},
          {"gap_percent", gap ? Json(*gap) : Json()}};
}

}  // namespace

void print_bound(const planner::RequestBound& bound, planner::Objective objective,
                 std::ostream& out) {
  out << "\nlower bound of the "
      << (objective == planner::Objective::ttft ? "first token" : "request") << ": "
      << to_text(model::Seconds{bound.lower_bound_s})
      << "; no plan of this strategy is predicted below it\n";
  if (!bound.equation5_s || !bound.equation5_bound_s) return;
  out << "the plan's computing alone, by the slowest device of each block (Galaxy's equation 5): "
      << to_text(model::Seconds{*bound.equation5_s}) << ", "
      << gap_text(*bound.equation5_s, *bound.equation5_bound_s) << " of the best\n";
}

Json bound_json(const planner::RequestBound& bound, planner::Objective objective) {
  return json_of(std::string(to_string(objective)), bound.planned_s, bound.lower_bound_s);
}

Json equation5_json(const planner::RequestBound& bound) {
  if (!bound.equation5_s || !bound.equation5_bound_s) return {};
  return json_of("equation 5", *bound.equation5_s, *bound.equation5_bound_s);
}

}  // namespace tandem::cli
