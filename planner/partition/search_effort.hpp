#pragma once

// The effort of a search: predictions made so far, and the limits at which it ends with the best
// plan found.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace tandem::planner {

class SearchEffort {
 public:
  struct Limits {
    std::optional<double> seconds{};            // of wall time since construction
    std::optional<std::int64_t> evaluations{};  // predictions of a plan, or of a few of its layers
  };
  SearchEffort() = default;  // without limits
  explicit SearchEffort(Limits limits) : limits_(limits) {}

  // The limits apply from now on: there is a plan that the search can return.
  void has_plan() { has_plan_ = true; }
  // Ends the search as soon as possible. May be called from any thread.
  void interrupt() { interrupted_ = true; }
  [[nodiscard]] bool interrupted() const { return interrupted_; }
  // Returns whether the search must return the best plan so far. Once true, it stays so.
  [[nodiscard]] bool ended() const;
  [[nodiscard]] bool is_limited_by_evaluations() const { return limits_.evaluations.has_value(); }
  [[nodiscard]] std::int64_t evaluations() const { return evaluations_; }
  [[nodiscard]] double seconds() const;

 private:
  friend void count_evaluation();

  Limits limits_{};
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::atomic<std::int64_t> evaluations_ = 0;
  std::atomic<bool> has_plan_ = false;
  std::atomic<bool> interrupted_ = false;
  mutable std::atomic<bool> ended_ = false;
};

// While it lives, the searches of this thread count their predictions in `effort` and end with it.
// Ambient, because a search of shares is a dozen calls below the search for a strategy.
class EffortScope {
 public:
  explicit EffortScope(SearchEffort& effort);
  ~EffortScope();
  EffortScope(const EffortScope&) = delete;
  EffortScope& operator=(const EffortScope&) = delete;

 private:
  SearchEffort* before_;
};

// Counts one prediction of this thread's search, if it has an EffortScope.
void count_evaluation();
// Returns whether this thread's search must return the best plan so far: a loop over alternatives
// asks it before each but the first. False without an EffortScope.
[[nodiscard]] bool search_ended();

}  // namespace tandem::planner
