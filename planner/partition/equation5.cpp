#include "planner/partition/equation5.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "planner/strategy/common/block.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/rows.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;
using model::Range;
using model::WeightBlock;

struct Phase {
  model::Batch batch;
  double times = 1.0;  // that it comes in a request
};

std::vector<Phase> phases_of(const Workload& workload) {
  std::vector<Phase> phases{{.batch = prompt_batch(workload)}};
  const std::int64_t decodes = workload.new_tokens - 1;
  if (decodes > 0) {
    const std::int64_t past = workload.prompt_tokens + (decodes - 1) / 2;
    phases.push_back({.batch = decode_batch(static_cast<std::int32_t>(past)),
                      .times = static_cast<double>(decodes)});
  }
  return phases;
}

class Timer {
 public:
  explicit Timer(const Plan& plan)
      : plan_(&plan), costs_(plan.cost_model()), phases_(phases_of(plan.workload)) {}

  double attention(DeviceIndex device, Range heads) const {
    return request(
        [&](DeviceTasks& tasks, std::int32_t layer, Range rows) {
          tasks.first_product(WeightBlock::attention, layer, rows, heads);
          tasks.attend(layer, rows, heads);
          tasks.second_product(WeightBlock::attention, layer, rows, heads);
        },
        device);
  }
  double ffn(DeviceIndex device, std::int64_t columns) const {
    const Range range{0, static_cast<std::int32_t>(columns)};
    return request(
        [&](DeviceTasks& tasks, std::int32_t layer, Range rows) {
          tasks.first_product(WeightBlock::ffn, layer, rows, range);
          tasks.second_product(WeightBlock::ffn, layer, rows, range);
        },
        device);
  }
  // `prompt` rows of a split prompt, else all rows.
  double connective(DeviceIndex device, std::int32_t prompt) const {
    return request(
        [&](DeviceTasks& tasks, std::int32_t layer, Range rows) {
          if (parts(rows)) rows = {0, prompt};
          if (rows.empty()) return;
          for (const WeightBlock block : {WeightBlock::attention, WeightBlock::ffn}) {
            tasks.norm_rows(block, layer, rows);
            tasks.add_rows(block, layer, rows, {});
          }
        },
        device);
  }
  [[nodiscard]] std::int32_t prompt_rows() const { return phases_.front().batch.rows(); }

 private:
  [[nodiscard]] bool parts(Range rows) const {
    return sharding_of(*plan_).splits_rows() && rows.size() > 1;
  }
  // If no layer has its own formats or window, all are equal to the first.
  double request(const std::function<void(DeviceTasks&, std::int32_t, Range)>& tasks_of,
                 DeviceIndex device) const {
    const auto layers = static_cast<std::int32_t>(plan_->model.layers);
    const bool uniform = plan_->model.has_uniform_layers();
    double seconds = 0.0;
    for (const Phase& phase : phases_) {
      model::TaskGraph graph(phase.batch);
      DeviceTasks tasks(graph, plan_->model, device);
      for (std::int32_t layer = 0; layer < (uniform ? 1 : layers); ++layer)
        tasks_of(tasks, layer, {0, phase.batch.rows()});
      for (const model::Task& task : graph.tasks())
        seconds += phase.times * costs_.compute_time(graph.batch(), task).value();
    }
    return uniform ? seconds * layers : seconds;
  }

  const Plan* plan_;
  model::CostModel costs_;
  std::vector<Phase> phases_;
};

// The share of `heads` that touches one key/value head more than it needs, if there is one.
Range cutting(const model::Transformer& model, std::int64_t heads) {
  const std::int64_t begin = std::min(model.group() - 1, model.heads - heads);
  return {static_cast<std::int32_t>(begin), static_cast<std::int32_t>(begin + heads)};
}

}  // namespace

Equation5 equation5(const Plan& plan, const Split& split) {
  const Timer timer(plan);
  const std::vector<model::Share> shares = to_shares(plan.model, plan.master, split);
  const auto owners = static_cast<std::int32_t>(std::ranges::count_if(shares, has_rows));
  const std::vector<std::int32_t> parts =
      equal_parts(timer.prompt_rows(), std::max(owners, std::int32_t{1}));
  Equation5 seconds;
  std::size_t next = 0;
  for (std::size_t d = 0; d < shares.size(); ++d) {
    const auto device = static_cast<DeviceIndex>(d);
    const model::Share& share = shares[d];
    if (!share.heads.empty())
      seconds.attention_s = std::max(seconds.attention_s, timer.attention(device, share.heads));
    if (!share.columns.empty())
      seconds.ffn_s = std::max(seconds.ffn_s, timer.ffn(device, share.columns.size()));
    const bool owns = !share.heads.empty() && !share.columns.empty();
    seconds.connective_s =
        std::max(seconds.connective_s, timer.connective(device, owns ? parts[next++] : 0));
  }
  return seconds;
}

