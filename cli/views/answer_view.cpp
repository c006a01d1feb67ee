#include "cli/views/answer_view.hpp"

#include <algorithm>
#include <map>
#include <ostream>
#include <tuple>
#include <vector>

#include "cli/flags/outcome.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "model/cluster/variation.hpp"
#include "model/predict/analytic.hpp"
#include "model/transformer/format_choice.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::cli {
namespace {

using model::Seconds;

// The lane of a device that is busy longest in a step.
struct Busiest {
  model::LaneKind lane = model::LaneKind::cpu;
  model::DeviceIndex device = 0;
  model::DeviceIndex peer = -1;  // of a channel
  double seconds = 0.0;
};

Busiest busiest_of(const std::vector<model::Span>& spans) {
  std::map<std::tuple<model::LaneKind, model::DeviceIndex, model::DeviceIndex>, double> busy;
  for (const model::Span& span : spans)
    busy[{span.lane, span.device, span.peer}] += span.end - span.start;
  Busiest most;
  for (const auto& [lane, seconds] : busy) {
    if (seconds > most.seconds)
      most = {std::get<0>(lane), std::get<1>(lane), std::get<2>(lane), seconds};
  }
  return most;
}

}  // namespace

std::string bottleneck_text(const planner::Plan& plan) {
  const bool generates = plan.workload.new_tokens > 1;
  const auto middle =
      static_cast<std::int32_t>(plan.workload.prompt_tokens + plan.workload.new_tokens / 2);
  const model::TaskGraph graph = planner::find_strategy(plan.strategy)
                                     .lower(plan, generates ? planner::decode_batch(middle)
                                                            : planner::prompt_batch(plan.workload));
  model::OneStep step(graph);
  const model::Cluster cluster = model::without_variation(plan.cluster);
  model::RunRecorder recorder(cluster, plan.master, /*keep_spans=*/true);
  model::evaluate_analytic(cluster, plan.cost_model(), step, recorder);
  const double seconds = recorder.metrics().ttft_s;
  const Busiest most = busiest_of(recorder.trace().spans);
  if (most.seconds <= 0.0 || seconds <= 0.0) return "";
  const auto name = [&](model::DeviceIndex d) {
    return cluster.devices()[static_cast<std::size_t>(d)].name;
  };
  std::string text = std::string("Bottleneck of ") + (generates ? "new tokens" : "the prompt");
  std::string remedy;
  if (most.lane == model::LaneKind::cpu) {
    text += ": computing on " + name(most.device);
    remedy = "a faster device in its place, or weights in fewer bits (--dtype)";
  } else if (most.lane == model::LaneKind::disk) {
    text += ": the disk of " + name(most.device);
    remedy = "more memory for weights, weights in fewer bits (--dtype), or a faster disk";
  } else {
    text += ": messages from " + name(most.device) + " to " + name(most.peer);
    remedy = "links with less latency or more bandwidth";
  }
  return text + ", " + model::fixed(std::min(100.0, 100.0 * most.seconds / seconds), 0) +
         "% of the time. What would help most: " + remedy + ".";
}

void print_answer(const planner::Plan& plan, const model::Result& predicted,
                  const std::optional<study::Choice>& choice, std::size_t platform_devices,
                  const std::string& shortened, std::ostream& out) {
  const auto used = static_cast<std::size_t>(plan.cluster.size());
  out << plan.model.name << " in " << model::format_name(plan.model) << " fits on "
      << (used == platform_devices
              ? used == 1 ? std::string("the device") : "all " + std::to_string(used) + " devices"
              : std::to_string(used) + " of " + std::to_string(platform_devices) + " devices")
      << " of " << plan.cluster.name() << " with strategy " << plan.strategy
      << (plan.streams() ? "; some weights stream from disk.\n" : ".\n");
  if (predicted.requests.size() == 1) {
    const model::RequestResult& request = predicted.requests.front();
    const std::vector<double> gaps = predicted.metrics.token_latencies_s();
    const bool generates = !predicted.metrics.token_times_s.empty();
    out << (generates ? "First token after " : "Pass in ") << to_text(Seconds{request.ttft_s});
    if (!gaps.empty()) {
      const double rate = static_cast<double>(gaps.size()) / (request.end_s - request.ttft_s);
      out << ", then " << model::fixed(rate, rate < 10.0 ? 2 : 0) << " tokens a second; "
          << to_text(plan.workload) << " take " << to_text(Seconds{request.end_s});
    }
    out << (shortened.empty() ? "" : " (" + shortened + ")") << ".\n";
    if (const std::string text = bottleneck_text(plan); !text.empty()) out << text << '\n';
  }
  if (choice && choice->contenders.size() > 1) {
    const study::Contender& next = choice->contenders[1];
    const double longer = next.seconds / choice->contenders.front().seconds - 1.0;
    out << "Best alternative: strategy " << next.plan.strategy << " on " << next.plan.cluster.size()
        << (next.plan.cluster.size() == 1 ? " device, " : " devices, ")
        << model::fixed(std::max(0.0, 100.0 * longer), 0) << "% longer.\n";
  }
  if (choice && !choice->to_the_end) {
    out << "Stopped after " << choice->evaluations << " evaluations in "
        << model::fixed(choice->elapsed_s, 1)
        << " s; a better plan may be found with --seconds 0, which searches to the end.\n";
  }
  out << '\n';
}

}  // namespace tandem::cli
