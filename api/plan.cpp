#include <tandem/plan.hpp>
#include <utility>

#include "advice/choice.hpp"
#include "api/data.hpp"
#include "exec/weights/files/read_file.hpp"
#include "model/base/error.hpp"
#include "model/predict/measured_disks.hpp"
#include "model/predict/stated_profiles.hpp"
#include "planner/plan/file/plan_file.hpp"
#include "planner/search/default_types.hpp"
#include "planner/search/local_plan.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "sim/replay/replay.hpp"

namespace tandem {
namespace {

using Answer = std::variant<Plan, Infeasible>;

constexpr const char* kAuto = "auto";

Answer answer_of(std::variant<planner::Plan, planner::Infeasible> answer) {
  if (auto* no = std::get_if<planner::Infeasible>(&answer))
    return Infeasible{std::move(no->reason)};
  auto& plan = std::get<planner::Plan>(answer);
  return Plan(std::make_shared<const Plan::Data>(Plan::Data{std::move(plan)}));
}

planner::Objective objective_of(const std::string& name) {
  using planner::Objective;
  for (const Objective one : {Objective::request, Objective::ttft, Objective::latency})
    if (to_string(one) == name) return one;
  throw Error("objective '" + name + "': unknown, expected request, ttft or latency");
}

std::vector<model::DeviceProfile> profiles_of(const PlanOptions& options,
                                              const model::Cluster& cluster) {
  std::vector<model::DeviceProfile> profiles = model::stated_profiles(cluster);
  for (const auto& [device, file] : options.profiles) {
    const auto d = static_cast<std::size_t>(cluster.find(device));
    const double slowdown = cluster.devices()[d].slowdown;
    const auto measured =
        model::parse_profiles_json(exec::read_text(file, kLargestText), file.string());
    const bool emulated = slowdown != 1.0;
    profiles[d] =
        slowed(model::with_threads(measured, std::nullopt, emulated, file.string()), slowdown);
  }
  return profiles;
}

planner::Request request_of(const Model& model, const Platform& platform,
                            const PlanOptions& options) {
  planner::Request request{
      .model = model.data().transformer,
      .cluster = platform.data().cluster,
      .evaluate = sim::evaluate_fair,
      .master = options.master,
      .workload = {.prompt_tokens = options.prompt_tokens, .new_tokens = options.new_tokens},
      .objective = objective_of(options.objective)};
  request.open = {.wire = options.wire_type == kAuto, .cache = options.cache_type == kAuto};
  if (!request.open.cache) {
    const auto cache = model::find_cache_format(options.cache_type);
    if (!cache)
      throw Error("cache type '" + options.cache_type + "': unknown, expected auto, " +
                  model::cache_format_names());
    request.model.cache = *cache;
  }
  if (!request.open.wire) {
    const auto wire = model::find_wire_format(options.wire_type);
    if (!wire)
      throw Error("wire type '" + options.wire_type +
                  "': unknown, expected auto, f32, f16, bf16 or q8_0");
    request.wire = *wire;
  }
  if (options.memory_limit_bytes) request.memory_limit = model::Bytes{*options.memory_limit_bytes};
  request.profiles = profiles_of(options, request.cluster);
  std::vector<std::string> own;
  for (const auto& [device, file] : options.profiles) own.push_back(device + "=" + file.string());
  request.cluster = model::with_measured_disks(request.cluster, request.profiles, own);
  return request;
}

}  // namespace

Plan::Plan(std::shared_ptr<const Data> data) : data_(std::move(data)) {
  require(data_ != nullptr, "a plan needs data");
}

Plan Plan::read(const std::filesystem::path& file) {
  return parse(exec::read_text(file, kLargestText), file.string());
}

Plan Plan::parse(std::string_view json, std::string_view source) {
  return Plan(std::make_shared<const Data>(Data{planner::parse_plan_file(json, source).plan}));
}

std::string Plan::to_json() const { return planner::to_json(data_->plan); }
const std::string& Plan::strategy() const { return data_->plan.strategy; }
std::string Plan::sha256() const { return planner::plan_sha256(data_->plan); }

std::vector<std::string> Plan::device_names() const {
  std::vector<std::string> names;
  for (const model::Device& device : data_->plan.cluster.devices()) names.push_back(device.name);
  return names;
}

std::vector<double> Plan::memory_bytes() const {
  std::vector<double> bytes;
  for (const planner::DevicePlan& device : data_->plan.devices)
    bytes.push_back(device.memory.total());
  return bytes;
}

Answer make_plan(const Model& model, const Platform& platform, const PlanOptions& options) {
  planner::Request request = request_of(model, platform, options);
  if (options.strategy != kAuto) {
    request.strategy = planner::find_strategy(options.strategy).name;
    request = planner::with_default_types(std::move(request));
    return answer_of(planner::make_plan(request));
  }
  study::Choice choice = study::choose({.request = std::move(request)});
  if (!choice.contenders.empty()) return answer_of(std::move(choice.contenders.front().plan));
  std::string reason = "no strategy has a plan";
  for (const auto& [strategy, why] : choice.without)
    reason.append("\nnot ").append(strategy).append(": ").append(why);
  return Infeasible{std::move(reason)};
}

Answer plan_here(const Model& model, std::int64_t prompt_tokens, std::int64_t new_tokens,
                 double memory_bytes) {
  model::Transformer transformer = model.data().transformer;
  transformer.cache = planner::default_cache(transformer);
  return answer_of(planner::plan_here(transformer,
                                      {.prompt_tokens = prompt_tokens, .new_tokens = new_tokens},
                                      model::Bytes{memory_bytes}));
}

}  // namespace tandem
