#include "cli/replica_answers.hpp"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "advice/replica_search.hpp"
#include "advice/replicas.hpp"
#include "cli/files/files.hpp"
#include "cli/files/replica_folder.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/predicted_workload.hpp"
#include "cli/loss_answers.hpp"
#include "cli/version.hpp"
#include "cli/views/interruption.hpp"
#include "cli/views/loss_view.hpp"
#include "cli/views/progress_view.hpp"
#include "cli/views/result_tables.hpp"
#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "planner/plan/file/plan_file.hpp"
#include "planner/search/extrapolation.hpp"
#include "planner/serving/planned_service.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;
using planner::Objective;
using planner::Replica;

// "a, b | c".
std::string groups_text(const study::Division& division) {
  std::string text;
  for (const std::vector<std::string>& group : division.groups)
    text += (text.empty() ? "" : " | ") + listed(group);
  return text;
}

std::string value_text(Objective objective, bool generates, double seconds) {
  switch (objective) {
    case Objective::throughput:
      return model::fixed(1.0 / seconds, 2) + (generates ? " tokens" : " passes") + " a second";
    case Objective::ttft:
      return "first token after " + to_text(model::Seconds{seconds}) + " in the mean";
    case Objective::latency:
      return "a new token in " + to_text(model::Seconds{seconds}) + " in the mean";
    case Objective::request:
      break;
  }
  return "a request in " + to_text(model::Seconds{seconds}) + " in the mean";
}

std::string replicas_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " replica" : " replicas");
}

// Samples are equal: each replica gets consecutive ones, which a run numbers, and seeds, from its
// first.
void number_samples(std::vector<Replica>& replicas) {
  std::size_t next = 0;
  for (Replica& replica : replicas) {
    for (std::size_t& request : replica.requests) request = next++;
  }
}

// How each replica serves its part. `losses`: of each, by its types; empty: none is bounded.
void print_each(const std::vector<Replica>& replicas, const std::vector<planner::PlanLoss>& losses,
                std::ostream& out) {
  std::vector<std::string> head{"replica", "strategy", "devices",
                                "master",  "requests", "served with"};
  if (!losses.empty()) head.insert(head.end(), {"messages", "cache", "loses"});
  model::Table table(head);
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const Replica& one = replicas[i];
    std::vector<std::string> devices;
    for (const model::Device& device : one.plan.cluster.devices()) devices.push_back(device.name);
    std::vector<std::string> row{
        std::to_string(i + 1),
        one.plan.strategy,
        listed(devices),
        one.plan.cluster.devices()[static_cast<std::size_t>(one.plan.master)].name,
        std::to_string(one.requests.size()),
        std::string(one.policy->name) +
            (one.chunk > 0 ? ", chunks of " + std::to_string(one.chunk) : "")};
    if (!losses.empty())
      row.insert(row.end(),
                 {std::string(to_string(one.plan.wire)),
                  std::string(to_string(one.plan.model.cache)), of_bits(losses[i].total())});
    table.add(row);
  }
  table.print(out);
}

Json each_json(const std::vector<Replica>& replicas, const std::vector<planner::PlanLoss>& losses) {
  Json all = Json::array();
  for (const Replica& one : replicas) {
    Json devices = Json::array();
    for (const model::Device& device : one.plan.cluster.devices()) devices.push_back(device.name);
    all.push_back(
        {{"strategy", one.plan.strategy},
         {"devices", std::move(devices)},
         {"master", one.plan.cluster.devices()[static_cast<std::size_t>(one.plan.master)].name},
         {"requests", one.requests.size()},
         {"policy", one.policy->name},
         {"chunk", one.chunk > 0 ? Json(one.chunk) : Json()}});
    if (!losses.empty()) all.back()["loss"] = planner::json_of(losses[all.size() - 1]);
  }
  return all;
}

