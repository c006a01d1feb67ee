// Plans of models whose weights are in formats other than f32.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "model/base/error.hpp"
#include "planner/partition/budget.hpp"
#include "planner/search/search.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::format_plans_test {
namespace {

using model::WeightFormat;
using model::WeightFormats;
using planner::Plan;

model::Transformer model_in(WeightFormat format) {
  model::Transformer t =
      small_model({.heads = 8, .kv_heads = 2, .head_dim = 32, .intermediate = 1280});
  t.formats = WeightFormats(format);
  return t;
}

planner::Request request_in(WeightFormat format, const std::vector<DeviceSpec>& devices,
                            const std::string& partition) {
  return {.model = model_in(format),
          .cluster = star_cluster(devices),
          .strategy = "tensor",
          .partition = partition,
          .workload = {.prompt_tokens = 5, .new_tokens = 3}};
}

std::string error_of_plan(const std::string& text) {
  try {
    (void)planner::parse_plan_json(text, "plan.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("planner/formats: a plan keeps them, and says nothing of f32") {
  for (const WeightFormat format : model::kWeightFormats) {
    CAPTURE(to_string(format));
    const Plan plan =
        std::get<Plan>(make_plan(request_in(format, std::vector<DeviceSpec>(3), "galaxy")));
    const std::string text = to_json(plan);
    CHECK(planner::parse_plan_json(text, "plan.json") == plan);
    CHECK((text.find("q8_0") != std::string::npos) == (format == WeightFormat::q8_0));
    CHECK((text.find("\"formats\"") == std::string::npos) == (format == WeightFormat::f32));
    CHECK((text.find("\"weights\": {") == std::string::npos) == (format == WeightFormat::f32));
  }
  Plan plan = std::get<Plan>(
      make_plan(request_in(WeightFormat::q8_0, std::vector<DeviceSpec>(2), "equal")));
  nlohmann::json json = nlohmann::json::parse(to_json(plan));
  json["model"]["weights"]["down"] = "q5_7";
  CHECK(error_of_plan(json.dump()).find("f32, f16, bf16, q8_0") != std::string::npos);
  json["model"]["weights"].erase("down");
  CHECK(error_of_plan(json.dump()).find("down") != std::string::npos);
}

TEST_CASE("planner/formats: a plan keeps those of single matrices and layers") {
  planner::Request request = request_in(WeightFormat::q4_0, std::vector<DeviceSpec>(2), "auto");
  request.model.formats.set(model::WeightMatrix::value, WeightFormat::q8_0);
  request.model.formats.set(model::WeightMatrix::down, 1, WeightFormat::q8_0);
  const Plan plan = std::get<Plan>(make_plan(request));
  const std::string text = to_json(plan);
  CHECK(planner::parse_plan_json(text, "plan.json") == plan);
  const nlohmann::json json = nlohmann::json::parse(text);
  const nlohmann::json& weights = json["model"]["weights"];
  CHECK(!weights.contains("query_key_value"));
  CHECK(weights["value"] == "q8_0");
  CHECK(weights["gate_up"] == "q4_0");
  CHECK(weights["layers"] == nlohmann::json{{"1", {{"down", "q8_0"}}}});
  nlohmann::json bad = json;
  bad["model"]["weights"]["layers"] = {{"01", {{"down", "q8_0"}}}};
  CHECK(error_of_plan(bad.dump()).find("layers") != std::string::npos);
  bad["model"]["weights"]["layers"] = {{"1", {{"head", "q8_0"}}}};
  CHECK(error_of_plan(bad.dump()).find("head") != std::string::npos);
  bad = json;
  bad["model"]["weights"]["query_key_value"] = "f32";
  CHECK(error_of_plan(bad.dump()).find("query_key_value") != std::string::npos);
}

TEST_CASE("planner/formats: every device's columns are whole blocks, however they are dealt") {
  for (const WeightFormat format : {WeightFormat::q8_0, WeightFormat::q4_0}) {
    for (const char* const partition : {"auto", "galaxy", "equal", "5:3:1", "20:1:1"}) {
      CAPTURE(to_string(format));
      CAPTURE(partition);
      const Plan plan = std::get<Plan>(make_plan(
          request_in(format, {{.flops_per_s = 3e9}, {}, {.flops_per_s = 0.3e9}}, partition)));
      std::int64_t columns = 0;
      for (const planner::DevicePlan& device : plan.devices) {
        CHECK(device.share.columns.begin % 32 == 0);
        CHECK(device.share.columns.end % 32 == 0);
        columns += device.share.columns.size();
      }
      CHECK(columns == plan.model.intermediate);
    }
  }
}

TEST_CASE("planner/formats: a plan whose columns are within a block is refused") {
  Plan plan = std::get<Plan>(
      make_plan(request_in(WeightFormat::q4_0, std::vector<DeviceSpec>(2), "equal")));
  plan.devices[0].share.columns.end += 16;
  plan.devices[1].share.columns.begin += 16;
  std::string error;
  try {
    plan.validate();
  } catch (const Error& e) {
    error = e.what();
  }
  CHECK(error.find("expected multiples of 32 with weights in q4_0") != std::string::npos);
  plan.model.formats = WeightFormats(WeightFormat::bf16);
  CHECK_NOTHROW(plan.validate());
}

TEST_CASE("planner/formats: what does not fit as f32 fits in four bits") {
  const model::Transformer f32 = model_in(WeightFormat::f32);
  const double most = 0.45 * model::weight_bytes(f32, {.layers = {0, 2},
                                                       .heads = {0, 8},
                                                       .columns = {0, 32 * 40},
                                                       .embedding = true,
                                                       .head = true});
  const auto plan = [&](WeightFormat format) {
    planner::Request request = request_in(format, {{.memory_bytes = most}}, "");
    request.strategy = "local";
    request.window = {.blocks = 0, .retain = std::nullopt};
    request.profiles = {model::nominal_profile(request.cluster.devices()[0])};
    return make_plan(request);
  };
  CHECK(std::holds_alternative<planner::Infeasible>(plan(WeightFormat::f32)));
  CHECK(std::holds_alternative<planner::Infeasible>(plan(WeightFormat::f16)));
  CHECK(std::holds_alternative<Plan>(plan(WeightFormat::q4_0)));
}

TEST_CASE("planner/formats: the unit of columns is f32's, or whole blocks") {
  CHECK(planner::column_unit(model_in(WeightFormat::f32)) == 16);
  CHECK(planner::least_column_unit(model_in(WeightFormat::f32)) == 1);
  CHECK(planner::column_unit(model_in(WeightFormat::q8_0)) == 32);
  CHECK(planner::least_column_unit(model_in(WeightFormat::q8_0)) == 32);
  model::Transformer few = model_in(WeightFormat::bf16);
  few.intermediate = 30;
  CHECK(planner::column_unit(few) == 1);
}

}  // namespace
}  // namespace tandem::test::format_plans_test
