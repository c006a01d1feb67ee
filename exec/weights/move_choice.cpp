#include "exec/weights/move_choice.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "model/base/error.hpp"

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

// The first layer may wait for the previous step, and the last may have fewer rows.
bool MoveChoice::timed_all() const {
  return std::ranges::all_of(step_.begin() + 1, step_.end() - 1,
                             [](std::int64_t time) { return time > 0; });
}

std::optional<MoveChoice::Gain> MoveChoice::gain() const {
  std::vector<double> copied;
  std::vector<double> mapped;
  std::vector<double> mapped_ns;
  for (std::size_t layer = 1; layer + 1 < step_.size(); ++layer) {
    const auto time = static_cast<double>(step_[layer]);
    if (layer == tried_ || layer < moved_) {
      copied.push_back(time / base_[layer]);
    } else if (layer > moved_ || copying_steps_ == 0) {
      mapped.push_back(time / base_[layer]);
      mapped_ns.push_back(time);
    }
  }
  if (copied.empty() || mapped.empty()) return std::nullopt;
  const double part = 1.0 - median(std::move(copied)) / median(std::move(mapped));
  return Gain{part, part * median(std::move(mapped_ns))};
}

MoveChoice::Gain MoveChoice::median_gain() const {
  std::vector<double> parts;
  std::vector<double> times;
  for (const Gain& one : gains_) {
    parts.push_back(one.part);
    times.push_back(one.ns);
  }
  return {median(std::move(parts)), median(std::move(times))};
}

MoveChoice::Move MoveChoice::move(std::size_t place) const {
  return {place, std::chrono::nanoseconds(static_cast<std::int64_t>(kSlower * layers_ns_))};
}

void MoveChoice::see() {
  layers_ns_ = static_cast<double>(std::accumulate(step_.begin(), step_.end(), std::int64_t{0}));
  if (state_ == State::before) {
    before_.push_back(step_);
  } else if (state_ != State::trying) {
    if (const auto now = gain()) gains_.push_back(*now);
    if (gains_.size() > kStepsAfter) gains_.erase(gains_.begin());
  }
}

std::optional<MoveChoice::Move> MoveChoice::next_place() {
  if (copying_steps_ > 0) return move(moved_);
  if (moved_ == tried_) ++moved_;
  // The head is the last. Later ones gain in fewer steps.
  if (moved_ <= step_.size() && copy_pays(cost_ns_, median_gain().ns, left_, spread_))
    return move(moved_);
  state_ = State::done;
  return std::nullopt;
}

std::optional<MoveChoice::Move> MoveChoice::next(std::int64_t left) {
  left_ = left;
  if (state_ == State::done) return std::nullopt;
  if (timed_all()) see();
  std::ranges::fill(step_, 0);
  if (state_ == State::before && before_.size() >= kStepsBefore) {
    for (std::size_t layer = 0; layer < step_.size(); ++layer) {
      std::vector<double> times;
      for (const auto& step : before_) times.push_back(static_cast<double>(step[layer]));
      base_.push_back(median(std::move(times)));
    }
    state_ = State::trying;
  }
  if (state_ == State::trying) return move(tried_);
  if (state_ == State::after && gains_.size() >= kStepsAfter)
    state_ = median_gain().part >= kGain ? State::moving : State::done;
  if (state_ == State::moving) return next_place();
  return std::nullopt;
}

bool MoveChoice::copied(std::chrono::nanoseconds took, double part) {
  if (state_ != State::trying && state_ != State::moving) return true;
  copying_ns_ += static_cast<double>(took.count());
  ++copying_steps_;
  const double all = copying_ns_ / part;
  const bool pays = state_ == State::trying
                        ? copy_pays(all, kMostGain * base_[tried_], left_, copying_steps_)
                        : part >= 1.0 || copy_pays(all - copying_ns_, median_gain().ns, left_, 0);
  if (!pays) {
    state_ = State::done;
    return false;
  }
  if (part < 1.0) return true;
  cost_ns_ = std::exchange(copying_ns_, 0.0);
  spread_ = std::exchange(copying_steps_, 0);
  if (state_ == State::trying)
    state_ = State::after;
  else
    ++moved_;
  return true;
}

}  // namespace tandem::exec
