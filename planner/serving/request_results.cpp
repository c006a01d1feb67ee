#include "planner/serving/request_results.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/limits.hpp"
#include "model/graph/block_table.hpp"
#include "model/graph/storage.hpp"

namespace tandem::planner {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

struct Times {  // of one request
  double begin = kUnknown;
  double end = kUnknown;
  std::int64_t cached = 0;  // positions before its first rows
  std::vector<double> samples;
  [[nodiscard]] std::vector<double> gaps() const {
    std::vector<double> gaps;
    for (std::size_t i = 1; i < samples.size(); ++i) gaps.push_back(samples[i] - samples[i - 1]);
    return gaps;
  }
};

std::vector<Times> times_of(std::size_t requests, std::span<const model::ServedStep> steps) {
  std::vector<Times> times(requests);
  for (const model::ServedStep& step : steps) {
    std::size_t row = 0;
    for (const model::Segment& segment : step.step.batch.segments) {
      const auto r = static_cast<std::size_t>(segment.sequence);
      require(r < requests, "request_results: a sequence that is no request");
      Times& own = times[r];
      if (std::isnan(own.begin)) {
        own.begin = step.step.not_before_s;
        own.cached = segment.past;
      }
      own.end = step.end_s;
      for (std::int32_t i = 0; i < segment.sampled && row < step.sampled_s.size(); ++i)
        own.samples.push_back(step.sampled_s[row++]);
    }
  }
  return times;
}

}  // namespace

std::vector<model::RequestResult> request_results(std::span<const InferenceRequest> requests,
                                                  std::span<const model::ServedStep> steps) {
  const std::vector<Times> times = times_of(requests.size(), steps);
  std::vector<model::RequestResult> results;
  for (std::size_t r = 0; r < requests.size(); ++r) {
    const InferenceRequest& request = requests[r];
    const Times& own = times[r];
    const double first = own.samples.empty() ? own.end : own.samples.front();
    std::vector<double> times;
    times.reserve(own.samples.size());
    for (const double sample : own.samples) times.push_back(sample - request.arrival_s);
    results.push_back({.id = request.id,
                       .arrival_s = request.arrival_s,
                       .queueing_s = std::max(0.0, own.begin - request.arrival_s),
                       .ttft_s = first - request.arrival_s,
                       .end_s = own.samples.empty() ? own.end : own.samples.back(),
                       .token_latency = model::latency_stats(own.gaps()),
                       .token_times_s = std::move(times),
                       .cached_tokens = own.cached,
                       .tokens = {}});
  }
  return results;
}

