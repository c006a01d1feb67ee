#include "advice/one_strategy.hpp"

#include <optional>
#include <utility>

#include "advice/refined_settings.hpp"
#include "advice/settings.hpp"
#include "model/base/error.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::study {
namespace {

// Returns the rough setting, if it has a plan. Without one, planning in full finds the reason.
std::optional<Setting> rough_plan(Answers& answers, const Setting& setting) {
  try {
    if (answers(setting).contender) return setting;
  } catch (const Error&) {
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::variant<Contender, planner::Infeasible> plan_strategy(const Question& question) {
  planner::SearchEffort unlimited;
  planner::SearchEffort& effort = question.effort != nullptr ? *question.effort : unlimited;
  const planner::EffortScope scope(effort);
  Question asked = question;
  asked.keeps_axes = true;
  SearchWatch watch(effort, question.progress);
  Answers answers(asked, watch);
  const planner::Request& request = asked.request;
  const Setting setting{.strategy = &planner::find_strategy(request.strategy),
                        .policy = asked.served ? asked.served->policy : nullptr,
                        .used = std::vector<bool>(request.cluster.devices().size(), true),
                        .master = planner::master_of(request),
                        .thorough = true};
  std::optional<Setting> rough;
  if (question.effort != nullptr) {
    const Setting quick = quickest(asked, setting);
    rough = rough_plan(answers, quick);
    Setting next = setting;
    next.thorough = false;
    if (quick.tiles && rough && !planner::search_ended()) {
      const std::optional<Setting> tiled = rough_plan(answers, next);
      if (tiled && answers.seconds(*tiled) < answers.seconds(*rough) * planner::kBetter)
        rough = tiled;
    }
  }
  Setting best = setting;
  const Answer first = answers(setting);
  if (rough && answers.seconds(*rough) < answers.seconds(best) * planner::kBetter) best = *rough;
  const auto consider = [&](const std::optional<Setting>& other) {
    if (!other || planner::search_ended()) return;
    if (answers.seconds(*other) < answers.seconds(best) * planner::kBetter) best = *other;
  };
  consider(gathered(answers, asked, setting, answers.seconds(best)));
  if (first.contender) consider(for_tiles(asked, best, first.contender->plan.tiles));
  consider(refined(asked, best, first.contender && first.contender->plan.streams()));
  if (planner::search_ended()) best = answers.fastest().value_or(best);
  const Answer& answer = answers(best);
  if (!answer.contender) return planner::Infeasible{answer.reason};
  return *answer.contender;
}

}  // namespace tandem::study
