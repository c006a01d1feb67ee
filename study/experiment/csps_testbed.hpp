#pragma once

// CSPS (Zhang and Shen, "A Communication-Efficient Sequence-Parallelism based Serving System"):
// common parts of its experiments.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "model/transformer/transformer.hpp"
#include "planner/plan/plan.hpp"
#include "planner/serving/drawn_requests.hpp"
#include "study/experiment/experiment.hpp"

namespace tandem::study {

inline constexpr std::array<std::string_view, 2> kCspsDataSets{"needlebench", "bookcorpus"};
inline constexpr std::int64_t kCspsMillion = 1'000'000;  // tokens of "1M"
inline constexpr std::int64_t kCspsChunk = 256;          // of Sarathi-Serve
inline constexpr double kCspsDropped = 0.22;             // of tokens, "at no loss"

// The paper's text on one quantity: a range, or a number (equal ends).
struct CspsClaim {
  double least = 0.0;
  double most = 0.0;
};

// Returns the row of scenarios/experiments/csps_claims.csv. Throws Error if there is none.
[[nodiscard]] CspsClaim csps_claim(const Scenarios& scenarios, std::string_view claim,
                                   std::string_view of);

// Table 2.
struct CspsLengths {
  planner::DrawnLengths prompt{};
  planner::DrawnLengths output{};
  double prompt_deviation = 0.0;
};
[[nodiscard]] CspsLengths csps_lengths(const Scenarios& scenarios, std::string_view data_set);

// A row of Table 4. Throws Error if there is none.
struct CspsThroughputs {
  std::array<double, 4> tokens_per_s{};  // NeedleBench GLM-4, InternLM2.5, BookCorpus the same
};
[[nodiscard]] CspsThroughputs csps_throughputs(const Scenarios& scenarios, std::string_view system,
                                               std::string_view phase);

// Identities of printed numbers (ExperimentRow::printed) that both readings compare with: a cell of
// Table 4, by the column of CspsThroughputs; an end of the text's range of `quantity`.
[[nodiscard]] std::string csps_printed_throughput(const std::string& system,
                                                  const std::string& phase, std::size_t column);
[[nodiscard]] std::string csps_printed_range(const std::string& quantity,
                                             const std::string& data_set, const std::string& end,
                                             bool ntp_over_tp);

// A model in the paper's formats: weights, keys and values in 2 bytes. "glm-4", "internlm2.5".
inline constexpr std::array<std::string_view, 2> kCspsModels{"glm-4", "internlm2.5"};
[[nodiscard]] model::Transformer csps_model(const Scenarios& scenarios, std::string_view name);

// The paper's testbed (3.1): scenarios/platforms/a100-8x8.xml at the efficiency of its programs.
struct CspsTestbed {
  // All devices, with unlimited memory: the paper chooses their number by the cache, and tandem's
  // activations are f32.
  model::Cluster servers;
  // The part of the data sheet's compute and memory rates that programs reach.
  double efficiency = 1.0;
  // Returns the first devices, of as many servers as they fill.
  [[nodiscard]] model::Cluster cluster(std::size_t devices) const;
  [[nodiscard]] std::vector<model::DeviceProfile> profiles(const model::Cluster& cluster) const;
};

// Calibrates the efficiency by one number, Sarathi-Serve's 213 s to the first of 1M tokens, with
// GLM-4.
[[nodiscard]] CspsTestbed calibrated_csps(const Scenarios& scenarios);
// Returns the constants for remarks.
[[nodiscard]] std::vector<std::string> csps_remarks(const CspsTestbed& testbed);

// Sarathi-Serve: two stages of four devices in one server (TP 4, PP 2), policy sarathi with chunks
// of 256, two steps in flight, no contention of links. All by the analytic evaluator.
class CspsSarathi {
 public:
  // `tokens`: the longest prompt.
  CspsSarathi(const Scenarios& scenarios, const CspsTestbed& testbed, std::string_view model,
              std::int64_t tokens);
  // Returns the seconds to the first token of a prompt alone: all its steps in sequence.
  [[nodiscard]] double ttft_s(std::int64_t tokens) const;
  // Returns the seconds of a step in which `sequences` of `tokens` decode together with a chunk of
  // an equal prompt that is half read: steps are linear in the tokens read, so this is their mean.
  [[nodiscard]] double step_s(std::int64_t tokens, std::int64_t sequences) const;
  // Returns how many sequences of so many tokens the caches hold, over both steps in flight.
  [[nodiscard]] std::int64_t most_sequences(std::int64_t tokens) const;

