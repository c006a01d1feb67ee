#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/base/error.hpp"
#include "model/base/limits.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/search/search.hpp"
#include "tests/planner/planner_fixture.hpp"
#include "tests/support/sampled.hpp"

namespace tandem::test::plan_test {
namespace {

using nlohmann::json;
using planner::parse_plan_json;
using planner::Plan;

Plan sample_plan(const std::string& strategy, std::size_t devices) {
  planner::Request request{.model = small_model({.heads = 8, .kv_heads = 2, .intermediate = 21}),
                           .cluster = star_cluster(std::vector<DeviceSpec>(devices)),
                           .strategy = strategy,
                           .partition = "galaxy",
                           .master = std::string("d").append(std::to_string(devices - 1)),
                           .workload = {.prompt_tokens = 5, .new_tokens = 3}};
  return std::get<Plan>(make_plan(request));
}

TEST_CASE("planner/plan: JSON reads back to an equal plan, and equal plans to equal bytes") {
  for (const char* strategy : {"local", "tensor"}) {
    for (const std::size_t devices : std::initializer_list<std::size_t>{1, 2, 3, 5, 7}) {
      CAPTURE(strategy);
      CAPTURE(devices);
      const Plan plan = sample_plan(strategy, devices);
      const std::string text = to_json(plan);
      const Plan back = parse_plan_json(text, "plan.json");
      CHECK(back == plan);
      CHECK(to_json(back) == text);
      CHECK(plan_sha256(back) == plan_sha256(plan));
      CHECK(plan_sha256(plan).size() == 64);
    }
  }
}

TEST_CASE("planner/plan: doubles survive to the last bit") {
  Plan plan = sample_plan("tensor", 2);
  for (const double value : {0.1, 1.0 / 3.0, 1e17, 123456789.123456789,
                             std::numeric_limits<double>::denorm_min(), 9007199254740993.0}) {
    CAPTURE(value);
    plan.profiles[0].program_bytes = value;
    plan.profiles[1].rate[0].overhead_s = value < 1.0 ? value : 1.0 / value;
    const std::vector<model::MemoryUse> memory = planner::predicted_memory(plan);
    for (std::size_t d = 0; d < memory.size(); ++d) plan.devices[d].memory = memory[d];
    CHECK(parse_plan_json(to_json(plan), "plan.json") == plan);
  }
}

// One set of limits: what the platform allows, and a plan is made of, is read back.
TEST_CASE("planner/plan: plans at the ends of all limits are read back") {
  namespace limits = model::limits;
  testing::Sampled taken(2);
  for (const bool most : {true, false}) {
    if (!taken()) continue;
    CAPTURE(most);
    const auto pick = [&](double least, double largest) { return most ? largest : least; };
    const double rate = pick(limits::kLeastRate, limits::kMostRate);
    model::Link link{.name = "l",
                     .latency = model::Seconds{pick(0.0, limits::kMostSeconds)},
                     .bandwidth = model::BytesPerSecond{rate},
                     .sharing = model::Sharing::shared};
    for (std::size_t i = 0; i < limits::kChanges; ++i)
      link.changes.push_back(
          {.at = model::Seconds{static_cast<double>(i)}, .latency = link.latency});
    std::vector<model::Device> devices;
    for (const char* name : {"a", "b"}) {
      devices.push_back(
          {.name = name,
           .cores = most ? limits::kCores : 1,
           .flop_rate = model::FlopsPerSecond{rate},
           .memory_bandwidth = model::BytesPerSecond{pick(limits::kMostRate, limits::kLeastRate)},
           .memory = model::Bytes{limits::kMostBytes},
           .disk_bandwidth = model::BytesPerSecond{rate},
           .slowdown = pick(limits::kLeastFactor, limits::kMostFactor),
           .speeds = {limits::kChanges, {.factor = limits::kLeastFactor}}});
    }
    planner::Request request{
        .model = small_model({.heads = 8}),
        .cluster = {"z",
                    devices,
                    {},
                    {link},
                    {{.from = "a", .to = "b", .hops = std::vector<model::Hop>(limits::kHops)}}},
        .partition = "equal",
        .workload = {.prompt_tokens = 5, .new_tokens = 3}};
    const Plan plan = std::get<Plan>(make_plan(request));
    CHECK(parse_plan_json(to_json(plan), "plan.json") == plan);
  }
}

TEST_CASE("planner/plan: another plan has another hash") {
  const Plan plan = sample_plan("tensor", 3);
  Plan other = plan;
  other.workload.new_tokens += 1;
  CHECK(plan_sha256(other) != plan_sha256(plan));
}

struct Fault {
  const char* what;
  std::function<void(json&)> spoil;
  const char* says;  // part of the message
};

TEST_CASE("planner/plan: each fault in the JSON is one clear error that names file and field") {
  const json good = json::parse(to_json(sample_plan("tensor", 3)));
  const Fault faults[] = {
      {"other schema", [](json& j) { j["schema"] = "tandem.plan/9"; }, "tandem.plan/9"},
      {"no schema", [](json& j) { j.erase("schema"); }, "schema"},
      {"no cluster", [](json& j) { j.erase("cluster"); }, "cluster"},
      {"unknown key", [](json& j) { j["extra"] = 1; }, "extra"},
      {"unknown key within", [](json& j) { j["devices"][1]["gpu"] = 1; }, "gpu"},
      {"strategy type", [](json& j) { j["strategy"] = 1; }, "strategy"},
      {"strategy", [](json& j) { j["strategy"] = "magic"; }, "magic"},
      {"no partition", [](json& j) { j["partition"] = ""; }, "partition"},
      {"allreduce", [](json& j) { j["allreduce"]["decode"] = "comet"; }, "comet"},
      {"no layout", [](json& j) { j.erase("layout"); }, "layout"},
      {"layout of a stranger", [](json& j) { j["layout"]["order"][1] = "nobody"; }, "nobody"},
      {"layout twice", [](json& j) { j["layout"]["order"][1] = j["layout"]["order"][2]; },
       "twice: expected every device once"},
      {"layout too short",
       [](json& j) {
         j["layout"]["order"].erase(2);
         j["layout"]["groups"].erase(2);
       },
       "layout's order: 2: expected one for each of the 3"},
      {"layout groups too short", [](json& j) { j["layout"]["groups"].erase(2); },
       "one for each device of 'order'"},
      {"layout group", [](json& j) { j["layout"]["groups"][1] = -1; }, "layout.groups[1]"},
      {"layout without the master first",
       [](json& j) { std::swap(j["layout"]["order"][0], j["layout"]["order"][1]); },
       "expected the master, 'd2'"},
      {"sums of a group without a name",
       [](json& j) {
         j["strategy"] = "pipeline";
         j["allreduce"] = {{"prompt", ""}, {"decode", ""}};
       },
       "allreduce '': unknown"},
      {"master", [](json& j) { j["master"] = "nobody"; }, "nobody"},
      {"layers", [](json& j) { j["model"]["config"]["num_hidden_layers"] = 1001; }, "1001"},
      {"no heads", [](json& j) { j["model"]["config"]["num_attention_heads"] = 0; }, "heads"},
      {"config", [](json& j) { j["model"]["config"] = "llama"; }, "model.config"},
      {"huge prompt", [](json& j) { j["workload"]["prompt_tokens"] = 1e300; }, "prompt_tokens"},
      {"no prompt", [](json& j) { j["workload"]["prompt_tokens"] = 0; }, "prompt_tokens"},
      {"beyond the context", [](json& j) { j["workload"]["new_tokens"] = 60; }, "at most 64"},
      {"fraction", [](json& j) { j["workload"]["new_tokens"] = 1.5; }, "new_tokens"},
      {"device twice", [](json& j) { j["cluster"]["devices"][1] = j["cluster"]["devices"][0]; },
       "d0"},
      {"no devices", [](json& j) { j["cluster"]["devices"] = j["devices"] = json::array(); },
       "device"},
      {"negative memory", [](json& j) { j["cluster"]["devices"][1]["memory_bytes"] = -1; },
       "memory"},
      {"no such sharing", [](json& j) { j["cluster"]["links"][0]["sharing"] = "free"; },
       "cluster.links[0].sharing"},
      {"no such link", [](json& j) { j["cluster"]["routes"][0]["hops"][0]["link"] = "l9"; },
       "cluster.routes[0].hops[0].link"},
      {"no such direction",
       [](json& j) { j["cluster"]["routes"][0]["hops"][0]["direction"] = "left"; }, "direction"},
      {"unreachable", [](json& j) { j["cluster"]["routes"] = json::array(); }, "d"},
      {"a device plan missing", [](json& j) { j["devices"].erase(2); }, "devices"},
      {"device plans exchanged", [](json& j) { std::swap(j["devices"][0], j["devices"][1]); },
       "devices[0].name"},
      {"not a range", [](json& j) { j["devices"][0]["heads"] = 4; }, "devices[0].heads"},
      {"three bounds",
       [](json& j) {
         j["devices"][0]["heads"] = {0, 1, 2};
       },
       "devices[0].heads"},
      {"reversed",
       [](json& j) {
         j["devices"][0]["heads"] = {3, 1};
       },
       "devices[0].heads"},
      {"negative",
       [](json& j) {
         j["devices"][0]["heads"] = {-1, 1};
       },
       "devices[0].heads"},
      {"past the model",
       [](json& j) {
         j["devices"][2]["columns"] = {14, 22};
       },
       "[14, 22)"},
      {"overlap",
       [](json& j) {
         j["devices"][1]["heads"] = {1, 6};
       },
       "heads [1, 6)"},
      {"gap",
       [](json& j) {
         j["devices"][1]["columns"] = {8, 14};
       },
       "FFN columns [8, 14)"},
      {"too few",
       [](json& j) {
         j["devices"][2]["columns"] = {14, 20};
       },
       "end at 20"},
      {"layers of a device",
       [](json& j) {
         j["devices"][0]["layers"] = {0, 1};
       },
       "layers [0, 1)"},
      {"embedding elsewhere", [](json& j) { j["devices"][0]["embedding"] = true; }, "embedding"},
      {"no head", [](json& j) { j["devices"][2]["head"] = false; }, "head"},
      {"flag type", [](json& j) { j["devices"][2]["head"] = 0; }, "devices[2].head"},
      {"memory type", [](json& j) { j["devices"][0]["memory_bytes"]["weights"] = "8GB"; },
       "devices[0].memory_bytes.weights"},
      {"negative use", [](json& j) { j["devices"][0]["memory_bytes"]["weights"] = -1; }, "weights"},
      {"profile", [](json& j) { j["devices"][0]["profile"] = json::object(); },
       "devices[0].profile"},
      {"many devices",
       [](json& j) {
         j["cluster"]["devices"] = json::array();
         for (int i = 0; i < 5000; ++i) j["cluster"]["devices"].push_back(1);
       },
       "at most 4096"},
  };
  CHECK_NOTHROW((void)parse_plan_json(good.dump(), "plan.json"));
  for (const Fault& fault : faults) {
    CAPTURE(fault.what);
    json bad = good;
    fault.spoil(bad);
    std::string message;
    try {
      (void)parse_plan_json(bad.dump(), "plan.json");
    } catch (const Error& error) {
      message = error.what();
    }
    CAPTURE(message);
    CHECK(message.find("plan.json: ") == 0);
    CHECK(message.find(fault.says) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  }
}

TEST_CASE("planner/plan: what is no JSON is one clear error") {
  const std::string good = to_json(sample_plan("tensor", 2));
  const std::string deep = std::string(100000, '[');
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("null"), deep, good + "x",
        std::string(1, '\0'), std::string(std::size_t{17} << 20U, ' ')}) {
    CAPTURE(text.substr(0, 20));
    CHECK_THROWS_WITH_AS((void)parse_plan_json(text, "plan.json"), doctest::Contains("plan.json"),
                         Error);
  }
  int accepted = 0;
  for (std::size_t length = 0; length < good.size(); length += 97) {
    try {
      (void)parse_plan_json(std::string_view(good).substr(0, length), "plan.json");
      ++accepted;
    } catch (const Error&) {
      continue;
    }
  }
  CHECK(accepted == 0);
}

TEST_CASE("planner/plan: validate refuses what does not fit together") {
  const Plan good = sample_plan("tensor", 3);
  Plan bad = good;
  bad.master = 3;
  CHECK_THROWS_WITH_AS(bad.validate(), doctest::Contains("master 3"), Error);
  bad = good;
  bad.model.layers = 1000;
  bad.cluster = star_cluster(std::vector<DeviceSpec>(600));
  CHECK_THROWS_WITH_AS(bad.validate(), doctest::Contains("600 devices with 1000 layers"), Error);
  bad = good;
  bad.devices.pop_back();
  CHECK_THROWS_WITH_AS(bad.validate(), doctest::Contains("device plans: 2"), Error);
  bad = good;
  bad.profiles.pop_back();
  CHECK_THROWS_WITH_AS(bad.validate(), doctest::Contains("profiles: 2"), Error);
  bad = good;
  bad.devices[0].memory.weights = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_WITH_AS(bad.validate(), doctest::Contains("device 'd0'"), Error);
  bad = good;
  bad.strategy = "local";
  CHECK_THROWS_AS(bad.validate(), Error);
}

}  // namespace
}  // namespace tandem::test::plan_test
