#pragma once

// The plans of the settings that a search for the best one asks about.

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "advice/choice.hpp"
#include "model/base/error.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::study {

// A way to serve, but for what make_plan finds.
struct Setting {
  const planner::Strategy* strategy = nullptr;
  const planner::Policy* policy = nullptr;  // of many requests
  std::size_t format = 0;                   // among the question's
  std::vector<bool> used{};                 // by DeviceIndex
  model::DeviceIndex master = 0;
  // Every collective is tried, not the strategy's own alone, of keys that new tokens meet each way
  // that they can move, and shares of weights that stream are sought by prediction, not by
  // Algorithm 1 alone, which takes a twentieth of the time.
  bool thorough = false;
  bool gathers_weights = false;         // Plan::gather_weights
  std::optional<std::int32_t> tiles{};  // with shares made for them; none: found for shares
  [[nodiscard]] auto key() const {
    return std::tuple(std::string_view(strategy->name), policy, format, used, master, thorough,
                      gathers_weights, tiles);
  }
  [[nodiscard]] std::ptrdiff_t size() const { return std::ranges::count(used, true); }
};

struct Answer {
  std::optional<Contender> contender;
  std::string reason;  // why there is none
};

// Settings' best plans, each made once.
class Answers {
 public:
  // `question` outlives it.
  explicit Answers(const Question& question) : question_(&question) {}

  // Throws Error as the planner does, but of many requests, where the error is the reason: some
  // strategies do not serve them.
  const Answer& operator()(const Setting& setting);
  // Infinite where there is no plan. Of settings that are the same but for names, one is planned.
  [[nodiscard]] double seconds(const Setting& setting);
  // What SimGrid says of it; all else goes by sim::evaluate_fair, which is the same to 1e-9.
  [[nodiscard]] double simulated(const Contender& contender) const;
  // Those that were planned, in their order.
  [[nodiscard]] const std::vector<Setting>& asked() const { return asked_; }
  // The first error that was a reason.
  [[nodiscard]] const std::optional<Error>& refused() const { return refused_; }

 private:
  [[nodiscard]] planner::Request request_of(const Setting& setting) const;
  [[nodiscard]] ServedWorkload served_by(const Contender& contender) const;
  [[nodiscard]] double predicted(const Contender& contender) const;
  [[nodiscard]] std::variant<planner::Infeasible, Contender> planned(
      const Setting& setting, const planner::Request& request) const;
  [[nodiscard]] Answer found(const Setting& setting);
  [[nodiscard]] Answer best_with(const Setting& setting, planner::Request& request,
                                 std::optional<std::string> sums);

  // What a plan depends on, but for names.
  struct Alike {
    std::tuple<std::string_view, const planner::Policy*, std::size_t, bool, bool,
               std::optional<std::int32_t>, model::DeviceIndex>
        setting;
    model::Cluster cluster;
    std::vector<model::DeviceProfile> profiles;
    bool operator==(const Alike&) const = default;
  };
  [[nodiscard]] std::optional<Alike> likeness(const Setting& setting) const;

  const Question* question_;
  std::vector<std::pair<Alike, double>> alike_;  // and the seconds
  std::map<decltype(Setting().key()), Answer> known_;
  std::vector<Setting> asked_;
  std::optional<Error> refused_;
};

// One a device of the request's cluster: its own, or nominal ones.
[[nodiscard]] std::vector<model::DeviceProfile> profiles_of(const planner::Request& request);

}  // namespace tandem::study