namespace {

constexpr const char* kAgain = "; write the result again with `tandem run`";

// Checks that requests are as in a run: in the order of arrival, each with a unique name.
void check_order(std::span<const InferenceRequest> requests, const std::string& source) {
  std::set<std::string_view> ids;
  for (std::size_t r = 0; r < requests.size(); ++r) {
    const std::string field = source + ": field 'requests[" + std::to_string(r) + "].";
    if (!ids.insert(requests[r].id).second) {
      throw Error(field + "id' is \"" + requests[r].id +
                  "\", expected one that no request before has" + kAgain);
    }
    if (r > 0 && requests[r].arrival_s < requests[r - 1].arrival_s) {
      throw Error(field + "arrival_s' is " + std::to_string(requests[r].arrival_s) +
                  ", expected at least " + std::to_string(requests[r - 1].arrival_s) +
                  ", that of the request before" + kAgain);
    }
  }
}

// Submitted after the step before it, and no earlier than those arrive whose first rows it has.
void check_submission(std::span<const model::ScheduledStep> schedule, std::size_t s,
                      std::span<const InferenceRequest> requests, const std::string& source) {
  double least = s > 0 ? schedule[s - 1].not_before_s : 0.0;
  for (const model::Segment& segment : schedule[s].batch.segments) {
    const auto r = static_cast<std::size_t>(segment.sequence);
    if (r < requests.size()) least = std::max(least, requests[r].arrival_s);
  }
  const double time = schedule[s].not_before_s;
  if (time >= least && time <= model::limits::kMostTime) return;
  throw Error(
      source + ": field 'schedule[" + std::to_string(s) + "].not_before_s' is " +
      std::to_string(time) + ", expected " + std::to_string(least) +
      " or more, as the step before it and the requests that begin in it have, and at most " +
      std::to_string(model::limits::kMostTime) + kAgain);
}

// Checks for a token for each sampled row: the first once the prompt has been read, then one for
// every row.
void check_samples(std::span<const model::ScheduledStep> schedule,
                   std::span<const InferenceRequest> requests, const std::string& source) {
  std::vector<std::int64_t> sampled(requests.size());
  for (std::size_t s = 0; s < schedule.size(); ++s) {
    for (const model::Segment& segment : schedule[s].batch.segments) {
      const auto r = static_cast<std::size_t>(segment.sequence);
      const bool one = segment.rows == 1 && segment.sampled == 1;
      if (segment.sampled > 1 || (sampled[r] > 0 && !one)) {
        throw Error(source + ": field 'schedule[" + std::to_string(s) + "]' has " +
                    std::to_string(segment.rows) + " rows of sequence " +
                    std::to_string(segment.sequence) + ", " + std::to_string(segment.sampled) +
                    " of them sampled, expected one row and one sample after its first token" +
                    kAgain);
      }
      sampled[r] += segment.sampled;
    }
  }
  for (std::size_t r = 0; r < requests.size(); ++r) {
    if (sampled[r] == requests[r].new_tokens) continue;
    throw Error(source + ": field 'schedule' samples " + std::to_string(sampled[r]) +
                " rows of request '" + requests[r].id + "', expected one for each of its " +
                std::to_string(requests[r].new_tokens) + " tokens" + kAgain);
  }
}

// Executes the cache operations of step `s` on the lengths of all sequences.
void execute_recorded(const model::ScheduledStep& step, std::size_t s,
                      std::vector<std::int64_t>& lengths, const std::string& source) {
  const auto known = [&](std::int32_t sequence) {
    return static_cast<std::size_t>(sequence) < lengths.size();
  };
  for (const model::CacheOp& op : step.batch.cache) {
    const bool forks = op.kind == model::CacheOpKind::fork;
    const bool good =
        known(op.sequence) &&
        (!forks || (known(op.from) && lengths[static_cast<std::size_t>(op.sequence)] == 0 &&
                    op.positions <= lengths[static_cast<std::size_t>(op.from)]));
    if (!good || (!forks && op.kind != model::CacheOpKind::free)) {
      throw Error(source + ": field 'schedule[" + std::to_string(s) +
                  "].cache' has an operation on sequence " + std::to_string(op.sequence) +
                  ", expected a known one that is freed, or an empty one that begins with " +
                  "positions that another one has" + kAgain);
    }
    lengths[static_cast<std::size_t>(op.sequence)] = op.positions;
  }
}

// A file of a schedule without shared prefixes does not record when caches were freed: by the first
// step submitted after the end of the last one with rows of the sequence, as in RequestScheduler.
void free_ended(std::vector<model::ScheduledStep>& schedule, std::size_t requests) {
  std::vector<std::int32_t> last(requests);
  for (std::size_t s = 0; s < schedule.size(); ++s) {
    for (const model::Segment& segment : schedule[s].batch.segments)
      last[static_cast<std::size_t>(segment.sequence)] = static_cast<std::int32_t>(s);
  }
  std::int32_t known = 0;  // steps whose outcomes have been looked at
  for (model::ScheduledStep& step : schedule) {
    step.batch.cache.clear();
    for (; known < step.ended; ++known) {
      for (const model::Segment& segment :
           schedule[static_cast<std::size_t>(known)].batch.segments) {
        if (last[static_cast<std::size_t>(segment.sequence)] == known)
          step.batch.cache.push_back(
              {.kind = model::CacheOpKind::free, .sequence = segment.sequence});
      }
    }
  }
}

}  // namespace

