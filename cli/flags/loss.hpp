#pragma once

// --max-loss, --max-ttft and --loss-model: levels and ratios of sparse attention by objective.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/flags/options.hpp"
#include "planner/search/drop_search.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::cli {

[[nodiscard]] std::vector<Flag> loss_flags();

struct Bounded {
  planner::DropBounds bounds{};
  std::string flag{};            // "max-loss" or "max-ttft"
  std::filesystem::path file{};  // of the loss model
};

// What the flags say; nothing without either objective. Throws Usage for what contradicts them, and
// where `strategy` drops nothing.
[[nodiscard]] std::optional<Bounded> bounded_of(const Options& options,
                                                const planner::Strategy& strategy,
                                                const std::filesystem::path& weights);

struct MeasuredLoss {
  planner::LossModel model;
  std::vector<std::string> remarks{};
};

// The loss model, of `weights`: a remark if there are none to compare with those it was measured
// of. Throws Error for other weights, and where there is no such file.
[[nodiscard]] MeasuredLoss measured_loss(const Bounded& bounded,
                                         const std::filesystem::path& weights);

}  // namespace tandem::cli
