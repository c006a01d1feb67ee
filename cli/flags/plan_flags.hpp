#pragma once

// What the flags of `tandem plan` say that are the plan's alone.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/flags/options.hpp"
#include "model/graph/release_rule.hpp"
#include "model/predict/device_share.hpp"
#include "model/transformer/wire_format.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/plan/decode_moves.hpp"
#include "planner/plan/sparse_attention.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::cli {

// Each of these throws Usage for a value that the flag does not have, and for a flag that has no
// effect with `strategy` or with what others say.

// `--devices`: whom the plan is for.
struct WantedDevices {
  std::vector<bool> used{};  // by DeviceIndex: those that are named; all if none are
  bool fewest = false;       // as few as hold it are to be found
  bool searched = false;     // the search may leave some out, and choose the master
};
[[nodiscard]] WantedDevices devices_of(const Options& options, const model::Cluster& cluster,
                                       const planner::Strategy& strategy, bool any);
// What every `--profile` names, as FILE or NAME=FILE: of a folder NAME.profile.json of each device,
// as `tandem discover` writes it.
[[nodiscard]] std::vector<std::string> profile_files(const Options& options,
                                                     const model::Cluster& cluster);
// The profile that a platform alone gives `device`, within `share` (null: whole): that of a similar
// processor if `processors`, by device, names one (cli/files/reference_processors.hpp), else
// nominal, with the program's memory as stated. `remark` becomes what to say of an unknown one.
[[nodiscard]] model::DeviceProfile platform_profile(
    const model::Device& device, const std::map<std::string, std::string>& processors,
    const model::DeviceShare* share, std::string& remark);
// One a device from `--profile F` (every device) and `--profile NAME=F` (that one), made slower as
// the scenario says; where none is given, platform_profile(). Of several numbers of threads
// `--threads`; without it the most that were measured, but the fewest for a device that others
// share its machine with: one that is slowed down, or one of several with the same profile. Devices
// with one of `shares` have profiles within it (model/predict/device_share.hpp); computing of one
// that is emulated is slowed down instead.
[[nodiscard]] std::vector<model::DeviceProfile> device_profiles(
    const Options& options, const model::Cluster& cluster,
    const std::map<std::string, std::string>& processors,
    const std::map<std::string, model::DeviceShare>& shares);
// `--window`, `--retain`; as few devices as hold it keep weights in memory unless a window is
// given.
[[nodiscard]] planner::WindowRequest window_of(const Options& options,
                                               const model::Transformer& transformer,
                                               const WantedDevices& devices);
// Returns a remark on devices where the window that was asked for holds all of their blocks, so
// that nothing streams; empty if there are none. Throws Usage for '--retain' or '--release' if no
// device of `plan` streams.
[[nodiscard]] std::string check_streaming(const Options& options, const planner::Plan& plan);
// `--allreduce`, where nothing is summed. What is chosen with `--max-loss` may be without levels.
void refuse_sums(const Options& options, const planner::Strategy& strategy);
// `--retain` of so many layers; 0: none, nothing: auto.
[[nodiscard]] std::optional<std::int32_t> retained(const Options& options, std::int64_t layers);
// `--release`.
[[nodiscard]] model::ReleaseRule release_of(const Options& options);
// `--retain` and `--release`, where weights never stream.
void refuse_streaming(const Options& options, const planner::Strategy& strategy);
// `--rounds`; nothing: auto.
[[nodiscard]] std::optional<std::int32_t> rounds(const Options& options);
// `--tiles` of all rows; nothing: auto, or where tiles are of levels.
[[nodiscard]] std::optional<std::int32_t> tiles(const Options& options,
                                                const planner::Strategy& strategy);
// `--levels`, `--drop`, `--levels-overlap`, and `--tiles` of rows that travel at each level: a
// prompt's sparse attention; nothing if it is dense.
[[nodiscard]] std::optional<planner::SparseRequest> sparse_of(const Options& options,
                                                              const planner::Strategy& strategy);
// `--decode-moves`: what travels for new tokens; nothing: what is fastest.
[[nodiscard]] std::optional<planner::DecodeMoves> moves_of(const Options& options,
                                                           const planner::Strategy& strategy);
// `--decode-ffn`: who computes the FFN of new tokens.
[[nodiscard]] planner::TokenFfn token_ffn_of(const Options& options,
                                             const planner::Strategy& strategy);
// Returns `--wire-type`, if it is given. `any`: the strategy is to be chosen, too.
[[nodiscard]] std::optional<model::WireFormat> given_wire(const Options& options,
                                                          const planner::Strategy& strategy,
                                                          bool any);
// `--head`.
[[nodiscard]] planner::HeadPlacement head_of(const Options& options,
                                             const planner::Strategy& strategy);
// `--candidates`; 0: none.
[[nodiscard]] std::int32_t candidates_of(const Options& options, planner::HeadPlacement head);
// `--seconds` and `--evaluations`; by default ten seconds.
[[nodiscard]] planner::SearchEffort::Limits effort_limits(const Options& options);
// What the search for a strategy decides itself.
void refuse_with_any(const Options& options);

}  // namespace tandem::cli
