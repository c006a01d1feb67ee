#include "exec/weights/move_choice.hpp"

#include <algorithm>
#include <numeric>
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

std::optional<MoveChoice::Seen> MoveChoice::seen() const {
  // The first layer may wait for what the step before left, the last may have fewer rows.
  std::vector<std::int64_t> others;
  for (std::size_t layer = 1; layer + 1 < step_.size(); ++layer) {
    if (step_[layer] <= 0) return std::nullopt;
    if (layer != tried_) others.push_back(step_[layer]);
  }
  const auto other = static_cast<double>(median(std::move(others)));
  return Seen{other, static_cast<double>(step_[tried_]) / other};
}

MoveChoice::Move MoveChoice::move(std::size_t place) const {
  return {place, std::chrono::nanoseconds(static_cast<std::int64_t>(kSlower * layers_ns_))};
}

MoveChoice::Seen MoveChoice::take_median() {
  std::vector<double> times;
  std::vector<double> ratios;
  for (const Seen& one : std::exchange(seen_, {})) {
    times.push_back(one.layer_ns);
    ratios.push_back(one.ratio);
  }
  return {median(std::move(times)), median(std::move(ratios))};
}

void MoveChoice::judge() {
  const Seen after = take_median();
  gain_ns_ = (before_.ratio - after.ratio) * after.layer_ns;
  state_ = after.ratio <= (1.0 - kGain) * before_.ratio ? State::moving : State::done;
}

std::optional<MoveChoice::Move> MoveChoice::next_place() {
  if (moved_ == tried_) ++moved_;
  // The head is the last. Later ones gain in fewer steps.
  if (moved_ <= step_.size() && copy_pays(cost_ns_, gain_ns_, left_, spread_)) return move(moved_);
  state_ = State::done;
  return std::nullopt;
}

std::optional<MoveChoice::Move> MoveChoice::next(std::int64_t left) {
  left_ = left;
  if (state_ == State::done) return std::nullopt;
  if (const auto now = seen()) {
    layers_ns_ = static_cast<double>(std::accumulate(step_.begin(), step_.end(), std::int64_t{0}));
    if (state_ == State::before || state_ == State::after) seen_.push_back(*now);
  }
  std::ranges::fill(step_, 0);
  if (state_ == State::before && seen_.size() >= kStepsBefore) {
    before_ = take_median();
    state_ = State::trying;
  }
  if (state_ == State::trying) return move(tried_);
  if (state_ == State::after && seen_.size() >= kStepsAfter) judge();
  if (state_ == State::moving) return next_place();
  return std::nullopt;
}

bool MoveChoice::copied(std::chrono::nanoseconds took, double part) {
  if (state_ == State::trying) {
    cost_ns_ += static_cast<double>(took.count());
    ++spread_;
    const double most = kMostGain * before_.ratio * before_.layer_ns;
    if (!copy_pays(cost_ns_ / part, most, left_, spread_)) {
      state_ = State::done;
      return false;
    }
    if (part >= 1.0) state_ = State::after;
  } else if (state_ == State::moving && part >= 1.0) {
    ++moved_;
  }
  return true;
}

}  // namespace tandem::exec
