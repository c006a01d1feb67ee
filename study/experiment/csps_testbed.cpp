#include "study/experiment/csps_testbed.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include "model/base/error.hpp"
#include "model/base/text_table.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "model/predict/analytic.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/serving/serving_plan.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "sim/replay/replay.hpp"
#include "study/experiment/tpi.hpp"

namespace tandem::study {
namespace {

[[noreturn]] void missing(const std::string& file, const std::string& what) {
  throw Error("scenarios/" + file + ": no row of " + what + "; restore the file from the sources");
}

double number(const model::Csv& table, std::size_t row, std::string_view column) {
  return paper_reading(table, row, column).value;
}

constexpr std::int64_t kShortReply = 64;
constexpr double kGpuMemory = 40e9;  // of a device
constexpr std::size_t kSarathiDevices = 8;
constexpr std::int64_t kSarathiSteps = 2;  // in flight: one a stage

// Until the last row is sampled.
double one_step_s(const planner::Plan& plan, const model::Batch& batch) {
  const model::TaskGraph graph = planner::find_strategy(plan.strategy).lower(plan, batch);
  model::OneStep step(graph);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  model::evaluate_analytic(plan.cluster, plan.cost_model(), step, recorder);
  return recorder.metrics().ttft_s;
}

planner::Plan planned(const planner::Request& request) {
  auto answer = planner::make_plan(request);
  if (const auto* no = std::get_if<planner::Infeasible>(&answer)) throw Error(no->reason);
  return std::get<planner::Plan>(std::move(answer));
}

// Equal shares of heads and columns are the same for every prompt, but a plan reckons memory, which
// is not read here, by graphs with a task for each of its rows: so it is made for a short one.
planner::Plan equal_plan(const planner::Request& request, std::int64_t tokens) {
  planner::Plan plan = planned(request);
  plan.workload.prompt_tokens = tokens;
  return plan;
}

}  // namespace

CspsClaim csps_claim(const Scenarios& scenarios, std::string_view claim, std::string_view of) {
  const model::Csv table = scenarios.paper("csps_claims");
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (table.at(i, "claim") == claim && table.at(i, "of") == of)
      return {.least = number(table, i, "least"), .most = number(table, i, "most")};
  }
  missing("experiments/csps_claims.csv", std::string(claim) + ", " + std::string(of));
}

CspsLengths csps_lengths(const Scenarios& scenarios, std::string_view data_set) {
  const model::Csv table = scenarios.lengths();
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (table.at(i, "name") != data_set) continue;
    return {
        .prompt = {.median = number(table, i, "prompt_median"),
                   .p99 = number(table, i, "prompt_p99")},
        .output = {.median = number(table, i, "new_median"), .p99 = number(table, i, "new_p99")},
        .prompt_deviation = number(table, i, "prompt_std")};
  }
  missing("workloads/lengths.csv", std::string(data_set));
}

CspsThroughputs csps_throughputs(const Scenarios& scenarios, std::string_view system,
                                 std::string_view phase) {
  const model::Csv table = scenarios.paper("csps_table4");
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (table.at(i, "system") != system || table.at(i, "phase") != phase) continue;
    return {{number(table, i, "needlebench_glm4"), number(table, i, "needlebench_internlm"),
             number(table, i, "bookcorpus_glm4"), number(table, i, "bookcorpus_internlm")}};
  }
  missing("experiments/csps_table4.csv", std::string(system) + ", " + std::string(phase));
}

std::string csps_printed_throughput(const std::string& system, const std::string& phase,
                                    std::size_t column) {
  return "Table 4, " + system + ", " + phase + ", " +
         std::string(kCspsDataSets.at(column / kCspsModels.size())) + ", " +
         std::string(kCspsModels.at(column % kCspsModels.size()));
}

std::string csps_printed_range(const std::string& quantity, const std::string& data_set,
                               const std::string& end, bool ntp_over_tp) {
  // Of request rates the text has one range for both data sets.
  if (quantity == "rate_ratio") return "request rate, " + end;
  return quantity + ", " + data_set + ", " + end + (ntp_over_tp ? ", ntp over tp" : "");
}

model::Transformer csps_model(const Scenarios& scenarios, std::string_view name) {
  model::Transformer transformer =
      scenarios.model(name == "glm-4" ? "glm-4-9b-1m" : "internlm2.5-7b-1m");
  transformer.formats = model::WeightFormats{model::WeightFormat::f16};
  transformer.cache = model::CacheFormat::f16;
  return transformer;
}

