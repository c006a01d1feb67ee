#include "cli/flags/service_planner.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "advice/choice.hpp"
#include "advice/prediction.hpp"
#include "advice/prompt_chunks.hpp"
#include "cli/flags/service_prediction.hpp"
#include "model/base/error.hpp"
#include "model/transformer/format_choice.hpp"
#include "planner/search/device_choice.hpp"
#include "sim/replay/replay.hpp"

namespace tandem::cli {
namespace {

using planner::SearchEffort;
using serve::PlanFound;
using serve::PlanQuestion;
using serve::RequestTimes;

constexpr double kSearchSeconds = 8.0;  // somebody waits for the answer
// A limit of evaluations keeps a search on one thread, so it leaves processors to the service.
constexpr std::int64_t kMostEvaluations = 1'000'000'000;

// A search that another thread may end.
class PlannedSearch {
 public:
  void begin(SearchEffort* effort) {
    const std::lock_guard lock(mutex_);
    effort_ = effort;
  }
  void end() { begin(nullptr); }
  void interrupt() {
    const std::lock_guard lock(mutex_);
    if (effort_ != nullptr) effort_->interrupt();
  }

 private:
  std::mutex mutex_;
  SearchEffort* effort_ = nullptr;
};

// Which devices remain. Throws Error for unknown names and if none remains.
std::vector<bool> remaining(const planner::Plan& plan, const std::vector<std::string>& without) {
  std::vector<bool> used(plan.devices.size(), true);
  for (const std::string& name : without)
    used[static_cast<std::size_t>(plan.cluster.find(name))] = false;
  if (std::ranges::find(used, true) == used.end())
    throw Error("'without': all devices, expected at least one to be left; leave one in");
  return used;
}

planner::Request request_for(const planner::Plan& plan, const PlanQuestion& question) {
  planner::Request request{
      .model = plan.model,
      .cluster = plan.cluster,
      .strategy = "auto",
      .evaluate = sim::evaluate_fair,
      .workload = {.prompt_tokens = question.prompt_tokens, .new_tokens = question.new_tokens},
      .profiles = plan.profiles,
      .wire = plan.wire};
  if (!question.format.empty()) {
    const auto formats = model::chosen_formats(question.format, plan.model);
    if (!formats)
      throw Error("'format': '" + question.format + "', expected " + model::format_choices_text());
    request.model.formats = *formats;
  }
  request.workload.validate(request.model);
  const std::vector<bool> used = remaining(plan, question.without);
  const auto master = static_cast<std::size_t>(plan.master);
  if (used[master]) request.master = plan.cluster.devices()[master].name;
  return planner::without_devices(std::move(request), used);
}

RequestTimes times_of(const planner::Plan& plan, std::int64_t chunk) {
  std::optional<study::ServedWorkload> chunks;
  if (chunk > 0) chunks = study::one_in_chunks(plan.workload, chunk);
  const model::Result result = study::predict_fairly(plan, chunks ? &*chunks : nullptr);
  const model::RequestResult& one = result.requests.front();
  RequestTimes times{.prompt_tokens = plan.workload.prompt_tokens,
                     .new_tokens = plan.workload.new_tokens,
                     .ttft_s = one.ttft_s};
  if (times.new_tokens > 1) times.token_latency_s = one.token_latency.mean;
  return times;
}

// The times of the service as it is, if it has room for such a request.
void add_present(const serve::PredictTimes& predict, const PlanQuestion& question,
                 PlanFound& found) {
  try {
    found.present =
        predict({.prompt_tokens = question.prompt_tokens, .new_tokens = question.new_tokens});
  } catch (const Error& error) {
    found.present_reason = error.what();
  }
}

PlanFound found_for(const planner::Plan& plan, const PlanQuestion& question,
                    PlannedSearch& search) {
  SearchEffort effort({.seconds = kSearchSeconds, .evaluations = kMostEvaluations});
  study::Question asked{.request = request_for(plan, question), .prompt = {.best = true}};
  asked.effort = &effort;
  search.begin(&effort);
  study::Choice choice;
  try {
    choice = study::choose(asked);
  } catch (...) {
    search.end();
    throw;
  }
  search.end();
  PlanFound found{.to_the_end = choice.to_the_end};
  if (choice.contenders.empty()) {
    found.reason = "no strategy has a plan";
    for (const auto& [strategy, reason] : choice.without)
      found.reason.append("; not ").append(strategy).append(": ").append(reason);
    return found;
  }
  const study::Contender& best = choice.contenders.front();
  found.times = times_of(best.plan, best.chunk);
  found.plan = best.plan;
  return found;
}

}  // namespace

serve::PlannerAccess service_planner(const Options& options, const ServiceJob& job) {
  if (options.positionals() == 0)
    return {.reason = "without a plan, the speed of this machine is not known; give a plan"};
  const auto plan = std::make_shared<const planner::Plan>(job.service.plan);
  const auto search = std::make_shared<PlannedSearch>();
  const serve::PredictTimes predict = service_prediction(options, job).predict;
  std::vector<std::string> formats{model::format_name(plan->model)};
  for (const std::string_view name : model::format_choices())
    if (name != formats.front()) formats.emplace_back(name);
  return {.ask =
              [plan, search, predict](const PlanQuestion& question) {
                PlanFound found = found_for(*plan, question, *search);
                add_present(predict, question, found);
                return found;
              },
          .interrupt = [search] { search->interrupt(); },
          .formats = std::move(formats)};
}

}  // namespace tandem::cli
