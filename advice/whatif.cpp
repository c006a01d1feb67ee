#include "advice/whatif.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "advice/plan_request.hpp"
#include "model/base/error.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "model/cluster/variation.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "sim/replay/replay.hpp"

namespace tandem::study {
namespace {

using model::Cluster;
using model::Device;
using Kind = WhatIfChange::Kind;

// What a plan for a scene depends on, except names.
struct Likeness {
  Cluster cluster;
  std::vector<model::DeviceProfile> profiles;
  model::DeviceIndex master;
  std::vector<std::vector<model::DeviceIndex>> groups;
  bool operator==(const Likeness&) const = default;
};

Likeness likeness(const Scene& scene) {
  Likeness like{.cluster = anonymous(scene.cluster),
                .profiles = scene.profiles,
                .master = scene.cluster.find(scene.master),
                .groups = {}};
  for (const std::vector<std::string>& group : scene.groups) {
    std::vector<model::DeviceIndex>& members = like.groups.emplace_back();
    for (const std::string& name : group) members.push_back(scene.cluster.find(name));
  }
  return like;
}

Scene exchanged(Scene scene, model::DeviceIndex a, model::DeviceIndex b) {
  scene.cluster = with_exchanged(scene.cluster, a, b);
  std::swap(scene.profiles[static_cast<std::size_t>(a)],
            scene.profiles[static_cast<std::size_t>(b)]);
  return scene;
}

constexpr model::DeviceIndex kMostExchanged = 16;  // devices; of more, no two change places

class Changes {
 public:
  Changes(const planner::Plan& plan, const ServedWorkload* served, EvaluatorKind evaluator)
      : plan_(&plan),
        served_(served),
        request_s_(request_clock(evaluator)),
        plan_by_(planning_evaluator(evaluator)) {}

  [[nodiscard]] Scene scene() const { return scene_of(*plan_); }
  [[nodiscard]] const Device& device(model::DeviceIndex d) const {
    return plan_->cluster.devices()[static_cast<std::size_t>(d)];
  }
  [[nodiscard]] double planned_s() const { return request_s_(*plan_, served_); }

  // Returns the time of the best plan for `scene`: a new one or, with the same devices, the current
  // one. Throws Error with the reason if there is none. Scenes that differ only in names and in the
  // places of two devices share a plan.
  [[nodiscard]] double best(const Scene& scene) {
    const double anew = known(planned_, scene, [this](const Scene& one) { return planned(one); });
    const auto names = [](const Cluster& cluster) {
      std::vector<std::string> all;
      for (const Device& device : cluster.devices()) all.push_back(device.name);
      return all;
    };
    if (names(scene.cluster) != names(plan_->cluster)) return anew;
    planner::Plan kept = *plan_;
    kept.cluster = scene.cluster;
    kept.profiles = scene.profiles;
    return std::min(anew, request_s_(kept, served_));
  }

  // Returns the time of the plan that is searched as `tandem plan` does; nothing if `effort` ended
  // before, or if there is none.
  [[nodiscard]] std::optional<double> searched(const Scene& scene, planner::SearchEffort& effort) {
    const planner::AbandonScope given_up(effort);
    try {
      return known(searched_, scene, [&](const Scene& one) {
        return searched_seconds(open_ask_of(*plan_, served_, one, plan_by_), request_s_, effort);
      });
    } catch (const planner::SearchAbandoned&) {
    } catch (const Error&) {
      // What was planned before stays.
    }
    return std::nullopt;
  }

  [[nodiscard]] Scene with_another(model::DeviceIndex like) const {
    Scene made = scene();
    made.cluster = with_copy(plan_->cluster, device(like).name);
    made.profiles.push_back(plan_->profiles[static_cast<std::size_t>(like)]);
    for (std::vector<std::string>& group : made.groups) {
      if (std::ranges::find(group, device(like).name) != group.end())
        group.push_back(made.cluster.devices().back().name);
    }
    return made;
  }

 private:
  using Known = std::vector<std::pair<Likeness, double>>;  // and the seconds

  [[nodiscard]] static double known(Known& all, const Scene& scene,
                                    const std::function<double(const Scene&)>& seconds) {
    const auto find = [&](const Scene& same) {
      return std::ranges::find(all, likeness(same), &std::pair<Likeness, double>::first);
    };
    auto at = find(scene);
    // Chance meets devices by their places.
    const model::DeviceIndex moved =
        scene.cluster.size() > kMostExchanged || model::varies_by_chance(scene.cluster)
            ? 0
            : scene.cluster.size();
    for (model::DeviceIndex b = 1; b < moved; ++b) {
      for (model::DeviceIndex a = 0; a < b && at == all.end(); ++a)
        at = find(exchanged(scene, a, b));
    }
    if (at != all.end()) return at->second;
    return all.emplace_back(likeness(scene), seconds(scene)).second;
  }

