#include "cli/plan_answers.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include "advice/one_strategy.hpp"
#include "cli/flags/plan_workload.hpp"
#include "cli/flags/predicted_workload.hpp"
#include "cli/flags/strategy_flags.hpp"
#include "cli/views/interruption.hpp"
#include "cli/views/line_log.hpp"
#include "cli/views/progress_view.hpp"
#include "model/base/error.hpp"
#include "model/base/text_table.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/search/drop_search.hpp"
#include "planner/serving/chunk_search.hpp"
#include "planner/serving/serving_plan.hpp"

namespace tandem::cli {

namespace {

std::vector<planner::PlanDecision> recorded(const std::vector<planner::Decision>& decisions) {
  std::vector<planner::PlanDecision> all;
  all.reserve(decisions.size());
  for (const planner::Decision& one : decisions) {
    all.push_back({.axis = std::string(one.axis),
                   .value = one.alternatives[one.selected].label,
                   .considered = std::ssize(one.alternatives)});
  }
  return all;
}

// While it lives, Ctrl-C ends the search with the best plan so far. Before there is one, it ends
// the program: a step of the search on many devices takes seconds, and would be given up anyway.
class SearchInterruption {
 public:
  // Sets what `question` calls after each planned setting, `line` included.
  SearchInterruption(planner::SearchEffort& effort, BestSoFarLine& line, study::Question& question)
      : interruption_([this, &effort](const std::string&) { end(effort); }, {},
                      std::chrono::seconds(10)) {
    question.progress = [this, &effort, &line](const study::BestSoFar& best) {
      if (std::isfinite(best.seconds)) has_plan_ = true;
      line.show(best, effort.seconds());
    };
  }

 private:
  void end(planner::SearchEffort& effort) const {
    effort.interrupt();
    if (has_plan_) return;
    write_if_possible(STDERR_FILENO, "tandem: interrupted before a first plan was found\n",
                      std::chrono::milliseconds(100));
    _exit(1);
  }

