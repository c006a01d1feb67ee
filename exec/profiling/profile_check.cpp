#include "exec/profiling/profile_check.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "exec/profiling/profile_rig.hpp"
#include "exec/profiling/stream_bytes.hpp"
#include "model/base/error.hpp"
#include "model/predict/cost_model.hpp"

namespace tandem::exec {
namespace {

using model::TaskKind;

constexpr double kFraction = 0.5;
constexpr std::array kPasts{31, 511};
constexpr std::array kRows{3, 24, 96, 200, 384};
constexpr int kRounds = 3;

ProfileLog held_out(const model::Transformer& transformer, int threads, KernelSet kernels,
                    double stream_bytes) {
  std::vector<std::int32_t> pasts;
  for (const std::int32_t past : kPasts) {
    if (past < transformer.max_context) pasts.push_back(past);
  }
  const std::int32_t rows = std::ranges::max(kRows);
  ProfilePart part(transformer, kFraction,
                   {.layer_bytes = stream_bytes_of(transformer, stream_bytes),
                    .max_rows = rows,
                    .max_positions = std::max(rows, pasts.empty() ? 1 : pasts.back() + 1),
                    .threads = threads,
                    .kernels = kernels});
  const ProfileClock clock(threads);
  ProfileLog warm_up;
  part.step(kNewTokenRows, 0, clock, warm_up);
  ProfileLog log;
  for (int round = 0; round < kRounds; ++round) {
    for (const std::int32_t past : pasts) part.step(1, past, clock, log);
    for (const std::int32_t n : kRows) part.step(n, 0, clock, log);
  }
  return log;
}

}  // namespace

std::vector<HeldOutErrors> check_profile(const model::Transformer& transformer,
                                         const model::DeviceProfile& profile, KernelSet kernels,
                                         double stream_bytes) {
  require(profile.threads > 0, "a profile that does not tell its threads");
  std::vector<HeldOutErrors> all;
  std::vector<model::WeightFormat> formats{model::WeightFormat::f32};
  for (const model::FormatRates& rates : profile.formats) formats.push_back(rates.format);
  for (const model::WeightFormat format : formats) {
    model::Transformer measured = transformer;
    measured.formats = model::WeightFormats(format);
    measured.cache = model::CacheFormat::f32;
    const ProfileLog log = held_out(measured, profile.threads, kernels, stream_bytes);
    for (int k = 0; k < model::kTaskKinds; ++k) {
      const auto kind = static_cast<TaskKind>(k);
      // What reads no weights is the same whatever their format.
      if (!model::reads_weights(kind) && format != model::WeightFormat::f32) continue;
      HeldOutErrors of_kind{.kind = kind, .format = format};
      for (const ProfileSample& sample : log.samples(kind)) {
        const model::KindRate* const rate = profile.rate_of(kind, format);
        if (rate == nullptr) continue;
        of_kind.errors.push_back(
            model::task_seconds(*rate, sample.streamed_bytes, sample.intensity) / sample.seconds -
            1.0);
      }
      if (!of_kind.errors.empty()) all.push_back(std::move(of_kind));
    }
  }
  return all;
}

}  // namespace tandem::exec
