#include "planner/partition/search_effort.hpp"

#include <utility>

#include "planner/plan/long_work.hpp"

namespace tandem::planner {
namespace {

// The search that this thread works for, so that no loop over alternatives need be given it.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
thread_local SearchEffort* current = nullptr;
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
thread_local const SearchEffort* abandoned_with = nullptr;

constexpr double kGrace = 0.25;  // seconds

}  // namespace

double SearchEffort::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void SearchEffort::interrupt() {
  interrupted_s_ = seconds();
  interrupted_ = true;
}

bool SearchEffort::is_overdue() const {
  if (!ended()) return false;
  const double now = seconds();
  return (interrupted_ && now >= interrupted_s_ + kGrace) ||
         (has_plan_ && limits_.seconds && now >= *limits_.seconds + kGrace);
}

bool SearchEffort::ended() const {
  if (ended_) return true;
  const bool spent = has_plan_ && ((limits_.evaluations && evaluations_ >= *limits_.evaluations) ||
                                   (limits_.seconds && seconds() >= *limits_.seconds));
  if (spent || interrupted_) ended_ = true;
  return ended_;
}

EffortScope::EffortScope(SearchEffort& effort) : before_(std::exchange(current, &effort)) {}

EffortScope::~EffortScope() { current = before_; }

AbandonScope::AbandonScope(const SearchEffort& effort)
    : before_(std::exchange(abandoned_with, &effort)) {
  exchange_long_work_hook(abandon_if_overdue);
}

AbandonScope::~AbandonScope() {
  abandoned_with = before_;
  exchange_long_work_hook(before_ == nullptr ? nullptr : abandon_if_overdue);
}

void abandon_if_overdue() {
  if (abandoned_with != nullptr && abandoned_with->is_overdue()) throw SearchAbandoned{};
}

void count_evaluation() {
  if (current != nullptr) ++current->evaluations_;
  abandon_if_overdue();
}

bool search_ended() { return current != nullptr && current->ended(); }

}  // namespace tandem::planner