model::Cluster CspsTestbed::cluster(std::size_t devices) const {
  return model::first_devices(servers, devices);
}

std::vector<model::DeviceProfile> CspsTestbed::profiles(const model::Cluster& cluster) const {
  std::vector<model::DeviceProfile> profiles;
  for (const model::Device& device : cluster.devices())
    profiles.push_back(model::slowed(model::nominal_profile(device), 1.0 / efficiency));
  return profiles;
}

CspsTestbed calibrated_csps(const Scenarios& scenarios) {
  const double target = csps_claim(scenarios, "sarathi ttft s", "1M").least;
  CspsTestbed testbed{.servers = model::with_devices(
                          scenarios.platform("a100-8x8"),
                          [](model::Device& device) { device.memory = model::Bytes{kAnyMemory}; })};
  const auto seconds = [&](double efficiency) {
    testbed.efficiency = efficiency;
    return CspsSarathi(scenarios, testbed, kCspsModels.front(), kCspsMillion).ttft_s(kCspsMillion);
  };
  // Computing takes 1 / efficiency as long; messages are unchanged.
  constexpr double kSlow = 0.5;
  const double sheet_s = seconds(1.0);
  const double more_s = (seconds(kSlow) - sheet_s) / (1.0 / kSlow - 1.0);
  testbed.efficiency = 1.0 / (1.0 + (target - sheet_s) / more_s);
  return testbed;
}

std::vector<std::string> csps_remarks(const CspsTestbed& testbed) {
  return {
      "scenarios/platforms/a100-8x8.xml, from data sheets; programs reach " +
          model::fixed(100.0 * testbed.efficiency, 1) +
          "% of its rates of computing and memory (calibrated: Sarathi-Serve's 213 s to the "
          "first of 1M tokens, by GLM-4)",
      "weights, keys, values and messages have 2 bytes, activations in memory 4; whether memory "
      "suffices is the paper's to say"};
}

namespace {

planner::Plan sarathi_plan(const Scenarios& scenarios, const CspsTestbed& testbed,
                           std::string_view model, std::int64_t tokens) {
  planner::Request request{.model = csps_model(scenarios, model),
                           .cluster = testbed.cluster(kSarathiDevices),
                           .strategy = "pipeline",
                           .partition = "equal",
                           .allreduce = "ring",
                           .workload = {},
                           .window = {.blocks = 0, .retain = 0},
                           .wire = model::WireFormat::f16};
  for (std::size_t d = 0; d < kSarathiDevices; ++d) {
    request.groups += d == 0 ? "" : d == kSarathiDevices / 2 ? "/" : ",";
    request.groups += request.cluster.devices()[d].name;
  }
  request.profiles = testbed.profiles(request.cluster);
  const std::vector<planner::InferenceRequest> longest{
      {.id = "longest", .prompt_tokens = tokens, .new_tokens = 1}};
  auto answer = planner::make_serving_plan(
      std::move(request), longest, planner::find_policy("sarathi"), kCspsChunk, kSarathiSteps);
  if (const auto* no = std::get_if<planner::Infeasible>(&answer)) throw Error(no->reason);
  return std::get<planner::Plan>(std::move(answer));
}

}  // namespace

CspsSarathi::CspsSarathi(const Scenarios& scenarios, const CspsTestbed& testbed,
                         std::string_view model, std::int64_t tokens)
    : plan_(sarathi_plan(scenarios, testbed, model, tokens)) {}

double CspsSarathi::ttft_s(std::int64_t tokens) const {
  const std::vector<planner::InferenceRequest> prompt{
      {.id = "prompt", .prompt_tokens = tokens, .new_tokens = 1}};
  planner::RequestScheduler scheduler(prompt, planner::find_policy("sarathi"),
                                      {.chunk = kCspsChunk,
                                       .capacity = planner::serving_capacity(plan_, kSarathiSteps),
                                       .ends = {}});
  planner::GraphCache graphs(plan_);
  model::RunRecorder recorder(plan_.cluster, plan_.master, false);
  model::evaluate_scheduled(plan_.cluster, plan_.cost_model(), scheduler, graphs, recorder);
  return planner::request_results(prompt, recorder.served()).front().ttft_s;
}

