#include "model/predict/bottleneck.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "model/base/error.hpp"
#include "model/base/text_table.hpp"
#include "model/predict/program.hpp"

namespace tandem::model {
namespace {

// What a critical path leads through: the actions of some steps, one after another.
struct Path {
  struct Action {
    LaneAction what{};
    std::vector<std::size_t> dependencies{};
    const Span* span = nullptr;
  };
  std::vector<Action> actions{};

  // Appends the actions of a step. `spans` are its spans.
  void add(const Program& program, const std::vector<const Span*>& spans) {
    // A transfer has three spans, all else one.
    std::map<std::pair<TaskIndex, TaskKind>, const Span*> by_task;
    for (const Span* const span : spans) by_task[{span->task, span->kind}] = span;
    const std::size_t first = actions.size();
    for (ActionIndex i = 0; i < program.size(); ++i) {
      Action& action = actions.emplace_back();
      action.what = program.actions()[static_cast<std::size_t>(i)];
      for (const ActionIndex before : program.dependencies(i))
        action.dependencies.push_back(first + static_cast<std::size_t>(before));
      const auto found = by_task.find({action.what.task, action.what.kind});
      if (found != by_task.end()) action.span = found->second;
    }
  }
};

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

class CriticalPath {
 public:
  CriticalPath(const Evaluated& run, const Path& path)
      : run_(run), path_(path), lane_before_(path.actions.size(), kNone) {
    std::map<std::tuple<LaneKind, DeviceIndex, DeviceIndex>, std::vector<std::size_t>> lanes;
    for (std::size_t i = 0; i < path.actions.size(); ++i) {
      lanes[{action(i).lane, action(i).device, action(i).peer}].push_back(i);
      if (action(i).lane != LaneKind::channel) continue;
      for (const Hop& hop : route(i).hops) occupied_[{hop.link, hop.direction}] += alone(i, hop);
    }
    // Steps in flight at once take turns in a lane.
    for (auto& [lane, order] : lanes) {
      std::ranges::stable_sort(order, {}, [this](std::size_t i) { return span(i).start; });
      for (std::size_t k = 1; k < order.size(); ++k) lane_before_[order[k]] = order[k - 1];
    }
  }

  // Back to time `from`: a disk may have begun a step's loads long before.
  [[nodiscard]] std::vector<Waiting> walk(double from) {
    std::size_t at = last_result();
    // A message may wait for its channel: then what comes before it ended for it when the bytes
    // were out, a latency before the end of its span.
    double until = at == kNone ? from : span(at).end;
    while (at != kNone && until > from) {
      const std::size_t before = predecessor(at);
      // What passes between the end of the one and the end of the other belongs to the other.
      const double since = before == kNone ? span(at).start : span(at).start - gap(at, before);
      charge(at, until - std::max(since, from), span(at).end - until);
      until = since;
      at = before;
    }
    std::vector<Waiting> waiting;
    waiting.reserve(seconds_.size());
    for (const auto& [part, seconds] : seconds_)
      waiting.push_back({part.first, part.second, seconds});
    std::stable_sort(waiting.begin(), waiting.end(),
                     [](const Waiting& a, const Waiting& b) { return a.seconds > b.seconds; });
    return waiting;
  }

 private:
  [[nodiscard]] const Span& span(std::size_t i) const {
    const Span* found = path_.actions[i].span;
    require(found != nullptr, "every action of the steps has a span");
    return *found;
  }
  [[nodiscard]] const LaneAction& action(std::size_t i) const { return path_.actions[i].what; }
  [[nodiscard]] const Route& route(std::size_t i) const {
    return run_.cluster.route(action(i).device, action(i).peer);
  }

  // When `after`, in the same lane, could follow `i`: a channel is free once the bytes are out.
  [[nodiscard]] double lane_free(std::size_t i) const {
    const bool channel = action(i).lane == LaneKind::channel;
    return span(i).end - (channel ? route(i).latency.value() : 0.0);
  }

  [[nodiscard]] double gap(std::size_t at, std::size_t before) const {
    const double free = before == lane_before_[at] ? lane_free(before) : span(before).end;
    return std::max(0.0, span(at).start - free);
  }

  // What the steps are for: the last sample, or the end of an encoder's pass on the master.
  [[nodiscard]] std::size_t last_result() const {
    std::size_t last = kNone;
    for (std::size_t i = path_.actions.size(); i-- > 0;) {
      if (action(i).kind == TaskKind::sample) return i;
      if (last == kNone && action(i).device == run_.master && action(i).lane == LaneKind::cpu)
        last = i;
    }
    return last;
  }

