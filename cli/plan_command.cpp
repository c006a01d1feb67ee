// tandem plan: places a model on a platform.

#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "advice/choice.hpp"
#include "advice/what_fits.hpp"
#include "cli/cap_answers.hpp"
#include "cli/files/files.hpp"
#include "cli/files/scenarios.hpp"
#include "cli/fit_answers.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/outcome.hpp"
#include "cli/flags/plan_flags.hpp"
#include "cli/flags/plan_syntax.hpp"
#include "cli/flags/plan_workload.hpp"
#include "cli/flags/predicted_workload.hpp"
#include "cli/flags/shown.hpp"
#include "cli/flags/strategy_flags.hpp"
#include "cli/flags/workload_flags.hpp"
#include "cli/free_answers.hpp"
#include "cli/loss_answers.hpp"
#include "cli/plan_answers.hpp"
#include "cli/plan_report.hpp"
#include "cli/replica_answers.hpp"
#include "cli/views/interruption.hpp"
#include "cli/views/next_commands.hpp"
#include "cli/views/plan_view.hpp"
#include "cli/views/predicted_view.hpp"
#include "cli/wanted_plan.hpp"
#include "exec/kernels/kernels_here.hpp"
#include "model/base/plain_text.hpp"
#include "planner/plan/outdated_profiles.hpp"
#include "planner/search/default_types.hpp"
#include "planner/search/device_choice.hpp"
#include "planner/search/extrapolation.hpp"
#include "planner/search/moves_choice.hpp"
#include "planner/search/sp_choice.hpp"

