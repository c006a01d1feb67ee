#pragma once

// Serves requests in steps: a policy admits them, their prompts are read whole or in chunks, and
// every sequence under way gets its next token in every step.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/graph/scheduler.hpp"
#include "planner/plan/inference_request.hpp"
#include "planner/serving/policy/policy.hpp"
#include "planner/serving/request_capacity.hpp"

namespace tandem::planner {

struct ServingOptions {
  // Most rows of prompts in a step, or of a policy with a budget most rows in all; 0: prompts are
  // read whole.
  std::int64_t chunk = 0;
  Capacity capacity{};  // that every step keeps within, and all of them together
  // Says whether `token` ends the request of that index, before its last token is due. Null: none
  // does.
  std::function<bool(std::size_t request, std::int32_t token)> ends{};
};

// Throws Error for the first of `requests` that `capacity` has no room for, alone, with prompts in
// chunks of `chunk` rows (0: whole).
void check_capacity(std::span<const InferenceRequest> requests, std::int64_t chunk,
                    const Capacity& capacity);

// Makes steps of requests. A step has the rows of prompts first, in the order in which requests
// were admitted, then one row for each sequence whose prompt has been read. Sequences are named by
// the request's index.
//
// As many steps are in flight as the capacity says, if there are as many sequences, or chunks of
// prompts. A sequence is in at most one of them, but for the chunks of its prompt, which may follow
// each other without waiting: each device has them in the order of steps. Sequences that may go on
// are shared out evenly among the steps that may begin, those that have waited longest first; no
// step gets more than an even share of all. An example: with 4 sequences and 2 steps in flight,
// steps of sequences {0, 1} and {2, 3} take turns. With a policy that gives each sequence its steps
// for itself, no more sequences are under way than steps may be in flight.
class RequestScheduler : public model::Scheduler {
 public:
  // `requests` are as parse_requests leaves them, counted and sorted by arrival. Throws Error as
  // check_capacity does; logic_error for a policy with a budget without a chunk.
  RequestScheduler(std::vector<InferenceRequest> requests, const Policy& policy,
                   ServingOptions options);

  model::Decision next(double now, std::span<const model::StepOutcome> ended) override;

  // The tokens that each request was given so far (of a run; a prediction knows none).
  [[nodiscard]] const std::vector<std::vector<std::int32_t>>& tokens() const { return tokens_; }
  // The token ids of the step that next() returned last, by row; those of prompts must be known.
  [[nodiscard]] std::vector<std::int32_t> row_tokens() const;

 private:
  struct Progress {  // of a request that is under way
    std::size_t request = 0;
    std::int64_t read = 0;  // positions in the cache, with those of steps in flight
    std::int64_t sampled = 0;
    bool flies = false;      // in a step whose outcome it must wait for
    std::int64_t since = 0;  // when it came to wait for a step, counted
  };
  struct Flying {
    std::int32_t step = 0;
    model::Batch batch{};
  };
  void learn(const model::StepOutcome& outcome);
  [[nodiscard]] double admit(double now);
  [[nodiscard]] std::int64_t most_in_a_step() const;
  [[nodiscard]] std::size_t room() const;
  [[nodiscard]] std::vector<std::size_t> group() const;
  [[nodiscard]] model::Batch batch(std::span<const std::size_t> places);
  [[nodiscard]] std::size_t place_of(std::int32_t sequence) const;

  std::vector<InferenceRequest> requests_;
  std::vector<double> arrivals_;
  const Policy* policy_;
  ServingOptions options_;
  std::size_t admitted_ = 0;      // of the requests, the first so many
  std::int64_t reserved_ = 0;     // positions, of those under way
  std::vector<Progress> active_;  // in the order of admission
  std::int64_t waits_ = 0;        // how often a sequence came to be in no step
  std::vector<std::vector<std::int32_t>> tokens_;
  std::vector<model::CacheOp> freed_;  // by the requests that have ended since the step before
  std::vector<Flying> flying_;         // steps without an outcome
  std::int32_t made_ = 0;              // steps
};

}  // namespace tandem::planner
