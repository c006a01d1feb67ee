#pragma once

// The best strategy, devices, master, formats and policy: `tandem plan --strategy auto`.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "advice/prediction.hpp"
#include "planner/search/search.hpp"

namespace tandem::study {

struct Question {
  // Its objective decides; a master that it names is kept. Its strategy, partition, allreduce and
  // tiles are not read; with many requests neither is its workload.
  planner::Request request;
  std::vector<model::WeightFormats> formats{};  // acceptable ones; empty: the model's
  // Many requests (policy null: any; without a schedule); nothing: the one of request.workload.
  std::optional<ServedWorkload> served{};
  bool best_chunk = false;  // many requests: also searches the chunk
};

// The best plan of one strategy.
struct Contender {
  planner::Plan plan;  // on the devices that it uses alone
  // Seconds by the objective (planner/search/objective.hpp); for many requests their means,
  // throughput: from token to token, or from pass to pass.
  double seconds = 0.0;
  const planner::Policy* policy = nullptr;  // of many requests
  std::int64_t chunk = 0;
};

// A device that the best plan does not use, and its strategy's time with that device added.
struct LeftOut {
  std::string device{};
  std::optional<double> seconds{};  // absent: no plan
};

struct Choice {
  planner::Objective objective = planner::Objective::request;
  // The best first; among those within 0.1% of it the one with the fewest devices. Empty: no
  // strategy has a plan.
  std::vector<Contender> contenders{};
  std::vector<LeftOut> left_out{};  // by the first contender
  // Strategies without a plan, and the first line of the reason.
  std::vector<std::pair<std::string, std::string>> without{};
};

// Makes plans with every strategy, each with its best shares, collectives and tiles, and ranks them
// by SimGrid's prediction of the objective. For each strategy, format and policy a local search
// finds devices and master: starting from all devices, and from the fastest two, three and so on,
// it removes, adds or exchanges a device (of up to 8), or makes it the master, while that gains
// 0.1%. During the search sums are the strategy's default and, if weights stream, shares follow
// Algorithm 1; the final plans are made as make_plan does. The result may be a local optimum
// (decision 0041 has the frequency), but is no slower than the plan for all devices and the first
// master. With a requested window, strategies that cannot stream weights are skipped. Throws Error
// as make_plan does.
[[nodiscard]] Choice choose(const Question& question);

// Returns why the first contender beats the runner-up, for users: one sentence without a full stop.
// Throws logic_error without two contenders.
[[nodiscard]] std::string why_first(const Choice& choice);

}  // namespace tandem::study
