#include "planner/search/allreduce_search.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>

#include "model/base/error.hpp"
#include "model/base/word_list.hpp"
#include "model/cluster/variation.hpp"
#include "planner/collective/collective.hpp"
#include "planner/collective/composed.hpp"
#include "planner/collective/hierarchical.hpp"
#include "planner/collective/tree.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

constexpr std::int64_t kMaxTriedTasks = 1 << 20;
constexpr std::int32_t kMostLaidOut = 256;  // devices whose sums are laid out by time
constexpr std::int32_t kDeepestTried = 3;
constexpr std::size_t kMostComposed = 16;  // devices among which compositions are tried unasked
// The first layer begins with the embedding, the last ends with one sum less.
constexpr std::int64_t kComparedLayers = 3;
// Times whose ratio differs by less are equal: sums are rounded in another order.
constexpr double kSameTime = 1e-9;
// Contention only adds to the analytic evaluator's time; another order of waiting may gain a
// little.
constexpr double kSurelySlower = 1.05;

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
  [[nodiscard]] std::optional<std::vector<model::Channel>> channels() override {
    const model::TaskGraph* const graph = &graph_;
    return model::channels_of({&graph, 1});
  }

 private:
  model::TaskGraph graph_;
  std::int32_t past_;
  std::int32_t count_;
};

double time_of(const Plan& plan, const Evaluator& evaluate, model::Steps& steps) {
  count_evaluation();
  model::RunRecorder recorder(plan.cluster, plan.master, /*keep_spans=*/false);
  evaluate(plan.cluster, plan.cost_model(), steps, recorder);
  const model::Metrics metrics = recorder.metrics();
  const std::vector<double>& tokens = metrics.token_times_s;
  if (tokens.empty()) return metrics.ttft_s;  // an encoder's pass
  return tokens.size() == 1 ? tokens.front() : tokens.back() - tokens.front();
}

double prompt_time(const Plan& plan, const Evaluator& evaluate) {
  GenerationSteps steps(plan, {.prompt_tokens = plan.workload.prompt_tokens,
                               .new_tokens = std::min<std::int64_t>(1, plan.workload.new_tokens)});
  return time_of(plan, evaluate, steps);
}

double decode_time(const Plan& plan, const Evaluator& evaluate) {
  // A prompt of one token is lowered as a new token is, and an encoder has no other step.
  const bool alone = plan.workload.prompt_tokens == 1 && plan.workload.new_tokens == 1;
  if (alone || plan.workload.new_tokens == 0) return prompt_time(plan, evaluate);
  const std::int64_t past = plan.workload.prompt_tokens + (plan.workload.new_tokens - 1) / 2;
  const std::int64_t room = plan.model.max_context - past;
  const auto count =
      static_cast<std::int32_t>(plan.streams() ? std::clamp<std::int64_t>(room, 1, 5) : 1);
  DecodeSteps steps(plan, static_cast<std::int32_t>(past), count);
  return time_of(plan, evaluate, steps);
}

// Of a few layers, as layers are uniform, unless some stream; without variation.
Plan trial_of(const Plan& plan) {
  Plan trial = plan;
  trial.cluster = model::without_variation(plan.cluster);
  if (plan.streams()) return trial;
  trial.model = plan.model.first_layers(std::min(plan.model.layers, kComparedLayers));
  for (DevicePlan& device : trial.devices) {
    if (!device.share.layers.empty())
      device.share.layers = {0, static_cast<std::int32_t>(trial.model.layers)};
  }
  return trial;
}

std::vector<Proximity> tried_layouts(const model::Cluster& cluster, model::DeviceIndex master) {
  if (cluster.size() > kMostLaidOut) return {wiring(cluster, master)};
  return layouts(cluster, master);
}

bool is_composed(const std::string& name) {
  return name != kAutoAllreduce && parse_allreduce(name).inside.collective != nullptr;
}

// The devices of each group, in the order in which they are met.
std::vector<std::int32_t> group_sizes(const Proximity& layout) {
  std::map<std::int32_t, std::int32_t> sizes;
  for (const std::int32_t group : layout.group) ++sizes[group];
  std::vector<std::int32_t> result;
  result.reserve(sizes.size());
  for (const auto& [unused_group, size] : sizes) result.push_back(size);
  return result;
}

// Returns whether there are several groups, one of them with several devices.
bool has_levels(const Proximity& layout) {
  const std::size_t groups = group_sizes(layout).size();
  return groups > 1 && groups < layout.group.size();
}

// Returns the layouts that allow `wanted`: as a plan has one layout, a composition of either phase
// decides for both. Throws Error if there is none.
std::vector<Proximity> layouts_for(const Plan& plan, const AllreduceChoice& wanted) {
  std::vector<Proximity> all = tried_layouts(plan.cluster, plan.master);
  for (const std::string& name : {wanted.prompt, wanted.decode}) {
    if (plan.cluster.size() == 1 || !is_composed(name)) continue;
    std::erase_if(all, [](const Proximity& layout) { return !has_levels(layout); });
    if (!all.empty()) continue;
    const bool by_wiring = plan.cluster.size() > kMostLaidOut;  // see tried_layouts
    throw Error("allreduce '" + name + "': " +
                (by_wiring ? "the wiring does not part" : "neither wiring nor latencies part") +
                " the " + std::to_string(plan.cluster.size()) + " devices of platform '" +
                plan.cluster.name() +
                "' into groups, expected several, one of them of several devices; name one "
                "collective for all, such as 'ring'");
  }
  return all;
}

