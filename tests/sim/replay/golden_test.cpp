// Predictions of plans without relays, held against a record: tests/data/golden/predictions.csv,
// whose header says which commit made it and how to make it again. A strategy, a policy or an
// evaluator that changes one of these numbers says so there.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/predict/analytic.hpp"
#include "planner/search/search.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "sim/replay/replay.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/sim/sim_fixture.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::sim::testing::golden_test {
namespace {

using planner::Plan;

constexpr double kTolerance = 1e-9;  // of a value, beside
constexpr double kRounding = 1e-14;  // seconds: of differences between times of some seconds
const std::filesystem::path kFile =
    tandem::testing::in_sources("tests/data/golden/predictions.csv");
constexpr const char* kRecord = "TANDEM_RECORD_PREDICTIONS";  // a commit: writes the file instead

// Seconds or bytes by what they are: "case,evaluator,quantity,index".
using Record = std::map<std::string, double>;

struct Case {
  std::string name;
  std::string strategy;
  int devices = 1;
  std::string partition = "equal";
  std::string allreduce = "star";
  model::Family family = model::Family::llama;
  bool profiled = false;
  bool medium = false;  // one shared link instead of a link for each device
  planner::WindowRequest window{};
  bool late = false;
  // Requests that arrive over time, by every policy; else a generation.
  bool served = false;
  std::int64_t chunk = 0;
};

std::vector<Case> cases() {
  return {
      {.name = "local", .strategy = "local"},
      {.name = "local profiled", .strategy = "local", .profiled = true},
      {.name = "local gpt2", .strategy = "local", .family = model::Family::gpt2},
      {.name = "local bert", .strategy = "local", .family = model::Family::bert},
      {.name = "local window 1", .strategy = "local", .window = {.blocks = 1}},
      {.name = "local window 2 late",
       .strategy = "local",
       .profiled = true,
       .window = {.blocks = 2},
       .late = true},
      {.name = "local window 2 retaining",
       .strategy = "local",
       .window = {.blocks = 2, .retain = 2}},
      {.name = "star of 2", .strategy = "tensor", .devices = 2, .partition = "4:2"},
      {.name = "star of 3", .strategy = "tensor", .devices = 3, .partition = "3:2:1"},
      {.name = "star of 3 profiled",
       .strategy = "tensor",
       .devices = 3,
       .partition = "3:2:1",
       .profiled = true},
      {.name = "star of 4 on a medium",
       .strategy = "tensor",
       .devices = 4,
       .profiled = true,
       .medium = true},
      {.name = "star of 3 gpt2", .strategy = "tensor", .devices = 3, .family = model::Family::gpt2},
      {.name = "star of 3 bert", .strategy = "tensor", .devices = 3, .family = model::Family::bert},
      {.name = "star of 3 window 2",
       .strategy = "tensor",
       .devices = 3,
       .partition = "3:2:1",
       .window = {.blocks = 2}},
      {.name = "star of 3 window 1 late profiled",
       .strategy = "tensor",
       .devices = 3,
       .profiled = true,
       .window = {.blocks = 1},
       .late = true},
      {.name = "ring of 2", .strategy = "tensor", .devices = 2, .allreduce = "ring"},
      {.name = "tree of 2", .strategy = "tensor", .devices = 2, .allreduce = "tree"},
      {.name = "halving of 4", .strategy = "tensor", .devices = 4, .allreduce = "halving"},
      {.name = "halving of 4 profiled",
       .strategy = "tensor",
       .devices = 4,
       .allreduce = "halving",
       .profiled = true},
      {.name = "one group of 3",
       .strategy = "tensor",
       .devices = 3,
       .allreduce = "hierarchical",
       .profiled = true},
      {.name = "pipeline of 3", .strategy = "pipeline", .devices = 3},
      {.name = "pipeline of 3 profiled", .strategy = "pipeline", .devices = 3, .profiled = true},
      {.name = "pipeline of 2 window 2",
       .strategy = "pipeline",
       .devices = 2,
       .window = {.blocks = 2}},
      {.name = "served local", .strategy = "local", .profiled = true, .served = true},
      {.name = "served local in chunks",
       .strategy = "local",
       .profiled = true,
       .served = true,
       .chunk = 4},
      {.name = "served local window 2",
       .strategy = "local",
       .window = {.blocks = 2},
       .served = true},
      {.name = "served star of 3",
       .strategy = "tensor",
       .devices = 3,
       .partition = "3:2:1",
       .profiled = true,
       .served = true},
      {.name = "served star of 3 in chunks",
       .strategy = "tensor",
       .devices = 3,
       .partition = "3:2:1",
       .served = true,
       .chunk = 3},
      {.name = "served pipeline of 3",
       .strategy = "pipeline",
       .devices = 3,
       .profiled = true,
       .served = true},
  };
}

model::Transformer model_of(model::Family family) {
  model::Transformer model = test::small_model({.layers = 3,
                                                .heads = 6,
                                                .kv_heads = family == model::Family::llama ? 3 : 6,
                                                .head_dim = 16,
                                                .intermediate = 204,
                                                .vocab = 301});
  model.family = family;
  model.max_context = 512;
  if (family != model::Family::llama) model.activation = model::Activation::gelu;
  if (family == model::Family::bert) model.token_types = 2;
  return model;
}

model::Cluster cluster_of(const Case& c) {
  std::vector<model::Device> devices;
  std::vector<model::Link> links;
  std::vector<model::Edge> edges;
  if (c.medium) links.push_back(link("air", 3e-4, 4e6, model::Sharing::shared));
  for (int d = 0; d < c.devices; ++d) {
    model::Device made = device("d" + std::to_string(d));
    made.memory_bandwidth = model::BytesPerSecond{1e9 / (1.0 + 0.7 * d)};
    made.disk_bandwidth = model::BytesPerSecond{1.5e8 / (1.0 + 0.3 * d)};
    devices.push_back(made);
    if (!c.medium) {
      links.push_back(link("l" + std::to_string(d), 1e-4 * (d + 1), 2e6 * (d + 1),
                           model::Sharing::split_duplex));
    }
    edges.push_back({made.name,
                     "r",
                     {{c.medium ? 0 : d, c.medium ? model::Direction::none : model::Direction::up}},
                     true});
  }
  return {"golden", devices, {"r"}, links, edges};
}

// Every rate and overhead differs by kind, so that one in another's place shows.
model::DeviceProfile measured_profile(const model::Device& device, double factor) {
  model::DeviceProfile profile = model::nominal_profile(device);
  double own = factor;
  for (auto& rate : profile.rate) {
    rate.overhead_s = 3e-6 * own;
    rate.points = {{.intensity = 1.0, .seconds_per_byte = 1.1e-9 * own},
                   {.intensity = 4.0, .seconds_per_byte = 1.7e-9 * own},
                   {.intensity = 64.0, .seconds_per_byte = 9e-9 * own}};
    own *= 1.03;
  }
  const auto line = [&](double overhead_s, double byte_s) {
    return model::KindRate{.overhead_s = overhead_s * factor,
                           .points = {{.intensity = 1.0, .seconds_per_byte = byte_s * factor}}};
  };
  profile.inlined = {
      .send = line(5e-6, 2e-10), .transfer = line(2e-5, 1e-10), .receive = line(7e-6, 3e-10)};
  return profile;
}

std::vector<planner::InferenceRequest> requests() {
  return {{.id = "a", .arrival_s = 0.0, .prompt_tokens = 9, .new_tokens = 5},
          {.id = "b", .arrival_s = 0.0, .prompt_tokens = 4, .new_tokens = 8},
          {.id = "c", .arrival_s = 0.02, .prompt_tokens = 1, .new_tokens = 3},
          {.id = "d", .arrival_s = 0.05, .prompt_tokens = 13, .new_tokens = 1},
          {.id = "e", .arrival_s = 4.0, .prompt_tokens = 6, .new_tokens = 4}};
}

Plan plan_of(const Case& c) {
  planner::Request request{
      .model = model_of(c.family),
      .cluster = cluster_of(c),
      .strategy = c.strategy,
      .partition = c.partition,
      .allreduce = c.allreduce,
      .workload = {.prompt_tokens = 7, .new_tokens = c.family == model::Family::bert ? 0 : 6},
      .window = c.window,
      .release = c.late ? model::ReleaseRule::late : model::ReleaseRule::early};
  if (c.profiled) {
    for (const model::Device& device : request.cluster.devices())
      request.profiles.push_back(
          measured_profile(device, 1.0 + 0.6 * static_cast<double>(request.profiles.size())));
  }
  auto result = planner::make_plan(request);
  REQUIRE(std::holds_alternative<Plan>(result));
  return std::get<Plan>(std::move(result));
}

class Recording {
 public:
  Recording(Record& record, std::string run) : record_(record), run_(std::move(run)) {}
  void add(const std::string& quantity, std::size_t index, double value) {
    record_[run_ + "," + quantity + "," + std::to_string(index)] = value;
  }
  // What does not depend on how a run came about.
  void add_run(const model::RunRecorder& recorder) {
    double end = 0.0;
    for (const Span& span : recorder.trace().spans) end = std::max(end, span.end);
    add("end_s", 0, end);
    const std::vector<model::LinkMetrics> links = recorder.links();
    for (std::size_t i = 0; i < links.size(); ++i) add("link_bytes", i, links[i].bytes);
    const std::vector<model::DeviceMetrics> devices = recorder.devices();
    for (std::size_t d = 0; d < devices.size(); ++d) {
      add("busy_cpu_s", d, devices[d].busy_cpu_s);
      add("busy_disk_s", d, devices[d].busy_disk_s);
    }
  }