 private:
  planner::Plan plan_;
};

// CSPS's partition of a prompt (3.2): by positions over devices that each have the whole model, 64K
// tokens each; or over eight devices that split the model by heads.
enum class CspsPrefill : std::uint8_t { ntp, tp };
inline constexpr std::int64_t kCspsPartition = 65536;
// Returns the number of devices of a prompt.
[[nodiscard]] std::size_t csps_devices(CspsPrefill prefill, std::int64_t tokens);

// Rows dropped by attention in an SP-NTP prompt (docs/decisions/0052): by level of near devices,
// from the second one on, the part of rows dropped in layers that may drop. None: attention without
// levels, to everything.
struct CspsDrop {
  std::vector<double> ratios{};
  [[nodiscard]] bool dense() const { return ratios.empty(); }
};

// Returns the levels that the testbed's network distinguishes among so many devices: single
// devices, 1; those of one server, 2; servers, 3.
[[nodiscard]] std::size_t csps_levels(std::size_t devices);
// Returns the paper's "tokens dropped" as counted here: the mean of the ratios over all levels and
// all `layers`, including those that drop nothing (the first level, the first two layers and the
// last).
[[nodiscard]] double csps_dropped(const CspsDrop& drop, std::int64_t layers);
// Returns the ratios of so many levels that drop so many tokens, where each level keeps half as
// much as the one before it (the paper's rule, inverted, as it must be); with one level dense.
[[nodiscard]] CspsDrop csps_halving(std::size_t levels, std::int64_t layers, double dropped);
// Returns the ratios of SP-NTP's prompts of so many tokens in the figures: two levels, which
// several devices always have and which are faster than three (csps-drop).
[[nodiscard]] CspsDrop csps_usual_drop(std::int64_t tokens, std::int64_t layers);

struct CspsPass {
  double ttft_s = 0.0;
  // Shares of it, means over the devices: waiting for messages and copying them; attention; and the
  // additional work of dropping: choosing and gathering rows, scoring keys, merging levels.
  double communication = 0.0;
  double attention = 0.0;
  double choosing = 0.0;
  double sent_bytes = 0.0;  // by all devices
};

// The number of simulated layers of a prompt.
enum class CspsLayers : std::uint8_t {
  few,  // two different numbers; the rest is extrapolated, as inner layers are equal
  all
};

// Predicts a prompt alone, by SimGrid: strategy csps or galaxy, equal parts, ring all-gathers and
// reduce-scatters, no overlap except between lanes. `few` simulates two and four layers; with
// levels five and seven, of which one and three drop rows and choose those of the next one.
[[nodiscard]] CspsPass csps_pass(const Scenarios& scenarios, const CspsTestbed& testbed,
                                 std::string_view model, CspsPrefill prefill, std::int64_t tokens,
                                 const CspsDrop& drop = {}, CspsLayers layers = CspsLayers::few);

// Predicts the seconds of one new token after so many, alone, with a cache spread by positions over
// the devices of an SP-NTP prompt (strategy spread); by the analytic evaluator.
[[nodiscard]] double csps_token_s(const Scenarios& scenarios, const CspsTestbed& testbed,
                                  std::string_view model, std::int64_t tokens);

}  // namespace tandem::study
