#pragma once

// Whether weights that are used where their file lies are worth a copy.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tandem::exec {

// Where a device that works alone has its weights.
enum class WeightPlace : std::uint8_t {
  copied,  // in memory of their own
  mapped,  // where their file has them (Shard::mapped)
  chosen   // there, until a copy turns out to be faster (MoveChoice)
};

// A mapped file lies in small pages, a copy in huge ones. What that is worth depends on processor
// and hypervisor: from nothing to half of a token's time. So a run finds out: it times each layer's
// products in steps of few rows, has one layer copied, and compares that layer with the others of
// the same steps, before and after. Results are the same bits either way.
class MoveChoice {
 public:
  // Of a model of so many layers. Fewer than kLeastLayers stay where they are.
  explicit MoveChoice(std::size_t layers);

  // What the products of a layer took in the step that goes on.
  void saw(std::size_t layer, std::int64_t nanoseconds);
  // The step has ended. Returns what is to be copied before the next one: a layer, or the number of
  // layers for the LM head; nothing if all may stay. Each is named once: first one layer, whose
  // gain is awaited; then, if copies are faster by kGain or more, all others, one a step.
  [[nodiscard]] std::optional<std::size_t> next();
  // Nothing more is named.
  void stop() { state_ = State::done; }

  static constexpr std::size_t kLeastLayers = 4;
  static constexpr std::size_t kStepsBefore = 3;  // that are timed, of each kind
  static constexpr std::size_t kStepsAfter = 5;
  static constexpr double kGain = 0.07;  // of a layer's time; noise is below

 private:
  enum class State : std::uint8_t { before, after, moving, done };

  // The tried layer's time over the median of those that nothing happens to; nothing unless the
  // step timed all of them.
  [[nodiscard]] std::optional<double> ratio() const;

  State state_ = State::before;
  std::size_t tried_ = 0;
  std::size_t moved_ = 0;  // layers, in order, that were named or are the tried one
  std::vector<std::int64_t> step_;
  std::vector<double> ratios_;
  double before_ = 0.0;  // the median ratio
};

}  // namespace tandem::exec