DivisionProblem division_problem(const Budget& budget, std::int64_t unit) {
  const Plan& plan = budget.plan();
  const model::Transformer& model = plan.model;
  const Timer timer(plan);
  const std::int64_t head = head_unit(plan);
  DivisionProblem problem{.heads = model.heads / head,
                          .group = model.group() / head,
                          .units = model.intermediate / unit};
  const auto rooms = [&](std::size_t d, Range heads) {
    const std::int64_t columns = budget.max_columns(d, heads);
    return columns < 0 ? columns : columns / unit;
  };
  for (std::size_t d = 0; d < budget.devices(); ++d) {
    const auto device = static_cast<DeviceIndex>(d);
    DivisionDevice made;
    const std::int64_t none = rooms(d, {0, 0});
    made.heads_s.push_back({0.0, 0.0});
    made.room.push_back({none, none});
    for (auto heads = static_cast<std::int32_t>(head); heads <= model.heads;
         heads += static_cast<std::int32_t>(head)) {
      const Range least = widest(model, {0, heads});
      const Range cut = head > 1 ? least : widest(model, cutting(model, heads));
      made.heads_s.push_back({timer.attention(device, least), 0.0});
      made.room.push_back({rooms(d, least), 0});
      const bool uniform = model.kv_heads_for(cut).size() == model.kv_heads_for(least).size();
      made.heads_s.back()[1] = uniform ? made.heads_s.back()[0] : timer.attention(device, cut);
      made.room.back()[1] = uniform ? made.room.back()[0] : rooms(d, cut);
    }
    made.first_s = timer.ffn(device, unit);
    if (problem.units > 1)
      made.next_s = (timer.ffn(device, model.intermediate) - made.first_s) /
                    static_cast<double>(problem.units - 1);
    problem.devices.push_back(std::move(made));
  }
  return problem;
}

std::optional<Split> exact_split(const Budget& budget) {
  if (!budget.may_fit()) return std::nullopt;
  const model::Transformer& model = budget.plan().model;
  const std::int64_t usual = column_unit(model);
  const std::int64_t least = least_column_unit(model);
  std::vector<std::int64_t> units{usual};
  if (least < usual) units.push_back(least);
  for (const std::int64_t unit : units) {
    DivisionProblem problem = division_problem(budget, unit);
    std::optional<Division> found = least_stragglers(problem);
    if (!found) continue;
    const auto devices = static_cast<std::int64_t>(budget.devices());
    problem.least_heads = devices <= problem.heads ? 1 : 0;
    problem.least_units = devices <= problem.units ? 1 : 0;
    constexpr double kAlike = 1.0 + 1e-12;
    std::optional<Division> all = least_stragglers(problem);
    if (all && all->heads_s + all->units_s <= (found->heads_s + found->units_s) * kAlike)
      found = std::move(all);
    for (std::int64_t& heads : found->heads) heads *= head_unit(budget.plan());
    for (std::int64_t& columns : found->units) columns *= unit;
    return Split{.heads = std::move(found->heads), .columns = std::move(found->units)};
  }
  return std::nullopt;
}

std::optional<double> equation5_bound(const Budget& budget) {
  const Plan& plan = budget.plan();
  const auto found = least_stragglers(division_problem(budget, least_column_unit(plan.model)));
  if (!found) return std::nullopt;
  // Among k devices with rows the slowest has at least as many as if all had the fewest, and is no
  // faster than the k-th fastest.
  const Timer timer(plan);
  double connective = std::numeric_limits<double>::infinity();
  const auto devices = static_cast<std::int32_t>(plan.cluster.size());
  for (std::int32_t owners = 1; owners <= devices; ++owners) {
    std::vector<double> times;
    times.reserve(static_cast<std::size_t>(devices));
    for (DeviceIndex device = 0; device < devices; ++device)
      times.push_back(timer.connective(device, timer.prompt_rows() / owners));
    std::sort(times.begin(), times.end());
    connective = std::min(connective, times[static_cast<std::size_t>(owners) - 1]);
  }
  return found->heads_s + found->units_s + connective;
}

}  // namespace tandem::planner
