#include "study/experiment/tpi.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "model/base/error.hpp"
#include "model/base/statistics.hpp"
#include "model/base/text_table.hpp"
#include "model/graph/memory.hpp"
#include "model/graph/work.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "sim/replay/replay.hpp"
#include "study/steady_state/residency.hpp"

namespace tandem::study {
namespace {

using model::Cluster;
using model::Transformer;

// Latencies settle within a few tokens; the paper's default is 20.
constexpr std::int64_t kNewTokens = 6;

std::size_t find_row(const model::Csv& csv, std::string_view model) {
  for (std::size_t i = 0; i < csv.rows.size(); ++i) {
    if (csv.at(i, "model") == model) return i;
  }
  throw Error("scenarios/experiments: no row of model " + std::string(model) +
              "; restore the file from the sources");
}

BlockElements<double> equal_blocks(const Transformer& t, std::int64_t devices) {
  const auto h = static_cast<double>(t.hidden);
  const double group = static_cast<double>(t.kv_heads) / static_cast<double>(t.heads);
  return {.hidden = h,
          .kv_hidden = h * group,
          .intermediate = static_cast<double>(t.intermediate),
          .vocab = static_cast<double>(t.vocab),
          .share = h * (1.0 / static_cast<double>(devices))};
}

// Proposition 5, in elements, of equal devices: the larger of master's and workers'.
double proposition5(const Transformer& t, std::int64_t devices, std::int64_t window) {
  const BlockElements<double> blocks = equal_blocks(t, devices);
  return std::max(proposition5_master(blocks, window), proposition5_worker(blocks, window));
}

}  // namespace

std::string printed_memory(const std::string& quantity, const std::string& model,
                           std::int64_t devices, std::int64_t window) {
  // Without the scheduler there is no window.
  const std::string of_window =
      quantity == "memory_on_gb" ? ", window " + std::to_string(window) : "";
  return quantity + ", " + model + ", " + std::to_string(devices) + " devices" + of_window;
}

Reading paper_reading(const model::Csv& csv, std::size_t row, std::string_view column) {
  const std::string& text = csv.at(row, column);
  if (text.empty()) return {};
  if (text == "OOM") return Reading::out_of_memory();
  double value = 0.0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    throw Error("scenarios/experiments: '" + text + "' in column " + std::string(column) +
                ", expected a number, OOM or nothing; restore the file from the sources");
  return Reading::number(value);
}

namespace {

planner::Plan tpi_plan(const Testbed& testbed, const Transformer& transformer,
                       const std::string& strategy, std::int32_t window,
                       const std::optional<std::string>& allreduce) {
  planner::Request request{
      .model = transformer,
      .cluster = with_devices(testbed.cluster,
                              [](model::Device& d) { d.memory = model::Bytes{kAnyMemory}; }),
      .strategy = strategy,
      .partition = "equal",
      .workload = {.prompt_tokens = testbed.prompt_tokens, .new_tokens = kNewTokens},
      .window = {.blocks = window, .retain = 0}};
  if (allreduce) request.allreduce = allreduce;
  if (strategy == "galaxy") request.tiles = 1;
  for (const model::Device& device : request.cluster.devices())
    request.profiles.push_back(slowed(nominal_profile(device), testbed.slowdown));
  auto answer = planner::make_plan(request);
  if (const auto* no = std::get_if<planner::Infeasible>(&answer)) throw Error(no->reason);
  return std::get<planner::Plan>(std::move(answer));
}

}  // namespace

RunTimes simulated_run(const Testbed& testbed, const Transformer& transformer,
                       const std::string& strategy, std::int32_t window,
                       const std::optional<std::string>& allreduce) {
  const planner::Plan plan = tpi_plan(testbed, transformer, strategy, window, allreduce);
  planner::GenerationSteps steps(plan);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  sim::replay(plan.cluster, plan.cost_model(), steps, recorder);
  const model::Metrics metrics = recorder.metrics();
  const std::vector<double> latencies = metrics.token_latencies_s();
  RunTimes times{.ttft_s = metrics.ttft_s, .latency_s = model::mean(latencies)};
  for (const model::DeviceMetrics& device : recorder.devices())
    times.loaded_bytes.push_back(device.bytes_loaded / static_cast<double>(kNewTokens));
  return times;
}

model::Cluster without_network(const model::Cluster& cluster) {
  return with_links(cluster, [](model::Link& link) {
    link.latency = model::Seconds{0.0};
    link.bandwidth = model::BytesPerSecond{1e18};
  });
}

double planned_memory(const Testbed& testbed, const Transformer& transformer, std::int32_t window) {
  const planner::Plan plan = tpi_plan(testbed, transformer, "tensor", window, {});
  double most = 0.0;
  for (const planner::DevicePlan& device : plan.devices)
    most = std::max(most, device.memory.total());
  return most;
}

double TpiMemory::whole(const Transformer& t, std::int64_t devices) const {
  // Shares of whole heads and columns: the largest of them.
  const auto largest = [&](std::int64_t total) {
    return model::Range{0, static_cast<std::int32_t>((total + devices - 1) / devices)};
  };
  const model::Share share{.layers = {0, static_cast<std::int32_t>(t.layers)},
                           .heads = largest(t.heads),
                           .columns = largest(t.intermediate),
                           .embedding = true,
                           .head = true};
  return program_bytes + model::weight_bytes(t, share);
}

double TpiMemory::windowed(const Transformer& t, std::int64_t devices, std::int64_t window) const {
  return program_bytes + gamma * model::kElementBytes * proposition5(t, devices, window);
}

double TpiMemory::windowed_worker(const Transformer& t, std::int64_t devices,
                                  std::int64_t window) const {
  return program_bytes +
         gamma * model::kElementBytes * proposition5_worker(equal_blocks(t, devices), window);
}

TpiMemory TpiMemory::calibrated(const Scenarios& scenarios) {
  const model::Csv table = scenarios.paper("tpi_table1");
  const auto bytes = [&](std::string_view model, std::string_view column) {
    return kPaperGB * paper_reading(table, find_row(table, model), column).value;
  };
  TpiMemory memory;
  memory.program_bytes =
      bytes("llama-2-3b", "memory_off_gb") - memory.whole(scenarios.model("llama-2-3b"), 8);
  const TpiMemory window{};
  memory.gamma = (bytes("llama-2-70b", "memory_on_gb") - memory.program_bytes) /
                 window.windowed(scenarios.model("llama-2-70b"), 8, 2);
  return memory;
}

double solve(const std::function<double(double)>& f, double target, double low, double high) {
  const bool rising = f(high) > f(low);
  while (high / low > 1.0 + 1e-4) {
    const double middle = std::sqrt(low * high);
    ((f(middle) < target) == rising ? low : high) = middle;
  }
  return std::sqrt(low * high);
}

std::string rate_text(double bytes_per_second) {
  return model::fixed(bytes_per_second * 1e-9, 2) + " GB/s";
}

}  // namespace tandem::study
