#include "advice/drawn_timeline.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "model/predict/cost_model.hpp"
#include "planner/strategy/common/graph_cache.hpp"

namespace tandem::study {
namespace {

using model::DrawnTimes;
using model::ServedStep;

// How many times as long a step takes, by draw. Of steps of the same structure one is evaluated for
// about every eighth power of two of the positions before its rows.
class Ratios {
 public:
  Ratios(const planner::Plan& plan, const model::FactorDraws& draws)
      : costs_(plan.cost_model()),
        graphs_(plan),
        steps_(plan.cluster, costs_, draws, plan.master) {}

  // The draws' lengths, that of draw 0 among them.
  const DrawnTimes& of(const model::Batch& batch) {
    constexpr double kPerOctave = 8.0;
    double past = 1.0;
    for (const model::Segment& segment : batch.segments) past += segment.past;
    const auto bucket = static_cast<int>(kPerOctave * std::log2(past));
    const auto [found, is_new] =
        known_.try_emplace({planner::GraphCache::structure_of(batch), bucket});
    if (is_new) {
      steps_.restart();
      found->second = steps_.run(graphs_.graph_of(batch));
    }
    return found->second;
  }

 private:
  model::CostModel costs_;
  planner::GraphCache graphs_;
  model::DrawnSteps steps_;
  std::map<std::pair<planner::GraphCache::Structure, int>, DrawnTimes> known_;
};

// What of `step` takes longer in a draw: of one that has the devices to itself what is not waiting
// for links that it shares with itself; of several in flight, which wait for one another, all.
double share_of(const ServedStep& step, double alone_s, bool in_flight) {
  const double length = step.end_s - step.step.not_before_s;
  return in_flight || length <= alone_s || length <= 0.0 ? 1.0 : alone_s / length;
}

}  // namespace

DrawnTimeline::DrawnTimeline(const planner::Plan& plan, const model::FactorDraws& draws,
                             std::span<const planner::InferenceRequest> requests,
                             std::span<const ServedStep> served)
    : served_(served), drawn_(served.begin(), served.end()) {
  Ratios ratios(plan, draws);
  for (const ServedStep& step : served) {
    times_.push_back(step.step.not_before_s);
    times_.push_back(std::max(step.end_s, step.step.not_before_s));
  }
  std::ranges::sort(times_);
  times_.erase(std::unique(times_.begin(), times_.end()), times_.end());
  std::multiset<std::pair<double, std::size_t>> active;  // ends and numbers of steps
  std::size_t next = 0;
  DrawnTimes now{};
  for (std::size_t t = 0; t < times_.size(); ++t) {
    while (!active.empty() && active.begin()->first <= times_[t]) active.erase(active.begin());
    double arrival = 0.0;
    for (; next < served.size() && served[next].step.not_before_s <= times_[t]; ++next) {
      active.emplace(served[next].end_s, next);
      for (const model::Segment& segment : served[next].step.batch.segments) {
        if (segment.past == 0)
          arrival =
              std::max(arrival, requests[static_cast<std::size_t>(segment.sequence)].arrival_s);
      }
    }
    for (double& one : now) one = std::max(one, arrival);
    stretched_.push_back(now);
    if (t + 1 == times_.size()) break;
    const double passes = times_[t + 1] - times_[t];
    if (active.empty()) {
      for (double& one : now) one = std::max(one, times_[t + 1]);
      continue;
    }
    DrawnTimes rate{};
    for (const auto& [end, s] : active) {
      const DrawnTimes& lengths = ratios.of(served[s].step.batch);
      const double share = share_of(served[s], lengths[0], active.size() > 1);
      for (std::size_t k = 0; k < rate.size(); ++k) {
        const double ratio = lengths[0] > 0.0 ? lengths[k] / lengths[0] : 1.0;
        rate[k] += (1.0 + share * (ratio - 1.0)) / static_cast<double>(active.size());
      }
    }
    for (std::size_t k = 0; k < rate.size(); ++k) now[k] += passes * rate[k];
  }
}

double DrawnTimeline::at(double time, std::size_t k) const {
  const auto above = std::ranges::lower_bound(times_, time);
  if (above == times_.end()) return stretched_.back()[k] + (time - times_.back());
  const auto i = static_cast<std::size_t>(above - times_.begin());
  if (times_[i] == time || i == 0) return stretched_[i][k];
  const double t = (time - times_[i - 1]) / (times_[i] - times_[i - 1]);
  return std::lerp(stretched_[i - 1][k], stretched_[i][k], t);
}

std::span<const ServedStep> DrawnTimeline::draw(std::size_t k) {
  if (k == 0) return served_;
  for (std::size_t s = 0; s < drawn_.size(); ++s) {
    drawn_[s].step.not_before_s = at(served_[s].step.not_before_s, k);
    drawn_[s].end_s = at(served_[s].end_s, k);
    for (std::size_t i = 0; i < drawn_[s].sampled_s.size(); ++i)
      drawn_[s].sampled_s[i] = at(served_[s].sampled_s[i], k);
  }
  return drawn_;
}

}  // namespace tandem::study
