#include "advice/device_moves.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "planner/partition/galaxy_partition.hpp"
#include "planner/serving/serving_plan.hpp"

namespace tandem::study {
namespace {

using model::DeviceIndex;
using planner::Plan;
using planner::Request;

// On larger clusters only so many of the slowest devices may be removed, and of the fastest be
// master.
constexpr std::size_t kMostMoved = 16;
constexpr std::size_t kMostSwapped = 8;  // of more, none is exchanged for another

}  // namespace

std::vector<double> device_rates(const Question& question) {
  const Request& request = question.request;
  const Plan outline{.strategy = "tensor",
                     .partition = {},
                     .allreduce = {},
                     .model = request.model,
                     .cluster = request.cluster,
                     .workload = question.served
                                     ? planner::typical_workload(question.served->requests)
                                     : request.workload,
                     .devices = {},
                     .profiles = profiles_of(request)};
  return planner::capacities(outline);
}

DeviceMoves::DeviceMoves(const Question& question, std::vector<DeviceIndex> first_equal)
    : question_(&question), first_equal_(std::move(first_equal)) {
  const Request& request = question.request;
  first_master_ = request.master.empty() ? 0 : request.cluster.find(request.master);
  // A named master is not exchanged for another device.
  if (!request.master.empty()) {
    const auto master = static_cast<std::size_t>(first_master_);
    const DeviceIndex first = first_equal_[master];
    DeviceIndex next = -1;  // leads the class in place of the master
    for (DeviceIndex d = 0; d < request.cluster.size(); ++d) {
      DeviceIndex& of = first_equal_[static_cast<std::size_t>(d)];
      if (of != first || d == first_master_) continue;
      if (next < 0) next = d;
      of = next;
    }
    first_equal_[master] = first_master_;
  }
  slowest_first_.resize(request.cluster.devices().size());
  std::iota(slowest_first_.begin(), slowest_first_.end(), DeviceIndex{0});
  const std::vector<double> rates = device_rates(question);
  std::ranges::stable_sort(slowest_first_, [&](DeviceIndex a, DeviceIndex b) {
    return rates[static_cast<std::size_t>(a)] < rates[static_cast<std::size_t>(b)];
  });
  // Of equally fast devices those near the master send their messages the soonest.
  std::vector<double> latencies(rates.size());
  for (const DeviceIndex d : slowest_first_) {
    if (d == first_master_) continue;
    latencies[static_cast<std::size_t>(d)] =
        request.cluster.route(d, first_master_).latency.value();
  }
  nearest_last_ = slowest_first_;
  std::ranges::stable_sort(nearest_last_, [&](DeviceIndex a, DeviceIndex b) {
    const auto i = static_cast<std::size_t>(a);
    const auto j = static_cast<std::size_t>(b);
    return std::tuple(rates[i], -latencies[i]) < std::tuple(rates[j], -latencies[j]);
  });
}

Setting DeviceMoves::representative(Setting of) const {
  std::vector<std::size_t> used(of.used.size());  // of each class, by its first device
  for (std::size_t d = 0; d < of.used.size(); ++d) {
    if (of.used[d]) ++used[static_cast<std::size_t>(first_equal_[d])];
  }
  of.master = first_equal_[static_cast<std::size_t>(of.master)];
  for (std::size_t d = 0; d < of.used.size(); ++d) {
    std::size_t& left = used[static_cast<std::size_t>(first_equal_[d])];
    of.used[d] = left > 0;
    if (left > 0) --left;
  }
  return of;
}

std::vector<Setting> DeviceMoves::representatives(const std::vector<Setting>& all,
                                                  const Setting& without) const {
  std::vector<Setting> kept;
  std::set<decltype(without.key())> known{representative(without).key()};
  for (const Setting& one : all) {
    Setting setting = representative(one);
    if (known.insert(setting.key()).second) kept.push_back(std::move(setting));
  }
  return kept;
}

std::vector<DeviceIndex> DeviceMoves::masters() const {
  if (!question_->request.master.empty()) return {first_master_};
  std::vector<DeviceIndex> fastest(slowest_first_.rbegin(), slowest_first_.rend());
  fastest.resize(std::min(fastest.size(), kMostMoved));
  if (std::ranges::find(fastest, first_master_) == fastest.end()) fastest.push_back(first_master_);
  return fastest;
}

std::vector<Setting> DeviceMoves::neighbours(const Setting& of) const {
  std::vector<Setting> all;
  const auto add = [&](DeviceIndex d, bool used) {
    const auto at = static_cast<std::size_t>(d);
    if (of.strategy->sharding.is_local() || d == of.master || of.used[at] == used) return;
    if (!used && of.size() <= 2) return;  // that is local's
    all.push_back(of);
    all.back().used[at] = used;
  };
  const std::size_t moved = std::min(slowest_first_.size(), kMostMoved);
  for (std::size_t i = 0; i < moved; ++i) add(slowest_first_[i], false);
  for (std::size_t i = 0; i < moved; ++i) add(slowest_first_[slowest_first_.size() - 1 - i], true);
  // One for another.
  for (const DeviceIndex gone : slowest_first_) {
    const auto out = static_cast<std::size_t>(gone);
    if (slowest_first_.size() > kMostSwapped || !of.used[out] || gone == of.master) continue;
    for (const DeviceIndex next : slowest_first_) {
      const auto in = static_cast<std::size_t>(next);
      if (of.used[in]) continue;
      all.push_back(of);
      all.back().used[out] = false;
      all.back().used[in] = true;
    }
  }
  for (const DeviceIndex master : masters()) {
    if (master == of.master) continue;
    all.push_back(of);
    if (of.strategy->sharding.is_local())
      all.back().used[static_cast<std::size_t>(of.master)] = false;
    all.back().master = master;
    all.back().used[static_cast<std::size_t>(master)] = true;
  }
  return representatives(all, of);
}

std::vector<Setting> DeviceMoves::best_few(const Setting& like,
                                           const std::vector<DeviceIndex>& best_last) const {
  std::vector<Setting> all;
  if (like.strategy->sharding.is_local()) return all;
  Setting few = like;
  few.used.assign(few.used.size(), false);
  few.used[static_cast<std::size_t>(few.master)] = true;
  for (std::size_t i = best_last.size(); i-- > 0;) {
    if (best_last[i] == few.master) continue;
    few.used[static_cast<std::size_t>(best_last[i])] = true;
    const auto size = static_cast<std::size_t>(few.size());
    if (size <= kMostMoved || std::has_single_bit(size)) all.push_back(representative(few));
  }
  return all;
}

std::vector<DeviceIndex> DeviceMoves::least_memory_first() const {
  std::vector<DeviceIndex> order = slowest_first_;
  std::ranges::stable_sort(order, {}, [&](DeviceIndex d) {
    return question_->request.cluster.devices()[static_cast<std::size_t>(d)].memory.value();
  });
  return order;
}

}  // namespace tandem::study