 private:
  Record& record_;
  std::string run_;
};

void predict(const Case& c, const Plan& plan, Record& record) {
  for (const bool simgrid : {false, true}) {
    planner::GenerationSteps steps(plan);
    model::RunRecorder recorder(plan.cluster, plan.master, true);
    (simgrid ? replay : model::evaluate_analytic)(plan.cluster, plan.cost_model(), steps, recorder);
    Recording own(record, c.name + (simgrid ? ",simgrid" : ",analytic"));
    const model::Metrics metrics = recorder.metrics();
    own.add("ttft_s", 0, metrics.ttft_s);
    for (std::size_t i = 0; i < metrics.token_times_s.size(); ++i)
      own.add("token_s", i, metrics.token_times_s[i]);
    own.add_run(recorder);
  }
}

void predict_served(const Case& c, const Plan& plan, Record& record) {
  const std::vector<planner::InferenceRequest> asked = requests();
  for (const planner::Policy& policy : planner::policies()) {
    if (policy.budget()) continue;  // the record has the others
    for (const bool simgrid : {false, true}) {
      planner::RequestScheduler scheduler(
          asked, policy,
          {.chunk = c.chunk, .capacity = planner::wanted_capacity(asked, policy, c.chunk)});
      planner::GraphCache graphs(plan);
      model::RunRecorder recorder(plan.cluster, plan.master, true);
      if (simgrid) {
        replay_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder, 1);
      } else {
        model::evaluate_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
      }
      Recording own(record,
                    c.name + " " + std::string(policy.name) + (simgrid ? ",simgrid" : ",analytic"));
      const auto results = planner::request_results(asked, recorder.served());
      for (std::size_t r = 0; r < results.size(); ++r) {
        own.add("queueing_s", r, results[r].queueing_s);
        own.add("ttft_s", r, results[r].ttft_s);
        own.add("end_of_request_s", r, results[r].end_s);
        if (std::isfinite(results[r].token_latency.p99)) {
          own.add("latency_mean_s", r, results[r].token_latency.mean);
          own.add("latency_p99_s", r, results[r].token_latency.p99);
        }
      }
      own.add_run(recorder);
    }
  }
}

