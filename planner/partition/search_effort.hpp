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
  void interrupt();
  [[nodiscard]] bool interrupted() const { return interrupted_; }
  // Returns whether the search must return the best plan so far. Once true, it stays so.
  [[nodiscard]] bool ended() const;
  // Returns whether a limit of time or an interruption is kGrace past: what is being planned then
  // is given up. Loops that return the best so far do so within that time, as a rule.
  [[nodiscard]] bool is_overdue() const;
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
  std::atomic<double> interrupted_s_ = 0.0;
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

// What abandon_if_overdue() throws. Not an std::exception, so no handler of errors catches it.
struct SearchAbandoned {};

// While it lives, abandon_if_overdue() of this thread throws once `effort` is overdue. Its owner
// catches SearchAbandoned, and loses what was being planned.
class AbandonScope {
 public:
  explicit AbandonScope(const SearchEffort& effort);
  ~AbandonScope();
  AbandonScope(const AbandonScope&) = delete;
  AbandonScope& operator=(const AbandonScope&) = delete;

 private:
  const SearchEffort* before_;
};

// Steps of a search that may take long before they have something to return call it again and
// again. Does nothing without an AbandonScope.
void abandon_if_overdue();

// Counts one prediction of this thread's search, if it has an EffortScope; abandon_if_overdue().
void count_evaluation();
// Returns whether this thread's search must return the best plan so far: a loop over alternatives
// asks it before each but the first. False without an EffortScope.
[[nodiscard]] bool search_ended();

}  // namespace tandem::planner
