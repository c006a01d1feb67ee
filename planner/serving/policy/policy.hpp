#pragma once

// A policy says which of the requests that wait are taken up, and when. Each is one file in
// policy/, named in its CMakeLists.txt. What is under way goes on in every step, whatever the
// policy.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::planner {

// What a policy knows when a step is to be made.
struct Moment {
  double now = 0.0;
  std::span<const double> arrivals;  // of the requests that wait or are yet to come, in order
  std::size_t active = 0;            // requests under way
  // How many of the first of them there is room for besides those under way. At least 1 if none is
  // under way.
  std::size_t room = 0;
};

struct Admission {
  std::size_t count = 0;    // of the first of those that wait; at most Moment::room
  double not_before = 0.0;  // when the step may begin: none of them arrives later
};

// What a step has of the requests under way.
enum class StepContents : std::uint8_t {
  one_request,   // the only one: requests follow one another
  one_of_many,   // one of several requests, which have steps of their own
  all,           // rows of all that wait; a chunk bounds those of prompts
  within_chunk,  // the same; a chunk, which there must be, bounds all rows, decoding first
};

struct Policy {
  std::string_view name;     // as in `--policy`
  std::string_view summary;  // a few words for --help
  StepContents step = StepContents::all;
  // Says whom to admit: at least one if nothing is under way.
  Admission (*admit)(const Moment& moment);

  // Whether requests are under way together, whether each has steps of its own, and whether a step
  // has a budget of rows.
  [[nodiscard]] bool several() const { return step != StepContents::one_request; }
  [[nodiscard]] bool alone() const { return step == StepContents::one_of_many; }
  [[nodiscard]] bool budget() const { return step == StepContents::within_chunk; }
};

[[nodiscard]] const std::vector<Policy>& policies();
// The policy of that name. Throws Error naming it and the known ones if there is none.
[[nodiscard]] const Policy& find_policy(std::string_view name);

// Whether requests can be served by `policy` with prompts in chunks of `chunk` rows, or whole (0).
[[nodiscard]] bool serves(const Policy& policy, std::int64_t chunk);

// Returns the most rows of a step of `sequences` under `policy`, at most one of which reads
// `reading` rows of its prompt, or as much of a chunk (0: no bound on chunks).
[[nodiscard]] std::int64_t step_rows(const Policy& policy, std::int64_t reading,
                                     std::int64_t sequences, std::int64_t chunk);

// How many of `arrivals`, which ascend, are there at `time`.
[[nodiscard]] std::size_t arrived(std::span<const double> arrivals, double time);

}  // namespace tandem::planner
