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

MovesWay way_of(Request request, DecodeMoves moves) {
  MovesWay way{.moves = moves};
  if (moves == DecodeMoves::keys_once && request.workload.steps() < 2) {
    way.reason = "no token is computed after the prompt";
    return way;
  }
  request.decode_moves = moves;
  auto answer = make_plan(request);
  if (auto* const no = std::get_if<Infeasible>(&answer)) {
    way.reason = std::move(no->reason);
    return way;
  }
  way.plan = std::get<Plan>(std::move(answer));
  way.seconds = predicted_time(*way.plan, request.objective, request.evaluate);
  const Strategy& strategy = find_strategy(way.plan->strategy);
  const Workload& workload = way.plan->workload;
  way.prompt_bytes = sent_bytes(strategy.lower(*way.plan, prompt_batch(workload)));
  if (workload.steps() > 1) {
    way.step_bytes = sent_bytes(
        strategy.lower(*way.plan, decode_batch(static_cast<std::int32_t>(workload.prompt_tokens))));
  }
  return way;
}

std::string text_of(const MovesWay& way) {
  const std::string name(to_string(way.moves));
  if (!way.plan) return name + ": no plan (" + way.reason.substr(0, way.reason.find('\n')) + ")";
  return name + ": " + model::to_text(model::Seconds{way.seconds}) + ", sent " +
         model::to_text(model::Bytes{way.prompt_bytes}) + " with the prompt and " +
         model::to_text(model::Bytes{way.step_bytes}) + " a new token";
}

}  // namespace

MovesChoice choose_moves(const Request& request) {
  MovesChoice choice;
  for (const DecodeMoves moves : find_strategy(request.strategy).moves())
    choice.ways.push_back(way_of(request, moves));
  for (std::size_t i = 0; i < choice.ways.size(); ++i) {
    const MovesWay& way = choice.ways[i];
    const bool better = !choice.best().plan || way.seconds < choice.best().seconds;
    if (way.plan && better) choice.taken = i;
  }
  return choice;
}

std::string text_of(const MovesChoice& choice, Objective objective) {
  std::string text = "for new tokens (--decode-moves), objective ";
  text += to_string(objective);
  for (const MovesWay& way : choice.ways)
    text += (&way == &choice.ways.front() ? ", " : "; ") + text_of(way);
  if (choice.best().plan) text += "; taken: " + std::string(to_string(choice.best().moves));
  return text + '\n';
}

}  // namespace tandem::planner
