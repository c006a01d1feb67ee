#pragma once

// Where work that takes seconds can be given up.

namespace tandem::planner {

using LongWorkHook = void (*)();

// Calls this thread's hook, which may throw; does nothing without one. Work on many graphs calls it
// between one and the next.
void between_long_work();
// Sets this thread's hook (null: none) and returns the one before.
LongWorkHook exchange_long_work_hook(LongWorkHook hook);

}  // namespace tandem::planner
