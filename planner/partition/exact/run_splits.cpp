#include "planner/partition/exact/run_splits.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "planner/partition/exact/time_order.hpp"

namespace tandem::planner {
namespace {

using model::WeightFormats;
using model::WeightMatrix;

constexpr int kBisections = 60;

// The least number from `low` to `high`, which is good, from which on all are.
template <class Good>
double least_that(double low, double high, const Good& good) {
  if (good(low)) return low;
  for (int i = 0; i < kBisections; ++i) {
    const double middle = (low + high) / 2.0;
    (good(middle) ? high : low) = middle;
  }
  return high;
}

class Runs {
 public:
  explicit Runs(const std::vector<RunStage>& stages)
      : stages_(&stages), layers_(stages.front().layer_s.size()) {
    for (const RunStage& stage : stages) {
      std::vector<double>& busy = busy_s_.emplace_back(1, stage.fixed_s);
      for (const double seconds : stage.layer_s) busy.push_back(busy.back() + seconds);
    }
  }

  // Returns the least total time in which no stage takes longer than `most_s`, and the ends of
  // runs; infinite if none fit.
  double least(double most_s, std::vector<std::int64_t>& counts) const {
    const std::size_t n = busy_s_.size();
    std::vector<double> best(layers_ + 1, kNever);  // of the stages so far, up to each layer
    best[0] = 0.0;
    std::vector<std::vector<std::size_t>> begins(n, std::vector<std::size_t>(layers_ + 1, 0));
    for (std::size_t i = 0; i < n; ++i) {
      const std::vector<double>& busy_s = busy_s_[i];
      std::vector<double> next(layers_ + 1, kNever);
      for (std::size_t begin = 0; begin < layers_; ++begin) {
        if (best[begin] == kNever) continue;
        const auto last = static_cast<std::size_t>((*stages_)[i].ends[begin]);
        for (std::size_t end = begin + 1; end <= last; ++end) {
          const double busy = busy_s[end] - busy_s[begin] + busy_s[0];
          if (busy > most_s) break;
          if (best[begin] + busy >= next[end]) continue;
          next[end] = best[begin] + busy;
          begins[i][end] = begin;
        }
      }
      best = std::move(next);
    }
    if (best[layers_] == kNever) return kNever;
    counts.assign(n, 0);
    for (std::size_t i = n, end = layers_; i-- > 0;) {
      counts[i] = static_cast<std::int64_t>(end - begins[i][end]);
      end = begins[i][end];
    }
    return best[layers_];
  }

 private:
  const std::vector<RunStage>* stages_;
  std::size_t layers_;
  std::vector<std::vector<double>> busy_s_;  // by stage: fixed, and of so many first layers
};

}  // namespace

std::vector<std::int32_t> run_ends(std::int64_t layers,
                                   const std::function<bool(model::Range)>& fits) {
  const auto all = static_cast<std::int32_t>(layers);
  if (fits({0, all})) return std::vector<std::int32_t>(static_cast<std::size_t>(layers), all);
  std::vector<std::int32_t> ends;
  std::int32_t end = 0;
  for (std::int32_t begin = 0; begin < all; ++begin) {
    end = std::max(begin, end);
    while (end < all && fits({begin, end + 1})) ++end;
    ends.push_back(end);
  }
  return ends;
}

std::int64_t longest_run(const std::vector<std::int32_t>& ends) {
  std::int64_t most = 0;
  for (std::size_t begin = 0; begin < ends.size(); ++begin)
    most = std::max(most, ends[begin] - static_cast<std::int64_t>(begin));
  return most;
}

std::optional<std::vector<std::int64_t>> fastest_runs(const RunProblem& problem) {
  const Runs runs(problem.stages);
  std::vector<std::int64_t> counts;
  double sum = runs.least(kNever, counts);
  if (sum == kNever) return std::nullopt;
  double most_s = sum;
  const auto fits_in = [&](double period_s) {
    const double round_s = runs.least(period_s, counts) + problem.messages_s;
    return round_s <= period_s * static_cast<double>(problem.samples);
  };
  if (problem.samples > 1) {
    most_s = least_that(problem.channel_s, sum + problem.messages_s + problem.channel_s, fits_in);
    sum = runs.least(most_s, counts);
  }
  most_s = least_that(0.0, most_s,
                      [&](double stage_s) { return runs.least(stage_s, counts) * kBetter <= sum; });
  runs.least(most_s, counts);
  return counts;
}

std::vector<std::int32_t> first_equal_layers(const model::Transformer& transformer) {
  std::vector<std::pair<model::Transformer, std::int32_t>> kinds;
  std::vector<std::int32_t> first;
  for (std::int32_t layer = 0; layer < transformer.layers; ++layer) {
    model::Transformer like = uniform_model(transformer, layer, 1);
    auto kind = std::ranges::find(kinds, like, [](const auto& known) { return known.first; });
    if (kind == kinds.end()) kind = kinds.insert(kind, {std::move(like), layer});
    first.push_back(kind->second);
  }
  return first;
}

model::Transformer uniform_model(const model::Transformer& transformer, std::int32_t layer,
                                 std::int64_t count) {
  model::Transformer made = transformer;
  made.layers = count;
  for (std::vector<bool>* const by_layer : {&made.windowed, &made.unrotated}) {
    if (by_layer->empty()) continue;
    const bool kind = (*by_layer)[static_cast<std::size_t>(layer)];
    by_layer->assign(static_cast<std::size_t>(count), kind);
  }
  made.formats = WeightFormats{};
  for (const WeightMatrix matrix : model::kWeightMatrices)
    made.formats.set(matrix, transformer.formats.of(matrix, layer));
  return made;
}

}  // namespace tandem::planner
