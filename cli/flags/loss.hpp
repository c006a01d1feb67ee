#pragma once

// --max-loss, --max-ttft, --loss-model and --format-loss: what a plan may lose by formats of
// messages and cache and, with sparse attention, by what is dropped.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/flags/options.hpp"
#include "planner/plan/file/plan_file.hpp"
#include "planner/search/drop_search.hpp"
#include "planner/search/format_loss.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::cli {

[[nodiscard]] std::vector<Flag> loss_flags();
// Of 'tandem whatif'.
[[nodiscard]] std::vector<Flag> type_bound_flags();

struct Bounded {
  planner::DropBounds bounds{};
  std::string flag{};            // "max-loss" or "max-ttft"
  std::filesystem::path file{};  // of the loss model
};

// Returns what the flags say of dropping; nothing without either objective, and for strategies that
// drop nothing. Throws Usage for what contradicts them.
[[nodiscard]] std::optional<Bounded> bounded_of(const Options& options,
                                                const planner::Strategy& strategy,
                                                const std::filesystem::path& weights);

struct MeasuredLoss {
  planner::LossModel model;
  std::vector<std::string> remarks{};
};

// The bound on what formats lose.
struct FormatBound {
  double most = 0.0;             // bits per byte
  std::filesystem::path file{};  // of the measured losses
};

// Returns the bound of `--max-loss`; nothing without it, and where messages and cache are given as
// f32, which loses nothing. Throws Error if the model has no measured losses.
[[nodiscard]] std::optional<FormatBound> format_bound_of(const Options& options,
                                                         const planner::Strategy& strategy,
                                                         const std::filesystem::path& weights);

struct PricedFormats {
  planner::FormatLoss loss;
  std::vector<std::string> remarks{};
};

// Returns the measured losses of `file`, of `weights`: a remark if there are none to compare with
// those they were measured of. Throws Error for another model or other weights.
[[nodiscard]] PricedFormats priced_formats(const std::filesystem::path& file,
                                           const std::filesystem::path& weights,
                                           const model::Transformer& transformer);

// Returns the losses that were measured of a model, where nothing needs them; nothing if there are
// none. `remark` is set to why they cannot be used.
[[nodiscard]] std::optional<planner::FormatPrices> known_prices(
    const std::filesystem::path& weights, const model::Transformer& transformer,
    std::string& remark);

// The bound of `tandem whatif` on what changes of types lose.
struct TypeBound {
  std::optional<double> most{};  // bits per byte, of messages and cache; absent: no bound
  std::optional<planner::FormatPrices> prices{};
  std::vector<std::string> remarks{};
};

// Returns what '--max-loss' and '--format-loss' say of a plan, or else the bound that it was made
// with, and the losses that were measured of its model, if they are known. Throws Error for a flag
// without measured losses, and as priced_formats.
[[nodiscard]] TypeBound type_bound_of(const Options& options, const planner::PlanFile& file);

// The loss model, of `weights`: a remark if there are none to compare with those it was measured
// of. Throws Error for other weights, and where there is no such file.
[[nodiscard]] MeasuredLoss measured_loss(const Bounded& bounded,
                                         const std::filesystem::path& weights);

}  // namespace tandem::cli
