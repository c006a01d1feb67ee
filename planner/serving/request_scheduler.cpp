#include "planner/serving/request_scheduler.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "model/base/error.hpp"
#include "model/graph/memory.hpp"
#include "model/graph/storage.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/partition/search_effort.hpp"

namespace tandem::planner {
namespace {

std::int64_t steps_of(const Capacity& capacity) {
  return std::max<std::int64_t>(1, capacity.steps);
}

}  // namespace

void check_capacity(std::span<const InferenceRequest> requests, std::int64_t chunk,
                    const Capacity& capacity) {
  for (const InferenceRequest& request : requests) {
    const Capacity need = least_capacity({&request, 1}, chunk);
    const bool fits = need.rows <= capacity.rows && need.positions <= capacity.positions;
    if (fits && capacity.sequences >= 1) continue;
    const bool chunks_fit = request.new_tokens > 0 && capacity.rows >= 1 &&
                            capacity.sequences >= 1 && need.positions <= capacity.positions;
    const std::string chunks = chunks_fit ? "read prompts in chunks ('--chunk " +
                                                std::to_string(capacity.rows) + "' or less), or "
                                          : "";
    throw Error("request '" + request.id + "': needs steps of " + std::to_string(need.rows) +
                " rows and " + std::to_string(need.positions) +
                " positions in the cache, expected at most " + std::to_string(capacity.rows) +
                " and " + std::to_string(capacity.positions) + ", for which there is memory; " +
                chunks + "plan again for requests of these lengths");
  }
}

RequestScheduler::RequestScheduler(const Policy& policy, ServingOptions options)
    : policy_(&policy),
      options_(std::move(options)),
      cache_(options_.capacity.positions, options_.shares_prefixes) {
  require(serves(policy, options_.chunk), "RequestScheduler: a budget of rows");
}

RequestScheduler::RequestScheduler(std::vector<InferenceRequest> requests, const Policy& policy,
                                   ServingOptions options)
    : RequestScheduler(policy, std::move(options)) {
  for (InferenceRequest& request : requests) join(std::move(request));
}

std::size_t RequestScheduler::join(InferenceRequest request) {
  check_capacity({&request, 1}, options_.chunk, options_.capacity);
  if (!options_.places.fits_alone(request.positions()))
    throw Error("request '" + request.id + "': needs " + std::to_string(request.positions()) +
                " positions in the cache, for which no devices of the plan have memory; plan again "
                "for requests of these lengths");
  require(request.arrival_s >= last_arrival_, "RequestScheduler: requests by arrival");
  last_arrival_ = request.arrival_s;
  arrivals_.push_back(request.arrival_s);
  waiting_.push_back(joined_);
  requests_.try_emplace(requests_.end(), joined_, Joined{.request = std::move(request)});
  return joined_++;
}

void RequestScheduler::leave(std::size_t number) {
  if (!requests_.contains(number)) return;
  const auto first = waiting_.begin() + static_cast<std::ptrdiff_t>(first_waiting_);
  const auto waits = std::lower_bound(first, waiting_.end(), number);
  if (waits != waiting_.end() && *waits == number) {
    arrivals_.erase(arrivals_.begin() + (waits - waiting_.begin()));
    waiting_.erase(waits);
    requests_.erase(number);
    return;
  }
  const std::size_t place = place_of(static_cast<std::int32_t>(number));
  active_[place].left = true;
  if (active_[place].steps == 0) release(place);
}

model::Decision RequestScheduler::next(double now, std::span<const model::StepOutcome> ended) {
  abandon_if_overdue();  // predictions of thousands of steps take longer than a search may
  for (const model::StepOutcome& outcome : ended) learn(outcome);
  if (static_cast<std::int64_t>(flying_.size()) >= steps_of(options_.capacity)) return {};
  const double until = admit(now);
  const std::vector<std::size_t> places = group();
  if (places.empty()) return {.step = {}, .until_s = until};
  model::ScheduledStep step{.not_before_s = now, .batch = batch(places)};
  step.ended = flying_.empty() ? made_ : flying_.front().step;
  flying_.push_back({.step = made_++, .batch = step.batch});
  for (const model::Segment& segment : step.batch.segments) {
    Progress& progress = active_[place_of(segment.sequence)];
    progress.read += segment.rows;
    progress.begun = true;
    ++progress.steps;
    // Rows after the prompt depend on tokens; its next chunk depends on the cache alone, which
    // every device has in the order of steps.
    progress.flies = progress.read >= progress.of->request.prompt_tokens;
    progress.since = waits_++;
  }
  return {.step = std::move(step)};
}

std::size_t RequestScheduler::place_of(std::int32_t sequence) const {
  const auto number = static_cast<std::size_t>(sequence);
  const auto found = std::ranges::lower_bound(active_, number, {}, &Progress::number);
  require(found != active_.end() && found->number == number,
          "RequestScheduler: a request that is under way");
  return static_cast<std::size_t>(found - active_.begin());
}

// Processes a step's outcome; ended requests leave.
void RequestScheduler::learn(const model::StepOutcome& outcome) {
  const auto flying = std::ranges::find(flying_, outcome.step, &Flying::step);
  require(flying != flying_.end(), "RequestScheduler: the outcome of a step in flight");
  const model::Batch batch = std::move(flying->batch);
  flying_.erase(flying);
  std::span<const std::int32_t> tokens = outcome.tokens;
  for (const model::Segment& segment : batch.segments) {
    const std::size_t place = place_of(segment.sequence);
    const auto sampled = static_cast<std::size_t>(segment.sampled);
    require(outcome.tokens.empty() || sampled <= tokens.size(),
            "RequestScheduler: a token for each sampled row");
    const auto own = tokens.first(std::min(tokens.size(), sampled));
    tokens = tokens.subspan(own.size());
    if (advance(active_[place], segment, own)) release(place);
  }
}

bool RequestScheduler::advance(Progress& progress, const model::Segment& segment,
                               std::span<const std::int32_t> tokens) {
  const InferenceRequest& request = progress.of->request;
  --progress.steps;
  // The last of a prompt's chunks in flight.
  const bool last = segment.past + segment.rows == progress.read;
  if (last) {
    progress.flies = false;
    progress.since = waits_++;
  }
  if (progress.left) return progress.steps == 0;
  progress.sampled += segment.sampled;
  bool stopped = false;
  for (const std::int32_t token : tokens) {
    progress.of->tokens.push_back(token);
    stopped = options_.ends && options_.ends(progress.number, token);
  }
  const std::int64_t most = tokens.empty() ? request.new_tokens : request.run_tokens();
  return stopped || (last && progress.read >= request.prompt_tokens && progress.sampled >= most);
}

void RequestScheduler::release(std::size_t place) {
  const Progress& progress = active_[place];
  cache_.end(static_cast<std::int32_t>(progress.number),
             contents(progress.number, *progress.of, progress.read));
  options_.places.release(static_cast<std::int32_t>(progress.number));
  requests_.erase(progress.number);
  active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(place));
}

