#include "advice/replicas.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "model/base/error.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/serving/serving_plan.hpp"
#include "sim/replay/replay.hpp"

namespace tandem::study {
namespace {

using model::Result;
using planner::InferenceRequest;
using planner::Replica;

double end_of(const Result& result) {
  double end = 0.0;
  for (const model::RequestResult& request : result.requests) end = std::max(end, request.end_s);
  return end;
}

// The predicted work of requests on one replica, and what is left of it.
class Work {
 public:
  explicit Work(const Replica& replica) {
    const planner::Workload typical = planner::typical_workload(replica.made_for);
    ServedWorkload one = served_by(replica, {});
    one.requests.push_back({.id = "typical",
                            .prompt_tokens = typical.prompt_tokens,
                            .new_tokens = typical.new_tokens});
    const model::RequestResult alone = predict_served_fairly(replica.plan, one).requests.front();
    prompt_token_s_ = alone.ttft_s / static_cast<double>(typical.prompt_tokens);
    if (typical.new_tokens > 1)
      new_token_s_ = (alone.end_s - alone.ttft_s) / static_cast<double>(typical.new_tokens - 1);
    ServedWorkload all = served_by(replica, {});
    double sum = 0.0;
    for (const InferenceRequest& request : replica.made_for) {
      all.requests.push_back(request);
      all.requests.back().arrival_s = 0.0;
      sum += of(request);
    }
    together_ = std::min(1.0, end_of(predict_served_fairly(replica.plan, all)) / sum);
  }

  [[nodiscard]] double of(const InferenceRequest& request) const {
    // The prompt's pass gives the first new token.
    const auto later = static_cast<double>(std::max<std::int64_t>(0, request.limit() - 1));
    return together_ *
           (static_cast<double>(request.prompt_tokens) * prompt_token_s_ + later * new_token_s_);
  }
  [[nodiscard]] double left(double now) const { return std::max(0.0, done_s_ - now); }
  void add(const InferenceRequest& request) {
    done_s_ = request.arrival_s + left(request.arrival_s) + of(request);
  }

 private:
  double prompt_token_s_ = 0.0;
  double new_token_s_ = 0.0;
  double together_ = 1.0;
  double done_s_ = 0.0;  // when nothing will be left
};

// The requests that a replica has not finished, by prediction of those that it has so far: later
// arrivals are not known. What it finished before it was idle changes nothing after.
class Open {
 public:
  explicit Open(const Replica& replica) : replica_(&replica) {}

  // Returns how many are open at `now`, which never decreases.
  std::size_t at(double now) {
    const auto arrived = static_cast<std::size_t>(std::ranges::count_if(
        since_idle_, [now](const InferenceRequest& one) { return one.arrival_s < now; }));
    if (arrived == 0) return since_idle_.size();
    if (predicted_ != since_idle_.size()) {
      ends_.clear();
      for (const model::RequestResult& one :
           predict_served_fairly(replica_->plan, served_by(*replica_, since_idle_)).requests)
        ends_.push_back(one.end_s);
      predicted_ = since_idle_.size();
    }
    const auto open = static_cast<std::size_t>(
        std::ranges::count_if(ends_, [now](double end) { return end > now; }));
    if (open == 0) {
      since_idle_.clear();
      predicted_ = 0;
    }
    return open;
  }
  void add(const InferenceRequest& request) { since_idle_.push_back(request); }

 private:
  const Replica* replica_;
  std::vector<InferenceRequest> since_idle_;
  std::vector<double> ends_;
  std::size_t predicted_ = 0;  // of how many since_idle_ `ends_` are
};

// Returns the positions of replicas with the capacity for `request`, at least one.
std::vector<std::size_t> able_to_serve(const InferenceRequest& request,
                                       std::span<const Replica> replicas) {
  std::vector<std::size_t> able;
  std::optional<Error> refused;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    try {
      planner::check_capacity({&request, 1}, replicas[i].chunk,
                              planner::serving_capacity(replicas[i].plan, replicas[i].steps));
      able.push_back(i);
    } catch (const Error& error) {
      if (!refused) refused = error;
    }
  }
  if (able.empty()) throw Error(*refused);
  return able;
}

}  // namespace

ServedWorkload served_by(const Replica& replica, std::vector<InferenceRequest> requests) {
  ServedWorkload served{.requests = {},
                        .policy = replica.policy,
                        .chunk = replica.chunk,
                        .steps = replica.steps,
                        .schedule = {}};
  served.requests = std::move(requests);
  return served;
}

void dispatch(std::span<const InferenceRequest> requests, const planner::Dispatch& rule,
              std::vector<Replica>& replicas) {
  require(!replicas.empty(), "dispatch: at least one replica");
  std::vector<Work> work;
  std::vector<Open> open;
  for (Replica& replica : replicas) {
    work.emplace_back(replica);
    open.emplace_back(replica);
    replica.requests.clear();
  }
  for (std::size_t r = 0; r < requests.size(); ++r) {
    const InferenceRequest& request = requests[r];
    std::vector<planner::ReplicaLoad> loads;
    const std::vector<std::size_t> able = able_to_serve(request, replicas);
    loads.reserve(able.size());
    for (const std::size_t i : able) {
      loads.push_back({.backlog_s = work[i].left(request.arrival_s),
                       .work_s = work[i].of(request),
                       .open = rule.counts_open ? open[i].at(request.arrival_s) : 0,
                       .sent = replicas[i].requests.size()});
    }
    const std::size_t picked = able[rule.pick(loads)];
    work[picked].add(request);
    open[picked].add(request);
    replicas[picked].requests.push_back(r);
  }
}

ReplicasPrediction predict_replicas(std::span<const InferenceRequest> requests,
                                    std::span<const Replica> replicas, EvaluatorKind evaluator) {
  ReplicasPrediction all;
  for (const Replica& replica : replicas) {
    all.of_each.push_back(replica.requests.empty()
                              ? Result{}
                              : predict_served(replica.plan,
                                               served_by(replica, replica.part(requests)),
                                               {.evaluator = evaluator})
                                    .result);
  }
  all.result = planner::joined(requests, replicas, all.of_each);
  return all;
}

}  // namespace tandem::study
