#include "cli/rate_answers.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "advice/service_rates.hpp"
#include "cli/files/figure.hpp"
#include "cli/files/files.hpp"
#include "cli/flags/outcome.hpp"
#include "cli/flags/predicted_workload.hpp"
#include "cli/version.hpp"
#include "model/base/csv.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "planner/serving/policy/policy.hpp"

namespace tandem::cli {
namespace {

using model::fixed;
using study::HighestRate;
using study::RatePoint;
using study::RequestSpread;
using Json = nlohmann::ordered_json;

// Of the highest rate of all policies.
constexpr std::array kFractions{0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5};

// What one policy does.
struct PolicyRates {
  std::string name{};
  std::optional<study::ServedWorkload> served{};  // absent: `reason`
  std::string reason{};
  HighestRate highest{};
  std::vector<RatePoint> points{};  // by rate
};

// Counts predictions on the terminal while they are made.
class TrialLine {
 public:
  explicit TrialLine(bool shown) : shown_(shown) {}
  TrialLine(const TrialLine&) = delete;
  TrialLine& operator=(const TrialLine&) = delete;
  ~TrialLine() {
    if (shown_ && trials_ > 0) std::cerr << "\r\033[K" << std::flush;
  }
  void next(const std::string& policy) {
    if (shown_) std::cerr << '\r' << policy << ": rate " << ++trials_ << "\033[K" << std::flush;
  }

