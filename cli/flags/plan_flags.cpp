#include "cli/flags/plan_flags.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/files/files.hpp"
#include "cli/files/reference_processors.hpp"
#include "cli/flags/cache_type.hpp"
#include "cli/flags/loss.hpp"
#include "cli/flags/platform_flags.hpp"
#include "cli/flags/prompt.hpp"
#include "model/base/error.hpp"
#include "model/base/word_list.hpp"
#include "model/graph/candidates.hpp"
#include "model/graph/memory.hpp"
#include "model/predict/similar_profile.hpp"
#include "planner/strategy/common/stages.hpp"

namespace tandem::cli {
namespace {

using model::DeviceProfile;

// What one `--profile` names.
struct ProfileFile {
  std::string path{};
  std::vector<DeviceProfile> profiles{};  // by numbers of threads
};

ProfileFile read_profiles(const std::string& path) {
  return {path, model::parse_profiles_json(read_file(path), path)};
}

// The profile of `file` with `threads` within `share`, if one is given. Emulated devices compute
// with the fewest threads, so their share slows them down: `is_slowed` already by the cluster.
DeviceProfile file_profile(const ProfileFile& file, std::optional<int> threads, bool emulated,
                           const model::DeviceShare* share, bool is_slowed) {
  if (share == nullptr) return with_threads(file.profiles, threads, emulated, file.path);
  if (emulated) {
    const DeviceProfile& whole = with_threads(file.profiles, threads, emulated, file.path);
    if (is_slowed) return whole;
    return slowed(whole, static_cast<double>(share->cores) / static_cast<double>(cores_of(*share)));
  }
  if (!threads) return with_share(file.profiles, *share);
  const DeviceProfile& given = with_threads(file.profiles, threads, emulated, file.path);
  return with_share(std::span(&given, 1), *share);
}

// A number of blocks or layers, or a word for one or for the planner's choice.
std::optional<std::int32_t> count_or_auto(const Options& options, const std::string& flag,
                                          const std::string& zero, std::int64_t most) {
  const std::string text = options.text_or(flag, "auto");
  if (text == "auto") return std::nullopt;
  if (text == zero) return 0;
  if (text.find_first_not_of("0123456789") == std::string::npos)
    return static_cast<std::int32_t>(options.integer_or(flag, 1, 1, most));
  throw Error("flag '--" + flag + "': '" + text + "', expected 1 to " + std::to_string(most) +
              ", " + zero + " or auto");
}

// Throws Usage for a word of '--devices' among names, unless a device has that name.
void check_no_word(const std::string& text, const std::string& name,
                   const model::Cluster& cluster) {
  if (name != "all" && name != "auto" && name != "fewest") return;
  if (std::ranges::find(cluster.devices(), name, &model::Device::name) != cluster.devices().end())
    return;
  throw Usage("flag '--devices': '" + text + "' has '" + name +
              "' among names, expected names alone, or all, auto or fewest alone; leave out '" +
              name + "', or the names");
}

std::string some_levels() { return "2 to " + std::to_string(planner::kMostLevels); }

// A number of levels, which is no word.
std::int32_t number_of_levels(const Options& options) {
  const std::string text = options.text_or("levels", "2");
  if (text.find_first_not_of("0123456789") != std::string::npos)
    throw Error("flag '--levels': '" + text + "', expected " + some_levels() + ", none or auto");
  return static_cast<std::int32_t>(options.integer_or("levels", 2, 2, planner::kMostLevels));
}

void refuse_proportions(const Options& options, const std::string& with) {
  if (options.text_or("partition", "auto").find(':') != std::string::npos)
    throw Usage("flag '--partition': proportions are one a device, whose number is not known " +
                with + "; expected another partition, or devices by name");
}

// Refuses what depends on which devices there are, or is answered by a search of its own, beside
// `--devices auto` of one strategy.
void refuse_with_searched_devices(const Options& options, const planner::Strategy& strategy) {
  const std::string with = "with '--devices auto'";
  if (strategy.sharding.measures_losses())
    options.refuse({"max-loss", "max-ttft"}, with + ", which searches no levels; name devices");
  const auto refuse_auto = [&](const std::string& flag) {
    if (options.text_or(flag, "") == "auto")
      throw Usage("flag '--" + flag + "': auto compares plans on given devices, not " + with +
                  "; name a value, or leave it out");
  };
  refuse_auto("sp");
  refuse_auto("decode-moves");
  const std::string groups = options.text_or("groups", "none");
  if (groups != "none" && groups != "auto")
    options.refuse({"groups"}, with + ", which may leave some of them out; name devices");
  refuse_proportions(options, with);
}

// Returns whether a flag is given; '--levels none' is as if it were not.
bool is_given(const Options& options, const std::string& flag) {
  return options.has(flag) && (flag != "levels" || options.text_or(flag, "none") != "none");
}

// Returns whether a prompt's attention has levels by flags; `auto` included.
bool has_levels(const Options& options) {
  return is_given(options, "levels") || options.has("drop");
}

}  // namespace

WantedDevices devices_of(const Options& options, const model::Cluster& cluster,
                         const planner::Strategy& strategy, bool any) {
  WantedDevices wanted{.used = std::vector<bool>(cluster.devices().size(), true)};
  const std::string text = options.text_or("devices", "all");
  wanted.searched = any || text == "auto";
  if (!any && wanted.searched) refuse_with_searched_devices(options, strategy);
  if (text == "all" || text == "auto") return wanted;
  wanted.fewest = text == "fewest";
  if (!wanted.fewest) {
    wanted.used.assign(wanted.used.size(), false);
    for (const std::string& name : model::split_list(text)) {
      check_no_word(text, name, cluster);
      std::vector<bool>::reference used = wanted.used[static_cast<std::size_t>(cluster.find(name))];
      if (used)
        throw Usage("flag '--devices': '" + name + "' is there twice, expected each device once");
      used = true;
    }
    const std::string master = options.text_or("master", "");
    if (!master.empty() && !wanted.used[static_cast<std::size_t>(cluster.find(master))])
      throw Usage("flag '--master': '" + master + "' is not among '--devices " + text +
                  "'; add it there, or name one of these");
    return wanted;
  }
  const std::string with = "with '--devices fewest'";
  if (any)
    throw Usage(
        "flag '--devices': fewest, but strategy auto chooses devices itself, of equally "
        "good plans that with the fewest; name devices, or a strategy");
  if (strategy.sharding.is_local())
    throw Usage("flag '--devices': strategy '" + strategy.name +
                "' computes on the master alone; leave it out");
  options.refuse({"groups", "levels", "drop", "max-ttft"},
                 with + ", which are not known beforehand; name devices");
  if (strategy.sharding.measures_losses())
    options.refuse({"max-loss"}, with + ", whose levels are not known beforehand; name devices");
  refuse_proportions(options, with);
  return wanted;
}

std::vector<std::string> profile_files(const Options& options, const model::Cluster& cluster) {
  std::vector<std::string> files;
  for (const std::string& text : options.all("profile")) {
    std::error_code ignored;
    if (text.find('=') != std::string::npos || !std::filesystem::is_directory(text, ignored)) {
      files.push_back(text);
      continue;
    }
    for (const model::Device& device : cluster.devices())
      files.push_back(device.name + "=" +
                      (std::filesystem::path(text) / (device.name + ".profile.json")).string());
  }
  return files;
}

DeviceProfile platform_profile(const model::Device& device,
                               const std::map<std::string, std::string>& processors,
                               const model::DeviceShare* share, std::string& remark) {
  DeviceProfile profile = model::nominal_profile(device);
  if (const auto named = processors.find(device.name); named != processors.end()) {
    if (const auto reference = reference_processor(named->second)) {
      profile = model::similar_profile(device, *reference);
    } else {
      remark = "device '" + device.name + "': no processor '" + named->second +
               "' was measured by this project; its stated speeds are used";
    }
  }
  profile.program_bytes = model::kProgramBytes;
  // `tandem run` takes the number of threads from the profile.
  if (share != nullptr && cores_of(*share) < share->cores)
    profile.threads = static_cast<int>(cores_of(*share));
  return profile;
}

std::vector<DeviceProfile> device_profiles(
    const Options& options, const model::Cluster& cluster,
    const std::map<std::string, std::string>& processors,
    const std::map<std::string, model::DeviceShare>& shares) {
  const std::vector<std::string> given = profile_files(options, cluster);
  if (given.empty()) options.refuse({"threads"}, "without '--profile', whose threads it chooses");
  std::optional<int> threads;
  if (options.has("threads")) threads = static_cast<int>(options.integer_or("threads", 1, 1, 1024));
  std::optional<ProfileFile> common;
  std::vector<std::optional<ProfileFile>> own(cluster.devices().size());
  for (const std::string& text : given) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) {
      if (common)
        throw Usage("flag '--profile' is given twice for every device; write NAME=FILE for one");
      common = read_profiles(text);
      continue;
    }
    const auto device = static_cast<std::size_t>(cluster.find(text.substr(0, equals)));
    if (own[device])
      throw Usage("flag '--profile' is given twice for device '" + text.substr(0, equals) + "'");
    own[device] = read_profiles(text.substr(equals + 1));
  }
  if (common && std::ranges::all_of(own, [](const auto& one) { return one.has_value(); }))
    throw Usage(
        "flag '--profile' for every device has no effect, as each has one of its own; "
        "leave it out");
  std::vector<DeviceProfile> profiles(own.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::optional<ProfileFile>& file = own[i] ? own[i] : common;
    const auto found = shares.find(cluster.devices()[i].name);
    const model::DeviceShare* const share = found == shares.end() ? nullptr : &found->second;
    if (!file) {
      std::string remark;
      profiles[i] = platform_profile(cluster.devices()[i], processors, share, remark);
      if (!remark.empty() && !options.has("quiet")) std::cerr << "tandem plan: " << remark << '\n';
      continue;
    }
    const double slowdown = cluster.devices()[i].slowdown;
    const bool emulated = slowdown != 1.0 || (!own[i] && own.size() > 1);
    profiles[i] = slowed(file_profile(*file, threads, emulated, share, slowdown != 1.0), slowdown);
  }
  return profiles;
}

