#pragma once

// Whether results are of the same work, and what else differs between them.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/report/result.hpp"

namespace tandem::model {

struct ComparedResult {
  std::string label{};  // what output calls it: "predicted", "measured (laptop)"
  Result result{};
};

// Throws Error, naming what differs, unless all results are of the plan of `reference`, or all of
// one origin, and where those of one plan have a policy for many requests, it, the chunk and the
// steps in flight are those of `reference`.
void check_comparable(const std::vector<ComparedResult>& results, std::size_t reference);

// Returns whether all results are of the same plan.
[[nodiscard]] bool of_one_plan(const std::vector<ComparedResult>& results);

// Describes the plan of each result in one line, unless all are of one.
[[nodiscard]] std::vector<std::string> unlike_plans(const std::vector<ComparedResult>& results);

// The lengths of a request, as the steps of a result had them.
struct RequestLengths {
  std::int64_t prompt = 0;
  std::int64_t tokens = 0;
};
// By the requests' ids; zeros where a result has no schedule.
[[nodiscard]] std::map<std::string, RequestLengths> request_lengths(const Result& result);

// Describes how the work of two results differs, so that bytes, totals and times are not
// comparable: the lengths of one request each, or the first of many requests that only one result
// has, or that has other lengths. Empty if they agree, or if a result lacks the lengths.
[[nodiscard]] std::string unlike_lengths(const ComparedResult& one, const ComparedResult& other);

// What to say of two results whose weights are known and differ, so that tokens, and lengths that
// follow from them, are not those of the same model; empty if they are equal, or if a result does
// not name them.
[[nodiscard]] std::string unlike_weights(const ComparedResult& one, const ComparedResult& other);

// One line for each setting of the results' environments that differs between two predictions or
// between two runs (kernels, threads, processor, transport, ...), and for one that only one of two
// results of the same origin has; all that a run counts or clocks is no setting. Then one for each
// remark that a result's own environment holds (a profile that is extrapolated, outdated, or of
// other threads), and one where a prediction's profile is of another processor than the one that
// an emulation computed on, or where a run's messages only went over loopback.
[[nodiscard]] std::vector<std::string> unlike_settings(const std::vector<ComparedResult>& results);

}  // namespace tandem::model
