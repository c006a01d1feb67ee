#pragma once

// Prediction against measurement: one row a quantity.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/report/result.hpp"

namespace tandem::model {

// One quantity of both results. The unit is in `metric`'s suffix of the result file (s, bytes).
struct Deviation {
  std::string scope;   // "run", "request", "device", "link", "task", "token"
  std::string name;    // device, link, "device/kind", number of the token; empty for a run
  std::string metric;  // "ttft", "token_latency_p50", "memory_total", ...
  std::string unit;    // "s", "bytes", "1"
  std::optional<double> predicted;  // absent: that result does not have it
  std::optional<double> measured;

  // predicted - measured; absent unless both are there and finite.
  [[nodiscard]] std::optional<double> absolute() const;
  // 100 (predicted - measured) / measured; 0 where both are 0; absent where only `measured` is 0.
  [[nodiscard]] std::optional<double> percent() const;
};

struct Comparison {
  std::string run_kind = "measured";  // of the second result: "measured" or "replayed"
  std::vector<Deviation> rows;  // scopes in the order above
  // The token (from 0) whose latency deviates most, in seconds; absent with fewer than two tokens.
  std::optional<std::size_t> worst_token;
  // Largest |percent| of TTFT, mean and median token latency, of the run or of any of several
  // requests: what a prediction is judged by.
  std::optional<double> worst_percent;
};

// Rows of a run: TTFT; token latency: mean, p50, p90, p99, worst; time of all tokens; throughput.
// Of a request: TTFT, mean and median token latency, queueing and end. Of a device: memory by
// category, bytes sent and loaded, busy time by lane, stall. Of a link: bytes. Of a task kind on a
// device: count, total and mean time. Of a token: latency (the gap to the one before; the first has
// its TTFT). Names that only one of the two results has give rows with one side absent. Throws
// Error unless the first is a prediction and the second a measurement of the same plan.
[[nodiscard]] Comparison compare(const Result& predicted, const Result& measured);

// Describes how the work of both results differs, so that bytes, totals and times are not
// comparable: the lengths of one request each, or the first of many requests that only one result
// has, or that has other lengths. Empty if they agree, or if a result lacks the lengths.
[[nodiscard]] std::string unlike_lengths(const Result& predicted, const Result& measured);

// What to say of results whose weights are known and differ, so that tokens, and lengths that
// follow from them, are not those of the same model; empty if they are equal, or if a result does
// not tell.
[[nodiscard]] std::string unlike_weights(const Result& predicted, const Result& measured);

// CSV with a header: scope,name,metric,unit,predicted,measured,absolute,percent. Empty: absent.
// Fields are quoted where RFC 4180 asks for it.
[[nodiscard]] std::string to_csv(const Comparison& comparison);

}  // namespace tandem::model
