#pragma once

// A policy decides which waiting requests are admitted, and when. Each is one file in policy/,
// named in its CMakeLists.txt. Admitted requests continue in every step, whatever the policy.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::planner {

// The state that a policy decides from.
struct Moment {
  double now = 0.0;
  std::span<const double> arrivals;  // of waiting and future requests, in order
  std::size_t active = 0;            // admitted requests
  // How many of the first of them fit beside the admitted ones. At least 1 if none is admitted.
  std::size_t room = 0;
};

struct Admission {
  std::size_t count = 0;    // of the first waiting requests; at most Moment::room
  double not_before = 0.0;  // earliest start of the step, at or after their arrivals
};

// The rows of a step.
enum class StepContents : std::uint8_t {
  one_request,   // of the only request: requests are served one after another
  one_of_many,   // of one of several requests, each with steps of its own
  all,           // of all waiting sequences; a chunk limits the rows of prompts
  within_chunk,  // the same; a mandatory chunk limits all rows, decoding first
};

struct Policy {
  std::string_view name;     // as in `--policy`
  std::string_view summary;  // a few words for --help
  StepContents step = StepContents::all;
  // Returns the requests to admit: at least one if none is active.
  Admission (*admit)(const Moment& moment);

  // Whether several requests are active together, whether each has steps of its own, and whether a
  // step has a row budget.
  [[nodiscard]] bool several() const { return step != StepContents::one_request; }
  [[nodiscard]] bool alone() const { return step == StepContents::one_of_many; }
  [[nodiscard]] bool budget() const { return step == StepContents::within_chunk; }
};

[[nodiscard]] const std::vector<Policy>& policies();
// Returns the policy of that name. Throws Error naming it and the known ones if there is none.
[[nodiscard]] const Policy& find_policy(std::string_view name);

// Returns whether `policy` supports prompts in chunks of `chunk` rows, or whole prompts (0).
[[nodiscard]] bool serves(const Policy& policy, std::int64_t chunk);

// Returns the most rows of a step of `sequences` under `policy`, at most one of which reads
// `reading` rows of its prompt, or the part of them within a chunk (0: no limit).
[[nodiscard]] std::int64_t step_rows(const Policy& policy, std::int64_t reading,
                                     std::int64_t sequences, std::int64_t chunk);

// Returns how many of `arrivals`, which ascend, are at or before `time`.
[[nodiscard]] std::size_t arrived(std::span<const double> arrivals, double time);

}  // namespace tandem::planner
