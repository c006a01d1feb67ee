#pragma once

// The plans of the settings that the search for the best one evaluates.

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "advice/question.hpp"
#include "model/base/error.hpp"
#include "planner/serving/service_search.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::study {

// A setting: all choices except those of make_plan.
struct Setting {
  const planner::Strategy* strategy = nullptr;
  const planner::Policy* policy = nullptr;  // for many requests
  std::size_t format = 0;                   // among the question's
  std::vector<bool> used{};                 // by DeviceIndex
  model::DeviceIndex master = 0;
  // Plans on all axes that are open (planner::outer_axes), and searches shares of streamed weights
  // by prediction instead of Algorithm 1 alone, which takes a twentieth of the time.
  bool thorough = false;
  // Not thorough, but with every collective.
  bool any_sums = false;
  bool gathers_weights = false;         // Plan::gather_weights
  std::optional<std::int32_t> tiles{};  // shares are made for them; none: found for the shares
  bool refines = false;                 // what takes long: parts, OpenAxes::at_length
  [[nodiscard]] auto key() const {
    return std::tuple(std::string_view(strategy->name), policy, format, used, master, thorough,
                      any_sums, gathers_weights, tiles, refines);
  }
  [[nodiscard]] std::ptrdiff_t size() const { return std::ranges::count(used, true); }
};

struct Answer {
  std::optional<Contender> contender;
  std::string reason;  // for which there is none
};

// The best plan so far of all strategies, for threads that search one each.
class SearchWatch {
 public:
  SearchWatch(planner::SearchEffort& effort, std::function<void(const BestSoFar&)> progress)
      : effort_(&effort), progress_(std::move(progress)) {}
  void planned(const Setting& setting, const Answer& answer);
  [[nodiscard]] const planner::SearchEffort& effort() const { return *effort_; }

 private:
  planner::SearchEffort* effort_;
  std::function<void(const BestSoFar&)> progress_;
  std::mutex mutex_;
  BestSoFar best_;
};

// The best plans of settings, each made once. Once the search has ended, other settings have none.
class Answers {
 public:
  // `question` and `watch` outlive it.
  Answers(const Question& question, SearchWatch& watch) : question_(&question), watch_(&watch) {}

  // Throws Error as the planner does for a single request. For many, the error becomes the reason:
  // some strategies do not serve them.
  const Answer& operator()(const Setting& setting);
  // Returns the seconds; infinite without a plan. Settings that differ in names only share a plan.
  [[nodiscard]] double seconds(const Setting& setting);
  // Returns the seconds that no plan of a thorough `setting` is expected to be below: of the same
  // devices with enough memory for all weights, where memory limits the plan of the rough setting.
  // Planning for weights that stream takes ten times as long. 0: not known.
  [[nodiscard]] double with_enough_memory(const Setting& setting);
  // Returns whether its devices may hold all weights (least_bytes.hpp).
  [[nodiscard]] bool may_hold(const Setting& setting) const;
  // Returns the fastest of all planned settings; nothing without a plan.
  [[nodiscard]] std::optional<Setting> fastest();
  // Returns the planned settings in order.
  [[nodiscard]] const std::vector<Setting>& asked() const { return asked_; }
  // Returns the first error that became a reason.
  [[nodiscard]] const std::optional<Error>& refused() const { return refused_; }

 private:
  [[nodiscard]] planner::Request request_of(const Setting& setting) const;
  [[nodiscard]] ServedWorkload served_by(const Contender& contender) const;
  // Of many requests.
  [[nodiscard]] double predicted(const Contender& contender) const;
  [[nodiscard]] std::variant<planner::Infeasible, Contender> planned(
      const Setting& setting, const planner::Request& request) const;
  [[nodiscard]] Answer best_of(const Setting& setting);
  // The same; without a plan if it took too long.
  [[nodiscard]] Answer found(const Setting& setting);
  [[nodiscard]] Answer best_with(const Setting& setting, const planner::Request& request);

  // What a plan depends on, except names.
  struct PlanKey {
    std::tuple<std::string_view, const planner::Policy*, std::size_t, bool, bool, bool,
               std::optional<std::int32_t>, bool, model::DeviceIndex>
        setting;
    model::Cluster cluster;
    std::vector<model::DeviceProfile> profiles;
    bool operator==(const PlanKey&) const = default;
  };
  [[nodiscard]] std::optional<PlanKey> plan_key(const Setting& setting) const;

  const Question* question_;
  SearchWatch* watch_;
  std::shared_ptr<planner::ReadingTimes> times_{};       // of the plans that compete for a setting
  std::vector<std::pair<PlanKey, double>> known_plans_;  // and the seconds
  std::map<decltype(Setting().key()), Answer> known_;
  std::map<decltype(Setting().key()), double> enough_memory_;
  std::vector<Setting> asked_;
  std::optional<Error> refused_;
};

// Returns one profile for each device of the request's cluster: its own, or nominal ones.
[[nodiscard]] std::vector<model::DeviceProfile> profiles_of(const planner::Request& request);

}  // namespace tandem::study
