#pragma once

// The choice whether weights used in their mapped file are worth copying.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tandem::exec {

// The place of the weights of a device that works alone.
enum class WeightPlace : std::uint8_t {
  copied,  // in memory of their own
  mapped,  // in their file (Shard::mapped)
  chosen   // mapped, until a copy proves worth its cost (MoveChoice)
};

// A mapped file uses small pages, a copy huge ones. The gain depends on processor and hypervisor:
// from nothing to nine tenths of a token's time, and it may change over time, as a hypervisor may
// take pages away and give them back. So does the cost of memory for a copy. Therefore a run
// measures: it times each layer's products in steps of few rows, has one layer copied, and compares
// copied with other layers within the same steps, for as long as it copies. Results are the same
// bits either way.
class MoveChoice {
 public:
  // For a model of so many layers. Models with fewer than kLeastLayers are never copied.
  explicit MoveChoice(std::size_t layers);

  // Records the time of a layer's products in the current step.
  void saw(std::size_t layer, std::int64_t nanoseconds);

  struct Move {
    std::size_t place = 0;  // a layer, or the number of layers for the LM head
    // Time limit, so that the token is not much longer: kSlower of the time of the layers' products
    // in a step.
    std::chrono::nanoseconds at_most{};
    bool operator==(const Move&) const = default;
  };
  // Ends the step; at most `left` more follow. Returns what to copy, or to continue copying, before
  // the next one; nothing if all may stay. Copies one layer first and waits for its gain. If copies
  // are faster by kGain or more, copies the others one after another while one pays: copy_pays() of
  // the last one's cost and the gain of copies in the last steps.
  [[nodiscard]] std::optional<Move> next(std::int64_t left);
  // Records the time spent on that copy; `part` of the place is copied now, 1: all. Returns false
  // if it should stay mapped after all: the first layer's copy would cost more than half of the
  // layer's time in all remaining steps, or the rest of another's copy more than it gains in them.
  // Then no more copies are requested.
  [[nodiscard]] bool copied(std::chrono::nanoseconds took, double part);
  // Requests no more copies.
  void stop() { state_ = State::done; }

  static constexpr std::size_t kLeastLayers = 4;
  static constexpr std::size_t kStepsBefore = 3;  // timed steps of each kind
  static constexpr std::size_t kStepsAfter = 5;
  static constexpr double kGain = 0.07;     // least gain, of a layer's time; above noise
  static constexpr double kMostGain = 0.5;  // assumed limit of the gain before the first copy
  static constexpr double kSlower = 0.25;   // limit of a step's extension

 private:
  enum class State : std::uint8_t { before, trying, after, moving, done };

  // Result of a step that timed all layers: by which part of their time copied layers are faster
  // than the others, each relative to its earlier time, and how long that is per layer.
  struct Gain {
    double part = 0.0;
    double ns = 0.0;
  };
  [[nodiscard]] bool timed_all() const;
  [[nodiscard]] std::optional<Gain> gain() const;
  [[nodiscard]] Gain median_gain() const;
  [[nodiscard]] Move move(std::size_t place) const;
  void see();
  [[nodiscard]] std::optional<Move> next_place();

  State state_ = State::before;
  std::size_t tried_ = 0;
  std::size_t moved_ = 0;  // places, in order, that are copied or being tried
  std::vector<std::int64_t> step_;
  std::vector<std::vector<std::int64_t>> before_;  // by step; base_ is
  std::vector<double> base_;                       // the median of each layer
  std::vector<Gain> gains_;                        // of the last steps
  std::int64_t left_ = 0;
  double layers_ns_ = 0.0;  // of a step, all layers
  // Of the current copy, and of the last finished one.
  double copying_ns_ = 0.0;
  std::int64_t copying_steps_ = 0;
  double cost_ns_ = 0.0;
  std::int64_t spread_ = 0;
};

// Returns whether a copy pays that costs `cost` and then gains `gain` in each of the `left` steps
// except the first `spread`, in which it is made.
[[nodiscard]] constexpr bool copy_pays(double cost, double gain, std::int64_t left,
                                       std::int64_t spread) {
  return cost < gain * static_cast<double>(left - spread);
}

}  // namespace tandem::exec
