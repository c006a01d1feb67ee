#include "exec/profiling/profile.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "exec/kernels/integer_choice.hpp"
#include "exec/kernels/kernels_here.hpp"
#include "exec/profiling/profile_fit.hpp"
#include "exec/profiling/profile_rig.hpp"
#include "exec/transport/measure.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {

namespace {

using model::TaskKind;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Bytes of weights between two visits to the same: several times the last-level cache, as far as an
// eighth of `seconds` suffices to make them at `rate` bytes a second, but twice the cache.
double beyond_cache(double seconds, double rate) {
  constexpr double kCaches = 8.0;
  constexpr double kLeastCaches = 2.0;
  constexpr double kAssumed = 32.0 * 1024 * 1024;  // where the kernel does not tell
  const auto cache = static_cast<double>(sysconf(_SC_LEVEL3_CACHE_SIZE));
  const double size = cache > 0.0 ? cache : kAssumed;
  return std::clamp(rate * seconds / 8.0, kLeastCaches * size, kCaches * size);
}

// The first value of `field` in a file of "field : value" lines; empty if there is none.
std::string field_of(const char* path, const std::string& field) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(field)) continue;
    const std::size_t value = line.find_first_not_of(": \t", line.find(':'));
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

// Resident bytes of this process, as the run's own peak counts them: RssFile is code and libraries
// as far as they were touched, RssAnon what was allocated.
double resident_bytes(const char* field) {
  const std::string kilobytes = field_of("/proc/self/status", field);
  return kilobytes.empty() ? 0.0 : std::stod(kilobytes) * 1024.0;
}

std::string describe(const model::Transformer& transformer, const ProfileOptions& options,
                     const model::MeasuredKernels& kernels) {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 16> date{};
  std::strftime(date.data(), date.size(), "%Y-%m-%d", &utc);
  const std::string chosen = options.kernels == KernelSet::tuned ? kernel_choice() : "";
  std::string machine = kernels.processor;
  if (machine.empty()) machine = "unknown processor";
  return machine + ", " + std::to_string(options.threads) +
         (options.threads == 1 ? " thread, CPU time" : " threads, wall time") + ", matrices of " +
         transformer.name + ", " + kernels.instruction_sets +
         (chosen.empty() ? "" : " (chosen: " + chosen + ")") + ", " + date.data();
}

// Code that a run executes and a profile does not (plans, workers, reports): what a worker's
// RssFile was above a profile's, on x86-64.
constexpr double kRunCode = 2.3 * 1024 * 1024;

// Weights that some cache may hold from one token to the next.
constexpr double kCached = 64.0 * 1024 * 1024;

// After so long, weights of some MiB are read at about half their rate (decision 0017).
constexpr std::chrono::milliseconds kPause{25};

struct Step {
  std::int32_t rows = 1;
  std::int32_t past = 0;
};

// Single tokens after contexts of several lengths, and prompts of every wanted size, ascending.
std::vector<Step> steps_of(const model::Transformer& transformer,
                           const std::vector<std::int32_t>& rows) {
  const auto context =
      static_cast<std::int32_t>(std::min<std::int64_t>(transformer.max_context, 1024));
  std::vector<Step> steps;
  for (std::int32_t past = 15; past < context; past = past * 4 + 3) steps.push_back({1, past});
  if (steps.empty()) steps.push_back({1, 0});
  for (const std::int32_t n : rows) {
    if (n > 1) steps.push_back({n, 0});
  }
  std::ranges::stable_sort(steps, {}, &Step::rows);
  return steps;
}