void refuse_sums(const Options& options, const planner::Strategy& strategy) {
  const std::string with = "with strategy '" + strategy.name + "'";
  if (!strategy.sharding.has_collective() && !options.has("groups"))
    options.refuse({"allreduce"}, with + ", which joins no partial sums");
  if (strategy.sharding.shares_token_ffn() && options.text_or("decode-ffn", "auto") == "owner")
    options.refuse({"allreduce"}, with +
                                      ", which sums nothing while a new token's owner computes "
                                      "its FFN alone; leave it out, or give '--decode-ffn all' or "
                                      "'--decode-ffn auto'");
  if (!strategy.sharding.measures_losses() || options.text_or("sp", "ntp") != "ntp") return;
  for (const std::string flag : {"levels", "drop"}) {
    if (is_given(options, flag))
      options.refuse({"allreduce"}, std::string(with)
                                        .append(" and '--")
                                        .append(flag)
                                        .append("', where queries and results travel, not sums"));
  }
}

void refuse_streaming(const Options& options, const planner::Strategy& strategy) {
  if (!strategy.sharding.may_stream())
    options.refuse({"retain", "release"},
                   "with strategy '" + strategy.name + "', which keeps all weights in memory");
  for (const std::string flag : {"levels", "drop", "gather-weights"}) {
    if (is_given(options, flag))
      options.refuse({"retain", "release"},
                     "with '--" + flag + "', whose weights all stay in memory");
  }
}

