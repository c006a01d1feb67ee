#include "planner/serving/request_scheduler.hpp"

#include <algorithm>
#include <utility>

#include "model/error.hpp"
#include "model/memory.hpp"

namespace tandem::planner {
namespace {

std::int64_t reservation(const InferenceRequest& request) {
  return reserved_positions(request.positions());
}

}  // namespace

RequestScheduler::RequestScheduler(std::vector<InferenceRequest> requests, const Policy& policy,
                                   ServingOptions options)
    : requests_(std::move(requests)),
      policy_(&policy),
      options_(std::move(options)),
      tokens_(requests_.size()) {
  for (const InferenceRequest& request : requests_) {
    const Capacity need = least_capacity({&request, 1}, options_.chunk);
    const Capacity& have = options_.capacity;
    if (need.rows > have.rows || need.positions > have.positions || have.sequences < 1) {
      throw Error("request '" + request.id + "': needs steps of " + std::to_string(need.rows) +
                  " rows and " + std::to_string(need.positions) +
                  " positions in the cache, expected at most " + std::to_string(have.rows) +
                  " and " + std::to_string(have.positions) +
                  ", for which there is memory; plan for it with `tandem plan --workload`");
    }
    arrivals_.push_back(request.arrival_s);
  }
  require(std::ranges::is_sorted(arrivals_), "RequestScheduler: requests by arrival");
}

std::optional<model::ScheduledStep> RequestScheduler::next(double now,
                                                           std::span<const std::int32_t> tokens) {
  learn(tokens);
  const double not_before = admit(now);
  if (active_.empty()) return std::nullopt;
  batch_ = batch();
  return model::ScheduledStep{.not_before_s = not_before, .batch = batch_};
}

// What the step before has done; requests that have ended leave.
void RequestScheduler::learn(std::span<const std::int32_t> tokens) {
  std::size_t row = 0;  // of those sampled
  std::vector<bool> ended(active_.size());
  for (std::size_t s = 0; s < of_segment_.size(); ++s) {
    const model::Segment& segment = batch_.segments[s];
    Progress& progress = active_[of_segment_[s]];
    const InferenceRequest& request = requests_[progress.request];
    progress.read += segment.rows;
    bool stopped = false;
    for (std::int32_t i = 0; i < segment.sampled; ++i, ++row) {
      ++progress.sampled;
      if (tokens.empty()) continue;
      require(row < tokens.size(), "RequestScheduler: a token for each sampled row");
      tokens_[progress.request].push_back(tokens[row]);
      stopped = options_.ends && options_.ends(progress.request, tokens[row]);
    }
    const bool done =
        progress.read >= request.prompt_tokens && progress.sampled >= request.new_tokens;
    ended[of_segment_[s]] = done || stopped;
  }
  of_segment_.clear();
  for (std::size_t i = active_.size(); i-- > 0;) {
    if (!ended[i]) continue;
    reserved_ -= reservation(requests_[active_[i].request]);
    freed_.push_back({.kind = model::CacheOpKind::free,
                      .sequence = static_cast<std::int32_t>(active_[i].request)});
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// How many of the next requests fit besides those under way.
std::size_t RequestScheduler::room() const {
  std::int64_t positions = reserved_;
  auto sequences = static_cast<std::int64_t>(active_.size());
  const std::int64_t most =
      std::min({options_.capacity.sequences, options_.capacity.rows, kMostSequences});
  std::size_t count = 0;
  for (std::size_t r = admitted_; r < requests_.size(); ++r, ++count) {
    positions += reservation(requests_[r]);
    if (++sequences > most || positions > options_.capacity.positions) break;
  }
  return count;
}

// When the step may begin.
double RequestScheduler::admit(double now) {
  if (admitted_ == requests_.size()) return now;
  const Admission admission = policy_->admit({.now = now,
                                              .arrivals = std::span(arrivals_).subspan(admitted_),
                                              .active = active_.size(),
                                              .room = room()});
  require(admission.not_before >= now && (admission.count > 0 || !active_.empty()),
          "RequestScheduler: a policy admits at least one request to an idle system");
  for (std::size_t i = 0; i < admission.count; ++i, ++admitted_) {
    active_.push_back({.request = admitted_});
    reserved_ += reservation(requests_[admitted_]);
  }
  return admission.not_before;
}

// Prompts in order, as far as rows allow: none overtakes another, so a prompt that must be read
// whole comes when the steps have room for it.
model::Batch RequestScheduler::batch() {
  model::Batch batch{.segments = {}, .cache = std::exchange(freed_, {})};
  const auto reading = [&](const Progress& p) {
    return p.read < requests_[p.request].prompt_tokens;
  };
  const std::int64_t decoding =
      std::ranges::count_if(active_, [&](const Progress& p) { return !reading(p); });
  std::int64_t rows = options_.capacity.rows - decoding;
  if (options_.chunk > 0) rows = std::min(rows, options_.chunk);
  const auto add = [&](std::size_t place, std::int64_t count, bool sampled) {
    const Progress& p = active_[place];
    batch.segments.push_back({.sequence = static_cast<std::int32_t>(p.request),
                              .past = static_cast<std::int32_t>(p.read),
                              .rows = static_cast<std::int32_t>(count),
                              .sampled = sampled ? 1 : 0});
    of_segment_.push_back(place);
  };
  for (std::size_t i = 0; i < active_.size(); ++i) {
    if (!reading(active_[i])) continue;
    const InferenceRequest& request = requests_[active_[i].request];
    const std::int64_t left = request.prompt_tokens - active_[i].read;
    const std::int64_t count = options_.chunk > 0 ? std::min(left, rows) : left;
    if (count < 1 || count > rows) break;
    rows -= count;
    add(i, count, count == left && request.new_tokens > 0);
  }
  for (std::size_t i = 0; i < active_.size(); ++i) {
    if (!reading(active_[i])) add(i, 1, true);
  }
  require(!batch.segments.empty(), "RequestScheduler: a step without rows");
  return batch;
}

std::vector<std::int32_t> RequestScheduler::row_tokens() const {
  std::vector<std::int32_t> ids;
  for (const model::Segment& segment : batch_.segments) {
    const auto r = static_cast<std::size_t>(segment.sequence);
    const std::vector<std::int32_t>& prompt = requests_[r].prompt_ids;
    for (std::int32_t i = 0; i < segment.rows; ++i) {
      const auto position = static_cast<std::size_t>(segment.past) + static_cast<std::size_t>(i);
      ids.push_back(position < prompt.size() ? prompt[position]
                                             : tokens_[r].at(position - prompt.size()));
    }
  }
  return ids;
}

}  // namespace tandem::planner
