#include "cli/views/choice_view.hpp"

#include <algorithm>
#include <cstddef>
#include <ostream>

#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "model/transformer/format_choice.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/stages.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

// What the seconds of a contender are.
std::string contender_text(planner::Objective objective, bool many, double seconds) {
  if (objective == planner::Objective::throughput)
    return model::fixed(1.0 / seconds, 2) + " a second";
  return (many ? "in the mean " : "") + to_text(model::Seconds{seconds});
}

std::string value_name(planner::Objective objective, const study::Contender& of) {
  switch (objective) {
    case planner::Objective::request:
      return "request";
    case planner::Objective::throughput:
      return of.plan.model.architecture().generates() ? "tokens" : "passes";
    case planner::Objective::ttft:
      return "first token";
    case planner::Objective::latency:
      return "new token";
  }
  return "";
}

std::string device_names(const planner::Plan& plan) {
  std::string names;
  for (const model::Device& device : plan.cluster.devices())
    names += (names.empty() ? "" : ", ") + device.name;
  return names;
}

// What a pipeline's stages are, if they are not one for each device.
std::string stages_text(const planner::Plan& plan) {
  if (!planner::sharding_of(plan).splits_layers()) return {};
  std::string text;
  if (planner::has_rounds(plan))
    text += ", in " + std::to_string(planner::round_count(plan)) + " rounds";
  if (planner::has_groups(plan)) text += ", in groups " + planner::group_names(plan);
  return text;
}

// Whether the winner's reason is known: a search that ended early has not tried what it names.
bool explains(const study::Choice& choice) {
  return choice.contenders.size() > 1 && choice.to_the_end;
}

}  // namespace

std::string compared_text(const study::Choice& choice, double seconds) {
  const double first = choice.contenders.front().seconds;
  const bool rate = choice.objective == planner::Objective::throughput;
  const double percent =
      std::max(0.0, rate ? 1.0 - first / seconds : seconds / first - 1.0) * 100.0;
  return model::fixed(percent, percent < 10.0 ? 1 : 0) + (rate ? "% less" : "% longer");
}

void print_choice(const study::Choice& choice, std::ostream& out) {
  const study::Contender& first = choice.contenders.front();
  const bool many = first.policy != nullptr;
  const auto value = [&](const study::Contender& one) {
    return contender_text(choice.objective, many, one.seconds);
  };
  const auto longer = [&](double seconds) { return compared_text(choice, seconds); };
  out << "\nstrategy " << first.plan.strategy << " on " << device_names(first.plan);
  out << stages_text(first.plan);
  if (first.plan.cluster.size() > 1)
    out << ", master "
        << first.plan.cluster.devices()[static_cast<std::size_t>(first.plan.master)].name;
  out << ", weights in " << model::format_name(first.plan.model);
  if (many) out << ", served with --policy " << first.policy->name;
  if (first.chunk > 0) out << " --chunk " << first.chunk;
  out << ": predicted " << value_name(choice.objective, first) << ' ' << value(first);
  for (std::size_t i = 1; i < choice.contenders.size(); ++i) {
    const study::Contender& other = choice.contenders[i];
    out << (i == 1 ? "; next " : ", ") << other.plan.strategy << ' ' << value(other) << " ("
        << longer(other.seconds) << ')';
  }
  if (!choice.to_the_end && choice.contenders.size() > 1)
    out << "; not all were searched to the end";
  out << '\n';
  if (explains(choice)) out << why_first(choice) << '\n';
  for (std::size_t i = 0; i < choice.left_out.size(); ++i) {
    const study::LeftOut& one = choice.left_out[i];
    out << (i == 0 ? "without " : ", ") << one.device << " (with it "
        << (one.seconds ? longer(*one.seconds) : "there is no plan") << ')'
        << (i + 1 == choice.left_out.size() ? "\n" : "");
  }
  for (const auto& [strategy, reason] : choice.without)
    out << "not " << strategy << ": " << reason << '\n';
}

Json choice_json(const study::Choice& choice) {
  Json json{{"objective", to_string(choice.objective)},
            {"contenders", Json::array()},
            {"left_out", Json::array()},
            {"without", Json::array()},
            {"reason", explains(choice) ? Json(why_first(choice)) : Json()},
            {"lower_bound_s", choice.least_s > 0.0 ? Json(choice.least_s) : Json()},
            {"evaluations", choice.evaluations},
            {"to_the_end", choice.to_the_end}};
  const auto put = [&](Json& of, std::optional<double> seconds) {
    const Json value = seconds ? Json(*seconds) : Json();
    switch (choice.objective) {
      case planner::Objective::request:
        of["request_s"] = value;
        break;
      case planner::Objective::throughput:
        of["throughput_per_s"] = seconds ? Json(1.0 / *seconds) : Json();
        break;
      case planner::Objective::ttft:
        of["ttft_s"] = value;
        break;
      case planner::Objective::latency:
        of["token_latency_s"] = value;
        break;
    }
  };
  for (const study::Contender& one : choice.contenders) {
    Json contender{{"strategy", one.plan.strategy}};
    put(contender, one.seconds);
    contender["devices"] = Json::array();
    for (const model::Device& device : one.plan.cluster.devices())
      contender["devices"].push_back(device.name);
    contender["master"] =
        one.plan.cluster.devices()[static_cast<std::size_t>(one.plan.master)].name;
    const bool stages = planner::sharding_of(one.plan).splits_layers();
    contender["rounds"] = stages ? Json(planner::round_count(one.plan)) : Json();
    const bool grouped = stages && planner::has_groups(one.plan);
    contender["groups"] = grouped ? Json(planner::group_names(one.plan)) : Json();
    contender["dtype"] = model::format_name(one.plan.model);
    contender["policy"] = one.policy != nullptr ? Json(one.policy->name) : Json();
    contender["chunk"] = one.chunk > 0 ? Json(one.chunk) : Json();
    json["contenders"].push_back(std::move(contender));
  }
  for (const study::LeftOut& one : choice.left_out) {
    Json device{{"device", one.device}};
    put(device, one.seconds);
    json["left_out"].push_back(std::move(device));
  }
  for (const auto& [strategy, reason] : choice.without)
    json["without"].push_back({{"strategy", strategy}, {"reason", reason}});
  return json;
}

}  // namespace tandem::cli
