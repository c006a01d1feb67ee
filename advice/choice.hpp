#pragma once

// The best strategy, devices, master, formats and policy: `tandem plan --strategy auto`.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "advice/question.hpp"

namespace tandem::study {

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
  std::vector<std::string> remedies{};  // of these reasons: "remedy: ...", each once
  // Lower bound on the objective of every plan of every strategy (planner/bounds/search_bound.hpp);
  // 0: not known, as for many requests.
  double least_s = 0.0;
  std::int64_t settings = 0;     // devices, masters, formats and policies planned for the first
  std::int64_t evaluations = 0;  // predictions that the search made
  double elapsed_s = 0.0;
  bool to_the_end = true;  // false: the search ended at a limit of Question::effort
  bool interrupted = false;
};

// Makes plans with every strategy (with Question::keeps_axes the request's alone), each with its
// best shares, collectives and tiles, and ranks them by SimGrid's prediction of the objective. For
// each strategy, format and policy a local search finds devices and master: starting from all
// devices, and from the fastest two, three and so on, it removes, adds or exchanges a device (of up
// to 8), or makes it the master, while that gains 0.1%. During the search sums are the strategy's
// default and, if weights stream, shares follow Algorithm 1; the final plans are made as make_plan
// does. The result may be a local optimum (decision 0041 has the frequency), but is no slower than
// the plan for all devices and the first master. With a requested window, strategies that cannot
// stream weights are skipped. Throws Error as make_plan does. Strategies are searched side by side
// on the machine's processors: first for the fastest 2, 4, 8,
// ... devices and for all, then local searches, the most promising first. To the end, the result
// does not depend on the number of processors. At a limit of `effort` the search returns the best
// plan of each strategy so far, by sim::evaluate_fair, and no devices left out; limits apply once
// there is a plan. A limit of evaluations makes it search on one thread, so that it always ends at
// the same plan.
[[nodiscard]] Choice choose(const Question& question);

// Predicts the contenders of a search to the end on SimGrid, as choose() does where
// Question::replays is true. Adds its time to the choice's.
void replay_contenders(const Question& question, Choice& choice);

// Returns why the first contender beats the runner-up, for users: one sentence without a full stop.
// Throws logic_error without two contenders.
[[nodiscard]] std::string why_first(const Choice& choice);

}  // namespace tandem::study
