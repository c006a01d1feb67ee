#include "advice/settings.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "advice/first_line.hpp"
#include "advice/least_bytes.hpp"
#include "advice/prediction.hpp"
#include "advice/prompt_chunks.hpp"
#include "advice/searched_service.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/search/default_types.hpp"
#include "planner/search/device_choice.hpp"
#include "planner/serving/chunked_layers.hpp"
#include "planner/serving/service_objective.hpp"
#include "sim/replay/replay.hpp"

namespace tandem::study {
namespace {

using planner::Infeasible;
using planner::Objective;
using planner::Plan;
using planner::Request;

// Returns whether memory limits the shares of `plan`, or nearly does.
bool is_tight(const Plan& plan) {
  constexpr double kRoomy = 2.0 / 3.0;
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    if (plan.devices[d].memory.total() > kRoomy * plan.cluster.devices()[d].memory.value())
      return true;
  }
  return plan.streams();
}

// Leaves all axes to the search; of a rough plan, none that takes long.
void open_axes(Request& request, const Setting& setting) {
  request.partition = std::string(planner::kAutoPartition);
  request.allreduce.reset();
  request.tiles.reset();
  request.gather_weights = false;
  // Plans with levels serve one request, so `--levels auto` alone has them.
  request.open_axes = {
      .parts = true, .stages = true, .moves = true, .sums = true, .at_length = true, .tiles = true};
  if (!setting.thorough) return;
  if (setting.strategy->sharding.splits_layers()) request.rounds.reset();
  if (setting.strategy->sharding.shares_token_ffn() && request.workload.steps() > 1)
    request.token_ffn = planner::TokenFfn::automatic;
}

constexpr model::Bytes kEnoughMemory{1e15};
constexpr const char* kEnded = "the search ended before it";

}  // namespace

std::vector<model::DeviceProfile> profiles_of(const Request& request) {
  if (!request.profiles.empty()) return request.profiles;
  std::vector<model::DeviceProfile> profiles;
  for (const model::Device& device : request.cluster.devices())
    profiles.push_back(model::nominal_profile(device));
  return profiles;
}

Request Answers::request_of(const Setting& setting) const {
  Request request = question_->request;
  const auto name = [&](auto d) {
    return question_->request.cluster.devices()[static_cast<std::size_t>(d)].name;
  };
  request.profiles = profiles_of(request);
  request.strategy = setting.strategy->name;
  if (!question_->keeps_axes) open_axes(request, setting);
  if (setting.tiles) request.tiles = setting.tiles;
  request.gather_weights = request.gather_weights || setting.gathers_weights;
  request.master = name(setting.master);
  if (!question_->formats.empty()) request.model.formats = question_->formats[setting.format];
  request = planner::with_default_types(std::move(request));
  if (!setting.refines) request.open_axes.parts = request.open_axes.at_length = false;
  if (question_->served) request.open_axes.levels = false;  // whose plans serve one request
  if (!setting.thorough) {
    request.open = {};
    // Where keys and values lie on several devices, all else depends on what travels.
    request.open_axes = {.moves = request.open_axes.moves};
  }
  return planner::for_devices(std::move(request), setting.used);
}

ServedWorkload Answers::served_by(const Contender& contender) const {
  ServedWorkload served = *question_->served;
  served.policy = contender.policy;
  served.chunk = contender.chunk;
  return served;
}

double Answers::predicted(const Contender& contender) const {
  const Objective objective = question_->request.objective;
  return planner::service_time(predict_served_fairly(contender.plan, served_by(contender)),
                               objective);
}