 private:
  bool shown_;
  int trials_ = 0;
};

model::Result predicted(const planner::Plan& plan, const study::ServedWorkload& served,
                        study::EvaluatorKind evaluator) {
  if (evaluator == study::EvaluatorKind::simgrid) return study::predict_served_fairly(plan, served);
  return study::predict_served(plan, served, {.evaluator = evaluator, .intervals = false}).result;
}

study::Service trial_service(const planner::Plan& plan, const PolicyRates& policy,
                             study::EvaluatorKind evaluator, TrialLine& line) {
  return [&, evaluator](const std::vector<planner::InferenceRequest>& requests) {
    line.next(policy.name);
    study::ServedWorkload served = *policy.served;
    served.requests = requests;
    served.live = true;
    return predicted(plan, served, evaluator);
  };
}

// The policy of the flags or of the plan or, with `--policy all`, every policy, with the reason for
// those that this plan cannot serve.
std::vector<PolicyRates> policies_of(Options& options, const planner::PlanFile& file,
                                     const std::filesystem::path& path) {
  std::vector<PolicyRates> all;
  const auto add = [&] {
    std::optional<study::ServedWorkload> served = predicted_workload(options, file, path);
    if (!served)
      throw Usage("flag '--goal': a plan for one request, which has no rate; give '--workload'");
    study::check_memory(file.plan, &*served, false);
    std::string name(served->policy->name);
    all.push_back({.name = std::move(name), .served = std::move(served)});
  };
  if (options.text_or("policy", "") != "all") {
    add();
    return all;
  }
  for (const planner::Policy& policy : planner::policies()) {
    options.set("policy", std::string(policy.name));
    if (policy.budget() && !options.has("chunk") &&
        !(file.service && planner::serves(policy, file.service->chunk))) {
      all.push_back({.name = std::string(policy.name), .reason = "needs '--chunk N'"});
      continue;
    }
    add();
  }
  return all;
}

// Finds the highest rates, then evaluates all policies at the same rates.
void evaluate_policies(std::vector<PolicyRates>& policies, const planner::Plan& plan,
                       const study::ServiceGoal& goal, study::EvaluatorKind evaluator,
                       TrialLine& line) {
  double top = 0.0;
  for (PolicyRates& policy : policies) {
    if (!policy.served) continue;
    const auto& requests = policy.served->requests;
    policy.highest = highest_rate(requests, goal, trial_service(plan, policy, evaluator, line));
    const HighestRate& found = policy.highest;
    if (found.holds && found.fails) top = std::max(top, found.holds->rate);
  }
  for (PolicyRates& policy : policies) {
    if (!policy.served) continue;
    const auto& requests = policy.served->requests;
    const study::Service service = trial_service(plan, policy, evaluator, line);
    const double base = top > 0.0 ? top : study::rate_of(requests);
    for (const double fraction : kFractions) {
      const double rate = fraction * base;
      RatePoint point = rate_point(service(study::at_rate(requests, rate)), goal);
      point.rate = rate;
      policy.points.push_back(point);
    }
    const HighestRate& found = policy.highest;
    if (found.holds && found.fails && found.holds->rate != base)
      policy.points.push_back(*found.holds);
    std::ranges::sort(policy.points, {}, &RatePoint::rate);
  }
}

Json finite_json(double value) { return std::isfinite(value) ? Json(value) : Json(); }
Json spread_json(const RequestSpread& spread) {
  return {{"p50", finite_json(spread.p50)}, {"p90", finite_json(spread.p90)}};
}

Json point_json(const RatePoint& point) {
  return {{"rate_per_s", point.rate},
          {"within_goal", point.within},
          {"goodput_per_s", point.goodput},
          {"ttft_s", spread_json(point.ttft_s)},
          {"token_latency_s", spread_json(point.latency_s)},
          {"queueing_s", spread_json(point.queueing_s)},
          {"throughput_tokens_per_s", point.throughput}};
}

Json policy_json(const PolicyRates& policy) {
  Json json{{"policy", policy.name},
            {"reason", policy.reason.empty() ? Json() : Json(policy.reason)}};
  const HighestRate& found = policy.highest;
  json["chunk"] = policy.served ? Json(policy.served->chunk) : Json();
  json["highest_rate_per_s"] = found.holds ? Json(found.holds->rate) : Json();
  json["fails_at_per_s"] = found.fails ? Json(found.fails->rate) : Json();
  json["points"] = Json::array();
  for (const RatePoint& point : policy.points) json["points"].push_back(point_json(point));
  return json;
}

Json rates_json(const std::vector<PolicyRates>& policies, const planner::Plan& plan,
                const study::ServiceGoal& goal, study::EvaluatorKind evaluator, double own) {
  Json json{{"schema", "tandem.rates/1"},
            {"tandem", version()},
            {"evaluator", to_string(evaluator)},
            {"plan",
             {{"sha256", planner::plan_sha256(plan)},
              {"strategy", plan.strategy},
              {"model", plan.model.name},
              {"platform", plan.cluster.name()}}},
            {"goal",
             {{"ttft_s", goal.ttft_s ? Json(*goal.ttft_s) : Json()},
              {"token_latency_s", goal.latency_s ? Json(*goal.latency_s) : Json()},
              {"share", goal.share}}},
            {"workload_rate_per_s", own},
            {"policies", Json::array()}};
  for (const PolicyRates& policy : policies) json["policies"].push_back(policy_json(policy));
  return json;
}

std::string cell(double value) { return std::isfinite(value) ? model::shortest_text(value) : ""; }

std::string rates_csv(const std::vector<PolicyRates>& policies, const study::ServiceGoal& goal) {
  std::string csv = model::csv_line(
      {"kind", "policy", "rate_per_s", "within_goal", "goodput_per_s", "ttft_p50_s", "ttft_p90_s",
       "token_latency_p50_s", "token_latency_p90_s", "queueing_p50_s", "queueing_p90_s",
       "throughput_tokens_per_s", "goal_ttft_s", "goal_token_latency_s", "goal_share"});
  for (const PolicyRates& policy : policies) {
    for (const RatePoint& point : policy.points)
      csv += model::csv_line({"predicted", policy.name, cell(point.rate), cell(point.within),
                              cell(point.goodput), cell(point.ttft_s.p50), cell(point.ttft_s.p90),
                              cell(point.latency_s.p50), cell(point.latency_s.p90),
                              cell(point.queueing_s.p50), cell(point.queueing_s.p90),
                              cell(point.throughput), goal.ttft_s ? cell(*goal.ttft_s) : "",
                              goal.latency_s ? cell(*goal.latency_s) : "", cell(goal.share)});
  }
  return csv;
}

std::string span_text(double seconds) {
  return std::isfinite(seconds) ? to_text(model::Seconds{seconds}) : "-";
}

// With three digits or more, unless it is 0.
std::string arrivals_text(double rate) {
  if (rate >= 0.1) return fixed(rate, 3);
  constexpr int kUsual = 5;
  const int needed = rate > 0.0 ? 2 - static_cast<int>(std::floor(std::log10(rate))) : kUsual;
  return fixed(rate, std::max(kUsual, needed));
}

std::string highest_text(const PolicyRates& policy) {
  const HighestRate& found = policy.highest;
  if (!policy.served) return policy.reason;
  if (!found.holds)
    return "none: the goal fails at " + arrivals_text(found.fails->rate) +
           " requests a second, too, where first tokens come after " +
           span_text(found.fails->ttft_s.p90) + " and others after " +
           span_text(found.fails->latency_s.p90) + " (p90)";
  if (!found.fails) return "every rate: the goal holds even if all requests arrive together";
  return arrivals_text(found.holds->rate) + " requests a second (at " +
         arrivals_text(found.fails->rate) + " the goal fails)";
}

// What a highest rate alone does not show: the rates at which the goal fails below it and holds
// above it.
std::string exceptions_text(const PolicyRates& policy, double share) {
  std::string below;
  std::string above;
  if (!policy.highest.holds || !policy.highest.fails) return below;
  const auto add = [](std::string& rates, const RatePoint& point) {
    rates += (rates.empty() ? "" : ", ") + arrivals_text(point.rate);
  };
  for (const RatePoint& point : policy.points) {
    const bool holds = point.within >= share;
    if (point.rate < policy.highest.holds->rate && !holds) add(below, point);
    if (point.rate > policy.highest.fails->rate && holds) add(above, point);
  }
  return (below.empty() ? "" : "; it fails at " + below + ", too") +
         (above.empty() ? "" : "; it holds at " + above + ", too");
}

void print_rates(const std::vector<PolicyRates>& policies, const study::ServiceGoal& goal,
                 std::ostream& out) {
  model::Table table({"policy", "requests/s", "within goal", "goodput/s", "first token p50", "p90",
                      "token p50", "p90", "queueing p50", "p90", "tokens/s"});
  for (const PolicyRates& policy : policies) {
    for (const RatePoint& point : policy.points)
      table.add({policy.name, arrivals_text(point.rate), fixed(100.0 * point.within, 1) + "%",
                 arrivals_text(point.goodput), span_text(point.ttft_s.p50),
                 span_text(point.ttft_s.p90), span_text(point.latency_s.p50),
                 span_text(point.latency_s.p90), span_text(point.queueing_s.p50),
                 span_text(point.queueing_s.p90), fixed(point.throughput, 1)});
  }
  table.print(out);
  out << "\ngoal  " << to_text(goal) << "\n\n";
  out << "highest rate\n";
  for (const PolicyRates& policy : policies)
    out << "  " << policy.name << ": " << highest_text(policy)
        << exceptions_text(policy, goal.share) << '\n';
}

}  // namespace

std::vector<Flag> rate_flags() {
  return {{"goal", "GOAL",
           "find the highest rate of the workload's arrivals within a goal, as "
           "ttft=2s,latency=100ms: at most so long to a request's first token, and in the mean to "
           "its others, for share=90% of the requests; '--policy all' compares policies"},
          {"figure", "STEM", "with --goal: draw latency against rate, STEM.png, .svg and .csv"}};
}

int simulate_rates(Options& options, const planner::PlanFile& file,
                   const std::filesystem::path& path, study::EvaluatorKind evaluator,
                   const Shown& show, std::ostream& out) {
  options.refuse({"trace", "full", "schedule", "seed", "repetitions", "samples"},
                 "with '--goal', which predicts a workload at many rates");
  const study::ServiceGoal goal = study::parse_goal(options.required("goal"), "flag '--goal'");
  const std::optional<std::string> stem = options.text("figure");
  if (!show.file && !stem)
    options.refuse({"quiet"}, "but to leave no result; give '--out' or '--figure'");
  std::vector<PolicyRates> policies = policies_of(options, file, path);
  double own = 0.0;
  for (const PolicyRates& policy : policies)
    if (policy.served) own = study::rate_of(policy.served->requests);
  options.settle();
  {
    TrialLine line(!show.quiet && ::isatty(STDERR_FILENO) == 1);
    evaluate_policies(policies, file.plan, goal, evaluator, line);
  }
  const std::string json = rates_json(policies, file.plan, goal, evaluator, own).dump(2) + '\n';
  deliver(show, json, out);
  if (stem) write_file(*stem + ".csv", rates_csv(policies, goal));
  if (show.json) {
    out << json;
  } else if (show.table()) {
    out << file.plan.model.name << " on " << file.plan.cluster.name() << ", strategy "
        << file.plan.strategy << ", " << to_string(evaluator)
        << ", the requests of the workload, which arrive at " << arrivals_text(own)
        << " a second\n\n";
    print_rates(policies, goal, out);
  }
  out.flush();
  if (stem) draw_figure("rates.py", *stem + ".csv", *stem);
  const bool any = std::ranges::any_of(
      policies, [](const PolicyRates& policy) { return policy.highest.holds.has_value(); });
  return any ? 0 : 3;
}

}  // namespace tandem::cli
