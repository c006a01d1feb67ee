#pragma once

// The space of ratios for sparse attention with one number of levels, with the loss and the time to
// the first token of each point.

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "planner/search/drop_search.hpp"

namespace tandem::planner {

// By band and level from the second on, levels of a band adjacent: in steps, never decreasing with
// the level.
using DropSteps = std::vector<std::int32_t>;
// The same as parts, by band and within it by level: DropCandidate::drop.
using Ratios = std::vector<std::vector<double>>;

class DropSpace {
 public:
  // `base`: a plan with sparse attention that drops nothing. Both must outlive this.
  DropSpace(const Plan& base, const LossModel& loss, double step);

  [[nodiscard]] std::size_t size() const { return loss_->bands.size() * levels_; }
  [[nodiscard]] std::int32_t most() const { return most_; }  // the largest number of steps
  [[nodiscard]] DropSteps none() const { return DropSteps(size(), 0); }
  // Returns `steps` with one of them set to `to` and with other levels adjusted to keep the order.
  [[nodiscard]] DropSteps with(DropSteps steps, std::size_t at, std::int32_t to) const;
  // Returns `steps` with the largest value at `at` that loses at most `loss`, others raised with it
  // where needed; `steps` itself if there is none.
  [[nodiscard]] DropSteps raised(const DropSteps& steps, std::size_t at, double loss) const;
  // Applies raised() at all positions in the given order.
  [[nodiscard]] DropSteps filled(DropSteps steps, std::span<const std::size_t> order,
                                 double loss) const;

  [[nodiscard]] double loss(const DropSteps& steps) const;
  // Returns the seconds to the first token; infinite if the plan does not fit into memory.
  [[nodiscard]] double time(const DropSteps& steps);
  // Evaluates the times of all points.
  void time_all();
  // Returns `base` with these ratios; its memory is the base's.
  [[nodiscard]] Plan plan(const Ratios& by_band) const;
  [[nodiscard]] DropCandidate candidate(const DropSteps& steps);
  // Returns all points with an evaluated time.
  [[nodiscard]] const std::map<DropSteps, double>& times() const { return times_; }

 private:
  [[nodiscard]] double ratio(std::int32_t step) const;
  [[nodiscard]] Ratios ratios(const DropSteps& steps) const;
  [[nodiscard]] bool fits_dropping() const;

  const Plan* base_;
  const LossModel* loss_;
  double step_;
  std::int32_t most_;
  std::size_t levels_;               // without the first
  std::vector<std::int32_t> level_;  // LossModel::level_of
  bool fits_ = true;                 // with something dropped
  std::map<DropSteps, double> times_;
};

// Returns the fastest point found in `space` that drops something and loses at most `bound`, or
// none() if there is none. Starts from `starts`, uniform ratios, and if `thorough` also from the
// points that raise each ratio first; improves by exchange (planner/search/drop_search.hpp).
[[nodiscard]] DropSteps fastest_within(DropSpace& space, double bound,
                                       std::vector<DropSteps> starts, bool thorough);

}  // namespace tandem::planner
