#include "planner/serving/chunked_layers.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/search/moved_layers.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/stages.hpp"

namespace tandem::planner {
namespace {

constexpr double kSavesTime = 1.0 - 1e-4;
// Of more stages, layers pass between neighbours alone.
constexpr std::size_t kMostPaired = 6;
constexpr int kReadings = 4;  // of chunks for layers that have changed; not met in practice

bool chooses_layers(const Request& request) {
  return find_strategy(request.strategy).sharding.splits_layers() &&
         request.partition == kAutoPartition;
}

std::string by_speed(const model::Cluster& cluster) {
  std::string text;
  for (const model::Device& device : cluster.devices())
    text += (text.empty() ? "" : ":") + std::to_string(device.flop_rate.value());
  return text;
}

bool equally_fast(const model::Cluster& cluster) {
  return std::ranges::all_of(cluster.devices(), [&](const model::Device& device) {
    return device.flop_rate == cluster.devices().front().flop_rate;
  });
}

// The layers of one plan, and how far they have come.
class LayerSearch {
 public:
  LayerSearch(ServicePlan made, const Service& service)
      : service_(&service), best_(std::move(made)), seconds_(timed(best_)) {}

  // Moves layers until none saves time. Returns whether some did.
  bool move() {
    tried_ = {layers_of(best_.plan)};
    const std::size_t count = stages(best_.plan).size();
    bool any = false;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t apart = 1; apart < (count > kMostPaired ? 2 : count); ++apart) {
        for (std::size_t low = 0; low + apart < count; ++low) {
          while (try_move(low, low + apart)) moved = true;
          while (try_move(low + apart, low)) moved = true;
        }
      }
      any = any || moved;
    }
    return any;
  }

  // Keeps `other` if it is faster; returns whether it is.
  bool consider(ServicePlan other) {
    const double seconds = timed(other);
    if (!(seconds < seconds_ * kSavesTime)) return false;
    seconds_ = seconds;
    best_ = std::move(other);
    return true;
  }

  [[nodiscard]] const ServicePlan& best() const { return best_; }

 private:
  using Layers = std::vector<std::int64_t>;

  static Layers layers_of(const Plan& plan) {
    const std::vector<Stage> all = stages(plan);
    Layers layers;
    layers.reserve(all.size());
    for (const Stage& stage : all) layers.push_back(stage.layers.size());
    return layers;
  }

  [[nodiscard]] double timed(const ServicePlan& one) const {
    return service_->seconds(one.plan, one.chunk);
  }

  bool try_move(std::size_t from, std::size_t to) {
    if (search_ended()) return false;
    Layers layers = layers_of(best_.plan);
    --layers[from];
    ++layers[to];
    if (!tried_.insert(std::move(layers)).second) return false;
    std::optional<Plan> moved = with_layer_moved(best_.plan, from, to);
    return moved && consider({.plan = *std::move(moved), .chunk = best_.chunk});
  }

  const Service* service_;
  ServicePlan best_;
  double seconds_;
  std::set<Layers> tried_;  // in chunks as those of best_
};

}  // namespace

std::vector<Request> requests_in_chunks(const Request& request) {
  std::vector<Request> all{request};
  if (!chooses_layers(request)) return all;
  all.push_back(request);
  all.back().objective = Objective::throughput;
  if (!request.groups.empty()) return all;
  std::vector<std::string> partitions{"galaxy", "equal"};
  if (!equally_fast(request.cluster))
    partitions.insert(partitions.begin(), by_speed(request.cluster));
  for (std::string& partition : partitions) {
    all.push_back(request);
    all.back().partition = std::move(partition);
    all.back().open_axes.stages = false;
  }
  return all;
}

ServicePlan with_moved_layers(const Request& request, ServicePlan made, const Service& service) {
  if (!chooses_layers(request) || made.plan.streams() || has_rounds(made.plan) || search_ended())
    return made;
  LayerSearch search(std::move(made), service);
  for (int again = 0; again < kReadings && search.move() && !search_ended(); ++again) {
    if (!search.consider(read_again(request, search.best(), service))) break;
  }
  return search.best();
}

std::variant<ServicePlan, Infeasible> make_layered_plan(const Request& request,
                                                        const Service& service, bool roughly) {
  std::vector<std::pair<double, ServicePlan>> found;  // the fastest first
  Infeasible none;
  bool is_first = true;
  const std::vector<Request> all = requests_in_chunks(request);
  for (const Request& one : all) {
    if (!found.empty() && search_ended()) break;
    std::variant<ServicePlan, Infeasible> made = Infeasible{};
    try {
      made = make_service_plan(one, service, roughly || all.size() > 1);
    } catch (const Error&) {
      if (is_first) throw;
      continue;  // some shares are impossible
    }
    is_first = false;
    if (auto* const no = std::get_if<Infeasible>(&made)) {
      if (none.reason.empty()) none = std::move(*no);
      continue;
    }
    auto& plan = std::get<ServicePlan>(made);
    if (chooses_layers(request)) plan.plan.partition = request.partition;
    const auto is_same = [&](const auto& other) {
      return other.second.plan == plan.plan && other.second.chunk == plan.chunk;
    };
    if (std::ranges::any_of(found, is_same)) continue;
    const double seconds = service.seconds(plan.plan, plan.chunk);
    const auto slower = std::ranges::find_if(
        found, [&](const auto& other) { return seconds < other.first * kBetter; });
    found.emplace(slower, seconds, std::move(plan));
  }
  if (found.empty()) return none;
  if (roughly || !service.times->may_win(found.front().first))
    return std::move(found.front().second);
  const auto refined = [&](ServicePlan made) {
    if (all.size() > 1) made = read_again(request, std::move(made), service);
    return with_moved_layers(request, std::move(made), service);
  };
  ServicePlan best = refined(std::move(found.front().second));
  // Layers move to the nearest optimum, which may be worse than that of the second.
  if (found.size() > 1 && service.times->may_win(found[1].first) && !search_ended()) {
    ServicePlan other = refined(std::move(found[1].second));
    if (service.seconds(other.plan, other.chunk) < service.seconds(best.plan, best.chunk) * kBetter)
      best = std::move(other);
  }
  return best;
}

}  // namespace tandem::planner
