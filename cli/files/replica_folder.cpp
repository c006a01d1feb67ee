#include "cli/files/replica_folder.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/files/files.hpp"
#include "cli/files/haproxy_config.hpp"
#include "model/base/digest.hpp"
#include "model/base/error.hpp"
#include "model/base/json_value.hpp"
#include "planner/serving/planned_service.hpp"
#include "planner/serving/serving_plan.hpp"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using planner::InferenceRequest;

constexpr const char* kList = "replicas.json";
constexpr const char* kProxy = "haproxy.cfg";
constexpr const char* kSchema = "tandem.replicas/1";
constexpr const char* kPlanReplicas = "plan again with 'tandem plan --replicas'";
constexpr std::size_t kMostReplicas = 1024;

// The lines of `workload` by the id of their request.
std::map<std::string, std::string> lines_by_id(std::string_view workload) {
  std::map<std::string, std::string> lines;
  while (!workload.empty()) {
    const std::size_t end = std::min(workload.find('\n'), workload.size());
    const std::string_view line = workload.substr(0, end);
    workload.remove_prefix(std::min(end + 1, workload.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    lines.emplace(planner::parse_requests(line, "workload").front().id, line);
  }
  return lines;
}

// Adds the requests of one replica, at `positions` of all.
void add_requests(const planner::PlanFile& file, const std::vector<std::size_t>& positions,
                  std::map<std::size_t, InferenceRequest>& all) {
  const planner::PlannedService& service = *file.service;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    all[positions[i]] = service.samples > 0
                            ? InferenceRequest{.id = "s" + std::to_string(positions[i] + 1),
                                               .prompt_tokens = file.plan.workload.prompt_tokens,
                                               .new_tokens = file.plan.workload.new_tokens}
                            : service.requests[i];
  }
}

const planner::Dispatch& read_rule(const model::JsonValue& value) {
  const std::string name = value.line();
  std::string known;
  for (const planner::Dispatch& rule : planner::dispatches()) {
    if (rule.name == name) return rule;
    known += (known.empty() ? "one of " : ", ") + std::string(rule.name);
  }
  value.fail(known);
}

// Throws Error unless the part of the workload file is as it was written.
void check_requests_file(const fs::path& path, const std::string& sha256) {
  if (model::sha256_hex(read_file(path)) == sha256) return;
  throw Error(path.string() + ": changed since its plan was made; " + kPlanReplicas);
}

std::vector<std::size_t> read_positions(const model::JsonValue& value, std::size_t expected) {
  std::vector<std::size_t> positions;
  const std::size_t count = value.size(planner::kMostRequests);
  if (count != expected)
    value.fail("the positions of the " + std::to_string(expected) + " requests of its plan");
  for (std::size_t i = 0; i < count; ++i)
    positions.push_back(static_cast<std::size_t>(
        value.at(i).integer(0, static_cast<std::int64_t>(planner::kMostRequests) - 1)));
  return positions;
}

std::string requests_name(std::size_t replica) {
  return "requests-" + std::to_string(replica + 1) + ".jsonl";
}

}  // namespace

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::string replica_name(std::size_t replica) {
  return "replica-" + std::to_string(replica + 1) + ".json";
}

std::vector<std::string> replica_file_names() {
  std::vector<std::string> names{kList, kProxy};
  for (std::size_t i = 0; i < kMostReplicas; ++i) {
    names.push_back(replica_name(i));
    names.push_back(requests_name(i));
  }
  return names;
}