// Every sequence of a step may be decoding.
std::int64_t RequestScheduler::most_in_a_step() const {
  if (policy_->alone()) return 1;
  const std::int64_t rows = options_.capacity.rows;
  return policy_->budget() ? std::min(rows, options_.chunk) : rows;
}

// How many of the next requests fit beside the active ones.
std::size_t RequestScheduler::room() {
  std::int64_t positions = cache_.reserved();
  auto sequences = static_cast<std::int64_t>(active_.size());
  const std::int64_t most =
      std::min({options_.capacity.sequences, steps_of(options_.capacity) * most_in_a_step(),
                kMostSequences});
  std::size_t count = 0;
  CachePlaces places = options_.places;
  for (std::size_t i = first_waiting_; i < waiting_.size(); ++i, ++count) {
    const Joined& joined = requests_.at(waiting_[i]);
    if (!places.take(static_cast<std::int32_t>(waiting_[i]), joined.request.positions())) break;
    positions += cache_.needs(joined.request.positions(),
                              contents(waiting_[i], joined, joined.request.prompt_tokens));
    if (++sequences > most || positions > options_.capacity.positions) break;
  }
  return count;
}

// Admits requests; returns when more may be admitted, if no active request has to end first.
double RequestScheduler::admit(double now) {
  constexpr std::size_t kMostAdmitted = 4096;  // that are remembered
  if (first_waiting_ == waiting_.size() || first_waiting_ > kMostAdmitted) {
    const auto count = static_cast<std::ptrdiff_t>(std::exchange(first_waiting_, 0));
    arrivals_.erase(arrivals_.begin(), arrivals_.begin() + count);
    waiting_.erase(waiting_.begin(), waiting_.begin() + count);
  }
  if (waiting_.empty()) return kNever;
  const Admission admission =
      policy_->admit({.now = now,
                      .arrivals = std::span(arrivals_).subspan(first_waiting_),
                      .active = active_.size(),
                      .room = room()});
  require(admission.not_before >= now && (admission.count > 0 || !active_.empty()),
          "RequestScheduler: a policy admits at least one request to an idle system");
  if (admission.not_before > now) return admission.not_before;
  for (std::size_t i = 0; i < admission.count; ++i, ++first_waiting_) {
    const std::size_t number = waiting_[first_waiting_];
    Joined& joined = requests_.at(number);
    active_.push_back({.number = number, .of = &joined, .since = waits_++});
    cache_.admit(static_cast<std::int32_t>(number), joined.request.positions(),
                 contents(number, joined, joined.request.prompt_tokens));
    const bool placed =
        options_.places.take(static_cast<std::int32_t>(number), joined.request.positions());
    require(placed, "RequestScheduler: a place for an admitted request");
  }
  // Requests that have arrived and were not admitted wait for others to end.
  const auto next = std::ranges::upper_bound(arrivals_, now);
  return next == arrivals_.end() ? kNever : *next;
}