double CspsSarathi::step_s(std::int64_t tokens, std::int64_t sequences) const {
  model::Batch batch;
  const auto past = static_cast<std::int32_t>(tokens);
  if (sequences < kCspsChunk)
    batch.segments.push_back({.sequence = 0,
                              .past = past / 2,
                              .rows = static_cast<std::int32_t>(kCspsChunk - sequences),
                              .sampled = 0});
  for (std::int64_t i = 1; i <= sequences; ++i)
    batch.segments.push_back({.sequence = static_cast<std::int32_t>(i), .past = past, .rows = 1});
  return one_step_s(plan_, batch);
}

std::int64_t CspsSarathi::most_sequences(std::int64_t tokens) const {
  double most = std::numeric_limits<double>::infinity();
  for (const planner::DevicePlan& device : plan_.devices) {
    const model::MemoryUse& use = device.memory;
    const double position = use.kv_cache / static_cast<double>(plan_.reserved().positions);
    const double room = kGpuMemory - use.weights;  // activations of a chunk take a few MB
    most = std::min(most, room / (position * static_cast<double>(tokens)));
  }
  return std::clamp(static_cast<std::int64_t>(most), std::int64_t{1}, kSarathiSteps * kCspsChunk);
}

std::size_t csps_devices(CspsPrefill prefill, std::int64_t tokens) {
  constexpr std::size_t kTensorParallel = 8;
  if (prefill == CspsPrefill::tp) return kTensorParallel;
  return static_cast<std::size_t>((tokens + kCspsPartition - 1) / kCspsPartition);
}

namespace {

// Seconds; of the last three, means over the devices.
struct Sums {
  double ttft_s = 0.0;
  double compute_s = 0.0;
  double attention_s = 0.0;
  double choosing_s = 0.0;
  double sent_bytes = 0.0;
};

Sums simulated(const planner::Plan& plan) {
  planner::GenerationSteps steps(plan);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  sim::replay(plan.cluster, plan.cost_model(), steps, recorder);
  Sums sums{.ttft_s = recorder.metrics().ttft_s};
  const auto devices = static_cast<double>(plan.devices.size());
  for (const auto& kinds : recorder.kinds()) {
    for (int k = 0; k < model::kTaskKinds; ++k) {
      const auto kind = static_cast<model::TaskKind>(k);
      if (kind == model::TaskKind::capture || kind == model::TaskKind::deliver ||
          kind == model::TaskKind::transfer)
        continue;
      const double seconds = kinds[static_cast<std::size_t>(k)].total_s / devices;
      sums.compute_s += seconds;
      if (kind == model::TaskKind::attend) sums.attention_s += seconds;
      if (kind == model::TaskKind::select || kind == model::TaskKind::gather ||
          kind == model::TaskKind::score || kind == model::TaskKind::merge)
        sums.choosing_s += seconds;
    }
  }
  for (const model::Task& task : steps.graph(0).tasks()) {
    if (task.kind == model::TaskKind::transfer)
      sums.sent_bytes += static_cast<double>(model::payload_bytes(task));
  }
  return sums;
}

// The first two layers and the last drop nothing.
constexpr std::int64_t kFirst = 2;
constexpr std::int64_t kKeeping = 3;

void set_ratios(planner::Plan& plan, const CspsDrop& drop) {
  auto& layers = plan.sparse->drop;
  for (std::size_t layer = kFirst; layer + 1 < layers.size(); ++layer)
    layers[layer] = planner::for_all_heads(drop.ratios);
  plan.validate();
}

}  // namespace

std::size_t csps_levels(std::size_t devices) {
  constexpr std::size_t kServer = 8;
  return devices == 1 ? 1 : devices <= kServer ? 2 : 3;
}

double csps_dropped(const CspsDrop& drop, std::int64_t layers) {
  double sum = 0.0;
  for (const double ratio : drop.ratios) sum += ratio;
  const auto levels = static_cast<double>(drop.ratios.size() + 1);
  return sum / levels * static_cast<double>(std::max<std::int64_t>(layers - kKeeping, 0)) /
         static_cast<double>(layers);
}

