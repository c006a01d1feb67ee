#include "advice/free/replicas_change.hpp"

#include <string>
#include <utility>

#include "advice/first_line.hpp"
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
  FreeChange change{.kind = "replicas",
                    .what = "replicas",
                    .price = Price::privacy,
                    .price_text = "the master of each replica holds the text of its requests",
                    .flags = {{.name = "replicas", .value = "auto"}}};
  ReplicaChoice choice;
  try {
    choice = choose_replicas({.question = std::move(asked),
                              .rule = &planner::find_dispatch("least-work"),
                              .least = 2,
                              .limits = limits});
  } catch (const Error& error) {
    if (effort.ended() || all.ended()) return std::nullopt;
    change.obstacle = first_line(error.what());
    return change;
  }
  const std::size_t count =
      choice.best ? choice.divisions[*choice.best].replicas.size() : std::size_t{0};
  if (count < 2) {
    if (!choice.to_the_end) return std::nullopt;
    change.obstacle = choice.best || choice.divisions.empty()
                          ? "the devices are not divided into two groups that have plans"
                          : first_line(choice.divisions.front().reason);
    return change;
  }
  change.what = std::to_string(count) + " replicas";
  change.seconds = choice.divisions[*choice.best].seconds;
  change.at_least = !choice.to_the_end;
  return change;
}

}  // namespace tandem::study
