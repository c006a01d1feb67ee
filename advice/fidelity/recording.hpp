#pragma once

// What is kept of one configuration of `tandem fidelity`: schema "tandem.fidelity/1".

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/report/result.hpp"

namespace tandem::study {

using Interval = std::pair<double, double>;  // low, high

// One quantity of a prediction and of the runs it is compared with.
//   run   ttft, token_latency_mean                       s
//         (of several requests the mean of theirs)
//   device/NAME   memory_total                           bytes
//   kind/KIND     total, of all devices                  s
//   lane/LANE     total, of all devices: cpu, disk, channel; stall   s
struct Quantity {
  std::string scope;
  std::string name;  // empty of a run
  std::string metric;
  std::string unit;
  std::optional<double> predicted{};
  std::optional<Interval> interval_90{};    // where the prediction states one
  std::optional<double> predicted_after{};  // by the profile measured after the runs
  std::vector<double> measured{};           // one a run, but for runs that lack it

  [[nodiscard]] std::optional<double> median() const;  // of the runs
  // 100 (predicted - median) / median; 0 where both are equal; absent where one of them is, or
  // where only the median is 0.
  [[nodiscard]] std::optional<double> percent() const;
};

// Seconds that the reference kernel took, in the order of the sitting: before the profile, between
// its parts, at its end.
struct ReferenceTimes {
  std::vector<double> cpu_s{};   // of one thread, by its CPU time: the processor's own speed
  std::vector<double> wall_s{};  // on all cores at once, by the clock: other work counts
  // The largest over the smallest minus 1, the larger of both lists; 0 without times.
  [[nodiscard]] double drift() const;
};

// A sitting of a larger drift does not count.
inline constexpr double kMostDrift = 0.05;

struct Recording {
  std::string configuration{};
  std::vector<std::pair<std::string, std::string>> levels{};  // by factor, in their order
  std::string way{};                                          // how it was run
  std::map<std::string, std::string> environment{};           // date, machine, kernels, pace, tcp
  ReferenceTimes reference{};
  std::vector<Quantity> quantities{};
  std::string profile{};  // JSON of one profile, of the formats that the plan has
  std::string plan{};     // packed_plan()

  [[nodiscard]] bool counts() const { return reference.drift() < kMostDrift; }
  // TCP's settings, if messages went over it on the platform's links (a testbed); empty: links were
  // replayed, or there were none.
  [[nodiscard]] std::string tcp() const;
  // Of its file, without .json: the configuration's, and of a testbed the way too, so that one
  // folder holds both.
  [[nodiscard]] std::string file_name() const {
    return file_name(configuration, way, !tcp().empty());
  }
  [[nodiscard]] static std::string file_name(std::string_view configuration, std::string_view way,
                                             bool over_tcp);
  [[nodiscard]] std::string_view level(std::string_view factor) const;  // empty: not recorded
  // Null if there is none.
  [[nodiscard]] const Quantity* find(std::string_view scope, std::string_view name,
                                     std::string_view metric) const;
};

// The quantities of a prediction and of runs of the same plan; `predicted_json` is the prediction's
// file, where intervals stand. `after`: the prediction by the profile measured afterwards. Throws
// Error as model::check_comparable if they are not of one plan, if a run was not measured, or if
// there are no runs.
[[nodiscard]] std::vector<Quantity> quantities_of(const model::Result& predicted,
                                                  std::string_view predicted_json,
                                                  const std::optional<model::Result>& after,
                                                  std::span<const model::Result> runs);

// One line. Numbers are written so that they are read back exactly.
[[nodiscard]] std::string to_json(const Recording& recording);
// Throws Error naming `source`, field, value and remedy.
[[nodiscard]] Recording parse_recording(std::string_view text, std::string_view source);

// A configuration's quantity whose prediction is not what was recorded.
struct Change {
  std::string configuration;
  std::string quantity;  // "run ttft", "kind norm total"
  std::optional<double> recorded{};
  std::optional<double> now{};
  std::optional<double> median{};  // of the runs
};

// The quantities of `now` (which needs no runs) whose prediction differs from the recorded one by
// more than `tolerance` of it, or which only one of them has.
[[nodiscard]] std::vector<Change> changes(const Recording& recording,
                                          const std::vector<Quantity>& now, double tolerance);

// The quantities of a prediction alone.
[[nodiscard]] std::vector<Quantity> predicted_quantities(const model::Result& predicted,
                                                         std::string_view predicted_json);

}  // namespace tandem::study
