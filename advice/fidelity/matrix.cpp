#include "advice/fidelity/matrix.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <stdexcept>
#include <utility>

#include "model/base/digest.hpp"

namespace tandem::study {
namespace {

using Levels = std::vector<std::string_view>;

// No configuration has one of `levels` of `factor` and one of `other_levels` of `other`.
struct Exclusion {
  std::string_view factor;
  Levels levels;
  std::string_view other;
  Levels other_levels;
};

const std::vector<Exclusion>& exclusions() {
  static const Levels several{"2", "3", "4", "8"};
  static const Levels collectives{"star", "tree", "ring", "halving", "hierarchical"};
  static const Levels latencies{"0.2ms", "1ms", "5ms"};
  static const Levels networks{"100Mbps", "1Gbps", "wifi"};
  static const Levels windows{"w4", "w8"};
  static const std::vector<Exclusion> table{
      // One device splits nothing and has no network; its disk is the machine's.
      {"strategy", {"local"}, "devices", several},
      {"strategy", {"tensor", "pipeline", "galaxy", "sp", "csps", "spread"}, "devices", {"1"}},
      {"devices", {"1"}, "balance", {"uneven"}},
      {"devices", {"1"}, "latency", latencies},
      {"devices", several, "latency", {kNoLevel}},
      {"devices", {"1"}, "bandwidth", networks},
      {"devices", several, "bandwidth", {kNoLevel}},
      {"devices", {"1"}, "disk", {"100MBps", "400MBps"}},
      {"devices", several, "disk", {"own"}},
      // What strategies sum, keep in memory, and serve at once.
      {"strategy", {"local", "pipeline", "spread"}, "collective", collectives},
      {"strategy", {"tensor", "galaxy", "sp", "csps"}, "collective", {kNoLevel}},
      {"strategy", {"sp", "spread"}, "window", windows},
      {"strategy", {"sp", "spread"}, "requests", {"4"}},
      // Nothing is read where all weights stay.
      {"window", {"resident"}, "disk", {"own", "100MBps", "400MBps"}},
      {"window", windows, "disk", {kNoLevel}},
      // Shares of the FFN's 1536 columns are whole blocks of 256.
      {"devices", {"8"}, "format", {"q4_k"}},
  };
  return table;
}

std::size_t index_of(std::string_view factor) {
  const auto found = std::ranges::find(factors(), factor, &Factor::name);
  if (found == factors().end())
    throw std::logic_error("fidelity: no factor '" + std::string(factor) + "'");
  return static_cast<std::size_t>(found - factors().begin());
}

// Throws logic_error for a level that the factor does not have: an exclusion that excludes nothing.
std::size_t level_of(std::size_t factor, std::string_view level) {
  const auto& levels = factors()[factor].levels;
  const auto found = std::ranges::find(levels, level);
  if (found == levels.end())
    throw std::logic_error("fidelity: no level '" + std::string(level) + "'");
  return static_cast<std::size_t>(found - levels.begin());
}

}  // namespace

const std::vector<Factor>& factors() {
  static const std::vector<Factor> table{
      {"strategy", "", {"local", "tensor", "pipeline", "galaxy", "sp", "csps", "spread"}},
      {"family", "", {"llama", "qwen3", "gpt2", "gemma2"}},
      {"format", "", {"f32", "f16", "q8_0", "q4_k"}},
      {"devices", "x", {"1", "2", "3", "4", "8"}},
      {"balance", "", {"even", "uneven"}},
      {"collective", "", {kNoLevel, "star", "tree", "ring", "halving", "hierarchical"}},
      {"latency", "", {kNoLevel, "0.2ms", "1ms", "5ms"}},  // from device to device
      {"bandwidth", "", {kNoLevel, "100Mbps", "1Gbps", "wifi"}},
      {"window", "", {"resident", "w4", "w8"}},  // of 16 blocks
      {"disk", "disk-", {kNoLevel, "own", "100MBps", "400MBps"}},
      {"prompt", "p", {"16", "64", "256"}},
      {"requests", "r", {"1", "4"}},  // in flight at once
  };
  return table;
}

CoveringProblem matrix_problem() {
  CoveringProblem problem;
  for (const Factor& factor : factors()) problem.levels.push_back(factor.levels.size());
  using Pair = std::array<std::size_t, 4>;  // factor and level of either
  std::set<Pair> excluded;
  for (const Exclusion& exclusion : exclusions()) {
    const std::size_t one = index_of(exclusion.factor);
    const std::size_t other = index_of(exclusion.other);
    for (const std::string_view level : exclusion.levels) {
      for (const std::string_view with : exclusion.other_levels) {
        const std::size_t a = level_of(one, level);
        const std::size_t b = level_of(other, with);
        excluded.insert({one, a, other, b});
        excluded.insert({other, b, one, a});
      }
    }
  }
  problem.excludes = [excluded = std::move(excluded)](FactorLevel one, FactorLevel other) {
    return excluded.contains({one.factor, one.level, other.factor, other.level});
  };
  return problem;
}

Configuration::Configuration(CoveringRow row) : row_(std::move(row)) {
  if (row_.size() != factors().size())
    throw std::logic_error("fidelity: a configuration has a level of each factor");
  for (std::size_t f = 0; f < row_.size(); ++f) {
    const std::string_view level = factors()[f].levels.at(row_[f]);
    if (level == kNoLevel) continue;
    if (!name_.empty()) name_ += '-';
    name_.append(factors()[f].prefix).append(level);
  }
}

std::string_view Configuration::level(std::string_view factor) const {
  const std::size_t f = index_of(factor);
  return factors()[f].levels[row_[f]];
}

std::size_t Configuration::devices() const {
  const std::string_view text = level("devices");
  std::size_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

bool is_set_aside(std::string_view name) {
  // The second digit of the first byte.
  return std::string_view("13579bdf").find(model::sha256_hex(name)[1]) != std::string_view::npos;
}

std::vector<Configuration> configurations(Half half) {
  const auto rows = covering_rows(matrix_problem(), [&](const CoveringRow& row) {
    return is_set_aside(Configuration(row).name()) == (half == Half::set_aside);
  });
  return {rows.begin(), rows.end()};
}

}  // namespace tandem::study