namespace tandem::cli {
namespace {

// The plan for a question, and how it was found.
struct PlanSearch {
  Answer answer;
  std::optional<study::Choice> choice{};
  std::optional<planner::FewestDevices> few{};
  std::optional<planner::SpChoice> of_two{};
  std::optional<planner::DecodeChoice> of_moves{};
  std::optional<MeasuredLoss> loss{};
  std::optional<DropAnswer> drop{};
  std::optional<OneSearch> one{};  // of one strategy
  // Returns whether Ctrl-C ended the search.
  [[nodiscard]] bool interrupted() const {
    return (choice && choice->interrupted) || (one && one->interrupted);
  }
};

// Weights stream only where memory lacks, so a plan for one device shows before the search that
// flags of streaming have no effect.
void check_streaming_of_any(const Options& options, planner::Request request) {
  if (!options.has("retain") && !options.has("release")) return;
  request.strategy = "local";
  request.partition = planner::kAutoPartition;
  request.allreduce.reset();
  request.tiles.reset();
  request.head = planner::HeadPlacement::master;
  request.candidates = 0;
  request.wire = model::WireFormat::f32;
  request.open.wire = false;
  const auto answer = planner::make_plan(request);
  if (const auto* const plan = std::get_if<planner::Plan>(&answer))
    static_cast<void>(check_streaming(options, *plan));
}

study::Question asked_of(const Options& options, const WantedPlan& question) {
  return question_of(options, question.request, question.formats, question.reading,
                     question.served);
}

// Turns the question round (`--fit`). `question` becomes that at the point that was found.
Fitted fit(const Options& options, WantedPlan& question) {
  planner::Request fitting = question.request;
  fitting.open_axes = {};
  fitting.rounds = rounds(options);
  Fitted fitted = find_fit(options, {.goal = *question.goal,
                                     .request = std::move(fitting),
                                     .model_name = question.model_name,
                                     .any_strategy = question.any,
                                     .formats = question.formats,
                                     .limits = question.limits,
                                     .reading = question.reading});
  if (!fitted.plan) return fitted;
  question.request = fitted.found.request;
  question.model_name = fitted.found.model_name;
  question.formats = fitted.found.formats;
  question.limits = fitted.found.limits;
  planner::Request& request = question.request;
  request.open_axes = question.any ? planner::OpenAxes{} : question.flags.open;
  if (!question.any) request.rounds = question.flags.rounds;
  request = planner::with_default_types(std::move(request));
  question.shortened = question.goal == FitGoal::context
                           ? ""
                           : shortening_text(options, request.workload, request.model);
  return fitted;
}

// `question.served` becomes the chosen chunks of one prompt.
PlanSearch search(const Options& options, WantedPlan& question,
                  const std::optional<Fitted>& fitted) {
  PlanSearch found{.answer = planner::Infeasible{}};
  if (question.bounded)
    found.loss = measured_loss(*question.bounded, find_weights(question.model_name));
  const auto answer_for = [&](const planner::Request& asked) {
    if (question.devices.searched)
      return answer_of_any(options, asked, question.formats, question.reading, question.served,
                           question.limits, found.choice);
    if (question.flags.sp == "auto" || !question.flags.moves) {
      planner::SearchEffort effort(question.limits);
      Answer answer = question.flags.sp == "auto"
                          ? answer_of(found.of_two.emplace(planner::choose_sp(asked, effort)))
                          : answer_of(found.of_moves.emplace(planner::choose_moves(asked, effort)));
      found.one = {.evaluations = effort.evaluations(),
                   .elapsed_s = effort.seconds(),
                   .to_the_end = !effort.ended()};
      return answer;
    }
    if (found.loss) return answer_within(asked, *found.loss, *question.bounded, found.drop);
    return answer_to(options, asked, question.reading, question.served, question.limits,
                     &found.one.emplace());
  };
  const auto as_fitted = [&] {
    if (fitted->chunk > 0)
      question.served = one_in_chunks(fitted->plan->workload, fitted->chunk, question.reading);
    return Answer(*fitted->plan);
  };
  found.answer = fitted && fitted->interrupted ? as_fitted()
                 : question.devices.fewest
                     ? answer_on_fewest(question.request, answer_for, found.few)
                     : answer_for(question.request);
  if (fitted && std::holds_alternative<planner::Infeasible>(found.answer)) {
    found.answer = as_fitted();  // on devices or with a master that the search does not try
    found.choice.reset();
  }
  return found;
}

planner::PlanFile file_of(const Options& options, const WantedPlan& question,
                          const PlanSearch& found, const std::optional<Fitted>& fitted,
                          const Shown& show) {
  planner::PlanFile file{.plan = std::get<planner::Plan>(found.answer)};
  if (question.served) file.service = service_of(options, *question.served, show.file);
  if (found.choice && !found.choice->to_the_end)
    file.search = planner::SearchCut{.evaluations = found.choice->evaluations};
  if (found.one && !found.one->to_the_end)
    file.search = planner::SearchCut{.evaluations = found.one->evaluations};
  if (fitted && fitted->interrupted)
    file.search = planner::SearchCut{.evaluations = fitted->checks};
  file.shares = shares_of(file.plan, question.scenario.shares);
  if (question.priced)
    file.loss = loss_of_plan(file.plan, *question.priced, question.request.budget->most,
                             found.drop ? found.drop->choice.taken.loss : 0.0);
  if (found.choice) {
    file.decisions = decisions_of(*found.choice);
  } else if (found.one) {
    file.decisions = found.one->decisions;
  }
  return file;
}

void print_remarks(const WantedPlan& question, const PlanSearch& found, const planner::Plan& plan) {
  std::vector<std::string> remarks{
      planner::extrapolation_remark(plan),
      planner::outdated_remark(question.request.cluster, question.request.profiles,
                               exec::kernels_here())};
  if (found.one && !found.one->to_the_end) remarks.push_back(cut_remark(*found.one));
  if (found.drop)
    remarks.insert(remarks.end(), found.drop->remarks.begin(), found.drop->remarks.end());
  for (const std::string& remark : remarks) {
    if (!remark.empty()) std::cerr << "tandem plan: " << remark << '\n';
  }
}

// What the shares of devices cost, where some are used in part. Of one request, read whole or as
// `advice/prompt_chunks.hpp` has it.
std::optional<CapCost> cost_of_caps(const Options& options, const WantedPlan& question,
                                    const planner::PlanFile& file) {
  const std::optional<Served>& served = question.served;
  const bool is_one = !served || (served->is_one() && served->chunk == 0) ||
                      study::is_one_in_chunks(for_prediction(*served));
  if (file.shares.empty() || !is_one) return std::nullopt;
  return cap_cost(options, question.scenario, question.request, file,
                  {.limits = question.limits,
                   .any = question.devices.searched,
                   .reading = question.reading,
                   .chunk = served ? served->chunk : 0});
}

// Prints the plan, which has been written where --out says, and ends the program.
[[noreturn]] void end_without_prediction(const Shown& show, const planner::Plan& plan,
                                         std::ostream& out) {
  if (show.table()) {
    print_plan(plan, reserved_memory(plan), show.file.value_or(""), out);
    out.flush();
  }
  std::cerr << "tandem plan: interrupted; the prediction of the plan is left out"
            << (show.file ? ", 'tandem simulate " + model::shell_word(*show.file) + "' makes it"
                          : "")
            << std::endl;
  std::_Exit(show.table() ? 0 : 1);
}

// The predicted times of the plan that was found, and of those that it was chosen from. Ctrl-C
// leaves them out, and all that is to be printed after them.
model::Result last_prediction(const Shown& show, const WantedPlan& question,
                              const study::Question& asked, PlanSearch& found, std::ostream& out) {
  const auto& plan = std::get<planner::Plan>(found.answer);
  const Interruption interruption(
      [&](const std::string&) { end_without_prediction(show, plan, out); });
  if (found.choice) study::replay_contenders(asked, *found.choice);
  return predicted_times(plan, question.served);
}

int print_infeasible(const planner::Infeasible& no, const WantedPlan& question, std::ostream& out) {
  out << no.reason << (no.reason.ends_with('\n') ? "" : "\n")
      << cap_remark(question.request.cluster, question.scenario.shares);
  return 3;
}

}  // namespace

int plan_command(const Arguments& arguments, std::ostream& out) {
  Options options(plan_syntax(), arguments);
  const Shown show = shown(options);
  WantedPlan question = wanted_plan(options, show);
  options.settle();
  if (question.replicas) {
    check_streaming_of_any(options, question.request);
    return plan_replicas(
        options, *question.replicas, asked_of(options, question),
        {.limits = question.limits, .shares = question.scenario.shares, .priced = question.priced},
        *question.served, show, out);
  }
  std::optional<Fitted> fitted;
  if (question.goal) {
    fitted = fit(options, question);
    if (!fitted->plan) return print_infeasible({fitted->text}, question, out);
  }
  const bool prints = show.table() || (show.json && show.file);
  // A question turned round, losses and the two of --sp are answered by searches of their own.
  const bool tries_changes = prints && !question.goal && !question.bounded && !question.priced &&
                             question.flags.sp != "auto";
  AskedPlan asked{.question = asked_of(options, question),
                  .any = question.any,
                  .fewest = question.devices.fewest,
                  .searched = question.devices.searched,
                  .any_moves = !question.flags.moves,
                  .chose_master = !options.has("master"),
                  .limits = question.limits};
  if (!question.any && question.served) asked.question.served->policy = question.served->policy;
  if (tries_changes) {
    std::string remark;
    asked.prices = known_prices(find_weights(question.model_name), question.request.model, remark);
    if (!remark.empty() && !show.quiet) std::cerr << "tandem plan: " << remark << '\n';
    question.limits = without_free_changes(question.limits, may_have_replicas(asked));
  }
  if (!question.scenario.shares.empty()) question.limits = without_cap_cost(question.limits);
  if (question.any) check_streaming_of_any(options, question.request);

  PlanSearch result = search(options, question, fitted);
  if (auto* const no = std::get_if<planner::Infeasible>(&result.answer)) {
    // `auto`, and devices that are searched, have tried them.
    const bool is_one = !question.any && !question.devices.fewest && !question.devices.searched;
    if (const std::string fits = is_one ? study::what_fits(asked.question) : ""; !fits.empty())
      no->reason += "\n" + fits;
    return print_infeasible(*no, question, out);
  }
  const auto& plan = std::get<planner::Plan>(result.answer);
  check_stages(options, plan);
  if (const std::string remark = check_streaming(options, plan); !remark.empty() && !show.quiet)
    std::cerr << "tandem plan: " << remark << '\n';
  planner::check_rates(plan);
  const planner::PlanFile file = file_of(options, question, result, fitted, show);
  const std::string json = planner::to_json(file);
  deliver(show, json, out);
  if (!show.quiet) print_remarks(question, result, plan);
  std::optional<CapCost> cap;
  if (show.json || show.table()) cap = cost_of_caps(options, question, file);
  const model::Result predicted =
      prints ? last_prediction(show, question, asked.question, result, out) : model::Result();
  const std::optional<study::Choice>& choice = result.choice;
  std::optional<study::FreeChanges> free;
  if (choice) asked.spent_s = choice->elapsed_s;
  if (result.one) asked.spent_s = result.one->elapsed_s;
  if (tries_changes && !result.interrupted())
    free = free_changes_of(options, asked, plan, choice, predicted);
  std::optional<LossAnswer> loss;
  if (file.loss && prints)
    loss = loss_answer(plan, *file.loss, *question.priced, question.request, question.served,
                       predicted);
  if (loss && !show.quiet) {
    for (const std::string& remark : loss->remarks) std::cerr << "tandem plan: " << remark << '\n';
  }
  const Found found{.file = file,
                    .served = question.served,
                    .choice = choice,
                    .few = result.few,
                    .of_two = result.of_two,
                    .of_moves = result.of_moves,
                    .drop = result.drop,
                    .bounded = question.bounded,
                    .loss = result.loss,
                    .types = loss,
                    .fitted = fitted,
                    .cap = cap,
                    .free = free,
                    .predicted = predicted,
                    .objective = question.objective,
                    .platform_devices = question.scenario.hosts,
                    .given = flag_names(arguments)};
  if (show.json) {
    const nlohmann::ordered_json summary = summary_of(found, question.request, show);
    out << (show.file ? summary.dump(2) + '\n' : json);
  } else if (show.table()) {
    print_tables(found, question.request, show, question.shortened, out);
    if (show.file)
      print_next(file, *show.file, question.model_name,
                 !question.served || has_prompts(*question.served), prompt_flags(arguments), out);
  }
  return 0;
}

}  // namespace tandem::cli