  std::atomic<bool> has_plan_ = false;
  Interruption interruption_;
};

}  // namespace

std::vector<planner::PlanDecision> decisions_of(const study::Choice& choice) {
  const study::Contender& first = choice.contenders.front();
  const std::vector<model::Device>& devices = first.plan.cluster.devices();
  std::string names;
  for (const model::Device& device : devices) names += (names.empty() ? "" : ",") + device.name;
  std::vector<planner::PlanDecision> all{
      {.axis = "strategy",
       .value = first.plan.strategy,
       .considered = std::ssize(choice.contenders) + std::ssize(choice.without)},
      {.axis = "devices and master",
       .value = names + "; " + devices[static_cast<std::size_t>(first.plan.master)].name,
       .considered = std::max<std::int64_t>(1, choice.settings)}};
  for (planner::PlanDecision& one : recorded(first.decisions)) all.push_back(std::move(one));
  return all;
}

std::string cut_remark(const OneSearch& search) {
  std::string axes;
  for (const std::string& axis : search.cut) axes += (axes.empty() ? "" : ", ") + axis;
  return "stopped after " + std::to_string(search.evaluations) + " evaluations in " +
         model::fixed(search.elapsed_s, 1) + " s" +
         (axes.empty() ? "; not all axes were searched to the end"
                       : "; not searched to the end: " + axes) +
         "; a better plan may be found with --seconds 0, which searches to the end";
}

Answer answer_to(const Options& options, const planner::Request& request,
                 const study::PromptReading& reading, std::optional<Served>& served,
                 const planner::SearchEffort::Limits& limits, OneSearch* search) {
  planner::SearchEffort effort(limits);
  BestSoFarLine line(!options.has("quiet"));
  study::Question question{.request = request, .prompt = reading, .effort = &effort};
  if (served) {
    question.served = for_prediction(*served);
    question.best_chunk = served->best_chunk;
  }
  std::variant<study::Contender, planner::Infeasible> made{planner::Infeasible{}};
  {
    const SearchInterruption interruption(effort, line, question);
    made = study::plan_strategy(question);
  }
  if (auto* const no = std::get_if<planner::Infeasible>(&made)) {
    if (effort.interrupted()) throw Error("interrupted before a first plan was found");
    return std::move(*no);
  }
  auto& found = std::get<study::Contender>(made);
  if (search != nullptr) {
    *search = {.decisions = recorded(found.decisions),
               .evaluations = effort.evaluations(),
               .elapsed_s = effort.seconds(),
               .to_the_end = !effort.ended(),
               .interrupted = effort.interrupted()};
    for (const planner::Decision& one : found.decisions) {
      if (one.is_cut) search->cut.emplace_back(one.axis);
    }
  }
  if (served) {
    served->chunk = found.chunk;
  } else if (found.chunk > 0) {
    served = one_in_chunks(request.workload, found.chunk, reading);
  }
  return std::move(found.plan);
}

Answer answer_of(const planner::SpChoice& choice) {
  if (choice.selected().plan) return *choice.selected().plan;
  return planner::Infeasible{choice.ntp.reason +
                             "\nwith weights split (--sp tp): " + choice.tp.reason};
}

Answer answer_of(const planner::DecodeChoice& choice) {
  if (choice.best().plan) return *choice.best().plan;
  planner::Infeasible none;
  for (const planner::DecodeOption& option : choice.options) {
    none.reason += (none.reason.empty() ? "" : "\n") + std::string("--decode-moves ") +
                   std::string(to_string(option.moves)) + ": " + option.reason;
  }
  return none;
}

Answer answer_within(const planner::Request& request, MeasuredLoss& loss, const Bounded& bounded,
                     std::optional<DropAnswer>& drop) {
  const auto start = std::chrono::steady_clock::now();
  auto found = planner::choose_drop(request, loss.model, bounded.bounds);
  if (auto* const no = std::get_if<planner::Infeasible>(&found)) return std::move(*no);
  drop = DropAnswer{.choice = std::get<planner::DropChoice>(std::move(found))};
  drop->elapsed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const planner::Plan& plan = drop->choice.plan;
  drop->remarks = std::move(loss.remarks);
  for (std::string& remark : loss.model.remarks(plan)) drop->remarks.push_back(std::move(remark));
  return plan;
}

study::Question question_of(const Options& options, const planner::Request& request,
                            std::vector<model::WeightFormats> formats,
                            const study::PromptReading& reading,
                            const std::optional<Served>& served) {
  study::Question question{.request = request,
                           .keeps_axes = request.strategy != kAutoStrategy,
                           .formats = std::move(formats),
                           .prompt = reading};
  if (served) {
    question.served = for_prediction(*served);
    if (!options.has("policy")) question.served->policy = nullptr;
    question.best_chunk = served->best_chunk;
  }
  return question;
}

Answer answer_of_any(const Options& options, const planner::Request& request,
                     std::vector<model::WeightFormats> formats, const study::PromptReading& reading,
                     std::optional<Served>& served, const planner::SearchEffort::Limits& limits,
                     std::optional<study::Choice>& choice) {
  planner::SearchEffort effort(limits);
  BestSoFarLine line(!options.has("quiet"));
  study::Question question = question_of(options, request, std::move(formats), reading, served);
  question.replays = false;
  question.effort = &effort;
  {
    const SearchInterruption interruption(effort, line, question);
    choice = study::choose(question);
  }
  if (choice->contenders.empty() && effort.interrupted())
    throw Error("interrupted before a first plan was found");
  if (!choice->contenders.empty()) {
    const study::Contender& first = choice->contenders.front();
    if (served) {
      served->policy = first.policy;
      served->chunk = first.chunk;
    } else if (first.chunk > 0) {
      served = one_in_chunks(first.plan.workload, first.chunk, reading);
    }
    return first.plan;
  }
  planner::Infeasible none{"no strategy has a plan\n"};
  for (const auto& [strategy, reason] : choice->without)
    none.reason.append("not ").append(strategy).append(": ").append(reason).append("\n");
  for (const std::string& remedy : choice->remedies) none.reason.append(remedy).append("\n");
  return none;
}

Answer answer_on_fewest(const planner::Request& request, const planner::Planning& planning,
                        std::optional<planner::FewestDevices>& few) {
  auto found = planner::plan_on_fewest(request, planning);
  if (auto* const no = std::get_if<planner::Infeasible>(&found)) return std::move(*no);
  few = std::get<planner::FewestDevices>(std::move(found));
  return few->plan;
}

}  // namespace tandem::cli
