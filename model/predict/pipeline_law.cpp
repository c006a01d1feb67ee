#include "model/predict/pipeline_law.hpp"

#include <algorithm>
#include <cmath>

#include "model/base/error.hpp"

namespace tandem::model {

double round_time(const Ring& ring) {
  double seconds = ring.delay_s;
  for (const RingStage& stage : ring.stages) seconds += stage.compute_s + stage.message_s();
  return seconds;
}

RingBottleneck ring_bottleneck(const Ring& ring) {
  RingBottleneck most;
  const auto consider = [&](const std::string& name, double seconds) {
    if (seconds > most.seconds) most = {name, seconds};
  };
  for (const RingStage& stage : ring.stages) consider("device " + stage.name, stage.compute_s);
  for (const RingStage& stage : ring.stages)
    consider("channel from " + stage.name, stage.overhead_s + stage.wire_s);
  consider(ring.other.name, ring.other.seconds);
  return most;
}

double token_period(const Ring& ring, std::int64_t samples) {
  require(samples >= 1, "token_period: at least one sample");
  return std::max(round_time(ring) / static_cast<double>(samples), ring_bottleneck(ring).seconds);
}

std::int64_t least_samples(const Ring& ring) {
  constexpr double kRounding = 1e-9;
  const double bottleneck = ring_bottleneck(ring).seconds;
  if (bottleneck <= 0.0) return 1;
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::ceil(round_time(ring) / bottleneck * (1.0 - kRounding))));
}

}  // namespace tandem::model
