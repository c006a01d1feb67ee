#include "cli/flags/fit_flags.hpp"

#include <array>
#include <string>
#include <vector>

#include "model/base/error.hpp"

namespace tandem::cli {
namespace {

constexpr std::array kGoals{FitGoal::context, FitGoal::model, FitGoal::devices, FitGoal::dtype};

void refuse_lists(const Options& options, const std::string& with) {
  const std::string dtype = options.text_or("dtype", "");
  if (dtype.find(',') != std::string::npos)
    throw Usage("flag '--dtype': '" + dtype + "' is several formats " + with +
                ", expected one; '--fit dtype' finds the most precise one");
}

// What is one a device, whose number is not known beforehand.
void refuse_by_device(const Options& options, const std::string& with) {
  options.refuse({"groups", "levels", "drop"},
                 with + ", which are not known beforehand; name devices (--devices)");
  if (options.text_or("partition", "auto").find(':') != std::string::npos)
    throw Usage("flag '--partition': proportions are one a device, whose number is not known " +
                with + "; expected another partition, or devices by name (--devices)");
  if (options.text_or("strategy", "auto") == "local")
    throw Usage(
        "flag '--fit': devices, but strategy 'local' computes on the master alone; name "
        "another strategy, or leave it out");
}

}  // namespace

std::string_view to_string(FitGoal goal) {
  switch (goal) {
    case FitGoal::context:
      return "context";
    case FitGoal::model:
      return "model";
    case FitGoal::devices:
      return "devices";
    case FitGoal::dtype:
      return "dtype";
  }
  return "";
}

std::optional<FitGoal> fit_goal(const Options& options) {
  if (!options.has("fit")) return std::nullopt;
  std::vector<std::string_view> names;
  names.reserve(kGoals.size());
  for (const FitGoal goal : kGoals) names.push_back(to_string(goal));
  const std::string name = options.choice_or("fit", "context", names);
  const std::string with = "with '--fit " + name + "'";
  options.refuse({"workload", "samples"}, with + ", expected one request");
  options.refuse({"max-ttft"}, with + ", which asks for memory alone");
  options.refuse({"sp"}, with + ", which compares no two ways of a strategy");
  if (options.text_or("devices", "all") == "fewest")
    throw Usage("flag '--devices': fewest " + with +
                ", expected names, or all; '--fit devices' "
                "finds the fewest");
  const FitGoal goal = *std::ranges::find(kGoals, name, [](FitGoal one) { return to_string(one); });
  if (goal == FitGoal::model) {
    options.refuse({"model"}, with + ", which finds it");
    options.refuse({"max-loss"}, with + ", whose losses are not known beforehand; name the model");
    options.refuse({"prompt", "chat", "system", "raw-prompt"},
                   with + ", whose tokenizer is not known beforehand; give '--prompt-tokens'");
    options.refuse({"retain"}, with + ", whose layers are not known beforehand");
  }
  if (goal == FitGoal::devices) refuse_by_device(options, with);
  if (goal == FitGoal::dtype) {
    options.refuse({"dtype"}, with + ", which finds it");
  } else {
    refuse_lists(options, with);
  }
  return goal;
}

planner::Workload ContextRange::lengths(std::int64_t context) const {
  if (prompt_grows) return {.prompt_tokens = context - fixed, .new_tokens = fixed};
  return {.prompt_tokens = fixed, .new_tokens = context - fixed};
}

ContextRange context_range(const Options& options, const planner::Workload& lengths,
                           const model::Transformer& transformer) {
  if (!transformer.architecture().generates())
    throw Usage("flag '--fit': context, but " + transformer.name +
                " is an encoder, whose passes have at most " +
                std::to_string(transformer.max_context) +
                " tokens and generate none; expected a model that generates, or another '--fit'");
  const bool prompt = options.has("prompt") || options.has("prompt-tokens");
  const std::string given = options.has("prompt") ? "prompt" : "prompt-tokens";
  if (prompt && options.has("new-tokens"))
    throw Usage(
        "flags '--" + given +
        "' and '--new-tokens' with '--fit context' leave nothing to find; give one of them, "
        "whose length stays");
  const std::int64_t fixed = prompt ? lengths.prompt_tokens : lengths.new_tokens;
  if (fixed >= transformer.max_context)
    throw Usage("flag '--" + (prompt ? given : std::string("new-tokens")) +
                "': " + std::to_string(fixed) + " tokens leave no room in the context of " +
                std::to_string(transformer.max_context) + " tokens of " + transformer.name +
                "; give fewer");
  return {
      .least = fixed + 1, .most = transformer.max_context, .fixed = fixed, .prompt_grows = !prompt};
}

}  // namespace tandem::cli
