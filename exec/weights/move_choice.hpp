#pragma once

// Whether weights that are used where their file lies are worth a copy.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tandem::exec {

// Where a device that works alone has its weights.
enum class WeightPlace : std::uint8_t {
  copied,  // in memory of their own
  mapped,  // where their file has them (Shard::mapped)
  chosen   // there, until a copy turns out to be worth what it costs (MoveChoice)
};

// A mapped file lies in small pages, a copy in huge ones. What that is worth depends on processor
// and hypervisor: from nothing to nine tenths of a token's time, and not for ever: a hypervisor may
// take pages away and give them back. What memory for a copy costs depends on it, too. So a run
// finds out: it times each layer's products in steps of few rows, has one layer copied, and
// compares what is copied with what is not within the same steps, for as long as it copies. Results
// are the same bits either way.
class MoveChoice {
 public:
  // Of a model of so many layers. Fewer than kLeastLayers stay where they are.
  explicit MoveChoice(std::size_t layers);

  // What the products of a layer took in the step that goes on.
  void saw(std::size_t layer, std::int64_t nanoseconds);

  struct Move {
    std::size_t place = 0;  // a layer, or the number of layers for the LM head
    // For how long, so that the token is not much longer: kSlower of what the layers' products take
    // in a step.
    std::chrono::nanoseconds at_most{};
    bool operator==(const Move&) const = default;
  };
  // The step has ended, and the run makes at most `left` more of them. Returns what is to be
  // copied, or copied on, before the next one; nothing if all may stay. First one layer, whose gain
  // is awaited; then, if copies are faster by kGain or more, one after another of the rest, as long
  // as one pays: copy_pays() of what the last one cost and what copies gained in the last steps.
  [[nodiscard]] std::optional<Move> next(std::int64_t left);
  // That was worked at for so long; `part` of the place is copied now, 1: all. Returns false if it
  // is to stay where it was after all: the first layer's copy would cost more than half of the
  // layer's time in all steps that are left, or what is left of another's more than it gains in
  // them. Nothing more is named then.
  [[nodiscard]] bool copied(std::chrono::nanoseconds took, double part);
  // Nothing more is named.
  void stop() { state_ = State::done; }

  static constexpr std::size_t kLeastLayers = 4;
  static constexpr std::size_t kStepsBefore = 3;  // that are timed, of each kind
  static constexpr std::size_t kStepsAfter = 5;
  static constexpr double kGain = 0.07;     // of a layer's time; noise is below
  static constexpr double kMostGain = 0.5;  // of it, that a first copy may be worth
  static constexpr double kSlower = 0.25;   // of a step, that it may be longer by

 private:
  enum class State : std::uint8_t { before, trying, after, moving, done };

  // What a step that timed all layers tells: by how much of their time copied layers are faster
  // than the others, each relative to what it took before, and how long that is, a layer.
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
  std::size_t moved_ = 0;  // places, in order, that are copied or are the tried one
  std::vector<std::int64_t> step_;
  std::vector<std::vector<std::int64_t>> before_;  // steps, of which
  std::vector<double> base_;                       // is the median of each layer
  std::vector<Gain> gains_;                        // of the last steps
  std::int64_t left_ = 0;
  double layers_ns_ = 0.0;  // of a step, all layers
  // Of the copy that is being made, and of the last one that was.
  double copying_ns_ = 0.0;
  std::int64_t copying_steps_ = 0;
  double cost_ns_ = 0.0;
  std::int64_t spread_ = 0;
};

// Whether a copy pays that costs `cost` and then gains `gain` in each of the `left` steps, apart
// from the first `spread`, in which it is made.
[[nodiscard]] constexpr bool copy_pays(double cost, double gain, std::int64_t left,
                                       std::int64_t spread) {
  return cost < gain * static_cast<double>(left - spread);
}

}  // namespace tandem::exec
