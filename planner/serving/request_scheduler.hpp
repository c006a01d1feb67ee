#pragma once

// Serves requests in steps: a policy admits them, their prompts are read whole or in chunks, and
// every active sequence gets its next token in every step.

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
  // Upper limit of a step's rows of prompts, or of all its rows under a policy with a budget; 0:
  // prompts are read whole.
  std::int64_t chunk = 0;
  Capacity capacity{};  // limit of every step, and of all steps in flight together
  // Returns whether `token` ends the request of that index before its last token is due. Null: no
  // token does.
  std::function<bool(std::size_t request, std::int32_t token)> ends{};
};

// Throws Error for the first of `requests` that alone exceeds `capacity`, with prompts in chunks of
// `chunk` rows (0: whole).
void check_capacity(std::span<const InferenceRequest> requests, std::int64_t chunk,
                    const Capacity& capacity);

// Makes steps of requests. A step has the rows of prompts first, in the order of admission, then
// one row for each sequence whose prompt has been read. Sequences are numbered by request.
//
// As many steps are in flight as the capacity allows and as there are sequences or chunks of
// prompts for. A sequence is in at most one of them, except that chunks of a prompt may follow each
// other without waiting: each device executes them in the order of steps. Sequences that may
// continue are shared evenly among the steps that may begin, those that have waited longest first;
// no step gets more than an even share of all. Example: with 4 sequences and 2 steps in flight,
// steps of sequences {0, 1} and {2, 3} alternate. Under a policy that gives each sequence steps of
// its own, no more sequences are active than steps may be in flight. for itself, no more sequences
// are under way than steps may be in flight.
class RequestScheduler : public model::Scheduler {
 public:
  // `requests` are as parse_requests returns them, counted and sorted by arrival. Throws Error as
  // check_capacity does; logic_error for a policy with a budget without a chunk.
  RequestScheduler(std::vector<InferenceRequest> requests, const Policy& policy,
                   ServingOptions options);

  model::Decision next(double now, std::span<const model::StepOutcome> ended) override;

  // Returns the tokens of each request so far (in a run; a prediction has none).
  [[nodiscard]] const std::vector<std::vector<std::int32_t>>& tokens() const { return tokens_; }
  // Returns the token ids of the last step of next(), by row; prompts must have ids.
  [[nodiscard]] std::vector<std::int32_t> row_tokens() const;

 private:
  struct Progress {  // of an active request
    std::size_t request = 0;
    std::int64_t read = 0;  // positions in the cache, with those of steps in flight
    std::int64_t sampled = 0;
    bool flies = false;      // in a step whose outcome it must wait for
    std::int64_t since = 0;  // the count of waits_ when it began to wait for a step
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
  std::size_t admitted_ = 0;      // number of first requests that were admitted
  std::int64_t reserved_ = 0;     // positions of active requests
  std::vector<Progress> active_;  // in the order of admission
  std::int64_t waits_ = 0;        // number of times that a sequence began to wait for a step
  std::vector<std::vector<std::int32_t>> tokens_;
  std::vector<model::CacheOp> freed_;  // of the requests that have ended since the step before
  std::vector<Flying> flying_;         // steps without an outcome
  std::int32_t made_ = 0;              // number of steps
};

}  // namespace tandem::planner
