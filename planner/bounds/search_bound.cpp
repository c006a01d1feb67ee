#include "planner/bounds/search_bound.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "model/graph/memory.hpp"
#include "model/predict/cost_model.hpp"
#include "planner/bounds/bound_costs.hpp"
#include "planner/partition/exact/run_splits.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/strategy/common/block.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;
using model::Range;
using model::WeightBlock;

// A product of all layers that are equal to `layer`.
struct Product {
  WeightBlock block = WeightBlock::attention;
  bool first = true;
  std::int32_t layer = 0;
  std::int64_t layers = 1;
};

std::vector<Product> products_of(const model::Transformer& model, bool prompt) {
  const std::vector<std::int32_t> first_equal = first_equal_layers(model);
  std::vector<Product> products;
  for (std::int32_t layer = 0; layer < std::ssize(first_equal); ++layer) {
    if (first_equal[static_cast<std::size_t>(layer)] != layer) continue;
    const std::int64_t all = std::ranges::count(first_equal, layer);
    const std::int64_t whole = all - (prompt && first_equal.back() == layer ? 1 : 0);
    for (const WeightBlock block : {WeightBlock::attention, WeightBlock::ffn}) {
      for (const bool first : {true, false}) {
        const bool inputs = block == WeightBlock::attention && first;
        products.push_back(
            {.block = block, .first = first, .layer = layer, .layers = inputs ? all : whole});
      }
    }
  }
  return products;
}

class ProductTimes {
 public:
  explicit ProductTimes(const Plan& plan) : model_(&plan.model), costs_(plan.cost_model()) {
    for (const model::DeviceProfile& profile : plan.profiles) {
      for (const model::KindRate& rate : profile.rate) {
        for (const model::RatePoint& point : rate.points)
          sizes_.push_back(static_cast<std::int32_t>(point.intensity));
      }
    }
  }

  // Returns the seconds of `device` for `rows` rows, as many at a time as is fastest. A product's
  // time is piecewise linear in its rows, so the fastest number is at the end of a piece.
  [[nodiscard]] double least(DeviceIndex device, const Product& product, std::int32_t rows) const {
    double per_row = seconds(device, product, rows) / rows;
    std::vector<std::int32_t> done{rows};
    for (const std::int32_t size : sizes_) {
      for (const std::int32_t some : {size, size + 1}) {
        if (some < 1 || some >= rows || std::ranges::find(done, some) != done.end()) continue;
        done.push_back(some);
        per_row = std::min(per_row, seconds(device, product, some) / some);
      }
    }
    return std::max(0.0, per_row) * rows * static_cast<double>(product.layers);
  }

 private:
  // In proportion to heads or columns: what they take beyond half of them.
  [[nodiscard]] double seconds(DeviceIndex device, const Product& product,
                               std::int32_t rows) const {
    const std::int64_t all =
        product.block == WeightBlock::attention ? model_->heads : model_->intermediate;
    const std::int64_t some = all / 2;
    if (some == 0) return 0.0;
    const double beyond = part(device, product, rows, all) - part(device, product, rows, some);
    return beyond / static_cast<double>(all - some) * static_cast<double>(all);
  }
  [[nodiscard]] double part(DeviceIndex device, const Product& product, std::int32_t rows,
                            std::int64_t columns) const {
    model::TaskGraph graph({{{.sequence = 0, .past = 0, .rows = rows}}});
    DeviceTasks tasks(graph, *model_, device);
    if (product.first) {
      tasks.first_product(product.block, product.layer, whole_range(rows), whole_range(columns));
    } else {
      tasks.second_product(product.block, product.layer, whole_range(rows), whole_range(columns));
    }
    double sum = 0.0;
    for (const model::Task& task : graph.tasks())
      sum += costs_.compute_time(graph.batch(), task).value();
    return sum;
  }

  const model::Transformer* model_;
  model::CostModel costs_;
  std::vector<std::int32_t> sizes_{};  // at which some rate bends
};

// Returns the least seconds of a step of `rows` rows.
double computing(const Plan& plan, const ProductTimes& times, std::int32_t rows) {
  const std::vector<Product> products = products_of(plan.model, rows > 1);
  std::vector<std::vector<double>> seconds;  // by device and product
  std::vector<double> rates;
  for (DeviceIndex d = 0; d < plan.cluster.size(); ++d) {
    std::vector<double>& own = seconds.emplace_back();
    for (const Product& product : products) own.push_back(times.least(d, product, rows));
    const double sum = std::accumulate(own.begin(), own.end(), 0.0);
    if (sum <= 0.0) return 0.0;
    rates.push_back(1.0 / sum);
  }
  const double all = std::accumulate(rates.begin(), rates.end(), 0.0);
  double least = 0.0;
  for (std::size_t p = 0; p < products.size(); ++p) {
    double of_product = kNever;
    for (std::size_t d = 0; d < rates.size(); ++d)
      of_product = std::min(of_product, rates[d] / all * seconds[d][p]);
    least += of_product;
  }
  return least;
}

// Returns the least seconds that disks take in each step.
double loading(const Plan& plan) {
  if (plan.model.experts) return 0.0;
  double missing =
      model::weight_bytes(plan.model, {.layers = whole_range(plan.model.layers),
                                       .heads = whole_range(plan.model.heads),
                                       .columns = whole_range(plan.model.intermediate)});
  double disks = 0.0;
  for (const model::Device& device : plan.cluster.devices()) {
    missing -= device.memory.value();
    disks += device.disk_bandwidth.value();
  }
  if (missing <= 0.0) return 0.0;
  return disks > 0.0 ? missing / disks : 0.0;
}

}  // namespace

double least_seconds(const Plan& plan, Objective objective) {
  if (objective == Objective::throughput) return 0.0;
  const ProductTimes times(plan);
  const double load = loading(plan);
  const double token = computing(plan, times, 1);
  if (objective == Objective::latency) return std::max(token, load);
  const double prompt =
      computing(plan, times, static_cast<std::int32_t>(plan.workload.prompt_tokens));
  const auto tokens = static_cast<double>(
      objective == Objective::ttft ? 0 : std::max<std::int64_t>(0, plan.workload.new_tokens - 1));
  return std::max(prompt + tokens * token, (1.0 + tokens) * load);
}

}  // namespace tandem::planner