// Returns whether a collective may be tried on so many devices.
bool affordable(const Collective& collective, std::int32_t devices, std::int64_t layers) {
  return collective.name == "star" || collective.tasks(devices) <= kMaxTriedTasks / (2 * layers);
}

// The compositions that are worth trying. Left out are `star+star`, which is `hierarchical`; for
// two ranks halving, which is the ring; and the ring within groups of two, which sends as much as
// the star in twice as many messages.
std::vector<std::string> compositions(const Proximity& layout) {
  if (!has_levels(layout) || layout.group.size() > kMostComposed) return {};
  const std::vector<std::int32_t> sizes = group_sizes(layout);
  const bool pairs = *std::ranges::max_element(sizes) == 2;
  std::vector<std::string> names;
  for (const std::string inside : {"star", "ring", "halving"}) {
    if (pairs && inside != "star") continue;
    for (const std::string among : {"star", "ring", "halving"}) {
      if ((inside == "star" && among == "star") || (sizes.size() == 2 && among == "halving"))
        continue;
      std::string& name = names.emplace_back(kHierarchical);
      name.append(":").append(inside).append("+").append(among);
    }
  }
  return names;
}

// Times each collective with each layout once: most are the same with another's groups. Bounds are
// the analytic evaluator's times.
class SumTimes {
 public:
  SumTimes(const Plan& plan, const Evaluator& evaluate, std::vector<Proximity> layouts)
      : layers_(plan.model.layers),
        trial_(trial_of(plan)),
        evaluate_(&evaluate),
        layouts_(std::move(layouts)) {}

  [[nodiscard]] const std::vector<Proximity>& layouts_of_sums() const { return layouts_; }

  double prompt(std::size_t layout, const std::string& name) {
    if (trial_.workload.prompt_tokens == 1) return decode(layout, name);
    return time(prompt_, prompt_time, *evaluate_, layout, name);
  }
  double prompt_bound(std::size_t layout, const std::string& name) {
    return time(prompt_bounds_, prompt_time, analytic_, layout, name);
  }
  double decode(std::size_t layout, const std::string& name) {
    return time(decode_, decode_time, *evaluate_, layout, name);
  }
  double decode_bound(std::size_t layout, const std::string& name) {
    return time(decode_bounds_, decode_time, analytic_, layout, name);
  }
  // Returns the time of the whole request.
  double request(std::size_t layout, const AllreduceChoice& choice) {
    const auto decodes = static_cast<double>(trial_.workload.new_tokens - 1);
    const double first = prompt(layout, choice.prompt);
    return decodes > 0.0 ? first + decodes * decode(layout, choice.decode) : first;
  }

 private:
  using Times = std::map<std::pair<std::string, std::size_t>, double>;
  double time(Times& times, double (*measure)(const Plan&, const Evaluator&),
              const Evaluator& evaluate, std::size_t layout, const std::string& name) {
    const Collective& collective = *parse_allreduce(name).collective;
    if (!affordable(collective, trial_.cluster.size(), layers_)) return 0.0;  // equal for each
    std::size_t same = layout;
    while (collective.name != "hierarchical" && same > 0 &&
           layouts_[same - 1].order == layouts_[layout].order)
      --same;
    const auto [known, is_new] = times.try_emplace({name, same}, 0.0);
    if (is_new) {
      set_layout(trial_, layouts_[layout]);
      trial_.allreduce = {name, name};
      known->second = measure(trial_, evaluate);
    }
    return known->second;
  }

  std::int64_t layers_;
  Plan trial_;
  const Evaluator* evaluate_;
  Evaluator analytic_{model::evaluate_analytic};
  std::vector<Proximity> layouts_;
  Times prompt_;
  Times decode_;
  Times prompt_bounds_;
  Times decode_bounds_;
};

using TimeOf = std::function<double(const std::string&)>;

// The one of least time, of equal ones the first. Those whose bound is surely above that are not
// timed.
std::string fastest(const std::vector<std::string>& candidates, const TimeOf& bound,
                    const TimeOf& time) {
  std::vector<std::pair<double, std::size_t>> by_bound;
  for (std::size_t i = 0; i < candidates.size() && (i == 0 || !search_ended()); ++i)
    by_bound.emplace_back(bound(candidates[i]), i);
  std::ranges::sort(by_bound);
  std::size_t best = candidates.size();
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [surely, i] : by_bound) {
    if (surely > least * kSurelySlower || (best < candidates.size() && search_ended())) break;
    const double taken = time(candidates[i]);
    const bool equal = std::abs(taken - least) <= least * kSameTime;
    if (equal ? i > best : taken > least) continue;
    least = taken;
    best = i;
  }
  return best == candidates.size() ? std::string() : candidates[best];
}

}  // namespace