std::optional<std::int32_t> retained(const Options& options, std::int64_t layers) {
  return count_or_auto(options, "retain", "none", layers);
}

model::ReleaseRule release_of(const Options& options) {
  return options.choice_or("release", "early", {"early", "late"}) == "late"
             ? model::ReleaseRule::late
             : model::ReleaseRule::early;
}

namespace {

constexpr std::int64_t kMostBlocks = 1'000'000;  // of a window

}  // namespace

planner::WindowRequest window_of(const Options& options, const model::Transformer& transformer,
                                 const WantedDevices& devices) {
  if (devices.fewest && options.text_or("window", "auto") == "auto") {
    if (options.has("window"))
      throw Usage(
          "flag '--window': 'auto' with '--devices fewest', but a device whose weights stream "
          "holds "
          "any model; expected all, or a number of blocks");
    options.refuse({"retain", "release"},
                   "with '--devices fewest', as every block stays in memory; give '--window W'");
    return {.blocks = 0, .retain = {}};
  }
  planner::WindowRequest window{.blocks = count_or_auto(options, "window", "all", kMostBlocks),
                                .retain = retained(options, transformer.layers)};
  if (window.blocks == 0)
    options.refuse({"retain", "release"}, "with '--window all', as every block stays in memory");
  return window;
}