// What every task of the model takes, with weights in its formats, measured for `seconds` from
// `start` on. What there was no time for is added to `source`.
ProfileLog measure_tasks(const model::Transformer& transformer, const ProfileOptions& options,
                         Clock::time_point start, double seconds, std::string& source) {
  // Two sizes of everything, so that what a task costs can be told from what a byte costs.
  constexpr double kSmall = 0.25;
  constexpr double kLargestLayer = 256.0 * 1024 * 1024;
  constexpr double kLargestHead = 128.0 * 1024 * 1024;
  constexpr std::int32_t kSequences = 16;
  std::vector<Step> steps = steps_of(transformer, options.rows);
  const std::int32_t max_rows = std::ranges::max(options.rows);
  std::int32_t max_positions = 1;
  for (const Step& s : steps) max_positions = std::max(max_positions, s.past + s.rows);
  const auto all = [&](std::int64_t count) {
    return model::Range{0, static_cast<std::int32_t>(count)};
  };
  const double layer = model::weight_bytes(
      transformer, {{0, 1}, all(transformer.heads), all(transformer.intermediate), false, false});
  const double fraction = std::min(1.0, kLargestLayer / layer);
  // The heads are made first: how long that takes tells what the layers' weights will take.
  const Clock::time_point before_heads = Clock::now();
  const std::int64_t vocab = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(kLargestHead / static_cast<double>(transformer.head_row_bytes())),
      1, transformer.vocab);
  const auto head = [&](std::int64_t rows_of_vocab) {
    return ProfileHead(transformer, rows_of_vocab, max_rows, std::min(max_rows, kSequences),
                       options.threads, options.kernels);
  };
  std::array<ProfileHead, 2> heads{head(vocab), head((vocab + 3) / 4)};
  const std::int64_t row_bytes = transformer.embedding_row_bytes() +
                                 (transformer.tied_embeddings ? 0 : transformer.head_row_bytes());
  const double head_bytes = 1.25 * static_cast<double>(vocab * row_bytes);
  const double filling = head_bytes / std::max(seconds_since(before_heads), 1e-6);
  // A model that the caches hold is read from them in a run, so it is here.
  const double model_bytes =
      model::weight_bytes(transformer, {{0, static_cast<std::int32_t>(transformer.layers)},
                                        all(transformer.heads),
                                        all(transformer.intermediate),
                                        false,
                                        false});
  const double stream_bytes = options.stream_bytes > 0.0
                                  ? options.stream_bytes
                                  : std::min(model_bytes, beyond_cache(seconds, filling));
  const auto rig = [&](double of_model) {
    return ProfileRig({.transformer = transformer,
                       .fraction = of_model,
                       .layer_bytes = stream_bytes,
                       .max_rows = max_rows,
                       .max_positions = max_positions,
                       .threads = options.threads,
                       .kernels = options.kernels});
  };
  std::array<ProfileRig, 2> rigs{rig(fraction), rig(fraction * kSmall)};
  // Rounds over everything, so that a machine that drifts drifts for all alike.
  const ProfileClock clock(options.threads);
  ProfileLog log;
  const auto run_size = [&](const Step& step, std::size_t size, ProfileLog& to) {
    rigs[size].step(step.rows, step.past, clock, to);
    heads[size].step(step.rows, clock, to);
  };
  const auto run_all_sizes = [&](const Step& step, ProfileLog& to) {
    for (std::size_t size = 0; size < rigs.size(); ++size) {
      // New tokens, of one sequence or some, follow others, whose weights the caches still hold if
      // they can. A prompt follows a pause, after which they may not: where a machine is shared,
      // others took them.
      ProfileLog before;
      if (stream_bytes <= kCached && step.rows <= kNewTokenRows) run_size(step, size, before);
      if (stream_bytes <= kCached && step.rows > kNewTokenRows) std::this_thread::sleep_for(kPause);
      run_size(step, size, to);
    }
  };
  // The first round warms up, and tells which steps there is time for: a step takes at most as much
  // longer than the one before as it has more rows, and is made twice.
  ProfileLog warm_up;
  const Clock::time_point first_round = Clock::now();
  double last_s = 0.0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const double growth = i == 0 ? 0.0 : static_cast<double>(steps[i].rows) / steps[i - 1].rows;
    const double round_s = seconds_since(first_round) + last_s * growth;
    const double made_s = seconds_since(start) - seconds_since(first_round);
    if (steps[i].rows > 1 && made_s + 2.0 * round_s > seconds) {
      source += ", for lack of time no prompts of more than " + std::to_string(steps[i - 1].rows) +
                (steps[i - 1].rows == 1 ? " token" : " tokens");
      steps.resize(i);
      break;
    }
    const Clock::time_point before = Clock::now();
    run_all_sizes(steps[i], warm_up);
    last_s = seconds_since(before);
  }
  do {
    for (const Step& step : steps) run_all_sizes(step, log);
  } while (seconds_since(start) < seconds);

  return log;
}

}  // namespace

