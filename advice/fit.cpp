#include "advice/fit.hpp"

#include <algorithm>
#include <utility>

#include "advice/fit_placements.hpp"
#include "advice/lack.hpp"
#include "advice/least_bytes.hpp"
#include "advice/settings.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/graph/memory.hpp"
#include "model/graph/storage.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/search/affordable_types.hpp"
#include "planner/search/default_types.hpp"
#include "planner/search/device_choice.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::study {
namespace {

using model::Bytes;
using planner::Plan;
using planner::Request;

constexpr std::int64_t kLeastChunk = 32;  // of a longest context, in tokens

// Of a placement, quick: the first plan with the strategy's default sums; thorough: those of all
// sums, in the layouts that make_plan chooses among.
enum class Depth : std::uint8_t { quick, thorough };

bool streams(const Request& request) { return request.window.blocks != 0; }

// Checks placements, and counts and limits the checks.
class Checker {
 public:
  Checker(const FitQuestion& question, FitEffort& effort)
      : question_(&question),
        effort_(&effort),
        request_(question.request),
        profiles_(profiles_of(question.request)) {
    request_.profiles = profiles_;
    set_types();
    if (request_.memory_limit) {
      for (const model::Device& device : request_.cluster.devices())
        memory_.push_back(std::min(device.memory, *request_.memory_limit).value());
    } else {
      for (const model::Device& device : request_.cluster.devices())
        memory_.push_back(device.memory.value());
    }
    quick_.interrupt();
    measure();
  }

  [[nodiscard]] const Request& request() const { return request_; }
  [[nodiscard]] const std::vector<double>& memory() const { return memory_; }

  // Changes what is asked.
  void set_workload(const planner::Workload& workload) {
    request_.workload = workload;
    measure();
  }
  void set_model(const model::Transformer& model, const planner::Workload& workload) {
    request_.model = model;
    set_types();
    set_workload(workload);
  }

  // Returns whether the checks must end with the best so far.
  bool ended() {
    if (question_->effort == nullptr || !question_->effort->ended()) return false;
    effort_->complete = false;
    return true;
  }

  // Returns whether memory may suffice: false only if no plan can exist.
  [[nodiscard]] bool may_fit(const Placement& at) const {
    if (streams(request_)) return true;
    double room = 0.0;
    for (std::size_t d = 0; d < memory_.size(); ++d) {
      if (!at.used[d]) continue;
      const double own = memory_[d] - profiles_[d].program_bytes;
      if (at.strategy != nullptr && at.strategy->sharding.replicates() && !at.gathers_weights &&
          own < layer_bytes_)
        return false;
      room += own;
    }
    return room >= weight_bytes_ + cache_bytes_;
  }

  // Nothing, and the checks have ended, if this takes longer than the limits allow.
  Fit check(const Placement& at, Depth depth) {
    ++effort_->checks;
    if (question_->effort == nullptr) return made(at, depth);
    const planner::AbandonScope abandon(*question_->effort);
    try {
      {
        const planner::EffortScope scope(*question_->effort);
        planner::count_evaluation();
      }
      Fit fit = made(at, depth);
      if (fit.plan) question_->effort->has_plan();
      return fit;
    } catch (const planner::SearchAbandoned&) {
      effort_->complete = false;
      return {};
    }
  }

  // Why not even the devices together hold the request; empty if they may.
  [[nodiscard]] std::string shortage(const std::vector<bool>& used) const {
    if (streams(request_)) return "";
    double needed = weight_bytes_ + cache_bytes_;
    double programs = 0.0;
    double has = 0.0;
    for (std::size_t d = 0; d < memory_.size(); ++d) {
      if (!used[d]) continue;
      programs += profiles_[d].program_bytes;
      has += memory_[d];
    }
    needed += programs;
    const auto count = std::ranges::count(used, true);
    if (needed <= has) return "";
    const std::string who = count == 1 ? "device '" +
                                             request_.cluster
                                                 .devices()[static_cast<std::size_t>(
                                                     std::ranges::find(used, true) - used.begin())]
                                                 .name +
                                             "' lacks "
                                       : "the " + std::to_string(count) + " devices together lack ";
    return who + to_text(Bytes{needed - has}) + ": " + (count == 1 ? "needs" : "need") +
           " at least " + to_text(Bytes{needed}) + " (weights " + to_text(Bytes{weight_bytes_}) +
           ", KV cache " + to_text(Bytes{cache_bytes_}) + ", program " + to_text(Bytes{programs}) +
           "), " + (count == 1 ? "has " : "have ") + to_text(Bytes{has});
  }

