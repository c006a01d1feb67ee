#include "exec/profiling/profile.hpp"

#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string>

#include "exec/kernels/integer_choice.hpp"
#include "exec/kernels/kernels_here.hpp"
#include "exec/machine/process_facts.hpp"
#include "exec/profiling/profile_errors.hpp"
#include "exec/profiling/profile_fit.hpp"
#include "exec/profiling/profile_rig.hpp"
#include "exec/profiling/profile_steps.hpp"
#include "exec/profiling/stream_bytes.hpp"
#include "exec/transport/measure.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {

namespace {

using model::TaskKind;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string describe(const model::Transformer& transformer, int threads, KernelSet set,
                     const model::MeasuredKernels& kernels) {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 16> date{};
  std::strftime(date.data(), date.size(), "%Y-%m-%d", &utc);
  const std::string chosen = set == KernelSet::tuned ? kernel_choice() : "";
  std::string machine = kernels.processor;
  if (machine.empty()) machine = "unknown processor";
  return machine + ", " + std::to_string(threads) +
         (threads == 1 ? " thread, CPU time" : " threads, wall time") + ", matrices of " +
         transformer.name + ", " + kernels.instruction_sets +
         (chosen.empty() ? "" : " (chosen: " + chosen + ")") + ", " + date.data();
}

constexpr const char* kStatus = "/proc/self/status";

// Code that a run executes and a profile does not (plans, workers, reports): what a worker's
// RssFile was above a profile's, on x86-64.
constexpr double kRunCode = 2.3 * 1024 * 1024;

// What is measured at once: weights and cache as they are in `transformer`.
struct Part {
  model::Transformer transformer;
  std::string name{};  // for sources; empty: weights and cache in f32, which are always measured
  std::optional<model::WeightFormat> format{};  // of weights that are not f32
  double weight = 1.0;                          // of all time, beside those of other parts
  std::optional<StepMeasurement> steps{};
  std::vector<MeasuredSteps> measured{};  // one for each number of threads
};

std::vector<Part> parts_of(const model::Transformer& transformer, const ProfileOptions& options) {
  transformer.require_executable();
  model::Transformer plain = transformer;
  plain.formats = model::WeightFormats();
  plain.cache = model::CacheFormat::f32;
  std::vector<Part> parts;
  parts.emplace_back().transformer = plain;
  for (const model::WeightFormat format : model::kWeightFormats) {
    if (std::ranges::find(options.formats, format) == options.formats.end()) continue;
    require(format != model::WeightFormat::f32, "f32 is measured in any case");
    Part& part = parts.emplace_back();
    part.transformer = plain;
    part.name = "weights in " + std::string(to_string(format));
    part.format = format;
    part.transformer.formats = model::WeightFormats(format);
  }
  for (const model::CacheFormat cache : model::kCacheFormats) {
    if (std::ranges::find(options.caches, cache) == options.caches.end()) continue;
    require(cache != model::CacheFormat::f32, "f32 is measured in any case");
    Part& part = parts.emplace_back();
    part.transformer = plain;
    part.name = "cache in " + std::string(to_string(cache));
    part.transformer.cache = cache;
  }
  // If others are named, only those kinds need f32 that read no weights, which every part measures.
  if (parts.size() > 1) parts.front().weight = 0.5;
  for (Part& part : parts) {
    part.steps.emplace(part.transformer, StepOptions{.threads = options.threads,
                                                     .kernels = options.kernels,
                                                     .stream_bytes = stream_bytes_of(
                                                         part.transformer, options.stream_bytes),
                                                     .rows = options.rows,
                                                     .finer = options.finer,
                                                     .check = options.check});
  }
  return parts;
}

// Measures all parts in turn, in rounds over all of `seconds`: a slow moment of the machine is one
// of several moments of every size, whose median counts. The first round is always made, the others
// while they measure for as long as they make weights.
void measure(std::vector<Part>& parts, double seconds) {
  constexpr int kRounds = 5;
  const Clock::time_point start = Clock::now();
  double weights = 0.0;
  for (const Part& part : parts) weights += part.weight;
  int left = kRounds;  // rounds, with the one that is under way
  for (bool first = true; left > 0; first = false, --left) {
    double done = 0.0;
    double making_s = 0.0;
    for (Part& part : parts) {
      const double left_s = seconds - seconds_since(start);
      const double share = part.weight / (left * weights - done);
      done += part.weight;
      if (first || left_s * share > part.steps->making_s())
        part.steps->visit(left_s * share, left - 1);
      making_s += part.steps->making_s();
    }
    const double left_s = seconds - seconds_since(start);
    if (left_s < making_s) return;
    left = std::min(left, 1 + std::max(1, static_cast<int>(left_s / (2.0 * making_s))));
  }
}

// Sets the rates of `profile`, the `index`th, and their errors, from what was measured of all
// parts.
void fit_rates(const std::vector<Part>& parts, std::size_t index, model::DeviceProfile& profile) {
  ProfileLog all;
  HeldOut all_held_out;
  std::vector<std::vector<double>> references;
  for (const Part& part : parts) {
    const MeasuredSteps& measured = part.measured[index];
    all.add(measured.log);
    references.push_back(measured.reference_s);
    for (std::size_t k = 0; k < all_held_out.size(); ++k) {
      const std::vector<double>& more = measured.held_out[k];
      all_held_out[k].insert(all_held_out[k].end(), more.begin(), more.end());
    }
  }
  const double drift = relative_spread(references).value_or(0.0);  // two a visit at the least
  profile.drift = kept_deviation(drift);
  const auto fitted = [&](const ProfileLog& log, TaskKind kind,
                          std::optional<model::WeightFormat> format, const HeldOut& held_out) {
    model::KindRate rate = fit_rate(log.samples(kind, format));
    rate.error = rate_error(log, kind, format, held_out[static_cast<std::size_t>(kind)], drift);
    return rate;
  };
  for (int k = 0; k < model::kTaskKinds; ++k) {
    const auto kind = static_cast<TaskKind>(k);
    if (kind == TaskKind::transfer || kind == TaskKind::load || kind == TaskKind::release ||
        model::rate_kind(kind) != kind)
      continue;
    const bool of_weights = model::reads_weights(kind);
    const MeasuredSteps& plain = parts.front().measured[index];
    const ProfileLog& log = of_weights ? plain.log : all;
    // None of a model with a causal mask.
    if (log.samples(kind, model::WeightFormat::f32).empty() && model::may_lack_rate(kind)) continue;
    profile.rate[static_cast<std::size_t>(k)] =
        fitted(log, kind, model::WeightFormat::f32, of_weights ? plain.held_out : all_held_out);
  }
  for (const Part& part : parts) {
    const auto& [log, left_out, reference_s, held_out] = part.measured[index];
    if (part.transformer.cache != model::CacheFormat::f32) {
      const model::WeightFormat cache = model::rated_as(part.transformer.cache);
      model::CacheRates& rates = profile.caches.emplace_back();
      rates.format = part.transformer.cache;
      rates.attend = fitted(log, TaskKind::attend, cache, held_out);
      // What was gathered is f32: no sample of it.
      if (!log.samples(TaskKind::score, cache).empty())
        rates.score = fitted(log, TaskKind::score, cache, held_out);
      continue;
    }
    if (!part.format) continue;
    model::FormatRates& rates = profile.formats.emplace_back();
    rates.format = *part.format;
    for (int k = 0; k < model::kTaskKinds; ++k) {
      const auto kind = static_cast<TaskKind>(k);
      if (model::reads_weights(kind))
        rates.rate[static_cast<std::size_t>(k)] = fitted(log, kind, {}, held_out);
    }
  }
}

}  // namespace

