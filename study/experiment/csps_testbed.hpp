#pragma once

// CSPS (Zhang and Shen, "A Communication-Efficient Sequence-Parallelism based Serving System"):
// what its experiments share.

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

// What the paper's text says of one quantity: a range, or a number (both ends alike).
struct CspsClaim {
  double least = 0.0;
  double most = 0.0;
};

// The row of scenarios/experiments/csps_claims.csv. Throws Error if there is none.
[[nodiscard]] CspsClaim csps_claim(const Scenarios& scenarios, std::string_view claim,
                                   std::string_view of);

// Table 2.
struct CspsLengths {
  planner::DrawnLengths prompt{};
  planner::DrawnLengths output{};
  double prompt_deviation = 0.0;
};
[[nodiscard]] CspsLengths csps_lengths(const Scenarios& scenarios, std::string_view data_set);

// Table 4's row. Throws Error if there is none.
struct CspsThroughputs {
  std::array<double, 4> tokens_per_s{};  // NeedleBench GLM-4, InternLM2.5, BookCorpus the same
};
[[nodiscard]] CspsThroughputs csps_throughputs(const Scenarios& scenarios, std::string_view system,
                                               std::string_view phase);

// A model as the paper runs it: weights, keys and values in 2 bytes. "glm-4", "internlm2.5".
inline constexpr std::array<std::string_view, 2> kCspsModels{"glm-4", "internlm2.5"};
[[nodiscard]] model::Transformer csps_model(const Scenarios& scenarios, std::string_view name);

// Its testbed (3.1): scenarios/platforms/a100-8x8.xml, as fast as its programs.
struct CspsTestbed {
  // All devices, with all memory that it takes: the paper chooses their number by the cache, and
  // tandem's activations are f32.
  model::Cluster servers;
  // What programs reach of the data sheet's rates of computing and of memory.
  double efficiency = 1.0;
  // The first devices, of as many servers as they fill.
  [[nodiscard]] model::Cluster cluster(std::size_t devices) const;
  [[nodiscard]] std::vector<model::DeviceProfile> profiles(const model::Cluster& cluster) const;
};

// The efficiency from one number, Sarathi-Serve's 213 s to the first of 1M tokens, by GLM-4.
[[nodiscard]] CspsTestbed calibrated_csps(const Scenarios& scenarios);
// For remarks.
[[nodiscard]] std::vector<std::string> csps_remarks(const CspsTestbed& testbed);

// Sarathi-Serve: two stages of four devices in one server (TP 4, PP 2), policy sarathi with chunks
// of 256, two steps in flight; links do not contend. All by the analytic evaluator.
class CspsSarathi {
 public:
  // `tokens`: the longest prompt.
  CspsSarathi(const Scenarios& scenarios, const CspsTestbed& testbed, std::string_view model,
              std::int64_t tokens);
  // Seconds to the first token of a prompt alone: all its steps, one by one.
  [[nodiscard]] double ttft_s(std::int64_t tokens) const;
  // Seconds of a step in which `sequences` of `tokens` decode beside a chunk of a prompt of as many
  // that is half read: steps are linear in what was read, so this is their mean.
  [[nodiscard]] double step_s(std::int64_t tokens, std::int64_t sequences) const;
  // How many sequences of so many tokens the caches hold, in both steps in flight together.
  [[nodiscard]] std::int64_t most_sequences(std::int64_t tokens) const;

 private:
  planner::Plan plan_;
};

// How CSPS parts a prompt (3.2): by positions over devices that all have the model, 64K tokens
// each; or over eight that share it by heads.
enum class CspsPrefill : std::uint8_t { ntp, tp };
inline constexpr std::int64_t kCspsPartition = 65536;
// Devices of a prompt.
[[nodiscard]] std::size_t csps_devices(CspsPrefill prefill, std::int64_t tokens);

// What attention leaves out of a prompt that SP-NTP parts (docs/decisions/0052): by level of near
// devices, from the second one on, the part of rows that layers drop which may. None: attention
// without levels, of everything.
struct CspsDrop {
  std::vector<double> ratios{};
  [[nodiscard]] bool dense() const { return ratios.empty(); }
};

// Levels that the testbed's network tells apart among so many devices: each alone; those of one
// server, 2; servers, 3.
[[nodiscard]] std::size_t csps_levels(std::size_t devices);
// How the paper's "tokens dropped" is counted here: the mean of the ratios over all levels and all
// `layers`, those that drop nothing, which are the first level, the first two layers and the last,
// counted.
[[nodiscard]] double csps_dropped(const CspsDrop& drop, std::int64_t layers);
// The ratios of so many levels with which so many tokens are dropped, each level keeping half as
// much as the one before it (the paper's rule, inverted as it has to be); of one level dense.
[[nodiscard]] CspsDrop csps_halving(std::size_t levels, std::int64_t layers, double dropped);
// That of SP-NTP's prompts of so many tokens in the figures: two levels, which several devices have
// anywhere and which are faster than three (csps-drop).
[[nodiscard]] CspsDrop csps_usual_drop(std::int64_t tokens, std::int64_t layers);

struct CspsPass {
  double ttft_s = 0.0;
  // Shares of it, means over the devices: what they wait for messages and copy them; attention;
  // what dropping adds to that: choosing rows, gathering them, weighing keys, merging levels.
  double communication = 0.0;
  double attention = 0.0;
  double choosing = 0.0;
  double sent_bytes = 0.0;  // by all devices
};

// How many layers of a prompt are simulated.
enum class CspsLayers : std::uint8_t {
  few,  // two numbers of them; as inner layers are alike the others are added
  all
};

// A prompt alone, by SimGrid: strategy csps or galaxy, equal parts, all-gathers and reduce-scatters
// by ring, nothing overlapped but what lanes do. Of the few layers there are two and four; with
// levels five and seven, of which one and three drop rows and choose those of the next one.
[[nodiscard]] CspsPass csps_pass(const Scenarios& scenarios, const CspsTestbed& testbed,
                                 std::string_view model, CspsPrefill prefill, std::int64_t tokens,
                                 const CspsDrop& drop = {}, CspsLayers layers = CspsLayers::few);

// Seconds of one new token after so many, alone, of a cache that is spread over the devices of an
// SP-NTP prompt by positions (strategy spread); by the analytic evaluator.
[[nodiscard]] double csps_token_s(const Scenarios& scenarios, const CspsTestbed& testbed,
                                  std::string_view model, std::int64_t tokens);

}  // namespace tandem::study
