#include "cli/terminal/ways_view.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

Json way_json(const planner::SpWay& way) {
  if (!way.plan) return {{"reason", way.reason}};
  return {{"seconds", way.seconds}, {"prompt_sent_bytes", way.prompt_bytes}};
}

}  // namespace

Json sp_json(const planner::SpChoice& choice) {
  return {{"taken", choice.takes_ntp ? "ntp" : "tp"},
          {"ntp", way_json(choice.ntp)},
          {"tp", way_json(choice.tp)},
          {"gathered_bytes", choice.gathered_bytes},
          {"rule",
           {{"ratio", choice.rule.ratio},
            {"attention_limit", choice.rule.attention_limit},
            {"ffn_limit", choice.rule.ffn_limit}}}};
}

Json moves_json(const planner::MovesChoice& choice) {
  Json json{{"taken", to_string(choice.best().moves)}};
  for (const planner::MovesWay& way : choice.ways) {
    Json& one = json[std::string(to_string(way.moves))];
    if (way.plan) {
      one = {{"seconds", way.seconds},
             {"prompt_sent_bytes", way.prompt_bytes},
             {"token_sent_bytes", way.step_bytes}};
    } else {
      one = {{"reason", way.reason}};
    }
  }
  return json;
}

}  // namespace tandem::cli