std::string check_streaming(const Options& options, const planner::Plan& plan) {
  const std::int32_t blocks = count_or_auto(options, "window", "all", kMostBlocks).value_or(0);
  if (!plan.streams()) {
    const std::string when =
        blocks > 0
            ? "with '--window " + std::to_string(blocks) +
                  "', as no device would stream more blocks than that: all weights stay in memory; "
                  "leave it out, or give a smaller window"
            : "with all weights in memory, as there is room for them; leave it out, or give "
              "'--window W'";
    if (retained(options, plan.model.layers).value_or(0) > 0) options.refuse({"retain"}, when);
    if (release_of(options) != model::ReleaseRule::early) options.refuse({"release"}, when);
  }
  if (blocks == 0) return "";
  std::string whole;
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const planner::DevicePlan& device = plan.devices[d];
    if (device.window.streams() || device.share.layers.empty()) continue;
    whole += (whole.empty() ? "'" : ", '") + plan.cluster.devices()[d].name + "'";
  }
  if (whole.empty()) return "";
  return "flag '--window': " + std::to_string(blocks) + ", but device " + whole +
         " would stream no more blocks than that: its weights all stay in memory, as with "
         "'--window all'";
}

std::optional<std::int32_t> rounds(const Options& options) {
  if (options.text_or("rounds", "1") == "auto") return std::nullopt;
  return static_cast<std::int32_t>(options.integer_or("rounds", 1, 1, planner::kMostRounds));
}

namespace {

// Whether what is cut into tiles is what travels at each level.
bool tiles_are_of_levels(const Options& options, const planner::Strategy& strategy) {
  return strategy.sharding.measures_losses() && options.text_or("sp", "ntp") != "tp" &&
         has_levels(options);
}

std::vector<std::int32_t> tiles_by_level(const Options& options) {
  if (options.text_or("tiles", "1") == "auto") return {};
  std::vector<std::int32_t> tiles;
  for (const std::int64_t count : options.integers_or("tiles", 1, 1, planner::kMostTiles))
    tiles.push_back(static_cast<std::int32_t>(count));
  return tiles;
}

}  // namespace

std::optional<std::int32_t> tiles(const Options& options, const planner::Strategy& strategy) {
  if (tiles_are_of_levels(options, strategy)) return std::nullopt;
  if (options.text_or("tiles", "auto") == "auto") return std::nullopt;
  return static_cast<std::int32_t>(options.integer_or("tiles", 1, 0, planner::kMostTiles));
}

std::optional<planner::SparseRequest> sparse_of(const Options& options,
                                                const planner::Strategy& strategy) {
  if (!strategy.sharding.exchanges_rows())
    options.refuse({"levels", "drop", "levels-overlap"},
                   "with strategy '" + strategy.name + "', expected strategy " +
                       planner::strategies_that(&planner::Sharding::exchanges_rows));
  if (!has_levels(options)) {
    options.refuse({"levels-overlap"}, "without '--levels' or '--drop'");
    return std::nullopt;
  }
  const std::string levels = options.text_or("levels", "2");
  if (levels == "none")
    throw Usage("flag '--levels': 'none' with '--drop', which drops rows by level; expected " +
                some_levels() + ", or leave '--drop' out");
  if (levels == "auto") {
    options.refuse({"drop", "levels-overlap"}, "with '--levels auto', whose levels drop nothing");
    return std::nullopt;
  }
  std::vector<std::int32_t> tiles{1};
  if (tiles_are_of_levels(options, strategy)) tiles = tiles_by_level(options);
  return planner::SparseRequest{.levels = number_of_levels(options),
                                .drop = options.number_or("drop", 0.0, 0.0, 1.0),
                                .overlap = options.has("levels-overlap"),
                                .tiles = std::move(tiles)};
}

