#pragma once

// Which strategy, devices, master, formats and policy serve best: `tandem plan --strategy auto`.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "advice/prediction.hpp"
#include "planner/search/search.hpp"

namespace tandem::study {

struct Question {
  // Whose objective decides; a master that it names is kept. Its strategy, partition, allreduce and
  // tiles are not read, of many requests neither its workload.
  planner::Request request;
  std::vector<model::WeightFormats> formats{};  // that would do; empty: the model's
  // Many requests (policy null: any; no schedule); nothing: the one of request.workload.
  std::optional<ServedWorkload> served{};
  bool best_chunk = false;  // of many requests: the chunk is to be found, too
};

// The best plan of one strategy.
struct Contender {
  planner::Plan plan;  // on the devices that it uses alone
  // Seconds, as the objective says (planner/search/objective.hpp); of many requests the means over
  // them, throughput: from token to token, or from pass to pass.
  double seconds = 0.0;
  const planner::Policy* policy = nullptr;  // of many requests
  std::int64_t chunk = 0;
};

// A device that the best plan does not use, and what its strategy takes with it besides.
struct LeftOut {
  std::string device{};
  std::optional<double> seconds{};  // absent: no plan
};

struct Choice {
  planner::Objective objective = planner::Objective::request;
  // The best first, of those that are within 0.1% of it the one with the fewest devices; empty: no
  // strategy has a plan.
  std::vector<Contender> contenders{};
  std::vector<LeftOut> left_out{};  // by the first contender
  // Strategies without a plan, and the first line of why.
  std::vector<std::pair<std::string, std::string>> without{};
};

// Makes plans with every strategy, each with its best shares, collectives and tiles, and ranks them
// by what SimGrid predicts of the objective. Per strategy (and format, and policy) devices and
// master are sought by local search: from all devices, and from the fastest two, three and so on,
// one device is left out, taken in, exchanged (of up to 8) or made the master for as long as that
// gains 0.1%, with the strategy's own sums and, where weights stream, shares by Algorithm 1; then
// plans are made as make_plan does. So it need not end in the best (decision 0041 says how often it
// does not), but is no slower than the plan for all devices and the first master. Strategies that
// stream no weights are left out where a window is asked for. Throws Error as make_plan does.
[[nodiscard]] Choice choose(const Question& question);

// Why the first contender is the one, beside the runner-up, in a user's words: one sentence without
// a full stop. Throws logic_error without two contenders.
[[nodiscard]] std::string why_first(const Choice& choice);

}  // namespace tandem::study
