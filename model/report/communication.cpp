#include "model/report/communication.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace tandem::model {
namespace {

struct Interval {
  double begin = 0.0;
  double end = 0.0;
};

// The same times as intervals apart from each other, ascending.
std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, &Interval::begin);
  std::vector<Interval> apart;
  for (const Interval& one : intervals) {
    if (!apart.empty() && one.begin <= apart.back().end) {
      apart.back().end = std::max(apart.back().end, one.end);
    } else {
      apart.push_back(one);
    }
  }
  return apart;
}

double length(const std::vector<Interval>& apart) {
  double sum = 0.0;
  for (const Interval& one : apart) sum += one.end - one.begin;
  return sum;
}

// Of what both cover.
double shared_length(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  double sum = 0.0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const double begin = std::max(a[i].begin, b[j].begin);
    const double end = std::min(a[i].end, b[j].end);
    sum += std::max(0.0, end - begin);
    if (a[i].end < b[j].end) {
      ++i;
    } else {
      ++j;
    }
  }
  return sum;
}

}  // namespace

std::optional<Communication> communication_of(const Trace& trace) {
  return communication_of(trace, {0, std::numeric_limits<std::int32_t>::max()});
}

std::optional<Communication> communication_of(const Trace& trace, Range steps) {
  std::vector<std::vector<Interval>> messages(trace.devices.size());
  std::vector<std::vector<Interval>> computing(trace.devices.size());
  for (const Span& span : trace.spans) {
    const Interval interval{span.start, span.end};
    const auto device = static_cast<std::size_t>(span.device);
    if (span.lane == LaneKind::cpu) computing[device].push_back(interval);
    if (span.lane != LaneKind::channel || !steps.contains(span.step)) continue;
    messages[device].push_back(interval);
    messages[static_cast<std::size_t>(span.peer)].push_back(interval);
  }
  Communication sums;
  for (std::size_t d = 0; d < trace.devices.size(); ++d) {
    const std::vector<Interval> ways = merged(std::move(messages[d]));
    sums.total_s += length(ways);
    sums.hidden_s += shared_length(ways, merged(std::move(computing[d])));
  }
  if (sums.total_s <= 0.0) return std::nullopt;
  return sums;
}

}  // namespace tandem::model