std::vector<model::DeviceProfile> measure_profiles(const model::Transformer& transformer,
                                                   const ProfileOptions& options) {
  require(!options.threads.empty() && std::ranges::min(options.threads) >= 1 &&
              options.rows.size() >= 2 && options.rows.front() >= 1 &&
              std::ranges::is_sorted(options.rows),
          "a profile has threads, and two sizes of prompts or more, ascending");
  const Clock::time_point start = Clock::now();
  // First, as memory may not suffice.
  std::vector<Part> parts = parts_of(transformer, options);
  // As the run's own peak counts memory: RssFile is code and libraries as far as they were touched,
  // RssAnon what was allocated.
  const double idle_heap = field_bytes(kStatus, "RssAnon:");
  const MessageCosts messages = measure_message_cost(weights_between_messages(transformer));
  std::vector<model::DeviceProfile> profiles;
  for (const int threads : options.threads) {
    model::DeviceProfile& profile = profiles.emplace_back();
    profile.threads = threads;
    profile.kernels = kernels_here(options.kernels);
    profile.source = describe(transformer, threads, options.kernels, *profile.kernels);
    profile.rate[static_cast<std::size_t>(TaskKind::transfer)] = messages.transfer;
    profile.inlined = messages.inlined;
  }
  measure(parts, options.seconds - seconds_since(start));
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    for (Part& part : parts) {
      const MeasuredSteps& measured = part.measured.emplace_back(part.steps->measured(i));
      if (!part.name.empty()) profiles[i].source += "; " + part.name;
      if (!measured.left_out.empty()) profiles[i].source += ", " + measured.left_out;
    }
  }
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    fit_rates(parts, i, profiles[i]);
    // By now most of the code that a run executes has been executed. What connections and graphs of
    // a session take is the plan's to say (planner/memory/session_memory).
    profiles[i].program_bytes = idle_heap + field_bytes(kStatus, "RssFile:") + kRunCode;
  }
  return profiles;
}

}  // namespace tandem::exec