Record predictions() {
  Record record;
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const Plan plan = plan_of(c);
    (c.served ? predict_served : predict)(c, plan, record);
  }
  return record;
}

void write(const Record& record, const std::string& commit) {
  std::ofstream file(kFile);
  file
      << "# Predictions of plans without relays (tests/sim/replay/golden_test.cpp), made at commit "
      << commit << ".\n"
      << "# To make them again: " << kRecord
      << "=$(git rev-parse --short HEAD) tandem_sim_tests -tc='sim/golden*'\n"
      << "# Say in the commit that changes a number why it changed.\n"
      << "case,evaluator,quantity,index,value\n";
  file.precision(17);
  for (const auto& [key, value] : record) file << key << ',' << value << '\n';
  REQUIRE(file.good());
}

Record read() {
  std::ifstream file(kFile);
  REQUIRE(file.good());
  Record record;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#') || line.starts_with("case,")) continue;
    const std::size_t comma = line.rfind(',');
    REQUIRE(comma != std::string::npos);
    record[line.substr(0, comma)] = std::stod(line.substr(comma + 1));
  }
  return record;
}

TEST_CASE("sim/golden: predictions of plans without relays are the recorded ones, to 1e-9") {
  const Record now = predictions();
  if (const char* const commit = std::getenv(kRecord)) {
    write(now, commit);
    return;
  }
  const Record then = read();
  CHECK(then.size() == now.size());
  for (const auto& recorded : then) {
    const std::string& key = recorded.first;
    const double value = recorded.second;
    CAPTURE(key);
    const auto found = now.find(key);
    REQUIRE(found != now.end());
    CAPTURE(value);
    CAPTURE(found->second);
    CHECK(std::abs(found->second - value) <= kTolerance * std::abs(value) + kRounding);
  }
}

}  // namespace
}  // namespace tandem::sim::testing::golden_test
