#pragma once

// Samples that go round a ring for ever, at the same place in their texts, so that every round
// takes as long as the one before.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "model/graph/scheduler.hpp"
#include "model/predict/analytic.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "planner/strategy/stage_ring.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test {

// Gives each of `samples` its next step when the one before has ended, until `tokens` were given.
class RoundAndRound : public model::Scheduler {
 public:
  RoundAndRound(std::int32_t samples, std::int32_t past, std::int32_t tokens)
      : past_(past), left_(tokens) {
    for (std::int32_t s = samples - 1; s >= 0; --s) idle_.push_back(s);
  }
  model::Decision next(double now, std::span<const model::StepOutcome> ended) override {
    for (const model::StepOutcome& outcome : ended) {
      idle_.push_back(sequences_[static_cast<std::size_t>(outcome.step)]);
    }
    if (left_ == 0 || idle_.empty()) return {};
    --left_;
    sequences_.push_back(idle_.back());
    idle_.pop_back();
    return {.step = model::ScheduledStep{.not_before_s = now,
                                         .batch = {.segments = {{.sequence = sequences_.back(),
                                                                 .past = past_,
                                                                 .rows = 1,
                                                                 .sampled = 1}},
                                                   .cache = {}}}};
  }

 private:
  std::int32_t past_;
  std::int32_t left_;
  std::vector<std::int32_t> idle_;       // the one that goes next last
  std::vector<std::int32_t> sequences_;  // by step
};

struct Draw {
  explicit Draw(unsigned seed) : random(seed) {}
  int in(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); }
  double scale(double least, double most) {  // evenly by ratio
    return least * std::pow(most / least, std::uniform_real_distribution<double>(0, 1)(random));
  }
  std::mt19937 random;
};

// When each token was there, ascending. A scheduler that SimGrid asks does so in another process.
inline std::vector<double> token_ends(const model::RunRecorder& recorder) {
  std::vector<double> ends;
  for (const model::ServedStep& step : recorder.served()) ends.push_back(step.sampled_s.front());
  std::ranges::sort(ends);
  return ends;
}

// Seconds a token once what tokens do repeats itself, after some number of them; 0: it does not
// yet. The last of a run are left out: their stages are not busy with successors.
inline double steady_period(const std::vector<double>& ends, std::int32_t samples) {
  const auto m = static_cast<std::size_t>(samples);
  const std::size_t last = ends.size() - 1 - 2 * m;
  for (std::size_t tokens = 1; tokens <= 5 * m && tokens + 2 * m < last; ++tokens) {
    const double first = ends[last] - ends[last - tokens];
    bool alike = true;
    for (std::size_t i = 1; i <= 2 * m && alike; ++i) {
      const double next = ends[last - i] - ends[last - i - tokens];
      alike = std::abs(next - first) <= 1e-11 * ends[last];
    }
    if (alike) return first / static_cast<double>(tokens);
  }
  return 0.0;
}

// Positions before each token of those rings.
inline constexpr std::int32_t kRingPast = 20;

// Below, at or above the least number that saturates, at most `most`.
inline int random_samples(Draw& draw, const model::Ring& ring, std::int64_t most) {
  return draw.in(1, static_cast<int>(std::min(most, 2 + 2 * model::least_samples(ring))));
}

// A pipeline of 1 to `most` devices with one or two layers each, and speeds, links and message
// overheads by the dice. Every device has a link of its own, both ways apart, so nothing is shared.
inline planner::Plan random_ring(Draw& draw, int most) {
  const int count = draw.in(1, most);
  std::vector<model::Device> devices;
  std::vector<model::Link> links;
  std::vector<model::Edge> edges;
  for (int d = 0; d < count; ++d) {
    const std::string name = "d" + std::to_string(d);
    devices.push_back({.name = name,
                       .cores = 1,
                       .flop_rate = model::FlopsPerSecond{draw.scale(1e6, 1e8)},
                       .memory_bandwidth = model::BytesPerSecond{draw.scale(1e7, 1e9)},
                       .memory = model::Bytes{1e12},
                       .disk_bandwidth = model::BytesPerSecond{1e6}});
    links.push_back({name + "-link", model::Seconds{draw.scale(1e-6, 3e-3)},
                     model::BytesPerSecond{draw.scale(1e4, 1e7)}, model::Sharing::split_duplex});
    edges.push_back({name, "hub", {{d, model::Direction::up}}});
  }
  // A far way from the master to a later stage, which its announcements take.
  if (count > 2 && draw.in(0, 3) == 0) {
    const auto slow = static_cast<model::LinkIndex>(links.size());
    links.push_back({"far", model::Seconds{draw.scale(1e-3, 3e-2)}, model::BytesPerSecond{1e6},
                     model::Sharing::split_duplex});
    edges.push_back({"d0", "d2", {{slow, model::Direction::up}}});
  }
  std::int64_t all = 0;
  std::string proportions;
  for (int d = 0; d < count; ++d) {
    const int layers = draw.in(1, 2);
    all += layers;
    proportions += (d == 0 ? "" : ":") + std::to_string(layers);
  }
  planner::Request request{.model = small_model({.layers = all}),
                           .cluster = {"ring", devices, {"hub"}, links, edges},
                           .strategy = "pipeline",
                           .partition = proportions,
                           .workload = {.prompt_tokens = 20, .new_tokens = 20}};
  for (const model::Device& device : devices) {
    model::DeviceProfile profile = model::nominal_profile(device);
    if (draw.in(0, 1) == 0)
      profile.rate[static_cast<std::size_t>(model::TaskKind::transfer)].overhead_s =
          draw.scale(1e-6, 1e-3);
    if (draw.in(0, 2) == 0) {
      const auto rate = [&] {
        return model::KindRate{draw.scale(1e-6, 1e-4),
                               {{.intensity = 1, .seconds_per_byte = 1e-9}}};
      };
      profile.inlined = {.send = rate(), .transfer = rate(), .receive = rate()};
    }
    request.profiles.push_back(profile);
  }
  return std::get<planner::Plan>(planner::make_plan(request));
}

}  // namespace tandem::test