// Places in active_, ascending, of the sequences of a step that begins now.
std::vector<std::size_t> RequestScheduler::group() const {
  std::vector<std::size_t> idle;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    const Progress& progress = active_[i];
    if (!progress.flies && !progress.left && !waits_for_prefix(progress, {})) idle.push_back(i);
  }
  const auto steps = static_cast<std::size_t>(steps_of(options_.capacity));
  const auto share = [](std::size_t all, std::size_t among) { return (all + among - 1) / among; };
  const std::size_t most = policy_->alone() ? 1 : share(active_.size(), steps);
  const std::size_t count = std::min(share(idle.size(), steps - flying_.size()), most);
  std::ranges::sort(idle, {}, [&](std::size_t i) { return active_[i].since; });
  idle.resize(count);
  std::ranges::sort(idle);
  return idle;
}

// Prompts in order, as far as rows allow: none overtakes another, so a prompt that must be read
// whole is delayed until the steps have room for it.
model::Batch RequestScheduler::batch(std::span<const std::size_t> places) {
  model::Batch batch;
  const auto reading = [&](const Progress& p) { return p.read < p.of->request.prompt_tokens; };
  const std::int64_t decoding =
      std::ranges::count_if(places, [&](std::size_t i) { return !reading(active_[i]); });
  std::int64_t rows = options_.capacity.rows - decoding;
  if (options_.chunk > 0)
    rows = std::min(rows, options_.chunk - (policy_->budget() ? decoding : std::int64_t{0}));
  const auto add = [&](std::size_t place, std::int64_t count, bool sampled) {
    const Progress& p = active_[place];
    batch.segments.push_back({.sequence = static_cast<std::int32_t>(p.number),
                              .past = static_cast<std::int32_t>(p.read),
                              .rows = static_cast<std::int32_t>(count),
                              .sampled = sampled ? 1 : 0});
  };
  for (const std::size_t i : places) {
    if (!reading(active_[i])) continue;
    Progress& progress = active_[i];
    const InferenceRequest& request = progress.of->request;
    if (waits_for_prefix(progress, batch)) continue;
    if (!progress.begun) progress.read = cache_.begin(static_cast<std::int32_t>(progress.number));
    const std::int64_t left = request.prompt_tokens - active_[i].read;
    const std::int64_t count = options_.chunk > 0 ? std::min(left, rows) : left;
    if (count < 1 || count > rows) break;
    rows -= count;
    add(i, count, count == left && request.new_tokens > 0);
  }
  for (const std::size_t i : places) {
    if (!reading(active_[i])) add(i, 1, true);
  }
  require(!batch.segments.empty(), "RequestScheduler: a step without rows");
  batch.cache = cache_.enter(batch.segments);
  options_.places.place(batch);
  return batch;
}

bool RequestScheduler::waits_for_prefix(const Progress& progress, const model::Batch& batch) const {
  if (!options_.shares_prefixes || progress.begun) return false;
  const auto number = static_cast<std::int32_t>(progress.number);
  std::optional<std::int64_t> least;
  const auto brings_a_block = [&](std::int32_t sequence) {
    const std::int64_t common = cache_.common(number, sequence);
    if (common < model::kCacheBlock) return false;
    if (!least) least = cache_.available(number) + model::kCacheBlock;
    return common >= *least;
  };
  return std::ranges::any_of(active_, [&](const Progress& other) {
    const auto sequence = static_cast<std::int32_t>(other.number);
    const bool reads =
        other.begun || std::ranges::find(batch.segments, sequence, &model::Segment::sequence) !=
                           batch.segments.end();
    return reads && !other.left && other.read < other.of->request.prompt_tokens &&
           brings_a_block(sequence);
  });
}

std::vector<std::int32_t> RequestScheduler::contents(std::size_t number, const Joined& joined,
                                                     std::int64_t positions) {
  const InferenceRequest& request = joined.request;
  if (!options_.shares_prefixes || (request.prompt_ids.empty() && request.prefix.empty()))
    return {};
  std::vector<std::int32_t> contents = request.prompt_ids;
  contents.insert(contents.end(), joined.tokens.begin(), joined.tokens.end());
  for (const PrefixPiece& piece : request.prefix) {
    const auto group =
        groups_.try_emplace(piece.group, static_cast<std::int32_t>(groups_.size())).first->second;
    contents.insert(contents.end(), static_cast<std::size_t>(piece.tokens), -2 - 2 * group);
  }
  contents.resize(static_cast<std::size_t>(positions), -1 - 2 * static_cast<std::int32_t>(number));
  return contents;
}

std::vector<std::int32_t> RequestScheduler::row_tokens() const {
  std::vector<std::int32_t> ids;
  require(!flying_.empty(), "RequestScheduler: rows of the step given last");
  for (const model::Segment& segment : flying_.back().batch.segments) {
    const Joined& joined = *active_[place_of(segment.sequence)].of;
    const std::vector<std::int32_t>& prompt = joined.request.prompt_ids;
    for (std::int32_t i = 0; i < segment.rows; ++i) {
      const auto position = static_cast<std::size_t>(segment.past) + static_cast<std::size_t>(i);
      ids.push_back(position < prompt.size() ? prompt[position]
                                             : joined.tokens.at(position - prompt.size()));
    }
  }
  return ids;
}

}  // namespace tandem::planner
