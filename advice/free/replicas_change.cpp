#include "advice/free/replicas_change.hpp"

#include <string>
#include <utility>

#include "advice/replica_search.hpp"
#include "model/base/error.hpp"
#include "planner/serving/dispatch/dispatch.hpp"

namespace tandem::study {

std::optional<FreeChange> replicas_change(const Question& question,
                                          const planner::SearchEffort::Limits& limits,
                                          const planner::SearchEffort& all) {
  planner::SearchEffort effort(limits);
  Question asked = question;
  asked.effort = &effort;
  asked.progress = [&](const BestSoFar&) {
    if (all.interrupted()) effort.interrupt();
  };
  ReplicaChoice choice;
  try {
    choice = choose_replicas({.question = std::move(asked),
                              .rule = &planner::find_dispatch("least-work"),
                              .least = 2,
                              .limits = limits});
  } catch (const Error&) {
    return std::nullopt;
  }
  if (!choice.best) return std::nullopt;
  const Division& best = choice.divisions[*choice.best];
  const std::size_t count = best.replicas.size();
  if (count < 2) return std::nullopt;
  return FreeChange{.kind = "replicas",
                    .what = std::to_string(count) + " replicas",
                    .price = Price::privacy,
                    .price_text = "the master of each replica holds the text of its requests",
                    .flags = {{.name = "replicas", .value = "auto"}},
                    .seconds = best.seconds,
                    .at_least = !choice.to_the_end};
}

}  // namespace tandem::study