  [[nodiscard]] double planned(const Scene& scene) const {
    return planned_seconds(ask_of(*plan_, served_, scene, plan_by_), request_s_);
  }

  const planner::Plan* plan_;
  const ServedWorkload* served_;  // null: one request
  PlanClock request_s_;
  planner::Evaluator plan_by_;
  Known planned_;
  Known searched_;
};

using Edit = std::function<Scene()>;

// A change, and the scene that it makes.
struct ChangedScene {
  WhatIfChange change;
  Edit edit;
};

void add_device_changes(const Changes& changes, const planner::Plan& plan,
                        std::vector<ChangedScene>& tasks) {
  const bool several = plan.cluster.size() > 1;
  for (model::DeviceIndex d = 0; d < plan.cluster.size(); ++d) {
    const std::string& name = changes.device(d).name;
    const auto edited = [&changes, name](auto set) {
      return [&changes, name, set] {
        Scene scene = changes.scene();
        scene.cluster = with_devices(scene.cluster, [&](Device& device) {
          if (device.name == name) set(device);
        });
        return scene;
      };
    };
    const bool local = planner::sharding_of(plan).is_local();
    if (!local && several)
      tasks.push_back({{Kind::add, name}, [&changes, d] { return changes.with_another(d); }});
    tasks.push_back({{Kind::speed, name}, [&changes, d] {
                       Scene scene = changes.scene();
                       model::DeviceProfile& profile = scene.profiles[static_cast<std::size_t>(d)];
                       profile = model::slowed(profile, 0.5);
                       return scene;
                     }});
    tasks.push_back({{Kind::memory, name}, edited([](Device& device) {
                       device.memory = model::Bytes{2.0 * device.memory.value()};
                     })});
    if (changes.device(d).disk_bandwidth.value() > 0.0) {
      tasks.push_back({{Kind::disk, name}, edited([](Device& device) {
                         device.disk_bandwidth =
                             model::BytesPerSecond{2.0 * device.disk_bandwidth.value()};
                       })});
    }
  }
}

// Links on a route between two devices: no message ever passes the others.
std::vector<std::string> links_of_routes(const Cluster& cluster) {
  std::vector<bool> passed(cluster.links().size(), false);
  for (model::DeviceIndex from = 0; from < cluster.size(); ++from) {
    for (model::DeviceIndex to = 0; to < cluster.size(); ++to) {
      if (from == to) continue;
      for (const model::Hop& hop : cluster.route(from, to).hops)
        passed[static_cast<std::size_t>(hop.link)] = true;
    }
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < passed.size(); ++i) {
    if (passed[i]) names.push_back(cluster.links()[i].name);
  }
  return names;
}

void add_link_changes(const Changes& changes, const planner::Plan& plan,
                      std::vector<ChangedScene>& tasks) {
  const auto edited = [&changes](const std::string& name, auto set) {
    return [&changes, name, set] {
      Scene scene = changes.scene();
      scene.cluster = with_links(scene.cluster, [&](model::Link& link) {
        if (name.empty() || link.name == name) set(link);
      });
      return scene;
    };
  };
  const auto wider = [](model::Link& link) {
    link.bandwidth = model::BytesPerSecond{2.0 * link.bandwidth.value()};
  };
  const auto nearer = [](model::Link& link) {
    link.latency = model::Seconds{0.5 * link.latency.value()};
  };
  std::vector<std::string> names = links_of_routes(plan.cluster);
  if (names.size() > 1) names.emplace_back();  // all of them
  for (const std::string& name : names) {
    tasks.push_back({{Kind::bandwidth, name}, edited(name, wider)});
    tasks.push_back({{Kind::latency, name}, edited(name, nearer)});
  }
}

// The fastest first, impossible ones last.
bool is_faster_change(const WhatIfChange& a, const WhatIfChange& b) {
  if (a.request_s && b.request_s) return *a.request_s < *b.request_s;
  return a.request_s.has_value() && !b.request_s.has_value();
}

// Searches all that `tandem plan` does, without a change and then for the changes that gain most,
// as far as `limits` allow. Returns the seconds without a change; infinite: not known.
double search_changes(Changes& changes, std::vector<ChangedScene>& tasks,
                      const planner::SearchEffort::Limits& limits, Progress& progress) {
  planner::SearchEffort effort(limits);
  effort.has_plan();
  const std::optional<double> unchanged = changes.searched(changes.scene(), effort);
  std::ranges::stable_sort(tasks, is_faster_change, &ChangedScene::change);
  for (ChangedScene& task : tasks) {
    WhatIfChange& change = task.change;
    if (!effort.ended()) {
      try {
        const std::optional<double> found = changes.searched(task.edit(), effort);
        if (found) change.request_s = std::min(*found, change.request_s.value_or(*found));
      } catch (const Error&) {  // what cannot be is known by now
      }
    }
    change.at_least = effort.ended();
    progress.advance(1);
  }
  return unchanged.value_or(std::numeric_limits<double>::infinity());
}

}  // namespace

std::string to_text(const WhatIfChange& change) {
  const std::string subject = "'" + change.subject + "'";
  const std::string link = change.subject.empty() ? "all links" : "link " + subject;
  switch (change.kind) {
    case Kind::none:
      break;
    case Kind::add:
      return "another " + subject;
    case Kind::speed:
      return subject + " twice as fast";
    case Kind::memory:
      return subject + " with twice the memory";
    case Kind::disk:
      return subject + " with a disk twice as fast";
    case Kind::bandwidth:
      return link + " of twice the bandwidth";
    case Kind::latency:
      return link + " of half the latency";
  }
  return "as it is";
}

PlanClock request_clock(EvaluatorKind evaluator) {
  return [evaluator](const planner::Plan& plan, const ServedWorkload* of) {
    const bool analytic = evaluator == EvaluatorKind::analytic;
    if (of == nullptr)
      return planner::predicted_request_time(
          plan, analytic ? planner::Evaluator(model::extrapolate_analytic)
                         : planner::Evaluator(sim::replay_extrapolated));
    ServedWorkload served = *of;
    served.steps = std::min(served.steps, plan.reserved().steps);
    const model::Result result =
        analytic ? predict_served(plan, served, {.evaluator = evaluator, .intervals = false}).result
                 : predict_served_fairly(plan, served);
    double sum_s = 0.0;
    for (const model::RequestResult& request : result.requests)
      sum_s += request.end_s - request.arrival_s;
    return sum_s / static_cast<double>(result.requests.size());
  };
}

planner::Evaluator planning_evaluator(EvaluatorKind evaluator) {
  return evaluator == EvaluatorKind::analytic ? planner::Evaluator(model::evaluate_analytic)
                                              : planner::Evaluator(sim::evaluate_fair);
}

double WhatIf::gain(const WhatIfChange& change) const {
  require(change.request_s.has_value(), "WhatIf::gain: of a change that is possible");
  return 1.0 - *change.request_s / unchanged_s;
}

void WhatIf::compare_with(double seconds) {
  unchanged_s = std::min(unchanged_s, seconds);
  for (WhatIfChange& change : changes) {
    if (change.request_s) change.request_s = std::min(*change.request_s, unchanged_s);
  }
  std::ranges::stable_sort(changes, is_faster_change);
}

WhatIf what_if(const planner::Plan& plan, EvaluatorKind evaluator, Progress& progress,
               const ServedWorkload* served,
               const std::optional<planner::SearchEffort::Limits>& search) {
  if (evaluator == EvaluatorKind::analytic) model::check_analytic(plan.cluster);
  if (plan.sparse)
    throw Error(
        "whatif: a plan with sparse attention, whose levels are those of its own network: expected "
        "one without; plan without '--levels' and '--drop'");
  Changes changes(plan, served, evaluator);
  WhatIf answer{.planned_s = changes.planned_s()};
  answer.unchanged_s = std::min(answer.planned_s, changes.best(changes.scene()));
  std::vector<ChangedScene> tasks;
  add_device_changes(changes, plan, tasks);
  add_link_changes(changes, plan, tasks);
  progress.expect(tasks.size() * (search ? 2 : 1));
  for (ChangedScene& task : tasks) {
    WhatIfChange& change = task.change;
    try {
      change.request_s = changes.best(task.edit());
    } catch (const Error& error) {
      change.obstacle = error.what();
    }
    progress.advance(1);
  }
  if (search) answer.compare_with(search_changes(changes, tasks, *search, progress));
  for (ChangedScene& task : tasks) answer.changes.push_back(std::move(task.change));
  answer.compare_with(answer.unchanged_s);
  return answer;
}

}  // namespace tandem::study
