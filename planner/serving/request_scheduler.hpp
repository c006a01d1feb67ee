#pragma once

// Serves requests in steps: a policy admits them, their prompts are read whole or in chunks, and
// every active sequence gets its next token in every step.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/graph/scheduler.hpp"
#include "planner/plan/inference_request.hpp"
#include "planner/serving/cache_places.hpp"
#include "planner/serving/policy/policy.hpp"
#include "planner/serving/request_capacity.hpp"
#include "planner/serving/sequence_cache.hpp"

namespace tandem::planner {

struct ServingOptions {
  // Upper limit of a step's rows of prompts, or of all its rows under a policy with a budget; 0:
  // prompts are read whole.
  std::int64_t chunk = 0;
  Capacity capacity{};  // limit of every step, and of all steps in flight together
  // Returns whether `token` ends the request of that number before its last token is due. Null: no
  // token does.
  std::function<bool(std::size_t request, std::int32_t token)> ends{};
  // Whether requests share the caches of common prefixes, over time, too (prefix_sharing.hpp).
  bool shares_prefixes = false;
  // Devices of the sequences' caches, where requests are admitted as each has room.
  CachePlaces places{};
};

// Throws Error for the first of `requests` that alone exceeds `capacity`, with prompts in chunks of
// `chunk` rows (0: whole).
void check_capacity(std::span<const InferenceRequest> requests, std::int64_t chunk,
                    const Capacity& capacity);

// Makes steps of requests, which join and leave at any time. A step has the rows of prompts first,
// in the order of admission, then one row for each sequence whose prompt has been read. Requests
// are numbered from 0 as they join, and sequences by request.
//
// As many steps are in flight as the capacity allows and as there are sequences or chunks of
// prompts for. A sequence is in at most one of them, except that chunks of a prompt may follow each
// other without waiting: each device executes them in the order of steps. Sequences that may
// continue are shared evenly among the steps that may begin, those that have waited longest first;
// no step gets more than an even share of all. Example: with 4 sequences and 2 steps in flight,
// steps of sequences {0, 1} and {2, 3} alternate. Under a policy that gives each sequence steps of
// its own, no more sequences are active than steps may be in flight.
//
// With shared prefixes a request begins with the cache of the longest prefix of its prompt that is
// there, of an active or an ended request, and reads the rest, at least one token. A prompt that
// begins as one does that is being read waits until that much of the other has been read, unless
// that brings less than a block.
//
// A request ends after new_tokens in a prediction, whose outcomes have no tokens; in a run at a
// token that ends it, or after run_tokens(). Admission reserves memory up to its limit().
class RequestScheduler : public model::Scheduler {
 public:
  // Throws logic_error for a policy with a budget without a chunk. `policy` outlives this.
  RequestScheduler(const Policy& policy, ServingOptions options);
  // The same, after all of `requests` have joined: a trace, sorted by arrival.
  RequestScheduler(std::vector<InferenceRequest> requests, const Policy& policy,
                   ServingOptions options);

  // Adds a request with a counted prompt and returns its number. It is not served before its
  // arrival_s; a policy that waits for requests waits for those that have joined, so a trace joins
  // before it arrives, and a live request as it arrives. Throws Error as check_capacity does;
  // logic_error for an arrival before that of the last request.
  std::size_t join(InferenceRequest request);
  // Removes a request: no further step has rows of it, and its cache is freed once the steps in
  // flight that have some are over. No effect if it has ended.
  void leave(std::size_t number);
  // Returns whether any request waits or is active.
  [[nodiscard]] bool has_requests() const { return !requests_.empty(); }

  model::Decision next(double now, std::span<const model::StepOutcome> ended) override;

  // Returns the token ids of the last step of next(), by row; prompts must have ids.
  [[nodiscard]] std::vector<std::int32_t> row_tokens() const;

 private:
  struct Joined {  // waiting or active
    InferenceRequest request{};
    std::vector<std::int32_t> tokens{};  // so far, in a run
  };
  struct Progress {  // of an active request
    std::size_t number = 0;
    Joined* of = nullptr;
    std::int64_t read = 0;  // positions in the cache, with those of steps in flight
    std::int64_t sampled = 0;
    std::int32_t steps = 0;  // in flight
    bool begun = false;      // has had rows
    bool flies = false;      // in a step whose outcome it must wait for
    bool left = false;
    std::int64_t since = 0;  // the count of waits_ when it began to wait for a step
  };
  struct Flying {
    std::int32_t step = 0;
    model::Batch batch{};
  };
  void learn(const model::StepOutcome& outcome);
  // Returns whether the request ends with these rows and tokens of theirs (none in a prediction).
  [[nodiscard]] bool advance(Progress& progress, const model::Segment& segment,
                             std::span<const std::int32_t> tokens);
  void release(std::size_t place);
  [[nodiscard]] double admit(double now);
  [[nodiscard]] std::int64_t most_in_a_step() const;
  [[nodiscard]] std::size_t room();
  // Numbers for the contents of the first `positions` of a request: tokens or, in a prediction
  // without them, negative numbers that are equal where contents are; empty if nothing is known.
  [[nodiscard]] std::vector<std::int32_t> contents(std::size_t number, const Joined& joined,
                                                   std::int64_t positions);
  // Returns whether a prompt that has not begun waits for another that is being read, or is to be
  // in `batch`.
  [[nodiscard]] bool waits_for_prefix(const Progress& progress, const model::Batch& batch) const;
  [[nodiscard]] std::vector<std::size_t> group() const;
  [[nodiscard]] model::Batch batch(std::span<const std::size_t> places);
  [[nodiscard]] std::size_t place_of(std::int32_t sequence) const;

  const Policy* policy_;
  ServingOptions options_;
  std::size_t joined_ = 0;  // number of requests that ever joined
  double last_arrival_ = 0.0;
  std::map<std::size_t, Joined> requests_;  // that have not ended, by number
  // Requests that wait begin at `first_waiting_`; those before it were admitted.
  std::vector<double> arrivals_;
  std::vector<std::size_t> waiting_;  // their numbers
  std::size_t first_waiting_ = 0;
  SequenceCache cache_;
  std::map<std::string, std::int32_t, std::less<>> groups_;  // of prefixes, numbered
  std::vector<Progress> active_;  // in the order of admission, which is that of numbers
  std::int64_t waits_ = 0;        // number of times that a sequence began to wait for a step
  std::vector<Flying> flying_;    // steps without an outcome
  std::int32_t made_ = 0;         // number of steps
};

}  // namespace tandem::planner