std::optional<planner::DecodeMoves> moves_of(const Options& options,
                                             const planner::Strategy& strategy) {
  const std::string with = "with strategy '" + strategy.name + "'";
  const std::vector<planner::DecodeMoves> known = strategy.moves();
  if (known.size() == 1)
    options.refuse({"decode-moves"}, with + ", whose caches are not parted by positions");
  if (strategy.sharding.exchanges_rows() && !has_levels(options))
    options.refuse(
        {"decode-moves"},
        with + " without '--levels' or '--drop', whose caches lie by heads; give '--levels'");
  std::vector<std::string_view> names;
  names.reserve(known.size() + 1);
  for (const planner::DecodeMoves moves : known) names.push_back(to_string(moves));
  names.emplace_back("auto");
  const std::string moves = options.choice_or("decode-moves", "q", names);
  if (moves == "auto" && strategy.sharding.measures_losses() &&
      (options.has("max-loss") || options.has("max-ttft")))
    throw Usage(
        "flag '--decode-moves': auto compares plans whose levels and ratios are given, expected q "
        "or "
        "migrate with '--max-loss' or '--max-ttft', which choose them");
  return planner::find_decode_moves(moves);
}

planner::TokenFfn token_ffn_of(const Options& options, const planner::Strategy& strategy) {
  if (!strategy.sharding.shares_token_ffn())
    options.refuse({"decode-ffn"}, "with strategy '" + strategy.name +
                                       "', whose new tokens have no owner among devices that all "
                                       "have the weights");
  const std::string who =
      options.choice_or("decode-ffn", strategy.sharding.shares_token_ffn() ? "auto" : "owner",
                        {"owner", "all", "auto"});
  return who == "owner" ? planner::TokenFfn::owner
         : who == "all" ? planner::TokenFfn::shared
                        : planner::TokenFfn::automatic;
}

// A device alone sends nothing.
std::optional<model::WireFormat> given_wire(const Options& options,
                                            const planner::Strategy& strategy, bool any) {
  if (!any && strategy.sharding.is_local())
    options.refuse({"wire-type"}, "with strategy '" + strategy.name + "', which sends nothing");
  if (!options.has("wire-type")) return std::nullopt;
  std::vector<std::string_view> names;
  names.reserve(model::kWireFormats.size());
  for (const model::WireFormat format : model::kWireFormats) names.push_back(to_string(format));
  return model::find_wire_format(options.choice_or("wire-type", "f32", names));
}

planner::HeadPlacement head_of(const Options& options, const planner::Strategy& strategy) {
  using enum planner::HeadPlacement;
  const std::string head = options.choice_or("head", "master", {"master", "split", "auto"});
  if (head == "auto" && !strategy.sharding.may_split_head())
    options.refuse({"head"}, "with strategy '" + strategy.name +
                                 "', which keeps the LM head at the master, so that there is "
                                 "nothing to choose");
  return head == "master" ? master : head == "split" ? split : automatic;
}

std::int32_t candidates_of(const Options& options, planner::HeadPlacement head) {
  if (head == planner::HeadPlacement::master)
    options.refuse({"candidates"},
                   "with the LM head at the master, who has all logits; give '--head split' or "
                   "'--head auto'");
  if (options.text_or("candidates", "none") == "none") return 0;
  return static_cast<std::int32_t>(options.integer_or("candidates", 1, 1, model::kMostCandidates));
}

planner::SearchEffort::Limits effort_limits(const Options& options) {
  constexpr double kUsualSeconds = 10.0;
  constexpr double kMostSeconds = 1e6;
  planner::SearchEffort::Limits limits;
  const std::int64_t evaluations =
      options.integer_or("evaluations", 0, 0, std::numeric_limits<std::int64_t>::max());
  if (evaluations > 0) limits.evaluations = evaluations;
  const double seconds = options.number_or(
      "seconds", options.has("evaluations") ? 0.0 : kUsualSeconds, 0.0, kMostSeconds);
  if (seconds > 0.0) limits.seconds = seconds;
  return limits;
}

void refuse_with_any(const Options& options) {
  options.refuse({"partition", "allreduce", "tiles", "decode-moves", "decode-ffn", "gather-weights",
                  "rounds", "groups", "group-strategy"},
                 "with strategy 'auto', which chooses it; name a strategy");
  options.refuse({"sp"},
                 "with strategy 'auto', which compares both, as csps (ntp) and galaxy (tp); name "
                 "one of these");
  const std::string none = "with strategy 'auto', whose plans have no levels; name strategy ";
  options.refuse({"levels", "drop", "levels-overlap"},
                 none + planner::strategies_that(&planner::Sharding::exchanges_rows));
  options.refuse({"max-ttft", "loss-model"},
                 none + planner::strategies_that(&planner::Sharding::measures_losses));
}

}  // namespace tandem::cli
