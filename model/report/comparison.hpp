#pragma once

// Results side by side, of one plan or of several: one row a quantity, one value a result.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "model/report/comparability.hpp"
#include "model/report/result.hpp"

namespace tandem::model {

// One quantity of all results. The unit is in the suffix of the result file's key (s, bytes).
struct ComparedRow {
  std::string scope{};   // "run", "request", "device", "link", "task", "token"
  std::string name{};    // device, link, "device/kind", number of the token; empty for a run
  std::string metric{};  // "ttft", "token_latency_p50", "memory_total", ...
  std::string unit{};    // "s", "bytes", "tokens/s", "1"
  std::vector<std::optional<double>> values{};  // by result; absent: that result does not have it
};

// What a result's times are judged by, all deviations from the reference's.
struct Verdict {
  // The token (from 0) whose latency deviates most, in seconds; absent with fewer than two tokens.
  std::optional<std::size_t> worst_token{};
  // Largest |percent| of TTFT, mean and median token latency, of the run or of any of several
  // requests.
  std::optional<double> worst_percent{};
};

struct Comparison {
  std::vector<std::string> labels{};    // by result
  std::vector<ResultOrigin> origins{};  // by result
  std::size_t reference = 0;            // the result from which the others deviate
  std::vector<ComparedRow> rows{};      // scopes in the order above
  std::vector<Verdict> verdicts{};      // by result; the reference's is empty
  bool of_one_plan = true;  // else others differ from the reference, they do not deviate

  // The results but the reference, in their order.
  [[nodiscard]] std::vector<std::size_t> others() const;
  // Value of result `i` less the reference's; absent unless both are there and finite.
  [[nodiscard]] std::optional<double> absolute(const ComparedRow& row, std::size_t i) const;
  // The same in percent of the reference's; 0 where both are 0, absent where only that is 0.
  [[nodiscard]] std::optional<double> percent(const ComparedRow& row, std::size_t i) const;
  // Value of result `i` over the reference's; absent unless both are there and the latter is not 0.
  [[nodiscard]] std::optional<double> ratio(const ComparedRow& row, std::size_t i) const;
  // Whether neither the value of result `i` nor the reference's is measured or counted: both are
  // sums over the same costs, so that a deviation tests the program and not the prediction. So are
  // a replay's times beside a prediction's, and of an emulation those of links and disks
  // (docs/explanation/emulation.md).
  [[nodiscard]] bool is_calculated(const ComparedRow& row, std::size_t i) const;
};

// The result from which others deviate unless a user names one: the first, but of one prediction
// and one run, in this order, the run.
[[nodiscard]] std::size_t default_reference(const std::vector<ComparedResult>& results);

// Rows of a run: TTFT; token latency: mean, p50, p90, p99, worst; time of all tokens; throughput.
// Of a request: TTFT, mean and median token latency, queueing and end. Of a device: memory by
// category, bytes sent and loaded, busy time by lane, stall. Of a link: bytes. Of a task kind on a
// device: count, total and mean time. Of a token: latency (the gap to the one before; the first has
// its TTFT). Names that only some results have give rows with values absent. Throws Error as
// check_comparable().
[[nodiscard]] Comparison compare(const std::vector<ComparedResult>& results, std::size_t reference);

// CSV with a header: scope,name,metric,unit, a column for each result, called by its label, and of
// the others their deviations: absolute,percent,basis of two results whose second is the reference,
// else "absolute LABEL","percent LABEL","basis LABEL" for each. The basis is "calculated" as
// is_calculated() says, else "measured"; empty without a deviation. Empty: absent. Fields are
// quoted where RFC 4180 asks for it.
[[nodiscard]] std::string to_csv(const Comparison& comparison);

}  // namespace tandem::model
