#include "planner/search/streaming_cost.hpp"

#include <algorithm>
#include <optional>

#include "model/base/quantity_text.hpp"
#include "model/base/statistics.hpp"
#include "model/cluster/variation.hpp"
#include "model/graph/work.hpp"
#include "model/predict/analytic.hpp"
#include "model/report/trace.hpp"
#include "planner/search/memory_remedies.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

// Mean time of a new token once the prompt is done; of an encoder's pass. Of a single new token,
// that of the one after it or, at the end of the context, after a prompt of one token less.
double token_time(Plan plan) {
  plan.cluster = model::without_variation(plan.cluster);
  Workload workload = plan.workload;
  if (workload.new_tokens == 1) {
    if (workload.prompt_tokens + 1 == plan.model.max_context && workload.prompt_tokens > 1)
      --workload.prompt_tokens;
    workload.new_tokens =
        std::min<std::int64_t>(2, plan.model.max_context - workload.prompt_tokens);
  }
  GenerationSteps steps(plan, workload);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  model::extrapolate_analytic(plan.cluster, plan.cost_model(), steps, recorder);
  const std::vector<double> gaps = recorder.metrics().token_latencies_s();
  if (gaps.empty()) return recorder.metrics().ttft_s;
  return model::mean(gaps);
}

// Returns a plan for the same request on devices with enough memory.
std::optional<Plan> with_enough_memory(Request request) {
  std::vector<model::Device> devices = request.cluster.devices();
  for (model::Device& device : devices) device.memory = model::Bytes{1e15};
  const model::Cluster& cluster = request.cluster;
  request.cluster = model::Cluster(cluster.name(), std::move(devices), cluster.routers(),
                                   cluster.links(), cluster.edges());
  request.memory_limit.reset();
  request.window = {.blocks = 0, .retain = 0};
  auto answer = make_plan(request);
  if (auto* plan = std::get_if<Plan>(&answer)) return std::move(*plan);
  return std::nullopt;
}

// Returns the additional memory that each device needs for its share of the weights to stay in
// memory.
std::string lacks(const Plan& plan) {
  std::string text;
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const DevicePlan& device = plan.devices[d];
    if (!device.window.streams()) continue;
    const double whole = weight_bytes(plan.model, device.share, Window{});
    const double lack = device.memory.total() - device.memory.weights + whole -
                        plan.cluster.devices()[d].memory.value();
    text += (text.empty() ? "" : ", ") + std::string("'") + plan.cluster.devices()[d].name +
            "' lacks " + to_text(model::Bytes{std::max(lack, 0.0)});
  }
  return text;
}

}  // namespace

double bytes_a_token(const Plan& plan) {
  const model::TaskGraph graph =
      find_strategy(plan.strategy)
          .lower(plan, decode_batch(static_cast<std::int32_t>(plan.workload.prompt_tokens)));
  std::vector<double> loaded(plan.devices.size());
  for (const model::Task& task : graph.tasks()) {
    loaded[static_cast<std::size_t>(task.device)] +=
        model::work_of(plan.model, graph.batch(), task).bytes_disk;
  }
  return *std::ranges::max_element(loaded);
}

std::string streaming_cost(const Request& request, const Plan& plan) {
  if (request.window.blocks || !plan.streams()) return "";
  const bool generates = plan.model.architecture().generates();
  std::string text =
      "no split of the weights fits the memory: they stream from disks while computing, up to " +
      to_text(model::Bytes{bytes_a_token(plan)}) +
      (generates ? " for every token" : " for the pass") + " on a device\n";
  text += (generates ? "a new token takes " : "the pass takes ") +
          to_text(model::Seconds{token_time(plan)});
  if (const std::optional<Plan> whole = with_enough_memory(request))
    text += ", with enough memory " + to_text(model::Seconds{token_time(*whole)});
  text += " (predicted, links not shared)\n";
  return text + "what would avoid it: more memory (with these shares " + lacks(plan) +
         "), more devices, " + without_streams(plan) +
         "weights in fewer bits (--dtype), fewer tokens or a smaller model\n";
}

}  // namespace tandem::planner
