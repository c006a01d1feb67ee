// What a plan file says of the requests that the plan was made for.

#include "planner/serving/planned_service.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "model/base/error.hpp"
#include "planner/plan/file/plan_file.hpp"
#include "planner/search/search.hpp"
#include "planner/serving/serving_plan.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::planned_service_test {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using planner::parse_plan_file;
using planner::PlanFile;
using planner::PlannedService;

std::vector<planner::InferenceRequest> some_requests() {
  return {{.id = "a", .arrival_s = 0.0, .prompt_tokens = 3, .new_tokens = 4},
          {.id = "b \"quoted\"", .arrival_s = 0.125, .prompt_tokens = 6, .new_tokens = 2}};
}

PlannedService workload_service() {
  return {.file = "../some where/w.jsonl",
          .sha256 = std::string(64, 'c'),
          .requests = some_requests(),
          .policy = "continuous",
          .chunk = 2,
          .in_flight = 2};
}

PlannedService samples_service() { return {.samples = 2, .policy = "recurrent"}; }

PlanFile file_of(const PlannedService& service) {
  planner::Request request{.model = small_model({.layers = 4}),
                           .cluster = star_cluster(std::vector<DeviceSpec>(2)),
                           .strategy = "pipeline",
                           .partition = "equal",
                           .workload = {}};
  const planner::Policy& policy = planner::find_policy(service.policy);
  return {.plan = std::get<planner::Plan>(
              make_serving_plan(request, some_requests(), policy, service.chunk, 2)),
          .service = service};
}

TEST_CASE("planner/plan file: reads back to an equal one, and equal ones to equal bytes") {
  PlannedService raw = workload_service();
  raw.raw_prompts = true;
  raw.chunk = 0;
  raw.in_flight = 0;
  for (const PlannedService& service : {workload_service(), samples_service(), raw}) {
    CAPTURE(service.policy);
    const PlanFile file = file_of(service);
    const std::string text = to_json(file);
    const PlanFile back = parse_plan_file(text, "plan.json");
    CHECK(back == file);
    CHECK(to_json(back) == text);
  }
}

TEST_CASE("planner/plan file: the service adds keys, and changes nothing that devices are sent") {
  for (const PlannedService& service : {workload_service(), samples_service()}) {
    const PlanFile file = file_of(service);
    const std::string plan = to_json(file.plan);
    CHECK(planner::parse_plan_json(to_json(file), "plan.json") == file.plan);
    CHECK(plan_sha256(planner::parse_plan_json(to_json(file), "plan.json")) ==
          plan_sha256(file.plan));
    ordered_json rest = ordered_json::parse(to_json(file));
    for (const char* const key : {"policy", "chunk", "in_flight"}) rest.erase(key);
    for (const char* const key : {"samples", "file", "sha256", "requests"})
      rest["workload"].erase(key);
    CHECK(rest == ordered_json::parse(plan));
    // Without a service a plan file is the plan's JSON.
    CHECK(to_json(PlanFile{.plan = file.plan}) == plan);
    CHECK(!parse_plan_file(plan, "plan.json").service);
  }
}

TEST_CASE("planner/plan file: holds lengths of requests, neither prompts nor sampling") {
  std::vector<planner::InferenceRequest> requests = some_requests();
  requests[0].prompt = "a secret";
  requests[0].prompt_ids = {7, 8, 9};
  requests[1].sampling.temperature = 0.5;
  requests[1].sampling.seed = 77;
  CHECK(planner::lengths_of(requests) == some_requests());
}

struct Fault {
  std::string what;
  std::function<void(json&)> spoil;
  std::string says;  // part of the message
};

void check_faults(const PlannedService& service, const std::vector<Fault>& faults) {
  const json good = json::parse(to_json(file_of(service)));
  CHECK_NOTHROW((void)parse_plan_file(good.dump(), "plan.json"));
  for (const Fault& fault : faults) {
    CAPTURE(fault.what);
    json bad = good;
    fault.spoil(bad);
    std::string message;
    try {
      (void)parse_plan_file(bad.dump(), "plan.json");
    } catch (const Error& error) {
      message = error.what();
    }
    CAPTURE(message);
    CHECK(message.find("plan.json: ") == 0);
    CHECK(message.find(fault.says) != std::string::npos);
    CHECK(message.find("make the plan again") != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  }
}

TEST_CASE("planner/plan file: unknown and contradictory services are one clear error") {
  check_faults(
      workload_service(),
      {{"no policy", [](json& j) { j.erase("policy"); }, "policy"},
       {"policy", [](json& j) { j["policy"] = "lottery"; }, "one of sequential"},
       {"policy type", [](json& j) { j["policy"] = 3; }, "policy"},
       {"chunk 0", [](json& j) { j["chunk"] = 0; }, "chunk"},
       {"chunk text", [](json& j) { j["chunk"] = "auto"; }, "chunk"},
       {"in flight 0", [](json& j) { j["in_flight"] = 0; }, "in_flight"},
       {"in flight 17", [](json& j) { j["in_flight"] = 17; }, "in_flight"},
       {"more in flight than reserved", [](json& j) { j["in_flight"] = 3; }, "expected at most 2"},
       {"in flight of a lone one", [](json& j) { j["policy"] = "sequential"; },
        "one request at a time"},
       {"budget without a number",
        [](json& j) {
          j["policy"] = "sarathi";
          j.erase("chunk");
        },
        "which policy 'sarathi' needs"},
       {"no requests", [](json& j) { j["workload"].erase("requests"); }, "without 'requests'"},
       {"no request", [](json& j) { j["workload"]["requests"] = json::array(); }, "at least one"},
       {"both", [](json& j) { j["workload"]["samples"] = 2; }, "beside 'requests'"},
       {"no file", [](json& j) { j["workload"].erase("file"); }, "workload.file"},
       {"empty file", [](json& j) { j["workload"]["file"] = ""; }, "path of a workload"},
       {"no digest", [](json& j) { j["workload"].erase("sha256"); }, "sha256"},
       {"digest", [](json& j) { j["workload"]["sha256"] = "C0FFEE"; }, "64 hexadecimal"},
       {"raw false", [](json& j) { j["workload"]["raw_prompts"] = false; }, "no such key"},
       {"unknown key", [](json& j) { j["workload"]["model"] = "x"; }, "model"},
       {"key of a request", [](json& j) { j["workload"]["requests"][0]["prompt"] = "x"; },
        "prompt"},
       {"id twice", [](json& j) { j["workload"]["requests"][1]["id"] = "a"; }, "requests[1].id"},
       {"order", [](json& j) { j["workload"]["requests"][0]["arrival_s"] = 9.0; },
        "requests[1].arrival_s"},
       {"another length", [](json& j) { j["workload"]["requests"][0]["prompt_tokens"] = 9; },
        "the means of its 'requests'"}});
  json impossible = json::parse(to_json(file_of(workload_service())));
  impossible["workload"]["requests"][0]["new_tokens"] = 0;
  CHECK_THROWS_WITH_AS((void)parse_plan_file(impossible.dump(), "plan.json"),
                       "plan.json: request 'a': 0 new tokens, expected at least 1 of small", Error);
  check_faults(
      samples_service(),
      {{"no samples", [](json& j) { j["workload"].erase("samples"); }, "which it is about"},
       {"samples 0", [](json& j) { j["workload"]["samples"] = 0; }, "samples"},
       {"a file", [](json& j) { j["workload"]["file"] = "w.jsonl"; }, "without 'requests'"}});
}

}  // namespace
}  // namespace tandem::test::planned_service_test
