#include "planner/partition/search_effort.hpp"

#include <utility>

namespace tandem::planner {
namespace {

// The search that this thread works for, so that no loop over alternatives need be given it.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
thread_local SearchEffort* current = nullptr;

}  // namespace

double SearchEffort::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
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

void count_evaluation() {
  if (current != nullptr) ++current->evaluations_;
}

bool search_ended() { return current != nullptr && current->ended(); }

}  // namespace tandem::planner
