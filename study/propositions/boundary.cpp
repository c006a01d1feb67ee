#include "study/propositions/boundary.hpp"

#include <array>
#include <cmath>

#include "study/propositions/simulations.hpp"
#include "study/steady_state/layered.hpp"
#include "study/steady_state/recurrence.hpp"

namespace tandem::study {
namespace {

struct Setting {
  std::int64_t window;
  model::ReleaseRule release;
};
constexpr std::array kSettings{Setting{3, model::ReleaseRule::early},
                               Setting{2, model::ReleaseRule::late},
                               Setting{1, model::ReleaseRule::early}};

// Microseconds. tau_attn : tau_ffn = 18 : 30, as in the worked example, and t_attn : t_ffn as well,
// as both are of the same bytes in the measured points (bench/boundary_points.py).
LayeredSchedule at_slack(const Setting& setting, double slack) {
  constexpr double kPath = 10.5e3 + 17.5e3 + 2 * 14e3;
  const double loads = kPath / (1.0 + slack);
  return {.devices = {{.attention = 10'500,
                       .ffn = 17'500,
                       .load_attention = std::llround(loads * 18.0 / 48.0),
                       .load_ffn = std::llround(loads * 30.0 / 48.0)}},
          .reduce = 14'000,
          .layers = 8,
          .window = setting.window,
          .release = setting.release};
}

double slack_of(const MemorySchedule& schedule) {
  const auto loads = static_cast<double>(load_time(schedule));
  return (static_cast<double>(path_time(schedule)) - loads) / loads;
}

// From the last two of enough tokens.
double simulated_fraction(const MemorySchedule& schedule) {
  constexpr std::size_t kTokens = 12;
  const std::vector<double> starts = simulated_starts(schedule, kTokens, false);
  const std::size_t blocks = schedule.blocks();
  const double token = starts[(kTokens - 1) * blocks] - starts[(kTokens - 2) * blocks];
  const double fraction = 1.0 - static_cast<double>(path_time(schedule)) / token;
  return std::abs(fraction) < kSimulationTolerance ? 0.0 : fraction;
}

}  // namespace

std::vector<SeriesPoint> boundary_series(bool simulate,
                                         const std::vector<BoundaryPoint>& replayed) {
  constexpr int kSteps = 100;  // of the recurrence, over the whole range
  constexpr int kSimulated = 24;
  std::vector<SeriesPoint> points;
  for (const Setting& setting : kSettings) {
    const auto add = [&](const std::string& series, int step, int steps) {
      const MemorySchedule schedule =
          to_schedule(at_slack(setting, -0.5 + static_cast<double>(step) / steps));
      points.push_back({.series = series,
                        .window = setting.window,
                        .release = setting.release,
                        .slack = slack_of(schedule),
                        .stall_fraction = series == "simulated"
                                              ? simulated_fraction(schedule)
                                              : find_steady_state(schedule).stall_fraction()});
    };
    for (int i = 0; i <= kSteps; ++i) add("recurrence", i, kSteps);
    for (int i = 0; simulate && i <= kSimulated; ++i) add("simulated", i, kSimulated);
  }
  for (const BoundaryPoint& point : replayed)
    points.push_back({.series = "replayed",
                      .window = point.window,
                      .release = point.release,
                      .slack = point.slack,
                      .stall_fraction = point.replayed_stall_fraction});
  return points;
}

}  // namespace tandem::study
