#include "cli/free_answers.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "advice/free/fixed_plan.hpp"
#include "cli/flags/predicted_workload.hpp"
#include "cli/views/interruption.hpp"
#include "planner/search/device_choice.hpp"
#include "planner/serving/service_objective.hpp"

namespace tandem::cli {
namespace {

constexpr double kUsualSeconds = 10.0;

planner::SearchEffort::Limits limits_of(const AskedPlan& asked) {
  const bool to_the_end = !asked.limits.seconds && !asked.limits.evaluations;
  // Some searches have no limits that could be given.
  if (!asked.spent_s || (asked.fewest && to_the_end)) return {.seconds = kUsualSeconds};
  planner::SearchEffort::Limits limits = asked.limits;
  if (limits.seconds)
    limits.seconds = std::max(*limits.seconds - *asked.spent_s, *limits.seconds / 10.0);
  if (limits.evaluations) limits.evaluations = std::max<std::int64_t>(1, *limits.evaluations / 4);
  return limits;
}

// What is asked of one strategy, named by flags.
study::Ask named(const AskedPlan& asked, const planner::Plan& plan,
                 const std::optional<study::Choice>& choice) {
  const study::Question& question = asked.question;
  study::Ask ask{.request = question.request,
                 .prompt = question.prompt,
                 .served = question.served,
                 .best_chunk = question.best_chunk};
  if (asked.any_moves) {
    ask.request.decode_moves = plan.decode_moves;
    ask.set("decode-moves", std::string(to_string(plan.decode_moves)));
  }
  if (!asked.fewest && !asked.searched) return ask;
  std::vector<bool> used;
  std::string names;
  for (const model::Device& device : ask.request.cluster.devices()) {
    used.push_back(std::ranges::find(plan.cluster.devices(), device.name, &model::Device::name) !=
                   plan.cluster.devices().end());
    if (used.back()) names += (names.empty() ? "" : ",") + device.name;
  }
  ask.request = planner::for_devices(std::move(ask.request), used);
  ask.request.master = plan.cluster.devices()[static_cast<std::size_t>(plan.master)].name;
  ask.set("devices", names);
  ask.set("master", ask.request.master);
  ask.leave_out({"seconds", "evaluations"});
  if (!choice || !ask.served) return ask;
  ask.served->policy = choice->contenders.front().policy;
  ask.set("policy", std::string(ask.served->policy->name));
  return ask;
}

// The devices that `--profile NAME=FILE` names: without one the command would refuse it.
std::vector<std::string> named_devices(const Options& options) {
  std::vector<std::string> names;
  for (const std::string& text : options.all("profile")) {
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) names.push_back(text.substr(0, equals));
  }
  return names;
}

}  // namespace

planner::SearchEffort::Limits without_free_changes(planner::SearchEffort::Limits limits,
                                                   bool replicas) {
  if (limits.seconds) limits.seconds = *limits.seconds * (replicas ? 0.6 : 0.8);
  return limits;
}

study::FreeChanges free_changes_of(const Options& options, const AskedPlan& asked,
                                   const planner::Plan& plan,
                                   const std::optional<study::Choice>& choice,
                                   const model::Result& predicted) {
  const planner::Objective objective = asked.question.request.objective;
  const planner::SearchEffort::Limits limits = limits_of(asked);
  planner::SearchEffort effort(limits);
  study::FreeQuestion question{
      .ask = asked.any ? study::fixed_plan(asked.question, choice->contenders.front())
                       : named(asked, plan, choice),
      .plan = &plan,
      .planned_s = planner::service_time(predicted, objective),
      .anew = choice.has_value() || asked.any_moves,
      .chose_devices = choice.has_value() || asked.fewest,
      .chose_master = choice.has_value() && asked.chose_master,
      .prices = asked.prices,
      .named = named_devices(options),
      .clock =
          [objective](const planner::Plan& one, const study::ServedWorkload* of) {
            return planner::service_time(study::predict_fairly(one, of), objective);
          },
      .limits = limits,
      .effort = &effort};
  for (const std::string& name : question.named) {
    const auto& devices = plan.cluster.devices();
    if (std::ranges::find(devices, name, &model::Device::name) == devices.end()) return {};
  }
  for (std::size_t i = 1; asked.any && i < choice->contenders.size(); ++i)
    question.others.push_back(study::fixed_plan(asked.question, choice->contenders[i]));
  if (choice && may_have_replicas(asked)) question.replicas = asked.question;
  const Interruption interruption([&](const std::string&) { effort.interrupt(); }, {},
                                  std::chrono::seconds(10));
  return study::free_changes(question);
}

bool may_have_replicas(const AskedPlan& asked) {
  const study::Question& question = asked.question;
  return asked.any && asked.chose_master && question.served &&
         question.served->requests.size() > 1 &&
         question.request.objective == planner::Objective::throughput &&
         question.request.cluster.size() > 1;
}

std::vector<std::string> flag_names(const Arguments& arguments) {
  std::vector<std::string> names;
  for (const std::string& word : arguments) {
    if (word.starts_with("--")) names.push_back(word.substr(2, word.find('=') - 2));
  }
  return names;
}

}  // namespace tandem::cli
