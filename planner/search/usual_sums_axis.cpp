#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "planner/partition/exact/time_order.hpp"
#include "planner/search/axes.hpp"
#include "planner/search/objective.hpp"
#include "planner/search/outline.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

constexpr std::size_t kMostPlanned = 2;  // sums for which streamed shares are sought at length
constexpr double kNearlyAsFast = 1.05;   // by rough shares

bool usual_sums_open(const Draft& draft) {
  const Request& request = draft.request;
  return request.open_axes.sums && find_strategy(request.strategy).sharding.has_collective();
}

std::string text_of(const AllreduceChoice& choice) { return choice.prompt + "," + choice.decode; }

// Sums by their times with rough shares.
class RoughSums {
 public:
  RoughSums(const Draft& draft, const Alternatives& all) : rough_(draft), all_(&all) {
    rough_.request.partition = "galaxy";
  }

  // Returns the fastest choices, which differ from `from` in one phase or in both.
  std::vector<std::string> fastest(AllreduceChoice from) {
    const Request& request = rough_.request;
    const std::vector<std::string> names = allreduce_candidates(
        outline_of({.request = request, .sums = {.allreduce = from, .layout = {}}}));
    for (std::string* const phase : {&from.decode, &from.prompt}) {
      if (phase == &from.decode && request.workload.steps() < 2) continue;
      AllreduceChoice next = from;
      double least = seconds(from);
      for (const std::string& name : names) {
        (phase == &from.decode ? next.decode : next.prompt) = name;
        if (seconds(next) >= least) continue;
        least = seconds(next);
        *phase = name;
      }
    }
    std::ranges::stable_sort(times_, {}, &std::pair<std::string, double>::second);
    std::vector<std::string> best;
    for (const auto& [text, taken] : times_) {
      if (best.size() < kMostPlanned && taken < kNever &&
          taken <= times_.front().second * kNearlyAsFast)
        best.push_back(text);
    }
    return best;
  }

 private:
  double seconds(const AllreduceChoice& choice) {
    const std::string text = text_of(choice);
    const auto known = std::ranges::find(times_, text, &std::pair<std::string, double>::first);
    if (known != times_.end()) return known->second;
    rough_.request.allreduce = text;
    const Found found = all_->plan(rough_);
    const Request& request = rough_.request;
    double taken = kNever;
    if (found.plan() != nullptr)
      taken = found.seconds ? *found.seconds
                            : predicted_time(*found.plan(), request.objective, request.evaluate);
    times_.emplace_back(text, taken);
    return taken;
  }

  Draft rough_;
  const Alternatives* all_;
  std::vector<std::pair<std::string, double>> times_;
};

void walk_usual_sums(const Draft& draft, Alternatives& all) {
  Draft next = draft;
  next.request.open_axes.sums = false;
  const Request& request = next.request;
  all.compare_by(
      [&](const Plan& plan) { return predicted_time(plan, request.objective, request.evaluate); });
  all.offer(request.allreduce.value_or(find_strategy(request.strategy).allreduce), next);
  // Shares that stream are sought at length: not again where they were of no use.
  if (!request.window.blocks && all.best() != nullptr && !all.best()->streams())
    next.request.window = {.blocks = 0, .retain = {}};
  next.request.allreduce = kAutoAllreduce;
  all.offer(std::string(kAutoAllreduce), next);
  // Buffers of sums take memory, so streamed shares and windows depend on them.
  if (!request.open_axes.at_length || all.best() == nullptr || all.ended() ||
      !all.best()->streams() || request.partition != kAutoPartition ||
      !find_strategy(request.strategy).sharding.splits_heads())
    return;
  const AllreduceChoice best = all.best()->allreduce;
  for (const std::string& sums : RoughSums(next, all).fastest(best)) {
    if (sums == text_of(best)) continue;
    next.request.allreduce = sums;
    all.offer(sums, next);
  }
}

}  // namespace

const Axis& usual_sums_axis() {
  static constexpr Axis axis{
      .name = "usual all-reduce", .applies = usual_sums_open, .walk = walk_usual_sums};
  return axis;
}

}  // namespace tandem::planner