  void report(const std::string& best) const {
    if (question_->progress) question_->progress(best);
  }

 private:
  // Within a bound on losses what needs the least memory: whether a plan fits is asked, not how
  // fast it is.
  void set_types() {
    request_ = planner::with_narrowest_types(planner::with_default_types(std::move(request_)));
  }

  void measure() {
    weight_bytes_ = model::weight_bytes(request_.model, everything(request_.model));
    layer_bytes_ = layer_bytes(request_.model);
    cache_bytes_ = cache_bytes(request_);
  }

  Fit made(const Placement& at, Depth depth) {
    planner::SearchEffort unlimited;
    const planner::EffortScope scope(depth == Depth::quick ? quick_ : unlimited);
    Fit fit = planned(at, false);
    const bool may_have_other_sums =
        at.strategy != nullptr && at.strategy->sharding.has_collective();
    if (!fit.plan && depth == Depth::thorough && may_have_other_sums) {
      Fit other = planned(at, true);
      if (other.plan) fit = std::move(other);
    }
    return fit;
  }

  // The plan of a placement, with the strategy's default sums or any.
  [[nodiscard]] Fit planned(const Placement& at, bool any_sums) const {
    const auto first_line = [](const std::string& text) { return text.substr(0, text.find('\n')); };
    Request request = request_;
    if (at.strategy != nullptr) {
      request.strategy = at.strategy->name;
      request.partition = std::string(planner::kAutoPartition);
      request.allreduce.reset();
      if (any_sums) request.allreduce = std::string(planner::kAutoAllreduce);
      request.tiles.reset();
      request.gather_weights = at.gathers_weights;
      request.window.search = false;
      request.master = request.cluster.devices()[static_cast<std::size_t>(at.master)].name;
    } else if (request.master.empty()) {
      request.master = request.cluster.devices()[static_cast<std::size_t>(at.master)].name;
    }
    request.objective = planner::Objective::request;
    request = planner::with_default_types(std::move(request));
    if (request.budget) {
      request = planner::with_narrowest_types(std::move(request));
      request.open = {};
    }
    try {
      auto made = fit_prompt(planner::for_devices(std::move(request), at.used), question_->reading);
      if (auto* const found = std::get_if<FittingPlan>(&made))
        return {.plan = std::move(found->plan), .chunk = found->chunk};
      return {.reason = first_line(std::get<planner::Infeasible>(made).reason)};
    } catch (const Error& error) {
      if (at.strategy == nullptr) throw;
      return {.reason = first_line(error.what())};
    }
  }

  const FitQuestion* question_;
  FitEffort* effort_;
  Request request_;
  std::vector<model::DeviceProfile> profiles_;
  std::vector<double> memory_{};  // by device
  double weight_bytes_ = 0.0;     // of the whole model
  double layer_bytes_ = 0.0;      // of all layers
  double cache_bytes_ = 0.0;      // of all keys and values
  planner::SearchEffort quick_;   // has ended: the first plan is enough
};

Placements placements_of(const FitQuestion& question, const Checker& checker, FitEffort& effort) {
  Placements placements(checker.request(), question.any_strategy, checker.memory());
  effort.all_subsets = placements.has_all_subsets();
  return placements;
}

// Returns the first of `placements` that fits; without one, why the first one does not.
Fit first_of(const std::vector<Placement>& placements, Checker& checker) {
  Fit none;
  for (const Depth depth : {Depth::quick, Depth::thorough}) {
    for (const Placement& at : placements) {
      if (checker.ended()) return none;
      if (!checker.may_fit(at)) continue;
      Fit fit = checker.check(at, depth);
      checker.report("");
      if (fit.plan) return fit;
      if (none.reason.empty()) none.reason = std::move(fit.reason);
    }
  }
  return none;
}

// A few tokens more of context are not worth a prompt that reads all weights for each of its
// tokens.
bool is_worth_it(const FitQuestion& question, const Fit& fit) {
  return !question.reading.best || fit.chunk == 0 || fit.chunk >= kLeastChunk;
}

}  // namespace

Fit fits_somewhere(const FitQuestion& question, FitEffort& effort) {
  Checker checker(question, effort);
  const Placements placements = placements_of(question, checker, effort);
  Fit fit = first_of(placements.all(), checker);
  if (!fit.plan && fit.reason.empty()) fit.reason = checker.shortage(placements.everyone());
  return fit;
}

