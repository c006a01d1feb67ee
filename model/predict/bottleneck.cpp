#include "model/predict/bottleneck.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "model/base/error.hpp"
#include "model/base/text_table.hpp"
#include "model/predict/program.hpp"

namespace tandem::model {
namespace {

// The spans of one step, by action.
std::vector<const Span*> spans_of(const Trace& trace, std::int32_t step, const Program& program) {
  // A transfer has three spans, all else one.
  std::map<std::pair<TaskIndex, TaskKind>, const Span*> by_task;
  for (const Span& span : trace.spans) {
    if (span.step == step) by_task[{span.task, span.kind}] = &span;
  }
  std::vector<const Span*> spans;
  spans.reserve(program.actions().size());
  for (const LaneAction& action : program.actions()) {
    const auto found = by_task.find({action.task, action.kind});
    spans.push_back(found == by_task.end() ? nullptr : found->second);
  }
  return spans;
}

class CriticalPath {
 public:
  CriticalPath(const Evaluated& run, const Program& program, std::vector<const Span*> spans)
      : run_(run), program_(program), spans_(std::move(spans)) {
    std::map<std::tuple<LaneKind, DeviceIndex, DeviceIndex>, ActionIndex> last;
    for (ActionIndex i = 0; i < program.size(); ++i) {
      const LaneAction& action = program.actions()[static_cast<std::size_t>(i)];
      const auto [lane, first] = last.try_emplace({action.lane, action.device, action.peer}, -1);
      lane_before_.push_back(lane->second);
      lane->second = i;
      if (action.lane != LaneKind::channel) continue;
      for (const Hop& hop : route(i).hops) occupied_[{hop.link, hop.direction}] += alone(i, hop);
    }
  }

  // Back to time `from`: a disk may have begun a step's loads long before.
  [[nodiscard]] std::vector<Waiting> walk(double from) {
    ActionIndex at = last_result();
    // A message may wait for its channel: then what comes before it ended for it when the bytes
    // were out, a latency before the end of its span.
    double until = at < 0 ? from : span(at).end;
    while (at >= 0 && until > from) {
      const ActionIndex before = predecessor(at);
      // What passes between the end of the one and the end of the other belongs to the other.
      const double since = before < 0 ? span(at).start : span(at).start - gap(at, before);
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
  [[nodiscard]] const Span& span(ActionIndex i) const {
    const Span* found = spans_[static_cast<std::size_t>(i)];
    require(found != nullptr, "every action of the step has a span");
    return *found;
  }
  [[nodiscard]] const LaneAction& action(ActionIndex i) const {
    return program_.actions()[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] const Route& route(ActionIndex i) const {
    return run_.cluster.route(action(i).device, action(i).peer);
  }

  // When `after`, in the same lane, could follow `i`: a channel is free once the bytes are out.
  [[nodiscard]] double lane_free(ActionIndex i) const {
    const bool channel = action(i).lane == LaneKind::channel;
    return span(i).end - (channel ? route(i).latency.value() : 0.0);
  }

  [[nodiscard]] double gap(ActionIndex at, ActionIndex before) const {
    const double free =
        before == lane_before_[static_cast<std::size_t>(at)] ? lane_free(before) : span(before).end;
    return std::max(0.0, span(at).start - free);
  }

  // What the step is for: its last sample, or the end of an encoder's pass on the master.
  [[nodiscard]] ActionIndex last_result() const {
    ActionIndex last = -1;
    for (ActionIndex i = program_.size() - 1; i >= 0; --i) {
      if (action(i).kind == TaskKind::sample) return i;
      if (last < 0 && action(i).device == run_.master && action(i).lane == LaneKind::cpu) last = i;
    }
    return last;
  }

  [[nodiscard]] ActionIndex predecessor(ActionIndex i) const {
    ActionIndex latest = lane_before_[static_cast<std::size_t>(i)];
    double when = latest < 0 ? 0.0 : lane_free(latest);
    for (const ActionIndex dependency : program_.dependencies(i)) {
      if (latest >= 0 && span(dependency).end < when) continue;
      latest = dependency;
      when = span(dependency).end;
    }
    return latest;
  }

  // `seconds` of action `i`, which end `early` seconds before its span does.
  void charge(ActionIndex i, double seconds, double early) {
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
  [[nodiscard]] double alone(ActionIndex i, const Hop& hop) const {
    return (Bytes{span(i).bytes} / link(hop).bandwidth).value();
  }
  // Seconds of the step that a link is occupied, as message `i` sees it.
  [[nodiscard]] double occupation(ActionIndex i, const Hop& hop) const {
    return link(hop).sharing == Sharing::fatpipe ? alone(i, hop)
                                                 : occupied_.at({hop.link, hop.direction});
  }

  const Evaluated& run_;
  const Program& program_;
  std::vector<const Span*> spans_;
  std::vector<ActionIndex> lane_before_;
  // By link and direction: the time that the step's messages take of it.
  std::map<std::pair<LinkIndex, Direction>, double> occupied_;
  std::map<std::pair<WaitCause, std::string>, double> seconds_;
};

}  // namespace

Bottleneck find_bottleneck(const Evaluated& run, Steps& steps, const Trace& trace) {
  Bottleneck result;
  double from = 0.0;
  for (std::int32_t step = 0; step < std::min(2, steps.count()); ++step) {
    const Program program(steps.graph(step));
    std::vector<Waiting> waiting =
        CriticalPath(run, program, spans_of(trace, step, program)).walk(from);
    for (const Span& span : trace.spans) {
      if (span.step == step && span.kind == TaskKind::sample) from = std::max(from, span.end);
    }
    (step == 0 ? result.prompt : result.token) = std::move(waiting);
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
