#include "cli/views/ways_view.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

Json option_json(const planner::SpOption& option) {
  if (!option.plan) return {{"reason", option.reason}};
  return {{"seconds", option.seconds}, {"prompt_sent_bytes", option.prompt_bytes}};
}

}  // namespace

Json sp_json(const planner::SpChoice& choice) {
  return {{"taken", choice.takes_ntp ? "ntp" : "tp"},
          {"ntp", option_json(choice.ntp)},
          {"tp", option_json(choice.tp)},
          {"gathered_bytes", choice.gathered_bytes},
          {"rule",
           {{"ratio", choice.rule.ratio},
            {"attention_limit", choice.rule.attention_limit},
            {"ffn_limit", choice.rule.ffn_limit}}}};
}

Json moves_json(const planner::DecodeChoice& choice) {
  Json json{{"taken", to_string(choice.best().moves)}};
  for (const planner::DecodeOption& option : choice.options) {
    Json& one = json[std::string(to_string(option.moves))];
    if (option.plan) {
      one = {{"seconds", option.seconds},
             {"prompt_sent_bytes", option.prompt_bytes},
             {"token_sent_bytes", option.step_bytes}};
    } else {
      one = {{"reason", option.reason}};
    }
  }
  return json;
}

std::string fewest_text(const planner::FewestDevices& few, const model::Cluster& all) {
  const std::size_t count = few.plan.cluster.devices().size();
  std::string text = "the fewest devices that hold it: " + std::to_string(count) + " of " +
                     std::to_string(all.devices().size());
  for (const model::Device& device : few.plan.cluster.devices())
    text += (&device == &few.plan.cluster.devices().front() ? " (" : ", ") + device.name;
  text += ')';
  if (count > 1)
    text += "; on " + std::to_string(count - 1) + ": " + few.fewer.substr(0, few.fewer.find('\n'));
  return text + '\n';
}

Json fewest_json(const planner::FewestDevices& few, const model::Cluster& all) {
  return {{"devices", few.plan.cluster.devices().size()},
          {"of", all.devices().size()},
          {"fewer", few.fewer.empty() ? Json() : Json(few.fewer)}};
}

}  // namespace tandem::cli
