#include "cli/flags/replica_flags.hpp"

#include <string>
#include <string_view>

namespace tandem::cli {
namespace {

std::string rules_text() {
  std::string text;
  for (const planner::Dispatch& rule : planner::dispatches()) {
    text += text.empty() ? "" : ", ";
    text += std::string(rule.name) + " (" + std::string(rule.summary) + ")";
  }
  return text;
}

}  // namespace

std::vector<Flag> replica_flags() {
  static const std::string rules =
      "with --replicas: where a request goes when it arrives: " + rules_text() + " [least-work]";
  return {{"replicas", "N",
           "of many requests: N groups of devices, each with a plan of its own, or auto: as many "
           "as is best; --out is a folder [none: one plan]"},
          {"dispatch", "RULE", rules}};
}

std::optional<WantedReplicas> wanted_replicas(const Options& options, bool any,
                                              const std::optional<Served>& served) {
  const std::optional<std::string> count = options.text("replicas");
  if (!count) {
    options.refuse({"dispatch"}, "without '--replicas'");
    return std::nullopt;
  }
  if (!any)
    throw Usage(
        "flag '--replicas': each replica has the strategy that is best for its devices; "
        "expected '--strategy auto'");
  if (!served)
    throw Usage(
        "flag '--replicas': replicas share out requests, expected many; give "
        "'--workload FILE' or '--samples M'");
  options.refuse({"fit", "master"}, "with '--replicas', each of which has a master of its own");
  if (options.text_or("devices", "") == "fewest")
    throw Usage(
        "flag '--devices': 'fewest' is for one plan, with '--replicas' expected names, or "
        "all");
  std::vector<std::string_view> names;
  for (const planner::Dispatch& rule : planner::dispatches()) names.push_back(rule.name);
  WantedReplicas wanted{
      .rule = &planner::find_dispatch(options.choice_or("dispatch", "least-work", names))};
  if (*count != "auto") wanted.count = options.integer_or("replicas", 1, 1, 1024);
  return wanted;
}

}  // namespace tandem::cli
