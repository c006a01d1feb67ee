#pragma once

// The question turned round: the longest context, the largest model, the fewest devices and the
// highest precision that fit. `tandem plan --fit`.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "advice/prompt_chunks.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/search/search.hpp"

namespace tandem::study {

// A request fits if a placement has a plan: a strategy, devices and their master. Memory alone
// decides. Speed does not matter, and a plan's windows are those of the request.
struct FitQuestion {
  // Its strategy is read if `any_strategy` is false; then all its devices are used, with the master
  // that it names, or the first. Profiles are by device, or empty.
  planner::Request request;
  bool any_strategy = true;
  PromptReading reading{};  // a request fits as fit_prompt() says; by default with whole prompts
  // Limits and interrupts the checks; each counts as one evaluation. Null: no limits. Outlives the
  // call. At a limit, the answer is the best so far, and `complete` is false.
  planner::SearchEffort* effort = nullptr;
  // Called after each check with a description of the best so far ("" without one).
  std::function<void(const std::string& best)> progress{};
};

// Where a request fits, or why it does not.
struct Fit {
  std::optional<planner::Plan> plan{};  // on its devices alone; the first found, not the fastest
  std::int64_t chunk = 0;               // of the plan: its prompt is read in chunks; 0: whole
  std::string reason{};                 // without a plan: the first line of the likeliest placement
};

struct FitEffort {
  std::int64_t checks = 0;  // placements for which a plan was made or refused
  bool complete = true;     // false: a limit or an interruption ended the checks
  // Whether all subsets of the devices were considered; else all devices, and of each number those
  // with most memory and those nearest to the master.
  bool all_subsets = true;
};

// Returns whether `request` fits on some of its devices.
[[nodiscard]] Fit fits_somewhere(const FitQuestion& question, FitEffort& effort);

struct LongestContext {
  std::int64_t tokens = 0;  // prompt and new tokens; 0: not even the shortest fits
  Fit at{};                 // of `tokens`; without a plan if 0
  std::string beyond{};     // why one token more does not fit; empty at `most`
  FitEffort effort{};
};
// Returns the longest context from `least` to `most` tokens that fits. `workload_of` returns the
// request's lengths for a context; none may be shorter for a longer one. Where chunks are chosen,
// contexts above `least` that fit only in chunks of fewer than 32 tokens do not count. A placement
// that holds a context holds all shorter ones, so each placement that holds more than the best so
// far is bisected, and all others are checked once: first with each strategy's default sums, then
// with all.
[[nodiscard]] LongestContext longest_context(
    const FitQuestion& question, std::int64_t least, std::int64_t most,
    const std::function<planner::Workload(std::int64_t)>& workload_of);

struct FewestDevicesFit {
  std::size_t devices = 0;  // 0: not even all hold it
  Fit at{};
  std::string fewer{};  // why one device fewer does not do; empty for one device
  FitEffort effort{};
};
// Returns the fewest devices that hold the request, and a plan on them. Subsets of equal size are
// checked from those near the master on. With a named strategy, all of a subset's devices are used.
[[nodiscard]] FewestDevicesFit fewest_devices(const FitQuestion& question);

// One of several models or formats, the most wanted first.
struct FitOption {
  std::string name{};
  model::Transformer model{};
  planner::Workload workload{};
};

struct FirstFit {
  std::optional<std::size_t> index{};  // of the first option that fits
  Fit at{};
  std::string before{};  // why the option before it does not fit; empty for the first
  FitEffort effort{};
};
// Returns the first of `options` that fits.
[[nodiscard]] FirstFit first_fit(const FitQuestion& question,
                                 const std::vector<FitOption>& options);

}  // namespace tandem::study
