#include "cli/flags/prefix_flag.hpp"

#include <string>
#include <string_view>

#include "planner/serving/prefix_sharing.hpp"

namespace tandem::cli {
namespace {

std::string choice_of(const Options& options, std::string_view usual) {
  return options.choice_or(kPrefixFlag.name, usual, {"on", "off"});
}

}  // namespace

bool asks_for_prefixes(const Options& options) { return choice_of(options, "off") == "on"; }

bool shares_prefixes(const Options& options, const planner::Plan& plan,
                     std::span<const planner::InferenceRequest> requests, bool usual) {
  if (choice_of(options, usual ? "on" : "off") == "off") return false;
  const std::string refusal = planner::prefix_refusal(plan, requests);
  if (refusal.empty()) return true;
  if (asks_for_prefixes(options))
    throw Usage("flag '--prefix-cache': " + refusal + "; expected off, or another plan");
  options.remark("prompts are read whole, as " + refusal);
  return false;
}

}  // namespace tandem::cli