LongestContext longest_context(const FitQuestion& question, std::int64_t least, std::int64_t most,
                               const std::function<planner::Workload(std::int64_t)>& workload_of) {
  require(least <= most, "longest_context: a range of contexts");
  LongestContext longest{.tokens = least - 1};
  Checker checker(question, longest.effort);
  const Placements placements = placements_of(question, checker, longest.effort);
  std::optional<Placement> best;
  const std::vector<Placement> all = placements.all();
  for (const Depth depth : {Depth::quick, Depth::thorough}) {
    for (const Placement& at : all) {
      if (longest.tokens == most || checker.ended()) break;
      const auto check = [&](std::int64_t tokens) {
        checker.set_workload(workload_of(tokens));
        if (!checker.may_fit(at)) return false;
        Fit fit = checker.check(at, depth);
        if (fit.plan && (tokens == least || is_worth_it(question, fit))) {
          longest.at = std::move(fit);
          longest.tokens = tokens;
          best = at;
        }
        checker.report(best ? std::to_string(longest.tokens) + " tokens" : "");
        return best && longest.tokens == tokens;
      };
      if (!check(longest.tokens + 1)) continue;
      for (std::int64_t above = most + 1; above - longest.tokens > 1 && !checker.ended();) {
        const std::int64_t middle = longest.tokens + (above - longest.tokens) / 2;
        if (!check(middle)) above = middle;
      }
    }
  }
  if (!best) longest.tokens = 0;
  if (longest.tokens == most) return longest;
  checker.set_workload(workload_of(best ? longest.tokens + 1 : least));
  std::string reason = checker.shortage(best ? best->used : placements.everyone());
  if (best && reason.empty() && !question.reading.best && longest.at.chunk == 0)
    reason = lack_of(*longest.at.plan, workload_of(longest.tokens + 1));
  if (best && reason.empty() && longest.effort.complete) {
    Fit more = checker.check(*best, Depth::quick);
    reason = more.plan ? "its prompt would be read in chunks of fewer than " +
                             std::to_string(kLeastChunk) + " tokens, all weights for each"
                       : std::move(more.reason);
  }
  if (best) {
    longest.beyond = std::move(reason);
    return longest;
  }
  if (reason.empty()) {
    for (const Placement& at : all) {
      reason = checker.check(at, Depth::quick).reason;
      if (!reason.empty()) break;
    }
  }
  longest.at.reason = std::move(reason);
  return longest;
}

FewestDevicesFit fewest_devices(const FitQuestion& question) {
  FewestDevicesFit fewest;
  Checker checker(question, fewest.effort);
  const Placements placements = placements_of(question, checker, fewest.effort);
  for (std::size_t count = 1; count <= placements.devices(); ++count) {
    const std::vector<Placement> some = placements.of_size(count);
    Fit fit = first_of(some, checker);
    if (fit.plan) {
      fewest.devices = count;
      fewest.at = std::move(fit);
      return fewest;
    }
    if (checker.ended()) return fewest;
    // Those that have most memory are the likeliest.
    std::string reason = std::move(fit.reason);
    if (reason.empty() && !some.empty()) {
      const auto memory = [&](const Placement& at) {
        double sum = 0.0;
        for (std::size_t d = 0; d < at.used.size(); ++d)
          sum += at.used[d] ? checker.memory()[d] : 0.0;
        return sum;
      };
      const auto largest = std::ranges::max_element(some, {}, memory);
      reason = checker.shortage(largest->used);
      if (reason.empty()) reason = checker.check(*largest, Depth::quick).reason;
    }
    if (count == placements.devices()) {
      fewest.at.reason = std::move(reason);
    } else {
      fewest.fewer = std::move(reason);
    }
  }
  return fewest;
}

FirstFit first_fit(const FitQuestion& question, const std::vector<FitOption>& options) {
  FirstFit first;
  Checker checker(question, first.effort);
  const Placements placements = placements_of(question, checker, first.effort);
  const std::vector<Placement> all = placements.all();
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (checker.ended()) return first;
    checker.set_model(options[i].model, options[i].workload);
    Fit fit = first_of(all, checker);
    if (fit.plan) {
      first.index = i;
      first.at = std::move(fit);
      return first;
    }
    std::string reason =
        fit.reason.empty() ? checker.shortage(placements.everyone()) : std::move(fit.reason);
    if (i + 1 < options.size()) {
      first.before = options[i].name + ": " + reason;
    } else {
      first.at.reason = options[i].name + ": " + reason;
    }
  }
  return first;
}

}  // namespace tandem::study