CspsDrop csps_halving(std::size_t levels, std::int64_t layers, double dropped) {
  const std::size_t farther = levels - 1;
  if (farther == 0) return {};
  // Kept at level 2 + n: kept / 2^n. Of all levels sum_n (1 - kept / 2^n) are dropped.
  double halves = 0.0;
  for (std::size_t n = 0; n < farther; ++n) halves += std::exp2(-static_cast<double>(n));
  const double sum = dropped * static_cast<double>(levels) * static_cast<double>(layers) /
                     static_cast<double>(layers - kKeeping);
  const double kept = (static_cast<double>(farther) - sum) / halves;
  require(0.0 < kept && kept <= 1.0, "csps: a part that halves can make");
  CspsDrop drop;
  for (std::size_t n = 0; n < farther; ++n)
    drop.ratios.push_back(1.0 - kept * std::exp2(-static_cast<double>(n)));
  return drop;
}

CspsDrop csps_usual_drop(std::int64_t tokens, std::int64_t layers) {
  constexpr std::size_t kMost = 2;
  const std::size_t levels = csps_levels(csps_devices(CspsPrefill::ntp, tokens));
  return csps_halving(std::min(levels, kMost), layers, kCspsDropped);
}

CspsPass csps_pass(const Scenarios& scenarios, const CspsTestbed& testbed, std::string_view model,
                   CspsPrefill prefill, std::int64_t tokens, const CspsDrop& drop,
                   CspsLayers layers) {
  const std::size_t devices = csps_devices(prefill, tokens);
  const bool alone = devices == 1;
  require(drop.dense() || (prefill == CspsPrefill::ntp && !alone),
          "csps: rows are dropped where they travel");
  planner::Request request{.model = csps_model(scenarios, model),
                           .cluster = testbed.cluster(devices),
                           .strategy = alone                         ? "local"
                                       : prefill == CspsPrefill::ntp ? "csps"
                                                                     : "galaxy",
                           .partition = "equal",
                           .allreduce = alone ? std::optional<std::string>{} : "ring",
                           .tiles = 0,
                           .workload = {.prompt_tokens = kShortReply, .new_tokens = 1},
                           .window = {.blocks = 0, .retain = 0},
                           .wire = model::WireFormat::f16};
  if (alone) request.tiles.reset();
  if (!drop.dense())
    request.sparse =
        planner::SparseRequest{.levels = static_cast<std::int32_t>(drop.ratios.size() + 1)};
  request.profiles = testbed.profiles(request.cluster);
  const auto of_layers = [&](std::int64_t count) {
    request.model.layers = count;
    planner::Plan plan = equal_plan(request, tokens);
    if (!drop.dense()) set_ratios(plan, drop);
    return simulated(plan);
  };
  const std::int64_t all = request.model.layers;
  const std::int64_t few = drop.dense() ? 2 : kKeeping + 2;
  const std::int64_t more = few + 2;
  const Sums less = of_layers(layers == CspsLayers::all ? all : few);
  const Sums most = layers == CspsLayers::all ? less : of_layers(more);
  const auto whole = [&](double Sums::*sum) {
    return less.*sum + (most.*sum - less.*sum) * static_cast<double>(all - few) /
                           static_cast<double>(more - few);
  };
  const double ttft_s = whole(&Sums::ttft_s);
  constexpr double kRounding = 1e-9;
  const double idle = 1.0 - whole(&Sums::compute_s) / ttft_s;
  return {.ttft_s = ttft_s,
          .communication = idle > kRounding ? idle : 0.0,
          .attention = whole(&Sums::attention_s) / ttft_s,
          .choosing = whole(&Sums::choosing_s) / ttft_s,
          .sent_bytes = whole(&Sums::sent_bytes)};
}

double csps_token_s(const Scenarios& scenarios, const CspsTestbed& testbed, std::string_view model,
                    std::int64_t tokens) {
  const std::size_t devices = csps_devices(CspsPrefill::ntp, tokens);
  planner::Request request{.model = csps_model(scenarios, model),
                           .cluster = testbed.cluster(devices),
                           .strategy = devices == 1 ? "local" : "spread",
                           .partition = devices == 1 ? "auto" : "equal",
                           .workload = {.prompt_tokens = tokens, .new_tokens = 2},
                           .window = {.blocks = 0, .retain = 0},
                           .wire = model::WireFormat::f16};
  request.profiles = testbed.profiles(request.cluster);
  return one_step_s(planned(request), planner::decode_batch(static_cast<std::int32_t>(tokens)));
}

}  // namespace tandem::study