Json choice_json(const study::ReplicaChoice& choice, Objective objective,
                 const std::vector<planner::PlanLoss>& losses) {
  Json divisions = Json::array();
  for (const study::Division& division : choice.divisions) {
    const bool planned = !division.replicas.empty();
    Json one{{"groups", division.groups}};
    if (objective == Objective::throughput)
      one["throughput_per_s"] = planned ? Json(1.0 / division.seconds) : Json();
    else
      one["seconds"] = planned ? Json(division.seconds) : Json();
    one["reason"] = planned ? Json() : Json(division.reason);
    divisions.push_back(std::move(one));
  }
  const study::Division& best = choice.divisions[*choice.best];
  return {{"objective", to_string(objective)},
          {"replicas", each_json(best.replicas, losses)},
          {"divisions", std::move(divisions)},
          {"evaluations", choice.evaluations},
          {"to_the_end", choice.to_the_end}};
}

void print_choice(const study::ReplicaChoice& choice, const study::Question& question,
                  const planner::Dispatch& rule, const std::vector<planner::PlanLoss>& losses,
                  std::ostream& out) {
  const Objective objective = question.request.objective;
  const bool generates = question.request.model.architecture().generates();
  const study::Division& best = choice.divisions[*choice.best];
  out << question.request.model.name << " on " << question.request.cluster.name() << ": "
      << replicas_text(best.replicas.size()) << ", " << question.served->requests.size()
      << " requests by " << rule.name << ": " << value_text(objective, generates, best.seconds)
      << ".\n";
  if (best.replicas.size() > 1) out << "Each replica's master holds the text of its requests.\n";
  if (!choice.to_the_end)
    out << "Stopped after " << choice.evaluations
        << " evaluations; a better division may be found with --seconds 0, which searches to the "
           "end.\n";
  out << '\n';
  print_each(best.replicas, losses, out);
  if (!losses.empty())
    out << "each may lose " << of_bits(losses.front().most) << " bits per byte of text\n";
  out << '\n';
  model::Table table({"division", "predicted"});
  for (const study::Division& division : choice.divisions)
    table.add(
        {groups_text(division), division.replicas.empty()
                                    ? "no: " + division.reason.substr(0, division.reason.find('\n'))
                                    : value_text(objective, generates, division.seconds)});
  table.print(out);
}

// What each replica loses, with remarks on what was not measured, each once.
std::vector<planner::PlanLoss> losses_of_replicas(const std::vector<Replica>& replicas,
                                                  const PricedFormats& priced, double most,
                                                  bool quiet) {
  std::vector<planner::PlanLoss> losses;
  std::vector<std::string> remarks = priced.remarks;
  for (const Replica& replica : replicas) {
    losses.push_back(loss_of_plan(replica.plan, priced, most, 0.0));
    for (std::string& remark : priced.loss.remarks(replica.plan)) {
      if (std::ranges::find(remarks, remark) == remarks.end()) remarks.push_back(std::move(remark));
    }
  }
  for (const std::string& remark : remarks) {
    if (!quiet) std::cerr << "tandem plan: " << remark << '\n';
  }
  return losses;
}

}  // namespace

