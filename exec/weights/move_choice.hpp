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
// and hypervisor: from nothing to half of a token's time. So a run finds out: it times each layer's
// products in steps of few rows, has one layer copied, and compares that layer with the others of
// the same steps, before and after. Results are the same bits either way.
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
  // as one pays: copy_pays() of that layer's cost and gain.
  [[nodiscard]] std::optional<Move> next(std::int64_t left);
  // That was worked at for so long; `part` of the place is copied now, 1: all. Returns false if it
  // is to stay where it was after all: the first layer's copy would cost more than half of the
  // layers' time in all steps that are left. Nothing more is named then.
  [[nodiscard]] bool copied(std::chrono::nanoseconds took, double part);
  // Nothing more is named.
  void stop() { state_ = State::done; }

  static constexpr std::size_t kLeastLayers = 4;
  static constexpr std::size_t kStepsBefore = 3;  // that are timed, of each kind
  static constexpr std::size_t kStepsAfter = 5;
  static constexpr double kGain = 0.07;     // of a layer's time; noise is below
  static constexpr double kMostGain = 0.5;  // of it, that a copy was ever seen to be worth
  static constexpr double kSlower = 0.25;   // of a step, that it may be longer by

 private:
  enum class State : std::uint8_t { before, trying, after, moving, done };

  // What a step that timed all layers tells: the time of a layer that nothing happens to (the
  // median), and the tried layer's relative to it.
  struct Seen {
    double layer_ns = 0.0;
    double ratio = 0.0;
  };
  [[nodiscard]] std::optional<Seen> seen() const;
  [[nodiscard]] Move move(std::size_t place) const;
  [[nodiscard]] Seen take_median();
  void judge();
  [[nodiscard]] std::optional<Move> next_place();

  State state_ = State::before;
  std::size_t tried_ = 0;
  std::size_t moved_ = 0;  // places, in order, that are copied or are the tried one
  std::vector<std::int64_t> step_;
  std::vector<Seen> seen_;
  std::int64_t left_ = 0;
  double layers_ns_ = 0.0;  // of a step, all layers
  Seen before_;
  // Of the tried layer's copy.
  double cost_ns_ = 0.0;
  double gain_ns_ = 0.0;  // a step
  std::int64_t spread_ = 0;
};

// Whether a copy pays that costs `cost` and then gains `gain` in each of the `left` steps, apart
// from the first `spread`, in which it is made.
[[nodiscard]] constexpr bool copy_pays(double cost, double gain, std::int64_t left,
                                       std::int64_t spread) {
  return cost < gain * static_cast<double>(left - spread);
}

}  // namespace tandem::exec
