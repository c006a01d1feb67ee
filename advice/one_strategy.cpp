#include "advice/one_strategy.hpp"

#include <optional>
#include <utility>

#include "advice/refined_settings.hpp"
#include "advice/settings.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::study {

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
  Setting best = setting;
  const Answer first = answers(setting);
  const auto consider = [&](const std::optional<Setting>& other) {
    if (!other || planner::search_ended()) return;
    if (answers.seconds(*other) < answers.seconds(best) * planner::kBetter) best = *other;
  };
  consider(gathered(answers, asked, setting, answers.seconds(best)));
  if (first.contender) consider(for_tiles(asked, best, first.contender->plan.tiles));
  consider(refined(asked, best, first.contender && first.contender->plan.streams()));
  const Answer& answer = answers(best);
  if (!answer.contender) return planner::Infeasible{answer.reason};
  return *answer.contender;
}

}  // namespace tandem::study
