#include "planner/serving/planned_service.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "model/base/error.hpp"
#include "model/base/limits.hpp"
#include "planner/plan/plan.hpp"
#include "planner/plan/prefix_pieces.hpp"
#include "planner/serving/planned_service_json.hpp"
#include "planner/serving/policy/policy.hpp"
#include "planner/serving/serving_plan.hpp"

namespace tandem::planner {
namespace {

using model::JsonValue;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostIdBytes = 200;  // as in a workload file
constexpr std::int64_t kMostServiceTokens = std::numeric_limits<std::int32_t>::max();
constexpr const char* kPlanAgain = "; make the plan again with `tandem plan`";

InferenceRequest read_planned_request(const JsonValue& value) {
  value.expect_keys({"id", "arrival_s", "prompt_tokens", "new_tokens", "max_tokens", "prefix"});
  InferenceRequest request{
      .id = value.at("id").line(kMostIdBytes),
      .arrival_s = value.at("arrival_s").number(0.0, model::limits::kMostTime),
      .prompt_tokens = value.at("prompt_tokens").integer(1, kMostServiceTokens),
      .new_tokens = value.at("new_tokens").integer(0, kMostServiceTokens)};
  if (const auto most = value.find("max_tokens"))
    request.max_tokens = most->integer(request.new_tokens, kMostServiceTokens);
  if (const auto prefix = value.find("prefix"))
    request.prefix = read_prefix(*prefix, request.prompt_tokens + request.new_tokens);
  return request;
}

std::vector<InferenceRequest> read_requests(const JsonValue& value) {
  std::vector<InferenceRequest> requests;
  const std::size_t count = value.size(kMostRequests);
  if (count == 0) value.fail("at least one request");
  requests.reserve(count);
  std::set<std::string> ids;
  for (std::size_t i = 0; i < count; ++i) {
    const InferenceRequest& request = requests.emplace_back(read_planned_request(value.at(i)));
    if (request.id.empty() || !ids.insert(request.id).second)
      value.at(i).at("id").fail("a name that no request before has");
    if (i > 0 && request.arrival_s < requests[i - 1].arrival_s)
      value.at(i).at("arrival_s").fail("no less than that of the request before");
  }
  return requests;
}

const Policy& read_policy(const JsonValue& value) {
  const std::string name = value.text();
  std::string known;
  for (const Policy& policy : policies()) {
    if (policy.name == name) return policy;
    known += (known.empty() ? "one of " : ", ") + std::string(policy.name);
  }
  value.fail(known);
}

void refuse_keys(const JsonValue& value, std::initializer_list<std::string_view> keys,
                 const std::string& when) {
  for (const std::string_view key : keys) {
    if (const auto found = value.find(key)) found->fail("no such key " + when);
  }
}

void read_file_keys(const JsonValue& workload, PlannedService& service) {
  service.file = workload.at("file").text();
  if (service.file.empty()) workload.at("file").fail("the path of a workload file");
  service.sha256 = workload.at("sha256").text();
  if (service.sha256.size() != 64 ||
      service.sha256.find_first_not_of("0123456789abcdef") != std::string::npos)
    workload.at("sha256").fail("64 hexadecimal digits in lower case");
  if (const auto raw = workload.find("raw_prompts")) {
    service.raw_prompts = raw->boolean();
    if (!service.raw_prompts) raw->fail("true, or no such key");
  }
}

}  // namespace

std::optional<PlannedService> read_planned_service(const JsonValue& root) {
  const JsonValue workload = root.at("workload");
  const auto requests = workload.find("requests");
  const auto samples = workload.find("samples");
  if (!requests) refuse_keys(workload, {"file", "sha256", "raw_prompts"}, "without 'requests'");
  if (!requests && !samples) {
    refuse_keys(root, {"policy", "chunk", "in_flight"},
                "without 'workload.requests' or 'workload.samples', which it is about");
    return std::nullopt;
  }
  if (requests && samples) samples->fail("no such key beside 'requests'");
  PlannedService service;
  if (samples) service.samples = samples->integer(1, static_cast<std::int64_t>(kMostRequests));
  if (requests) {
    service.requests = read_requests(*requests);
    read_file_keys(workload, service);
  }
  const Policy& policy = read_policy(root.at("policy"));
  service.policy = policy.name;
  if (const auto chunk = root.find("chunk")) service.chunk = chunk->integer(1, kMostServiceTokens);
  if (!serves(policy, service.chunk)) {
    root.fail_key("chunk", "the most rows of a step, which policy '" + service.policy + "' needs");
  }
  if (const auto steps = root.find("in_flight")) {
    service.in_flight = steps->integer(1, kMostSteps);
    if (service.in_flight > 1 && !policy.several())
      steps->fail("1 with policy '" + service.policy + "', which has one request at a time");
  }
  return service;
}

void add_planned_service(const PlannedService& service, Json& plan) {
  Json& workload = plan["workload"];
  if (service.samples > 0) {
    workload["samples"] = service.samples;
  } else {
    workload["file"] = service.file;
    workload["sha256"] = service.sha256;
    if (service.raw_prompts) workload["raw_prompts"] = true;
    Json& requests = workload["requests"] = Json::array();
    for (const InferenceRequest& request : service.requests) {
      requests.push_back({{"id", request.id},
                          {"arrival_s", request.arrival_s},
                          {"prompt_tokens", request.prompt_tokens},
                          {"new_tokens", request.new_tokens}});
      if (request.max_tokens) requests.back()["max_tokens"] = *request.max_tokens;
      if (!request.prefix.empty()) requests.back()["prefix"] = prefix_json(request.prefix);
    }
  }
  plan["policy"] = service.policy;
  if (service.chunk > 0) plan["chunk"] = service.chunk;
  if (service.in_flight > 0) plan["in_flight"] = service.in_flight;
}

void PlannedService::validate(const Plan& plan) const {
  if (chunk > 0 && !plan.model.architecture().generates()) {
    throw Error("plan: chunk " + std::to_string(chunk) + ": expected none with the encoder " +
                plan.model.name + ", which reads its text whole" + kPlanAgain);
  }
  const std::int64_t reserved = std::max<std::int64_t>(1, plan.capacity.steps);
  if (in_flight > reserved) {
    throw Error("plan: in_flight " + std::to_string(in_flight) + ": expected at most " +
                std::to_string(reserved) + ", which 'capacity.steps' reserves memory for" +
                kPlanAgain);
  }
  if (samples > 0) return;
  check_requests(requests, plan.model);
  const Workload typical = typical_workload(requests);
  if (typical == plan.workload) return;
  throw Error("plan: workload of " + std::to_string(plan.workload.prompt_tokens) + " prompt and " +
              std::to_string(plan.workload.new_tokens) + " new tokens: expected " +
              std::to_string(typical.prompt_tokens) + " and " + std::to_string(typical.new_tokens) +
              ", the means of its 'requests'" + kPlanAgain);
}

std::vector<InferenceRequest> lengths_of(std::vector<InferenceRequest> requests) {
  for (InferenceRequest& request : requests) {
    request = {.id = std::move(request.id),
               .arrival_s = request.arrival_s,
               .prompt_tokens = request.prompt_tokens,
               .new_tokens = request.new_tokens,
               .max_tokens = request.max_tokens,
               .prefix = std::move(request.prefix)};
  }
  return requests;
}

}  // namespace tandem::planner