std::vector<model::ScheduledStep> replayed_steps(std::vector<model::ScheduledStep> schedule,
                                                 std::span<const InferenceRequest> requests,
                                                 const model::Transformer& model,
                                                 const std::string& source) {
  check_order(requests, source);
  for (std::size_t s = 0; s < schedule.size(); ++s) check_submission(schedule, s, requests, source);
  const bool shares = model::shares_prefixes(schedule);
  std::vector<std::int64_t> read(requests.size());
  std::vector<bool> begun(requests.size());
  std::vector<std::int32_t> after(
      requests.size());  // steps, of which a request's last sample is one
  std::int32_t ended = 0;
  for (std::size_t s = 0; s < schedule.size(); ++s) {
    if (schedule[s].ended < ended || schedule[s].ended > static_cast<std::int32_t>(s)) {
      throw Error(source + ": field 'schedule[" + std::to_string(s) + "].ended' is " +
                  std::to_string(schedule[s].ended) + ", expected " + std::to_string(ended) +
                  " to " + std::to_string(s) +
                  " of the steps before; write the result again with `tandem run`");
    }
    ended = schedule[s].ended;
    // A time equal to an arrival is one that the policy waited for, even if that request's prompt
    // is read in a later step.
    double& not_before = schedule[s].not_before_s;
    if (!std::ranges::binary_search(requests, not_before, {}, &InferenceRequest::arrival_s))
      not_before = 0.0;
    if (shares) execute_recorded(schedule[s], s, read, source);
    std::vector<bool> seen(requests.size());
    for (const model::Segment& segment : schedule[s].batch.segments) {
      const auto r = static_cast<std::size_t>(segment.sequence);
      const bool known = r < requests.size() && !seen[r];
      if (!known || segment.past != read[r] || read[r] + segment.rows > model.max_context) {
        throw Error(source + ": field 'schedule[" + std::to_string(s) + "]' has " +
                    std::to_string(segment.rows) + " rows of sequence " +
                    std::to_string(segment.sequence) + " after " + std::to_string(segment.past) +
                    " positions, expected each request once, " +
                    (known ? "after its " + std::to_string(read[r]) + " positions"
                           : "of " + std::to_string(requests.size())) +
                    ", within the model's context; write the result again with `tandem run`");
      }
      if (ended < after[r]) {
        throw Error(source + ": field 'schedule[" + std::to_string(s) + "].ended' is " +
                    std::to_string(ended) + ", but step " + std::to_string(after[r] - 1) +
                    " has rows of sequence " + std::to_string(segment.sequence) +
                    ", too, expected that to have ended; write the result again with `tandem run`");
      }
      // The next chunk of a prompt does not wait for the one before.
      if (segment.sampled > 0) after[r] = static_cast<std::int32_t>(s) + 1;
      seen[r] = true;
      if (!begun[r]) not_before = std::max(not_before, requests[r].arrival_s);
      begun[r] = true;
      read[r] += segment.rows;
    }
  }
  for (std::size_t r = 0; r < requests.size(); ++r) {
    if (!begun[r])
      throw Error(source + ": field 'schedule' has no rows of request '" + requests[r].id +
                  "', expected steps for each request; write the result again with `tandem run`");
  }
  check_samples(schedule, requests, source);
  if (!shares) free_ended(schedule, requests.size());
  return schedule;
}

namespace {

// Follows the positions that sequences have in the cache, in whole blocks, through a schedule.
class CachedPositions {
 public:
  explicit CachedPositions(std::span<const model::ScheduledStep> schedule)
      : shares_(model::shares_prefixes(schedule)) {
    for (std::size_t s = 0; s < schedule.size(); ++s) {
      for (const model::Segment& segment : schedule[s].batch.segments)
        sequences_[segment.sequence].last = static_cast<std::int32_t>(s);
    }
  }
  // Returns those of the next step.
  std::int64_t next(const model::ScheduledStep& step) {
    if (shares_) return next_shared(step);
    for (const model::Segment& segment : step.batch.segments)
      sequences_.at(segment.sequence).read = std::int64_t{segment.past} + segment.rows;
    // Whose last step was known to have ended was freed before this one.
    std::int64_t positions = 0;
    for (const auto& [number, sequence] : sequences_) {
      if (sequence.last >= step.ended) positions += reserved_positions(sequence.read);
    }
    return positions;
  }

