#pragma once

// The free changes of a plan, each with its gain by prediction, and its price.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "advice/free/free_change.hpp"

namespace tandem::study {

// A smaller gain is not worth a line: a part of the time.
inline constexpr double kWorthSaying = 0.01;

// A change that was tried.
struct FreeChange {
  std::string kind;  // FreeChangeKind::name
  std::string what;
  Price price = Price::nothing;
  std::string price_text;
  std::vector<PlanFlag> flags{};       // that make this plan, the fixed ones included
  std::vector<std::string> without{};  // flags of the command that must go
  std::optional<double> seconds{};     // by the objective; absent: impossible
  std::string obstacle{};              // why it is impossible
  // Whether the search for it was cut: the command may find a faster plan.
  bool at_least = false;
};

struct FreeChanges {
  double planned_s = 0.0;
  // The same without a change: of the plan or, if that is faster, of a plan made anew.
  double unchanged_s = 0.0;
  std::vector<PlanFlag> fixed{};         // flags that the changes of one plan have
  std::vector<FreeChange> tried{};       // fastest first, impossible ones last
  std::vector<std::string> not_tried{};  // FreeChangeKind::name, for want of time
  // Returns the part of unchanged_s that a possible change saves; negative if it is slower.
  [[nodiscard]] double gain(const FreeChange& change) const;
  // Returns the changes that gain kWorthSaying or more. Of a kind, a change is left out if a faster
  // one has no price or, but for quality, the same.
  [[nodiscard]] std::vector<const FreeChange*> worth() const;
};

// Plans each change anew and predicts it, within the question's limits: what is being planned
// when they are reached is not listed as tried. The last prediction may exceed the limit by its own
// time.
[[nodiscard]] FreeChanges free_changes(const FreeQuestion& question);

}  // namespace tandem::study
