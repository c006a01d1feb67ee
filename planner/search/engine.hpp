#pragma once

// The engine of the search: walks a list of axes and keeps the best alternative of each.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/search/outline.hpp"

namespace tandem::planner {

// One alternative that was weighed.
struct Alternative {
  std::string label;
  // Seconds by the axis's clock; absent: no plan (`reason`), or not timed, as there was only one.
  std::optional<double> seconds{};
  std::string reason{};  // why there is no plan
};

// The alternatives of one axis, in the order in which they were weighed.
struct Decision {
  std::string_view axis;  // Axis::name
  std::vector<Alternative> alternatives{};
  std::size_t selected = 0;
  bool is_cut = false;  // the search ended before all had been weighed
};

// The best plan of a draft, or why there is none, with the decisions that led to it: outer axes
// first.
struct Found {
  Answer answer;
  std::vector<Decision> decisions{};
  // Rows of a prompt's chunks, if the leaf chooses them; 0: whole prompts.
  std::int64_t chunk = 0;
  // By the leaf's clock, if it has one: then axes compare plans by it, not by their own clocks.
  std::optional<double> seconds{};
  [[nodiscard]] const Plan* plan() const { return std::get_if<Plan>(&answer); }
};

class Alternatives;

// A dimension of the space of plans. An axis offers alternatives to the engine one after another,
// as later ones often depend on the best so far: it never calls the search that called it.
struct Axis {
  std::string_view name;
  // Returns whether the draft leaves this axis to the search; if not, the engine skips it.
  bool (*applies)(const Draft& draft);
  // Offers at least one alternative.
  void (*walk)(const Draft& draft, Alternatives& all);
};

using Axes = std::span<const Axis* const>;
// Plans a draft all of whose axes are decided.
using Leaf = std::function<Found(const Draft& draft)>;

// Returns the best plan of `draft` on `axes`, the first of which is the outermost, by the clock of
// the leaf or, if it has none, of each axis. Ends early with the best so far (search_effort.hpp).
[[nodiscard]] Found walk(const Draft& draft, Axes axes, const Leaf& leaf);

// The alternatives of one axis for one draft.
class Alternatives {
 public:
  using Clock = std::function<double(const Plan&)>;
  using Make = std::function<Found()>;
  // Completes a plan by what its time does not depend on, or returns why there is none.
  using Finish = std::function<Answer(Plan)>;

  Alternatives(const Axis& axis, Axes below, Leaf leaf);

  // Sets the seconds by which plans are compared. A single plan is never timed.
  void compare_by(Clock clock) { clock_ = std::move(clock); }
  // Returns the best plan of `draft` on the axes below this one.
  [[nodiscard]] Found plan(const Draft& draft) const;
  // Weighs the alternative that `make` returns; keeps it if its time is shorter (kBetter) than
  // that of the best, or if it is the first plan. Once there is a plan and the search has ended,
  // does nothing. Returns whether it was kept as a plan. `finish` is called for what is kept alone.
  bool offer(std::string label, const Make& make, const Finish& finish = {});
  // The same for a draft, planned on the axes below.
  bool offer(std::string label, const Draft& draft);
  // Returns the best plan so far; null: none.
  [[nodiscard]] const Plan* best() const { return best_ ? best_->plan() : nullptr; }
  // Returns whether the axis may stop: there is a plan, and the search has ended.
  [[nodiscard]] bool ended() const;

  [[nodiscard]] Found found() &&;

 private:
  [[nodiscard]] double seconds_of(const Found& found) const;

  Axes below_;
  Leaf leaf_;
  Clock clock_{};
  Decision decision_;
  std::optional<Found> best_{};
};

}  // namespace tandem::planner
