#include "exec/weights/move_choice.hpp"

#include <algorithm>
#include <utility>

#include "model/error.hpp"

namespace tandem::exec {
namespace {

template <class Number>
Number median(std::vector<Number> of) {
  const auto middle = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
  std::ranges::nth_element(of, middle);
  return *middle;
}

}  // namespace

MoveChoice::MoveChoice(std::size_t layers)
    : state_(layers < kLeastLayers ? State::done : State::before),
      tried_(layers / 2),
      step_(layers, 0) {}

void MoveChoice::saw(std::size_t layer, std::int64_t nanoseconds) {
  require(layer < step_.size(), "a layer of the model");
  step_[layer] += nanoseconds;
}

std::optional<double> MoveChoice::ratio() const {
  // The first layer may wait for what the step before left, the last may have fewer rows.
  std::vector<std::int64_t> others;
  for (std::size_t layer = 1; layer + 1 < step_.size(); ++layer) {
    if (step_[layer] <= 0) return std::nullopt;
    if (layer != tried_) others.push_back(step_[layer]);
  }
  return static_cast<double>(step_[tried_]) / static_cast<double>(median(std::move(others)));
}

std::optional<std::size_t> MoveChoice::next() {
  if (state_ == State::done) return std::nullopt;
  if (state_ == State::moving) {
    if (moved_ == tried_) ++moved_;
    if (moved_ == step_.size()) state_ = State::done;  // the head is the last
    return moved_++;
  }
  if (const auto now = ratio()) ratios_.push_back(*now);
  std::ranges::fill(step_, 0);
  if (state_ == State::before) {
    if (ratios_.size() < kStepsBefore) return std::nullopt;
    before_ = median(std::exchange(ratios_, {}));
    state_ = State::after;
    return tried_;
  }
  if (ratios_.size() < kStepsAfter) return std::nullopt;
  state_ =
      median(std::exchange(ratios_, {})) <= (1.0 - kGain) * before_ ? State::moving : State::done;
  return std::nullopt;
}

}  // namespace tandem::exec