void set_layout(Plan& plan, const Proximity& layout) {
  plan.layout = layout;
  if (!plan.sparse || layout.order.empty() || !sharding_of(plan).sparse_by_rank()) return;
  plan.sparse = plan.sparse->in_order(layout.order);
  plan.layout.order = plan.sparse->order;
}

AllreduceChoice parse_allreduce_choice(std::string_view text) {
  const std::vector<std::string> names = model::split_list(text);
  if (names.size() > 2) static_cast<void>(parse_allreduce(text));  // which no collective is called
  for (const std::string& one : names) {
    if (one != kAutoAllreduce) static_cast<void>(parse_allreduce(one));
  }
  return {.prompt = names.front(), .decode = names.back()};
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
  for (const Collective& collective : collectives()) {
    if (!affordable(collective, ranks, plan.model.layers) || ranks == 1) continue;
    if (collective.name == "tree") {
      for (std::int32_t depth = 2; depth <= kDeepestTried; ++depth)
        add_tree("tree:" + std::to_string(depth), tree_parents(ranks, depth));
    } else if (collective.name == "hierarchical") {
      for (const Proximity& layout : tried_layouts(plan.cluster, plan.master)) {
        std::vector<std::int32_t> group;
        for (const model::DeviceIndex device : layout.order)
          group.push_back(layout.group[static_cast<std::size_t>(device)]);
        add_tree(collective.name, hierarchical_parents(group));
        if (names.back() == collective.name) break;
      }
    } else if (collective.name != "star") {
      names.push_back(collective.name);
    }
  }
  return names;
}

Proximity first_layout(const Plan& plan, const AllreduceChoice& wanted) {
  if (!is_composed(wanted.prompt) && !is_composed(wanted.decode))
    return wiring(plan.cluster, plan.master);
  return layouts_for(plan, wanted).front();
}

AllreduceChoice possible_choice(const model::Cluster& cluster, model::DeviceIndex master,
                                AllreduceChoice wanted) {
  if (!is_composed(wanted.prompt) && !is_composed(wanted.decode)) return wanted;
  if (std::ranges::any_of(tried_layouts(cluster, master), has_levels)) return wanted;
  for (std::string* const phase : {&wanted.prompt, &wanted.decode}) {
    if (is_composed(*phase)) *phase = kAutoAllreduce;
  }
  return wanted;
}

Sums fastest_sums(const Plan& plan, const AllreduceChoice& wanted, const Evaluator& evaluate) {
  const bool chooses = wanted.prompt == kAutoAllreduce || wanted.decode == kAutoAllreduce;
  const bool star = wanted == AllreduceChoice{"star", "star"};
  if (!chooses && (star || plan.cluster.size() == 1 || plan.cluster.size() > kMostLaidOut))
    return {.allreduce = wanted, .layout = first_layout(plan, wanted)};
  SumTimes times(plan, evaluate, layouts_for(plan, wanted));
  const std::vector<std::string> of_all = allreduce_candidates(plan);
  Sums best;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < times.layouts_of_sums().size() && (i == 0 || !search_ended()); ++i) {
    AllreduceChoice choice = wanted;
    std::vector<std::string> candidates = of_all;
    if (chooses && affordable(composed_collective(), plan.cluster.size(), plan.model.layers))
      std::ranges::copy(compositions(times.layouts_of_sums()[i]), std::back_inserter(candidates));
    if (choice.decode == kAutoAllreduce) {
      choice.decode = fastest(
          candidates, [&](const std::string& name) { return times.decode_bound(i, name); },
          [&](const std::string& name) { return times.decode(i, name); });
    }
    if (choice.prompt == kAutoAllreduce) {
      choice.prompt =
          plan.workload.prompt_tokens == 1
              ? choice.decode
              : fastest(
                    candidates,
                    [&](const std::string& name) { return times.prompt_bound(i, name); },
                    [&](const std::string& name) { return times.prompt(i, name); });
    }
    require(!choice.prompt.empty() && !choice.decode.empty(), "allreduce: no candidate ends");
    const double taken = times.request(i, choice);
    if (taken >= least * (1.0 - kSameTime)) continue;
    least = taken;
    best = {.allreduce = choice, .layout = times.layouts_of_sums()[i]};
  }
  require(!best.layout.order.empty(), "allreduce: no layout ends");
  return best;
}

double trial_prompt_time(const Plan& plan, const Evaluator& evaluate) {
  return prompt_time(trial_of(plan), evaluate);
}

double trial_tokens_time(const Plan& plan, const Evaluator& evaluate) {
  const auto decodes = static_cast<double>(plan.workload.new_tokens - 1);
  return decodes > 0.0 ? decodes * decode_time(trial_of(plan), evaluate) : 0.0;
}

double trial_request_time(const Plan& plan, const Evaluator& evaluate) {
  return trial_prompt_time(plan, evaluate) + trial_tokens_time(plan, evaluate);
}

}  // namespace tandem::planner