model::DeviceProfile measure_profile(const model::Transformer& transformer,
                                     const ProfileOptions& options) {
  require(options.threads >= 1 && !options.rows.empty() && std::ranges::min(options.rows) >= 1,
          "a profile has threads, and rows from 1");
  const Clock::time_point start = Clock::now();
  const double parts =
      1.0 + static_cast<double>(options.formats.size()) + (options.half_cache ? 1.0 : 0.0);
  const double share = options.seconds / parts;
  model::DeviceProfile profile;
  const double idle_heap = resident_bytes("RssAnon");
  profile.kernels = kernels_here(options.kernels);
  profile.source = describe(transformer, options, *profile.kernels);
  model::Transformer measured = transformer;
  measured.formats = model::WeightFormats();
  measured.cache = model::CacheFormat::f32;
  const auto rate = [&profile](TaskKind kind) -> model::KindRate& {
    return profile.rate[static_cast<std::size_t>(kind)];
  };
  const MessageCosts messages = measure_message_cost(weights_between_messages(transformer));
  rate(TaskKind::transfer) = messages.transfer;
  profile.inlined = messages.inlined;

  const ProfileLog log = measure_tasks(measured, options, start, share, profile.source);
  for (int k = 0; k < model::kTaskKinds; ++k) {
    const auto kind = static_cast<TaskKind>(k);
    if (kind == TaskKind::transfer || kind == TaskKind::load || kind == TaskKind::release ||
        model::rate_kind(kind) != kind)
      continue;
    const std::vector<ProfileSample> samples = log.samples(kind);
    // No prompts, or none of a model with a causal mask.
    if (samples.empty() && model::may_lack_rate(kind)) continue;
    rate(kind) = fit_rate(samples);
  }
  for (const model::WeightFormat format : model::kWeightFormats) {
    if (std::ranges::find(options.formats, format) == options.formats.end()) continue;
    require(format != model::WeightFormat::f32, "f32 is measured in any case");
    measured.formats = model::WeightFormats(format);
    profile.source += "; weights in " + std::string(to_string(format));
    const ProfileLog of_format =
        measure_tasks(measured, options, Clock::now(), share, profile.source);
    model::FormatRates& rates = profile.formats.emplace_back();
    rates.format = format;
    for (int k = 0; k < model::kTaskKinds; ++k) {
      const auto kind = static_cast<TaskKind>(k);
      if (model::reads_weights(kind))
        rates.rate[static_cast<std::size_t>(k)] = fit_rate(of_format.samples(kind));
    }
  }
  if (options.half_cache) {
    measured.formats = model::WeightFormats();
    measured.cache = model::CacheFormat::f16;
    profile.source += "; cache in " + std::string(to_string(measured.cache));
    const ProfileLog of_cache =
        measure_tasks(measured, options, Clock::now(), share, profile.source);
    profile.half_attend = fit_rate(of_cache.samples(TaskKind::attend));
    // What was gathered is f32 and tells nothing of it.
    const std::vector<ProfileSample> scores =
        of_cache.samples(TaskKind::score, model::rated_as(measured.cache));
    if (!scores.empty()) profile.half_score = fit_rate(scores);
  }
  // By now most of the code that a run executes has been executed. What connections and graphs of a
  // session take is the plan's to say (planner/memory/session_memory).
  profile.program_bytes = idle_heap + resident_bytes("RssFile") + kRunCode;
  return profile;
}

}  // namespace tandem::exec
