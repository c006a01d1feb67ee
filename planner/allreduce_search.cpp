#include "planner/allreduce_search.hpp"

#include <algorithm>
#include <limits>

#include "model/error.hpp"
#include "model/variation.hpp"
#include "planner/collective/collective.hpp"
#include "planner/collective/hierarchical.hpp"
#include "planner/collective/tree.hpp"
#include "planner/lowering.hpp"

namespace tandem::planner {
namespace {

constexpr std::int64_t kMaxTriedTasks = 1 << 20;
constexpr std::int32_t kDeepestTried = 3;
// Times whose ratio differs by less are equal: sums are rounded in another order.
constexpr double kEqualTimes = 1e-9;

// Consecutive steps of one new token.
class DecodeSteps : public model::Steps {
 public:
  DecodeSteps(const Plan& plan, std::int32_t past, std::int32_t count)
      : graph_(find_strategy(plan.strategy).lower(plan, decode_batch(past))),
        past_(past),
        count_(count) {}
  [[nodiscard]] std::int32_t count() const override { return count_; }
  const model::TaskGraph& graph(std::int32_t i) override {
    const std::int32_t past = past_ + i;
    graph_.advance({&past, 1});
    return graph_;
  }

 private:
  model::TaskGraph graph_;
  std::int32_t past_;
  std::int32_t count_;
};

double time_of(const Plan& plan, const Evaluator& evaluate, model::Steps& steps) {
  model::RunRecorder recorder(plan.cluster, plan.master, /*keep_spans=*/false);
  evaluate(plan.cluster, plan.cost_model(), steps, recorder);
  const std::vector<double> tokens = recorder.metrics().token_times_s;
  return tokens.size() == 1 ? tokens.front() : tokens.back() - tokens.front();
}

double prompt_time(const Plan& plan, const Evaluator& evaluate) {
  GenerationSteps steps(plan, {.prompt_tokens = plan.workload.prompt_tokens, .new_tokens = 1});
  return time_of(plan, evaluate, steps);
}

double decode_time(const Plan& plan, const Evaluator& evaluate) {
  // A prompt of one token is lowered as a new token is.
  if (plan.workload.prompt_tokens == 1 && plan.workload.new_tokens == 1)
    return prompt_time(plan, evaluate);
  const std::int64_t past = plan.workload.prompt_tokens + (plan.workload.new_tokens - 1) / 2;
  const bool streams = std::any_of(plan.devices.begin(), plan.devices.end(),
                                   [](const DevicePlan& d) { return d.window.streams(); });
  const std::int64_t room = plan.model.max_context - past;
  const auto count = static_cast<std::int32_t>(streams ? std::clamp<std::int64_t>(room, 1, 5) : 1);
  DecodeSteps steps(plan, static_cast<std::int32_t>(past), count);
  return time_of(plan, evaluate, steps);
}

std::string fastest(const Plan& fixed, std::string AllreduceChoice::*phase,
                    double (*time)(const Plan&, const Evaluator&), const Evaluator& evaluate) {
  Plan plan = fixed;
  std::string best;
  double least = std::numeric_limits<double>::infinity();
  for (const std::string& candidate : allreduce_candidates(plan)) {
    plan.allreduce.*phase = candidate;
    const double taken = time(plan, evaluate);
    if (taken >= least * (1.0 - kEqualTimes)) continue;
    least = taken;
    best = candidate;
  }
  return best;
}

}  // namespace

AllreduceChoice parse_allreduce_choice(std::string_view text) {
  const std::size_t comma = text.find(',');
  const std::string prompt(text.substr(0, comma));
  const std::string decode(comma == std::string_view::npos ? prompt : text.substr(comma + 1));
  for (const std::string& one : {prompt, decode}) {
    if (one != kAutoAllreduce) static_cast<void>(parse_allreduce(one));
  }
  return {.prompt = prompt, .decode = decode};
}

std::vector<std::string> allreduce_candidates(const Plan& plan) {
  const std::int32_t ranks = plan.cluster.size();
  std::vector<std::string> names{"star"};
  std::vector<Parents> trees{tree_parents(ranks, 1)};
  const auto add_tree = [&](const std::string& name, Parents parents) {
    if (std::find(trees.begin(), trees.end(), parents) != trees.end()) return;
    names.push_back(name);
    trees.push_back(std::move(parents));
  };
  const Proximity near = proximity(plan.cluster, plan.master);
  std::vector<std::int32_t> group;
  for (const model::DeviceIndex device : near.order)
    group.push_back(near.group[static_cast<std::size_t>(device)]);
  for (const Collective& collective : collectives()) {
    const std::int64_t tasks = collective.tasks(ranks);
    if (tasks > kMaxTriedTasks / (2 * plan.model.layers) || ranks == 1) continue;
    if (collective.name == "tree") {
      for (std::int32_t depth = 2; depth <= kDeepestTried; ++depth)
        add_tree("tree:" + std::to_string(depth), tree_parents(ranks, depth));
    } else if (collective.name == "hierarchical") {
      add_tree(collective.name, hierarchical_parents(group));
    } else if (collective.name != "star") {
      names.push_back(collective.name);
    }
  }
  return names;
}

AllreduceChoice fastest_allreduce(const Plan& plan, const AllreduceChoice& wanted,
                                  const Evaluator& evaluate) {
  AllreduceChoice choice = wanted;
  Plan constant = plan;
  constant.cluster = model::without_variation(plan.cluster);
  if (choice.decode == kAutoAllreduce)
    choice.decode = fastest(constant, &AllreduceChoice::decode, decode_time, evaluate);
  if (choice.prompt == kAutoAllreduce) {
    choice.prompt = plan.workload.prompt_tokens == 1
                        ? choice.decode
                        : fastest(constant, &AllreduceChoice::prompt, prompt_time, evaluate);
  }
  require(!choice.prompt.empty() && !choice.decode.empty(), "allreduce: no candidate ends");
  return choice;
}

}  // namespace tandem::planner