ReplicaFolder read_replica_folder(const fs::path& folder) {
  const fs::path list = folder / kList;
  std::error_code ignored;
  if (!fs::exists(list, ignored))
    throw Error("argument plan.json: '" + folder.string() +
                "': a folder, expected a plan, or a folder with " + kList +
                ", which 'tandem plan --replicas' writes; weights are given by --weights");
  const std::string text = read_file(list);
  const model::JsonDocument document(text, list.string(), kPlanReplicas);
  const model::JsonValue root = document.root();
  root.expect_keys({"schema", "dispatch", "replicas"});
  if (root.at("schema").text() != kSchema) root.at("schema").fail('"' + std::string(kSchema) + '"');
  ReplicaFolder read{
      .paths = {list}, .rule = &read_rule(root.at("dispatch")), .sha256 = model::sha256_hex(text)};
  std::map<std::size_t, InferenceRequest> all;
  std::size_t total = 0;
  const model::JsonValue replicas = root.at("replicas");
  const std::size_t count = replicas.size(kMostReplicas);
  if (count == 0) replicas.fail("at least one replica");
  for (std::size_t i = 0; i < count; ++i) {
    const model::JsonValue one = replicas.at(i);
    one.expect_keys({"plan", "sha256", "requests"});
    const fs::path path = folder / fs::path(one.at("plan").line()).filename();
    const std::string plan = read_file(path);
    if (model::sha256_hex(plan) != one.at("sha256").text())
      throw Error(path.string() + ": not the plan that " + list.string() + " was written with; " +
                  kPlanReplicas);
    planner::PlanFile file = planner::parse_plan_file(plan, path.string());
    if (!file.service) throw Error(path.string() + ": a plan for one request; " + kPlanReplicas);
    const planner::PlannedService& service = *file.service;
    if (service.samples == 0) {
      read.paths.push_back(folder / fs::path(service.file).filename());
      check_requests_file(read.paths.back(), service.sha256);
    }
    const std::size_t own =
        service.samples > 0 ? static_cast<std::size_t>(service.samples) : service.requests.size();
    std::vector<std::size_t> positions = read_positions(one.at("requests"), own);
    add_requests(file, positions, all);
    total += own;
    planner::Replica replica{.plan = file.plan,
                             .policy = &planner::find_policy(service.policy),
                             .chunk = service.chunk,
                             .steps = service.in_flight,
                             .requests = std::move(positions)};
    for (const std::size_t r : replica.requests) replica.made_for.push_back(all.at(r));
    read.replicas.push_back(std::move(replica));
    read.files.push_back(std::move(file));
    read.plans.push_back(path);
    read.paths.push_back(path);
  }
  if (all.size() != total || all.rbegin()->first + 1 != total)
    replicas.fail("each request at one replica");
  for (auto& [position, request] : all) read.requests.push_back(std::move(request));
  return read;
}

void write_replica_folder(const fs::path& folder, const ReplicaFolderParts& parts,
                          const std::vector<InferenceRequest>& requests) {
  const fs::path made = make_folder(folder);
  const std::map<std::string, std::string> lines = lines_by_id(parts.workload);
  Json list{{"schema", kSchema}, {"dispatch", parts.rule->name}, {"replicas", Json::array()}};
  for (std::size_t i = 0; i < parts.replicas.size(); ++i) {
    const planner::Replica& replica = parts.replicas[i];
    planner::PlannedService service{.policy = std::string(replica.policy->name),
                                    .chunk = replica.chunk,
                                    .in_flight = replica.steps};
    planner::PlanFile file{.plan = replica.plan, .search = parts.search};
    if (!parts.losses.empty()) file.loss = parts.losses.at(i);
    for (const model::Device& device : replica.plan.cluster.devices()) {
      if (const auto share = parts.shares.find(device.name); share != parts.shares.end())
        file.shares.insert(*share);
    }
    if (parts.workload.empty()) {
      service.samples = std::ssize(replica.requests);
    } else {
      std::string own;
      for (const InferenceRequest& request : replica.part(requests))
        own += lines.at(request.id) + '\n';
      service.file = requests_name(i);
      service.sha256 = model::sha256_hex(own);
      service.raw_prompts = parts.raw_prompts;
      service.requests = planner::lengths_of(replica.part(requests));
      write_file(made / service.file, own);
      file.plan.workload = planner::typical_workload(service.requests);
    }
    file.service = std::move(service);
    const std::string plan = planner::to_json(file);
    write_file(made / replica_name(i), plan);
    list["replicas"].push_back({{"plan", replica_name(i)},
                                {"sha256", model::sha256_hex(plan)},
                                {"requests", replica.requests}});
  }
  write_file(made / kProxy, haproxy_config(parts.replicas));
  write_file(made / kList, list.dump(2) + '\n');
}

}  // namespace tandem::cli
