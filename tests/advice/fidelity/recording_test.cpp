#include "advice/fidelity/recording.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "advice/fidelity/packed_plan.hpp"
#include "advice/prediction.hpp"
#include "model/base/error.hpp"
#include "model/predict/stated_profiles.hpp"
#include "planner/plan/file/plan_file.hpp"
#include "planner/search/search.hpp"
#include "tests/advice/fidelity/fidelity_fixture.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::recording_test {
namespace {

using study::Quantity;
using study::Recording;

// Two devices, slowed down by 2 and 7, on the machine of `profile`.
planner::PlanFile emulated_plan(const model::DeviceProfile& profile) {
  model::Cluster cluster = star_cluster({{}, {}});
  std::vector<model::Device> devices = cluster.devices();
  devices[0].slowdown = 2.0;
  devices[1].slowdown = 7.0;
  cluster =
      model::Cluster(cluster.name(), devices, cluster.routers(), cluster.links(), cluster.edges());
  std::vector<model::DeviceProfile> profiles;
  profiles.reserve(devices.size());
  for (const model::Device& device : devices) profiles.push_back(slowed(profile, device.slowdown));
  return {
      std::get<planner::Plan>(planner::make_plan({.model = small_model({}),
                                                  .cluster = cluster,
                                                  .workload = {.prompt_tokens = 4, .new_tokens = 5},
                                                  .profiles = profiles}))};
}

// Of the formats that the plan has.
model::DeviceProfile machine_profile(double flop_rate) {
  return for_formats(model::nominal_profile({.name = "machine",
                                             .flop_rate = model::FlopsPerSecond{flop_rate},
                                             .memory_bandwidth = model::BytesPerSecond{1e9}}),
                     model::WeightFormats());
}

}  // namespace

TEST_CASE("study/fidelity recording: what is written is read back exactly") {
  Recording one = recording_of("a", 0.1 + 0.2, {1.0 / 3.0, 1e-300, 7.0}, 0.01);
  one.quantities[0].interval_90 = {0.1, 2.0 / 3.0};
  one.quantities[0].predicted_after = 0.3;
  one.quantities.push_back(part_of("kind", "norm", 2.0, 1.0));
  one.quantities.push_back({"lane", "disk", "total", "s"});  // nothing predicted, nothing measured
  const std::string text = to_json(one);
  const Recording back = study::parse_recording(text, "a.json");
  CHECK(to_json(back) == text);
  CHECK(back.quantities[0].predicted == one.quantities[0].predicted);
  CHECK(back.quantities[0].measured == one.quantities[0].measured);
  CHECK(back.levels == one.levels);
  CHECK(back.reference.drift() == one.reference.drift());
}

TEST_CASE("study/fidelity recording: one field out of place is an error that names it") {
  const std::string good = to_json(recording_of("a", 1.0, {1.0}));
  static_cast<void>(study::parse_recording(good, "a.json"));
  const auto json = nlohmann::ordered_json::parse(good);
  const auto check = [](const nlohmann::ordered_json& bad, const std::string& field) {
    CAPTURE(bad.dump());
    try {
      static_cast<void>(study::parse_recording(bad.dump(), "a.json"));
      FAIL("accepted");
    } catch (const Error& error) {
      const std::string what = error.what();
      CAPTURE(what);
      CHECK(what.find("a.json") != std::string::npos);
      CHECK(what.find(field) != std::string::npos);
    }
  };
  for (const auto& item : json.items()) {
    const std::string& key = item.key();
    CAPTURE(key);
    auto bad = json;
    bad.erase(key);
    check(bad, key);
    for (const auto& wrong : {nlohmann::ordered_json(nullptr), nlohmann::ordered_json(-1),
                              nlohmann::ordered_json("\x1b[31m"), nlohmann::ordered_json({{1}})}) {
      bad[key] = wrong;
      check(bad, key);
    }
  }
  auto bad = json;
  bad["reference"]["cpu_s"] = {0.0};  // a drift of infinity
  check(bad, "cpu_s");
  bad = json;
  bad["quantities"][0]["interval_90"] = {1.0};
  check(bad, "interval_90");
  bad = json;
  bad["later"] = 1;
  check(bad, "later");
  CHECK_THROWS_AS(static_cast<void>(study::parse_recording("", "a.json")), Error);
  CHECK_THROWS_AS(static_cast<void>(study::parse_recording("[]", "a.json")), Error);
}

