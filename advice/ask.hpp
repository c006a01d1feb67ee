#pragma once

// A plan of one strategy, as `tandem plan` is asked for it, and the flags that ask.

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "advice/prediction.hpp"
#include "advice/prompt_chunks.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/search/request.hpp"

namespace tandem::study {

// A flag of `tandem plan` and its value; a switch has none.
struct PlanFlag {
  std::string name;
  std::string value{};
  bool operator==(const PlanFlag&) const = default;
};

struct Ask {
  planner::Request request;
  PromptReading prompt{};                  // one request
  std::optional<ServedWorkload> served{};  // many requests, with a policy
  bool best_chunk = false;                 // many requests: the chunk is searched, too
  // Beyond the flags of a command, in place of its own of the same name.
  std::vector<PlanFlag> flags{};
  std::vector<std::string> without{};  // flags of the command that must go

  // Adds a flag, or changes its value.
  void set(std::string_view name, std::string value = {});
  // Takes flags away, from the command, too.
  void leave_out(std::initializer_list<std::string_view> names);
};

// Returns whether the prompts of `request` can only be read whole: with levels, windows, rounds, or
// caches by position.
[[nodiscard]] bool reads_whole(const planner::Request& request);

// Returns the seconds of a plan that counts, of its own request (null) or of `served`.
using PlanClock = std::function<double(const planner::Plan& plan, const ServedWorkload* served)>;

// Returns the time, by `clock`, of the plan of what `ask` names, whose open axes are closed. Throws
// Error with the reason, one line, if there is none.
[[nodiscard]] double planned_seconds(const Ask& ask, const PlanClock& clock);

// Returns the same of the plan that `tandem plan` answers `ask` with, which also searches what is
// left open (plan_strategy), by this thread's search: what it finds once `effort` has ended may be
// cut.
[[nodiscard]] double searched_seconds(const Ask& ask, const PlanClock& clock,
                                      planner::SearchEffort& effort);

}  // namespace tandem::study