// Throws Error as the planner does.
std::variant<Infeasible, Contender> Answers::planned(const Setting& setting,
                                                     const Request& request) const {
  if (!question_->served) {
    PromptReading reading = question_->prompt;
    reading.roughly = !setting.thorough;
    reading.times = times_;
    auto made = plan_prompt(request, reading);
    if (auto* const no = std::get_if<Infeasible>(&made)) return std::move(*no);
    auto& one = std::get<PromptPlan>(made);
    return Contender{.plan = std::move(one.plan),
                     .seconds = one.seconds,
                     .chunk = one.chunk,
                     .decisions = std::move(one.decisions)};
  }
  const ServedWorkload& served = *question_->served;
  const std::int64_t steps = setting.strategy->sharding.splits_layers() ? served.steps : 0;
  ServedWorkload by_policy = served;
  by_policy.policy = setting.policy;
  planner::Service service =
      searched_service(by_policy, question_->request.objective, question_->best_chunk, steps);
  service.times = times_;
  // Chunks and steps change little of which devices are best, and their search takes long.
  auto made = setting.refines    ? planner::make_layered_plan(request, service)
              : setting.thorough ? planner::make_service_plan(request, service)
                                 : planner::make_fitting_plan(request, service);
  if (auto* const no = std::get_if<Infeasible>(&made)) return std::move(*no);
  auto& found = std::get<planner::ServicePlan>(made);
  return Contender{.plan = std::move(found.plan), .policy = setting.policy, .chunk = found.chunk};
}

void SearchWatch::planned(const Setting& setting, const Answer& answer) {
  const std::scoped_lock lock(mutex_);
  ++best_.candidates;
  if (answer.contender) {
    effort_->has_plan();
    if (answer.contender->seconds < best_.seconds) {
      best_.seconds = answer.contender->seconds;
      best_.strategy = setting.strategy->name;
      best_.devices = setting.size();
    }
  }
  if (progress_) progress_(best_);
}

Answer Answers::found(const Setting& setting) {
  const planner::AbandonScope scope(watch_->effort());
  try {
    return best_of(setting);
  } catch (const planner::SearchAbandoned&) {
    return {.contender = {}, .reason = kEnded};
  }
}

Answer Answers::best_of(const Setting& setting) {
  times_ = std::make_shared<planner::ReadingTimes>();
  std::optional<Request> request;
  try {
    request.emplace(request_of(setting));
  } catch (const Error& error) {
    return {.contender = {}, .reason = error.what()};
  }
  if (!setting.thorough) {
    if (setting.any_sums) request->allreduce = planner::kAutoAllreduce;
    request->window.search = false;
    const planner::WindowRequest window = request->window;
    if (!window.blocks) request->window = {.blocks = 0, .retain = {}};
    if (window.blocks == 0 || may_be_resident(*request)) {
      Answer resident = best_with(setting, *request);
      if (resident.contender || window.blocks == 0) return resident;
    }
    request->window = window;
    if (setting.strategy->sharding.splits_weights() &&
        request->partition == planner::kAutoPartition)
      request->partition = "galaxy";
    return best_with(setting, *request);
  }
  bool is_first = true;
  const planner::Leaf plan = [&](const planner::Draft& draft) -> planner::Found {
    Answer answer;
    try {
      answer = best_with(setting, draft.request);
    } catch (const Error& error) {
      if (is_first) throw;
      answer.reason = error.what();  // some alternatives are impossible
    }
    is_first = false;
    if (!answer.contender) return {.answer = Infeasible{std::move(answer.reason)}};
    return {.answer = std::move(answer.contender->plan),
            .decisions = std::move(answer.contender->decisions),
            .chunk = answer.contender->chunk,
            .seconds = answer.contender->seconds};
  };
  planner::Found found =
      planner::walk({.request = *std::move(request)}, planner::outer_axes(), plan);
  if (auto* const no = std::get_if<Infeasible>(&found.answer))
    return {.contender = {}, .reason = std::move(no->reason)};
  return {.contender = Contender{.plan = std::get<Plan>(std::move(found.answer)),
                                 .seconds = *found.seconds,
                                 .policy = setting.policy,
                                 .chunk = found.chunk,
                                 .decisions = std::move(found.decisions)},
          .reason = {}};
}