  [[nodiscard]] std::size_t predecessor(std::size_t i) const {
    std::size_t latest = lane_before_[i];
    double when = latest == kNone ? 0.0 : lane_free(latest);
    for (const std::size_t dependency : path_.actions[i].dependencies) {
      if (latest != kNone && span(dependency).end < when) continue;
      latest = dependency;
      when = span(dependency).end;
    }
    return latest;
  }

  // `seconds` of action `i`, which end `early` seconds before its span does.
  void charge(std::size_t i, double seconds, double early) {
    const std::string& device =
        run_.cluster.devices()[static_cast<std::size_t>(action(i).device)].name;
    if (action(i).lane == LaneKind::cpu) {
      const bool copy = action(i).kind == TaskKind::capture || action(i).kind == TaskKind::deliver;
      if (copy) {
        seconds_[{WaitCause::copying, "copying messages of " + device}] += seconds;
      } else {
        seconds_[{WaitCause::compute, "compute of " + device}] += seconds;
      }
      return;
    }
    if (action(i).lane == LaneKind::disk) {
      seconds_[{WaitCause::disk, "disk of " + device}] += seconds;
      return;
    }
    Route way = route(i);
    way.latency = Seconds{std::max(0.0, way.latency.value() - early)};
    const double latency = std::min(seconds, way.latency.value());
    const double overhead = std::min(
        seconds - latency, message_overhead(run_.costs, action(i), Bytes{span(i).bytes}).value());
    seconds_[{WaitCause::latency, "latency of links"}] += latency;
    if (overhead > 0.0)
      seconds_[{WaitCause::overhead, "message overhead of " + device}] += overhead;
    const auto busiest = std::max_element(
        way.hops.begin(), way.hops.end(),
        [&](const Hop& a, const Hop& b) { return occupation(i, a) < occupation(i, b); });
    if (busiest != way.hops.end())
      seconds_[{WaitCause::bandwidth, "bandwidth of " + link(*busiest).name}] +=
          seconds - latency - overhead;
  }

  [[nodiscard]] const Link& link(const Hop& hop) const {
    return run_.cluster.links()[static_cast<std::size_t>(hop.link)];
  }
  // Seconds that the message alone takes of a link's time.
  [[nodiscard]] double alone(std::size_t i, const Hop& hop) const {
    return (Bytes{span(i).bytes} / link(hop).bandwidth).value();
  }
  // Seconds of the steps that a link is occupied, as message `i` sees it.
  [[nodiscard]] double occupation(std::size_t i, const Hop& hop) const {
    return link(hop).sharing == Sharing::fatpipe ? alone(i, hop)
                                                 : occupied_.at({hop.link, hop.direction});
  }

  const Evaluated& run_;
  const Path& path_;
  std::vector<std::size_t> lane_before_;
  // By link and direction: the time that the steps' messages take of it.
  std::map<std::pair<LinkIndex, Direction>, double> occupied_;
  std::map<std::pair<WaitCause, std::string>, double> seconds_;
};

}  // namespace

Bottleneck find_bottleneck(const Evaluated& run, Steps& steps, const Trace& trace) {
  std::vector<std::vector<const Span*>> spans(static_cast<std::size_t>(steps.count()));
  for (const Span& span : trace.spans)
    spans.at(static_cast<std::size_t>(span.step)).push_back(&span);
  Bottleneck result;
  Path path;
  double from = 0.0;
  for (std::size_t step = 0; step < spans.size(); ++step) {
    path.add(Program(steps.graph(static_cast<std::int32_t>(step))), spans[step]);
    double sampled = from;
    for (const Span* const span : spans[step]) {
      if (span->kind == TaskKind::sample) sampled = std::max(sampled, span->end);
    }
    const bool pass = result.prompt.empty() && step + 1 == spans.size();  // of an encoder
    if (sampled == from && !pass) continue;
    std::vector<Waiting> waiting = CriticalPath(run, path).walk(from);
    if (!result.prompt.empty()) {
      result.token = std::move(waiting);
      break;
    }
    result.prompt = std::move(waiting);
    path = {};
    from = sampled;
  }
  return result;
}

std::string to_text(const std::vector<Waiting>& waiting) {
  constexpr std::size_t kShown = 4;
  double total = 0.0;
  for (const Waiting& part : waiting) total += part.seconds;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, waiting.size()); ++i) {
    const double percent = total > 0.0 ? 100.0 * waiting[i].seconds / total : 0.0;
    if (i > 0 && percent < 0.5) break;
    text += (text.empty() ? "" : ", ") + waiting[i].what + ' ' + fixed(percent, 0) + '%';
  }
  return text;
}

}  // namespace tandem::model
