#include "planner/plan/long_work.hpp"

#include <utility>

namespace tandem::planner {
namespace {

// Ambient, as the search that it belongs to (planner/partition/search_effort.hpp).
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
thread_local LongWorkHook long_work_hook = nullptr;

}  // namespace

void between_long_work() {
  if (long_work_hook != nullptr) long_work_hook();
}

LongWorkHook exchange_long_work_hook(LongWorkHook hook) {
  return std::exchange(long_work_hook, hook);
}

}  // namespace tandem::planner
