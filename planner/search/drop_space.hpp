#pragma once

// The ratios that a search for sparse attention may choose, on one number of levels: what each
// choice loses, and how long its first token takes.

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "planner/search/drop_search.hpp"

namespace tandem::planner {

// By band and level from the second on, levels of a band adjacent: in steps, not falling with the
// level.
using DropSteps = std::vector<std::int32_t>;
// The same as parts, by band and within it by level: DropCandidate::drop.
using Ratios = std::vector<std::vector<double>>;

class DropSpace {
 public:
  // `base`: a plan with sparse attention that drops nothing. Both must outlive this.
  DropSpace(const Plan& base, const LossModel& loss, double step);

  [[nodiscard]] std::size_t size() const { return loss_->bands.size() * levels_; }
  [[nodiscard]] std::int32_t most() const { return most_; }  // of steps
  [[nodiscard]] DropSteps none() const { return DropSteps(size(), 0); }
  // `steps` with one of them `to`, and those of other levels that it would fall below, or exceed,
  // with it.
  [[nodiscard]] DropSteps with(DropSteps steps, std::size_t at, std::int32_t to) const;
  // As large a step at `at` as loses at most `loss`, the others as they are or raised with it; or
  // `steps`, if none does.
  [[nodiscard]] DropSteps raised(const DropSteps& steps, std::size_t at, double loss) const;
  // The same of all in the order given.
  [[nodiscard]] DropSteps filled(DropSteps steps, std::span<const std::size_t> order,
                                 double loss) const;

  [[nodiscard]] double loss(const DropSteps& steps) const;
  // Seconds to the first token; infinite if the plan does not fit into memory.
  [[nodiscard]] double time(const DropSteps& steps);
  // Of all that there are.
  void time_all();
  // `base` with them; its memory is the base's.
  [[nodiscard]] Plan plan(const Ratios& by_band) const;
  [[nodiscard]] DropCandidate candidate(const DropSteps& steps);
  // All whose time is known.
  [[nodiscard]] const std::map<DropSteps, double>& times() const { return times_; }

 private:
  [[nodiscard]] double ratio(std::int32_t step) const;
  [[nodiscard]] Ratios ratios(const DropSteps& steps) const;
  [[nodiscard]] bool fits_dropping() const;

  const Plan* base_;
  const LossModel* loss_;
  double step_;
  std::int32_t most_;
  std::size_t levels_;               // beside the first
  std::vector<std::int32_t> level_;  // LossModel::level_of
  bool fits_ = true;                 // with something dropped
  std::map<DropSteps, double> times_;
};

// The fastest found of those in `space` that drop something and lose at most `bound`, or none() if
// none does: from `starts`, ratios that are all alike, and where `thorough`, what each ratio leaves
// for the others if it is raised first, by exchange (planner/search/drop_search.hpp).
[[nodiscard]] DropSteps fastest_within(DropSpace& space, double bound,
                                       std::vector<DropSteps> starts, bool thorough);

}  // namespace tandem::planner
