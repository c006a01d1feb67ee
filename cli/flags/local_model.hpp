#pragma once

// What this machine runs without a plan, and how.

#include <filesystem>
#include <optional>

#include "cli/flags/options.hpp"
#include "exec/session/execute.hpp"
#include "model/base/units.hpp"
#include "model/transformer/transformer.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::cli {

inline constexpr Flag kOwnDtypeFlag{
    "dtype", "TYPE",
    "without a plan: keep weights in f32, f16, bf16, q8_0, q4_0, q5_0, q5_1, q4_k, q5_k, q6_k, or "
    "a mix, q4_k_m or q5_k_m [as stored]"};
inline constexpr Flag kMemoryLimitFlag{
    "memory-limit", "BYTES",
    "without a plan: use no more, as 2GiB [nine tenths of what is available]"};

// Returns the model of the folder or GGUF file `weights`, in the formats that flags ask for or that
// the weights are stored in. Throws Error for weights that are not there or cannot be executed.
[[nodiscard]] model::Transformer local_model(const Options& options,
                                             const std::filesystem::path& weights);

// Returns '--memory-limit'; nothing without it. Throws Error for no size, or for one of nothing.
[[nodiscard]] std::optional<model::Bytes> memory_limit(const Options& options);

// Returns what a run may use of the memory that is available now, which leaves the other programs
// some: '--memory-limit', or nine tenths. Throws Error if the system does not report it.
[[nodiscard]] model::Bytes local_memory(const Options& options);

// Returns the computing threads of the master: '--threads', those that the plan's profile was
// measured with, or all cores (one if all devices are on this machine).
[[nodiscard]] int master_threads(const Options& options, const planner::Plan& plan,
                                 bool one_machine);

}  // namespace tandem::cli
