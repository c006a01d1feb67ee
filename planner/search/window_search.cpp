#include "planner/search/window_search.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <utility>

#include "model/predict/analytic.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

double loaded_bytes(const model::Transformer& t, const model::Share& share, Window window) {
  const std::vector<StreamedBlock> blocks = streamed_blocks(t, share, window);
  return std::accumulate(blocks.begin(), blocks.end(), 0.0,
                         [](double sum, const StreamedBlock& b) { return sum + b.bytes; });
}

// None, and of the periods that retain as many blocks the smallest, which spreads them most evenly.
std::vector<std::int32_t> retentions(std::int64_t layers) {
  std::vector<std::int32_t> periods{0};
  std::int64_t blocks = 0;
  for (std::int64_t period = 1; period <= layers; ++period) {
    const std::int64_t retained = (layers + period - 1) / period;
    if (retained == blocks) continue;
    blocks = retained;
    periods.push_back(static_cast<std::int32_t>(period));
  }
  return periods;
}

}  // namespace

std::vector<Window> least_windows(const Plan& plan, const WindowRequest& request) {
  std::vector<Window> windows;
  for (const model::Device& device : plan.cluster.devices()) {
    const bool whole = !request.blocks && device.disk_bandwidth.value() <= 0.0;
    windows.push_back(whole || request.blocks == 0 ? Window{}
                                                   : Window{.blocks = request.blocks.value_or(1),
                                                            .retain = request.retain.value_or(0)});
  }
  return windows;
}

std::vector<Window> window_choices(const Budget& budget, std::size_t device,
                                   const model::Share& share, const WindowRequest& request) {
  const model::Transformer& t = budget.plan().model;
  const auto fits = [&](Window window) {
    return budget.use(device, share, window).total() <= budget.bytes(device);
  };
  const bool whole = fits({});
  if (whole && (!request.blocks || request.blocks == 0)) return {Window{}};
  if (request.blocks == 0) return {};
  if (!request.blocks && budget.plan().cluster.devices()[device].disk_bandwidth.value() <= 0.0)
    return {};

  std::vector<std::int32_t> periods = retentions(t.layers);
  if (request.retain) periods = {*request.retain};
  std::vector<Window> fitting;
  for (const std::int32_t period : periods) {
    Window window{.blocks = request.blocks.value_or(1), .retain = period};
    if (normalized(t, share, window) == Window{}) {
      if (whole) fitting.push_back({});
      continue;
    }
    if (!fits(window)) continue;
    if (!request.blocks) {
      auto most = static_cast<std::int32_t>(streamed_blocks(t, share, window).size());
      while (most - window.blocks > 1) {
        const std::int32_t middle = window.blocks + (most - window.blocks) / 2;
        (fits({.blocks = middle, .retain = period}) ? window.blocks : most) = middle;
      }
    }
    fitting.push_back(window);
  }
  std::stable_sort(fitting.begin(), fitting.end(), [&](Window a, Window b) {
    return loaded_bytes(t, share, a) < loaded_bytes(t, share, b);
  });
  std::vector<Window> choices;
  for (const Window window : fitting) {
    if (choices.empty() || (choices.back().streams() && window.blocks > choices.back().blocks))
      choices.push_back(window);
  }
  return choices;
}

double predicted_request_time(const Plan& plan) {
  return predicted_request_time(plan, model::extrapolate_analytic);
}

double predicted_request_time(const Plan& plan, const Evaluator& evaluate) {
  return predicted_time(plan, Objective::request, evaluate);
}

namespace {

// All combinations of the devices' choices are tried if together they have at most about so many
// tasks in a step.
constexpr std::size_t kMostTasks = std::size_t{1} << 17;

// The times of plans that differ in their windows, each evaluated once.
class Clock {
 public:
  explicit Clock(Plan& plan) : plan_(&plan) {}
  double time() {
    std::vector<std::int32_t> key;
    for (const DevicePlan& device : plan_->devices) {
      key.push_back(device.window.blocks);
      key.push_back(device.window.retain);
    }
    const auto [at, fresh] = known_.try_emplace(std::move(key), 0.0);
    if (fresh) at->second = predicted_request_time(*plan_);
    return at->second;
  }

 private:
  Plan* plan_;
  std::map<std::vector<std::int32_t>, double> known_;
};

using Choices = std::span<const std::vector<Window>>;

bool few_ways(const Plan& plan, Choices choices) {
  constexpr std::size_t kTasks = 16;  // of a layer and device, about
  std::size_t tasks = kTasks * static_cast<std::size_t>(plan.model.layers) * plan.devices.size();
  for (const std::vector<Window>& each : choices)
    tasks = std::min(tasks, kMostTasks + 1) * each.size();
  return tasks <= kMostTasks;
}

// Changes one device's window at a time for as long as that shortens the time, which it returns.
double descend(Plan& plan, Choices choices, Clock& clock) {
  double best = clock.time();
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t d = 0; d < choices.size(); ++d) {
      Window kept = plan.devices[d].window;
      for (const Window window : choices[d]) {
        if (window == kept) continue;
        if (search_ended()) break;
        plan.devices[d].window = window;
        const double time = clock.time();
        if (time < best * kBetter) {
          best = time;
          kept = window;
          changed = true;
        }
      }
      plan.devices[d].window = kept;
    }
  }
  return best;
}

// Selects the fastest of all combinations; ties: the first.
void try_all(Plan& plan, Choices choices, Clock& clock) {
  std::vector<std::size_t> at(choices.size(), 0);
  std::vector<std::size_t> best = at;
  double least = clock.time();
  const auto next = [&] {
    for (std::size_t d = 0; d < at.size(); ++d) {
      at[d] = (at[d] + 1) % choices[d].size();
      plan.devices[d].window = choices[d][at[d]];
      if (at[d] != 0) return true;
    }
    return false;
  };
  while (!search_ended() && next()) {
    const double time = clock.time();
    if (time >= least * kBetter) continue;
    least = time;
    best = at;
  }
  for (std::size_t d = 0; d < best.size(); ++d) plan.devices[d].window = choices[d][best[d]];
}

}  // namespace

void choose_windows(Plan& plan, Choices choices) {
  const auto begin = [&](bool widest) {
    for (std::size_t d = 0; d < choices.size(); ++d)
      plan.devices[d].window = widest ? choices[d].back() : choices[d].front();
  };
  begin(false);
  if (std::all_of(choices.begin(), choices.end(),
                  [](const std::vector<Window>& each) { return each.size() == 1; }))
    return;
  if (search_ended()) return;
  Clock clock(plan);
  if (few_ways(plan, choices)) {
    try_all(plan, choices, clock);
    return;
  }
  const double first = descend(plan, choices, clock);
  std::vector<Window> found;
  for (const DevicePlan& device : plan.devices) found.push_back(device.window);
  if (search_ended()) return;
  begin(true);
  if (descend(plan, choices, clock) < first * kBetter) return;
  for (std::size_t d = 0; d < found.size(); ++d) plan.devices[d].window = found[d];
}

}  // namespace tandem::planner