int plan_replicas(const Options& options, const WantedReplicas& wanted, study::Question question,
                  const ReplicaSearchLimits& within, const Served& served, const Shown& show,
                  std::ostream& out) {
  if (show.to_output)
    throw Usage("flag '--out': '-', but replicas are several plans; expected a folder");
  const auto devices = std::ssize(question.request.cluster.devices());
  const auto requests = std::ssize(served.requests);
  if (wanted.count > std::min(devices, requests))
    throw Error("flag '--replicas': " + std::to_string(wanted.count) + ", expected at most " +
                std::to_string(std::min(devices, requests)) + ": there are " +
                std::to_string(devices) + " devices and " + std::to_string(requests) +
                " requests; give fewer, or auto");
  planner::SearchEffort effort(within.limits);
  question.effort = &effort;
  study::ReplicaChoice choice;
  {
    ProgressLine line("divisions", !show.quiet && ::isatty(STDERR_FILENO) == 1);
    const Interruption interruption([&](const std::string&) { effort.interrupt(); }, {},
                                    std::chrono::seconds(10));
    std::size_t known = 0;
    choice = study::choose_replicas({.question = question,
                                     .rule = wanted.rule,
                                     .count = wanted.count,
                                     .limits = within.limits,
                                     .progress = [&](std::size_t at, std::size_t of) {
                                       line.expect(of - known);
                                       known = of;
                                       if (at > 0) line.advance(1);
                                     }});
  }
  if (!choice.best && effort.interrupted())
    throw Error("interrupted before a first division was planned");
  if (!choice.best) {
    out << "no division of the devices into replicas has plans\n";
    for (const study::Division& division : choice.divisions)
      out << groups_text(division) << ": " << division.reason
          << (division.reason.ends_with('\n') ? "" : "\n");
    return 3;
  }
  if (served.samples) number_samples(choice.divisions[*choice.best].replicas);
  for (const Replica& replica : choice.divisions[*choice.best].replicas)
    planner::check_rates(replica.plan);
  std::vector<planner::PlanLoss> losses;
  if (within.priced)
    losses = losses_of_replicas(choice.divisions[*choice.best].replicas, *within.priced,
                                question.request.budget->most, show.quiet);
  std::optional<planner::SearchCut> cut;
  if (!choice.to_the_end) cut = planner::SearchCut{.evaluations = choice.evaluations};
  if (show.file)
    write_replica_folder(
        *show.file,
        {.replicas = choice.divisions[*choice.best].replicas,
         .workload = served.samples ? std::string() : read_file(options.required("workload")),
         .raw_prompts = served.raw_prompts,
         .rule = wanted.rule,
         .search = cut,
         .shares = within.shares,
         .losses = losses},
        served.requests);
  if (show.json) {
    out << choice_json(choice, question.request.objective, losses).dump(2) << '\n';
  } else if (show.table()) {
    print_choice(choice, question, *wanted.rule, losses, out);
    if (show.file)
      out << "\npredict all of them: tandem simulate " << model::shell_word(*show.file) << '\n';
  }
  return 0;
}

int simulate_replicas(Options& options, const std::filesystem::path& folder, const Shown& show,
                      std::ostream& out) {
  options.refuse({"trace", "full", "seed", "repetitions", "schedule", "policy", "chunk",
                  "in-flight", "prefix-cache", "goal", "figure", "platform", "default"},
                 "with a folder of replicas, each of which is a plan; simulate that plan");
  const study::EvaluatorKind evaluator =
      options.choice_or("evaluator", "simgrid", {"simgrid", "analytic"}) == "analytic"
          ? study::EvaluatorKind::analytic
          : study::EvaluatorKind::simgrid;
  ReplicaFolder read = read_replica_folder(folder);
  const bool others = options.has("workload") || options.has("samples");
  std::vector<planner::InferenceRequest> asked;
  if (others) {
    asked = planner::lengths_of(
        predicted_workload(options, read.files.front(), read.plans.front())->requests);
  } else {
    options.refuse({"tokenizer", "raw-prompt"}, "without '--workload', whose prompts they are for");
  }
  FileRoles files;
  for (const std::filesystem::path& path : read.paths) files.reads("the folder of replicas", path);
  files.reads(options, "workload");
  if (show.file) files.writes("flag '--out'", *show.file);
  files.check();
  options.settle();
  if (others && asked != planner::lengths_of(read.requests)) {
    read.requests = std::move(asked);
    study::dispatch(read.requests, *read.rule, read.replicas);
  }
  study::ReplicasPrediction prediction =
      study::predict_replicas(read.requests, read.replicas, evaluator);
  model::Result& result = prediction.result;
  result.plan = {.sha256 = read.sha256,
                 .strategy = "replicas",
                 .model = read.replicas.front().plan.model.name,
                 .platform = read.replicas.front().plan.cluster.name()};
  result.environment["tandem"] = version();
  result.environment["dispatch"] = read.rule->name;
  deliver(show, to_json(result), out);
  if (show.json) {
    out << to_json(result);
  } else if (show.table()) {
    out << result.plan.model << " on " << result.plan.platform << ", "
        << replicas_text(read.replicas.size()) << ", " << read.rule->name << ", "
        << result.evaluator << "\n\n";
    print_each(read.replicas, {}, out);
    out << '\n';
    print_requests(result, out);
    out << '\n';
    print_devices(result, out);
  }
  return 0;
}

}  // namespace tandem::cli
