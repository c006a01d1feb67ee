#include "cli/views/answer_view.hpp"

#include <algorithm>
#include <cmath>
#include <ostream>

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

// What a device does in a step, and how to shorten it.
struct Work {
  double model::DeviceMetrics::*busy;
  const char* subject;
  const char* remedy;
};

constexpr Work kWorks[] = {
    {&model::DeviceMetrics::busy_cpu_s, "computing on ",
     "a faster device in its place, or weights in fewer bits (--dtype)"},
    {&model::DeviceMetrics::busy_disk_s, "the disk of ",
     "more memory for weights, weights in fewer bits (--dtype), or a faster disk"},
    {&model::DeviceMetrics::busy_channel_s, "messages of ",
     "links with more bandwidth or less latency"}};

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
  model::RunRecorder recorder(cluster, plan.master, false);
  model::evaluate_analytic(cluster, plan.cost_model(), step, recorder);
  const double seconds = recorder.metrics().ttft_s;
  const Work* longest = nullptr;
  std::string device;
  double most = 0.0;
  for (const model::DeviceMetrics& one : recorder.devices()) {
    for (const Work& work : kWorks) {
      if (one.*work.busy <= most) continue;
      most = one.*work.busy;
      longest = &work;
      device = one.name;
    }
  }
  if (longest == nullptr || seconds <= 0.0) return "";
  const double percent = std::min(100.0, 100.0 * most / seconds);
  return std::string("Bottleneck of ") + (generates ? "new tokens" : "the prompt") + ": " +
         longest->subject + device + ", " + model::fixed(percent, 0) +
         "% of the time. What would help most: " + longest->remedy + ".";
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
    out << "Best alternative: strategy " << next.plan.strategy << " on " << next.plan.cluster.size()
        << (next.plan.cluster.size() == 1 ? " device.\n" : " devices.\n");
  }
  if (choice && !choice->to_the_end) {
    out << "Stopped after " << choice->evaluations << " evaluations in "
        << model::fixed(choice->elapsed_s, 1)
        << " s; a better plan may be found with --seconds 0, which searches to the end.\n";
  }
  out << '\n';
}

}  // namespace tandem::cli