 private:
  std::int64_t next_shared(const model::ScheduledStep& step) {
    for (const model::CacheOp& op : step.batch.cache) table_.apply(op);
    for (const model::Segment& segment : step.batch.segments) {
      const model::Range rows{segment.past, segment.past + segment.rows};
      table_.grow(
          std::max<std::int64_t>(0, table_.needs(segment.sequence, rows) - table_.free_blocks()));
      static_cast<void>(table_.append(segment.sequence, rows));
    }
    return (table_.size() - table_.free_blocks()) * model::kCacheBlock;
  }

  struct Sequence {
    std::int64_t read = 0;  // positions in the cache
    std::int32_t last = 0;  // step with rows of it
  };
  bool shares_;
  std::map<std::int32_t, Sequence> sequences_;
  model::BlockTable table_{0};
};

}  // namespace

void check_schedule(std::span<const model::ScheduledStep> schedule, const Capacity& capacity,
                    const std::string& source) {
  CachedPositions cached(schedule);
  for (std::size_t s = 0; s < schedule.size(); ++s) {
    const model::ScheduledStep& step = schedule[s];
    const auto within = [&](const char* what, std::int64_t have, std::int64_t most) {
      if (have <= most) return;
      throw Error(source + ": field 'schedule[" + std::to_string(s) + "]' has " +
                  std::to_string(have) + " " + what + ", expected at most " + std::to_string(most) +
                  ", for which the plan reserves memory; give the result of a run of this plan");
    };
    within("rows", step.batch.rows(), capacity.rows);
    within("sequences", std::ssize(step.batch.segments), capacity.sequences);
    within("positions in the cache", cached.next(step), reserved_positions(capacity.positions));
    within("steps in flight", static_cast<std::int64_t>(s) + 1 - step.ended,
           std::max<std::int64_t>(1, capacity.steps));
  }
}

std::vector<InferenceRequest> requests_of(const model::Result& result) {
  std::vector<InferenceRequest> requests;
  for (const model::RequestResult& request : result.requests)
    requests.push_back({.id = request.id,
                        .arrival_s = request.arrival_s,
                        .new_tokens = static_cast<std::int64_t>(request.tokens.size())});
  return requests;
}

void fill_requests(std::span<const InferenceRequest> requests,
                   std::span<const model::ServedStep> steps, model::Result& result) {
  const std::vector<Times> times = times_of(requests.size(), steps);
  result.requests = request_results(requests, steps);
  result.schedule.clear();
  for (const model::ServedStep& step : steps) result.schedule.push_back(step.step);
  const std::optional<double> ready = result.metrics.ready_s;
  result.metrics = {};
  result.metrics.ready_s = ready;
  if (requests.size() == 1) {
    result.metrics.ttft_s = result.requests.front().ttft_s;
    result.metrics.token_times_s = result.requests.front().token_times_s;
  } else {
    std::vector<double> gaps;
    for (const Times& own : times) {
      const std::vector<double> more = own.gaps();
      gaps.insert(gaps.end(), more.begin(), more.end());
    }
    result.metrics.ttft_s = kUnknown;
    result.metrics.token_latency = model::latency_stats(gaps);
  }
  std::size_t tokens = 0;
  double first = std::numeric_limits<double>::infinity();
  double last = 0.0;
  for (std::size_t r = 0; r < requests.size(); ++r) {
    tokens += times[r].samples.size();
    first = std::min(first, requests[r].arrival_s);
    last = std::max(last, result.requests[r].end_s);
  }
  if (tokens > 0 && last > first)
    result.metrics.throughput_tokens_per_s = static_cast<double>(tokens) / (last - first);
}

}  // namespace tandem::planner