TEST_CASE("study/fidelity recording: quantities are the result's own numbers") {
  const planner::PlanFile file = emulated_plan(machine_profile(1e9));
  const model::Result predicted = study::predict(file.plan, {}).result;
  auto json = nlohmann::json::parse(to_json(predicted));
  json["kind"] = "measured";
  json["pace"] = "measured";
  json["evaluator"] = "exec";
  model::Result run = model::parse_result_json(json.dump(), "measured.json");
  for (double& time : run.metrics.token_times_s) time *= 2.0;
  run.metrics.ttft_s *= 2.0;
  const auto quantities =
      study::quantities_of(predicted, to_json(predicted), predicted, std::vector{run, run});
  const auto find = [&](std::string_view scope, std::string_view name, std::string_view metric) {
    for (const Quantity& one : quantities)
      if (one.scope == scope && one.name == name && one.metric == metric) return one;
    FAIL("no quantity " << scope << ' ' << name << ' ' << metric);
    return Quantity{};
  };
  const Quantity ttft = find("run", "", "ttft");
  CHECK(*ttft.predicted == predicted.metrics.ttft_s);
  CHECK(ttft.measured == std::vector{run.metrics.ttft_s, run.metrics.ttft_s});
  CHECK(*ttft.percent() == doctest::Approx(-50.0));
  CHECK(ttft.predicted_after == ttft.predicted);
  CHECK(*find("run", "", "token_latency_mean").percent() == doctest::Approx(-50.0));
  CHECK(*find("device", predicted.devices[1].name, "memory_total").predicted ==
        predicted.devices[1].peak_memory.total());
  CHECK(*find("lane", "cpu", "total").predicted ==
        doctest::Approx(predicted.devices[0].busy_cpu_s + predicted.devices[1].busy_cpu_s));
  double kinds = 0.0;
  for (const model::KindResult& kind : predicted.task_kinds) kinds += kind.metrics.total_s;
  double recorded = 0.0;
  for (const Quantity& one : quantities)
    if (one.scope == "kind") recorded += *one.predicted;
  CHECK(recorded == doctest::Approx(kinds));
  CHECK_THROWS_AS(static_cast<void>(study::quantities_of(predicted, to_json(predicted), {}, {})),
                  Error);
  // A prediction is no run.
  CHECK_THROWS_AS(static_cast<void>(study::quantities_of(predicted, to_json(predicted), {},
                                                         std::vector{predicted})),
                  Error);
  run.plan.sha256 = std::string(64, '0');
  CHECK_THROWS_AS(
      static_cast<void>(study::quantities_of(predicted, to_json(predicted), {}, std::vector{run})),
      Error);
}

TEST_CASE("study/fidelity recording: intervals are read where a prediction states them") {
  const model::Result predicted =
      study::predict(emulated_plan(machine_profile(1e9)).plan, {}).result;
  auto json = nlohmann::json::parse(to_json(predicted));
  const auto interval = [&](std::size_t i) {
    return study::predicted_quantities(predicted, json.dump())[i].interval_90;
  };
  json["metrics"].erase("interval_90");
  CHECK_FALSE(interval(0));
  json["metrics"]["interval_90"] = nullptr;
  CHECK_FALSE(interval(0));
  json["metrics"]["interval_90"] = {{"ttft_s", {1.0, 2.0}},
                                    {"token_latency_s", {{"mean", {3.0, 4.0}}}}};
  CHECK(interval(0) == study::Interval{1.0, 2.0});
  CHECK(interval(1) == study::Interval{3.0, 4.0});
}

TEST_CASE("study/fidelity recording: a changed prediction is found, and only it") {
  const Recording one = recording_of("a", 1.0, {2.0});
  std::vector<Quantity> now = one.quantities;
  CHECK(study::changes(one, now, 1e-9).empty());
  now[0].predicted = 1.0 + 5e-10;
  CHECK(study::changes(one, now, 1e-9).empty());
  now[0].predicted = 1.0 + 2e-9;
  const auto found = study::changes(one, now, 1e-9);
  REQUIRE(found.size() == 1);
  CHECK(found[0].quantity == "run ttft");
  CHECK(*found[0].median == 2.0);
  now[0].predicted.reset();
  CHECK(study::changes(one, now, 1e-9).size() == 1);
  now = one.quantities;
  now.push_back(part_of("kind", "norm", 1.0, 1.0));
  CHECK(study::changes(one, now, 1e-9).size() == 1);
  CHECK(study::changes(one, {}, 1e-9).size() == 1);
}

TEST_CASE("study/fidelity recording: a packed plan is the plan, its profile stated once") {
  const model::DeviceProfile profile = machine_profile(1e9);
  const planner::PlanFile file = emulated_plan(profile);
  const std::string text = planner::to_json(file);
  const std::string packed = study::packed_plan(text, "plan.json", profile);
  CHECK(packed.find("\"profile\"") == std::string::npos);
  CHECK(planner::parse_plan_file(study::unpacked_plan(packed, "plan.json", profile), "plan.json") ==
        file);
  SUBCASE("of another machine's profile the devices keep their own") {
    const model::DeviceProfile other = machine_profile(3e9);
    const std::string kept = study::packed_plan(text, "plan.json", other);
    CHECK(planner::parse_plan_file(study::unpacked_plan(kept, "plan.json", other), "plan.json") ==
          file);
  }
  SUBCASE("with another profile the plan is the same but for its rates") {
    const model::DeviceProfile other = machine_profile(3e9);
    const planner::PlanFile changed =
        planner::parse_plan_file(study::with_profile(text, "plan.json", other), "plan.json");
    CHECK(changed.plan.profiles.at(1) == slowed(other, 7.0));
    planner::PlanFile back = changed;
    back.plan.profiles = file.plan.profiles;
    CHECK(back == file);
  }
  SUBCASE("what is no packed plan is an error") {
    for (const char* const bad : {"", "{}", "[]", R"({"devices": [{}]})", R"({"devices": 1})"})
      CHECK_THROWS_AS(static_cast<void>(study::unpacked_plan(bad, "a.json", profile)), Error);
  }
}

}  // namespace tandem::test::recording_test
