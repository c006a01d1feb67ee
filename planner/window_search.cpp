#include "planner/window_search.hpp"

#include <algorithm>
#include <numeric>

#include "model/analytic.hpp"
#include "planner/lowering.hpp"

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

double predicted_token_time(const Plan& plan) {
  constexpr std::int64_t kTokens = 9;
  Workload workload = plan.workload;
  const std::int64_t room = plan.model.max_context - workload.prompt_tokens;
  if (workload.new_tokens > 0)
    workload.new_tokens = std::max<std::int64_t>(1, std::min(kTokens, room));
  GenerationSteps steps(plan, workload);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  model::evaluate_analytic(plan.cluster, plan.cost_model(), steps, recorder);
  const model::Metrics metrics = recorder.metrics();
  const std::vector<double>& times = metrics.token_times_s;
  if (times.empty()) return metrics.ttft_s;  // an encoder's pass
  const std::size_t settled = (times.size() - 1) / 2;
  const std::size_t tokens = times.size() - 1 - settled;
  return tokens == 0 ? times.back() : (times.back() - times[settled]) / static_cast<double>(tokens);
}

double predicted_request_time(const Plan& plan) {
  GenerationSteps steps(plan);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  model::extend_analytic(plan.cluster, plan.cost_model(), steps, recorder);
  const model::Metrics metrics = recorder.metrics();
  // An encoder's pass samples nothing.
  return metrics.token_times_s.empty() ? metrics.ttft_s : metrics.token_times_s.back();
}

void choose_windows(Plan& plan, std::span<const std::vector<Window>> choices) {
  bool one_way = true;
  for (std::size_t d = 0; d < choices.size(); ++d) {
    plan.devices[d].window = choices[d].front();
    one_way = one_way && choices[d].size() == 1;
  }
  if (one_way) return;
  constexpr double kBetter = 1.0 - 1e-9;
  double best = predicted_token_time(plan);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t d = 0; d < choices.size(); ++d) {
      Window kept = plan.devices[d].window;
      for (const Window window : choices[d]) {
        if (window == kept) continue;
        plan.devices[d].window = window;
        const double time = predicted_token_time(plan);
        if (time < best * kBetter) {
          best = time;
          kept = window;
          changed = true;
        }
      }
      plan.devices[d].window = kept;
    }
  }
}

}  // namespace tandem::planner