Answer Answers::best_with(const Setting& setting, const Request& request) {
  std::variant<Infeasible, Contender> made;
  try {
    made = planned(setting, request);
  } catch (const Error& error) {
    // Some strategies do not serve many requests, or read prompts whole.
    if (question_->keeps_axes || (!question_->served && question_->prompt.rows == 0)) throw;
    if (!refused_) refused_ = error;
    made = Infeasible{error.what()};
  }
  if (auto* const no = std::get_if<Infeasible>(&made))
    return {.contender = {}, .reason = std::move(no->reason)};
  auto& contender = std::get<Contender>(made);
  if (question_->served) contender.seconds = predicted(contender);
  return {.contender = std::move(contender), .reason = {}};
}

double Answers::with_enough_memory(const Setting& setting) {
  const planner::Sharding& sharding = setting.strategy->sharding;
  if (question_->served || !sharding.splits_heads() || !sharding.may_stream()) return 0.0;
  Setting rough = setting;
  rough.thorough = false;
  const auto planned = known_.find(rough.key());
  if (planned == known_.end() || !planned->second.contender ||
      !is_tight(planned->second.contender->plan))
    return 0.0;
  const auto [at, is_new] = enough_memory_.try_emplace(setting.key(), 0.0);
  if (!is_new) return at->second;
  Request request = request_of(setting);
  request.cluster = model::with_devices(
      request.cluster, [](model::Device& device) { device.memory = kEnoughMemory; });
  request.memory_limit.reset();
  request.window = {.blocks = 0, .retain = {}};
  const planner::AbandonScope scope(watch_->effort());
  try {
    const Answer answer = best_with(setting, request);
    if (answer.contender && !planner::search_ended()) at->second = answer.contender->seconds;
  } catch (const planner::SearchAbandoned&) {
    return 0.0;
  }
  return at->second;
}

const Answer& Answers::operator()(const Setting& setting) {
  const auto at = known_.find(setting.key());
  if (at != known_.end()) return at->second;
  if (planner::search_ended()) {
    static const Answer none{.contender = {}, .reason = kEnded};
    return none;
  }
  asked_.push_back(setting);
  const Answer& answer = known_.emplace(setting.key(), found(setting)).first->second;
  watch_->planned(setting, answer);
  return answer;
}

// Returns nothing for an impossible setting.
std::optional<Answers::PlanKey> Answers::plan_key(const Setting& setting) const {
  try {
    Request request = request_of(setting);
    return PlanKey{
        .setting = {setting.strategy->name, setting.policy, setting.format, setting.thorough,
                    setting.any_sums, setting.gathers_weights, setting.tiles, setting.refines,
                    request.cluster.find(request.master)},
        .cluster = model::anonymous(request.cluster),
        .profiles = std::move(request.profiles)};
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool Answers::may_hold(const Setting& setting) const {
  try {
    return may_be_resident(request_of(setting));
  } catch (const Error&) {
    return false;
  }
}

std::optional<Setting> Answers::fastest() {
  std::optional<Setting> best;
  double least = std::numeric_limits<double>::infinity();
  for (const Setting& setting : asked_) {
    const Answer& of = known_.at(setting.key());
    if (!of.contender || of.contender->seconds >= least) continue;
    least = of.contender->seconds;
    best = setting;
  }
  return best;
}

double Answers::seconds(const Setting& setting) {
  const auto planned = [&] {
    const Answer& of = (*this)(setting);
    return of.contender ? of.contender->seconds : std::numeric_limits<double>::infinity();
  };
  if (known_.contains(setting.key()) || planner::search_ended()) return planned();
  std::optional<PlanKey> like = plan_key(setting);
  if (!like) return planned();
  const auto known = std::ranges::find(known_plans_, *like, &std::pair<PlanKey, double>::first);
  if (known != known_plans_.end()) return known->second;
  return known_plans_.emplace_back(std::move(*like), planned()).second;
}

}  // namespace tandem::study
