#pragma once

// The search for the best plan of one strategy, in steps that choose() interleaves with those of
// others.

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "advice/choice.hpp"
#include "advice/device_moves.hpp"
#include "advice/question.hpp"
#include "advice/settings.hpp"

namespace tandem::study {

// A step takes the best time of all strategies so far, `least`, where that spares work: a snapshot
// that threads share, so that results do not depend on timing.
class StrategySearch {
 public:
  // Copies what it reads: routes of a cluster are found on demand, which threads cannot share.
  StrategySearch(const Question& question, const planner::Strategy& strategy,
                 const std::vector<model::DeviceIndex>& first_equal, SearchWatch& watch)
      : question_(question),
        strategy_(&strategy),
        moves_(question_, first_equal),
        answers_(question_, watch) {}

  // Returns why the strategy is not searched; empty: it is.
  [[nodiscard]] std::string obstacle() const;
  // Returns why it has no plan, in one line.
  [[nodiscard]] std::string reason();
  // Returns what would give it one, "remedy: ..."; empty: the reason does not say.
  [[nodiscard]] std::string remedy();
  [[nodiscard]] Answers& answers() { return answers_; }
  [[nodiscard]] const planner::Strategy& strategy() const { return *strategy_; }
  // Returns the best setting found; nothing without a plan.
  [[nodiscard]] const std::optional<Setting>& best() const { return best_; }
  [[nodiscard]] double seconds();
  [[nodiscard]] const Contender& contender() { return *answers_(*best_).contender; }

  // Plans roughly for all devices, or on many for the fewest that may hold the model, which takes
  // the least time: every strategy has a first plan before one has another.
  void start();
  // Plans for the fastest and nearest 2, 4, 8, ... devices and for all of them, with default sums
  // and rough shares: for the order of searches.
  void begin();
  // Plans in full for the best of the sets of begin(). All devices in full the search needs anyway
  // if there is nothing else to choose.
  void plan_best();
  // Searches devices, master, format and policy with rough plans. A strategy that is far behind is
  // not searched.
  void descend(double least);
  // Plans in full what descend() found, and refines it.
  void plan_descended(double least);
  // Lists all devices, and what descend() found nearly as fast as the best, to be planned in full.
  void line_up(double least);
  // Returns the rough seconds of the first in the line; nothing once the line is empty.
  [[nodiscard]] std::optional<double> next_seconds();
  // Plans the first in the line in full.
  void plan_next();
  // Takes the fastest plan of all that were made.
  void settle();
  // Devices that share out the weights may be others, or have the only plan.
  void gather(double least);
  // Has heads and columns found for the tiles of the plan where that may change the best of all
  // strategies.
  void make_shares_for_tiles(double least);
  // Searches at length what the strategy leaves open, parts with each master, where that may change
  // the best of all strategies.
  void refine(double least);

  // Evaluates each unused device added to the best plan; one of several equal devices.
  [[nodiscard]] std::vector<LeftOut> left_out();

 private:
  void consider(const std::optional<Setting>& setting);
  void plan_in_full(Setting setting);
  [[nodiscard]] bool is_hopeless(double least);
  [[nodiscard]] double limit();
  [[nodiscard]] const std::string& name(model::DeviceIndex d) const;
  [[nodiscard]] Setting everyone() const;
  [[nodiscard]] Setting everyone_as(const Setting& like) const;
  [[nodiscard]] std::vector<const planner::Policy*> policies() const;
  [[nodiscard]] Setting descended(Setting at);
  [[nodiscard]] Setting beginning(const Setting& all);
  [[nodiscard]] std::vector<Setting> doubled() const;
  [[nodiscard]] std::vector<Setting> promising(const Setting& best);

  Question question_;
  const planner::Strategy* strategy_;
  DeviceMoves moves_;
  Answers answers_;
  std::optional<Setting> rough_;     // the best of the local search
  double least_ = 0.0;               // of all strategies, when planning in full began
  std::optional<Setting> answered_;  // the best that was planned in full
  std::deque<Setting> line_;
  std::optional<Setting> best_;  // of all that was planned
};

}  // namespace tandem::study
