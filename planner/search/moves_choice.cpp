#include "planner/search/moves_choice.hpp"

#include <utility>

#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

double sent_bytes(const model::TaskGraph& graph) {
  double bytes = 0.0;
  for (const model::Task& task : graph.tasks()) {
    if (task.kind == model::TaskKind::transfer)
      bytes += static_cast<double>(model::payload_bytes(task));
  }
  return bytes;
}

DecodeOption option_of(Request request, DecodeMoves moves) {
  DecodeOption option{.moves = moves};
  if (moves == DecodeMoves::keys_once && request.workload.steps() < 2) {
    option.reason = "no token is computed after the prompt";
    return option;
  }
  request.decode_moves = moves;
  auto answer = make_plan(request);
  if (auto* const no = std::get_if<Infeasible>(&answer)) {
    option.reason = std::move(no->reason);
    return option;
  }
  option.plan = std::get<Plan>(std::move(answer));
  option.seconds = predicted_time(*option.plan, request.objective, request.evaluate);
  const Strategy& strategy = find_strategy(option.plan->strategy);
  const Workload& workload = option.plan->workload;
  option.prompt_bytes = sent_bytes(strategy.lower(*option.plan, prompt_batch(workload)));
  if (workload.steps() > 1) {
    option.step_bytes = sent_bytes(strategy.lower(
        *option.plan, decode_batch(static_cast<std::int32_t>(workload.prompt_tokens))));
  }
  return option;
}

std::string describe(const DecodeOption& option) {
  const std::string name(to_string(option.moves));
  if (!option.plan)
    return name + ": no plan (" + option.reason.substr(0, option.reason.find('\n')) + ")";
  return name + ": " + model::to_text(model::Seconds{option.seconds}) + ", sent " +
         model::to_text(model::Bytes{option.prompt_bytes}) + " with the prompt and " +
         model::to_text(model::Bytes{option.step_bytes}) + " a new token";
}

}  // namespace

DecodeChoice choose_moves(const Request& request, SearchEffort& effort) {
  const EffortScope scope(effort);
  DecodeChoice choice;
  for (const DecodeMoves moves : find_strategy(request.strategy).moves()) {
    choice.options.push_back(option_of(request, moves));
    if (choice.options.back().plan) effort.has_plan();
  }
  for (std::size_t i = 0; i < choice.options.size(); ++i) {
    const DecodeOption& option = choice.options[i];
    const bool better = !choice.best().plan || option.seconds < choice.best().seconds;
    if (option.plan && better) choice.selected = i;
  }
  return choice;
}

std::string describe(const DecodeChoice& choice, Objective objective) {
  std::string text = "for new tokens (--decode-moves), objective ";
  text += to_string(objective);
  for (const DecodeOption& option : choice.options)
    text += (&option == &choice.options.front() ? ", " : "; ") + describe(option);
  if (choice.best().plan) text += "; taken: " + std::string(to_string(choice.best().moves));
  return text + '\n';
}

}  // namespace tandem::planner
