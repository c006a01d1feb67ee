#include "model/report/communication.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace tandem::model {
namespace {

struct SentInterval {
  double begin = 0.0;
  double end = 0.0;
};

// The same times as intervals apart from each other, ascending.
std::vector<SentInterval> merged(std::vector<SentInterval> intervals) {
  std::ranges::sort(intervals, {}, &SentInterval::begin);
  std::vector<SentInterval> apart;
  for (const SentInterval& one : intervals) {
    if (!apart.empty() && one.begin <= apart.back().end) {
      apart.back().end = std::max(apart.back().end, one.end);
    } else {
      apart.push_back(one);
    }
  }
  return apart;
}

double length(const std::vector<SentInterval>& apart) {
  double sum = 0.0;
  for (const SentInterval& one : apart) sum += one.end - one.begin;
  return sum;
}

// Of what both cover.
double shared_length(const std::vector<SentInterval>& a, const std::vector<SentInterval>& b) {
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
  std::vector<std::vector<SentInterval>> messages(trace.devices.size());
  std::vector<std::vector<SentInterval>> computing(trace.devices.size());
  for (const Span& span : trace.spans) {
    const SentInterval interval{span.start, span.end};
    const auto device = static_cast<std::size_t>(span.device);
    if (span.lane == LaneKind::cpu) computing[device].push_back(interval);
    if (span.lane != LaneKind::channel || !steps.contains(span.step)) continue;
    messages[device].push_back(interval);
    messages[static_cast<std::size_t>(span.peer)].push_back(interval);
  }
  Communication sums;
  for (std::size_t d = 0; d < trace.devices.size(); ++d) {
    const std::vector<SentInterval> ways = merged(std::move(messages[d]));
    sums.total_s += length(ways);
    sums.hidden_s += shared_length(ways, merged(std::move(computing[d])));
  }
  if (sums.total_s <= 0.0) return std::nullopt;
  return sums;
}

}  // namespace tandem::model
