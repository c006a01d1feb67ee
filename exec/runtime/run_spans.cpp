#include "exec/runtime/run_spans.hpp"

#include <algorithm>
#include <map>
#include <memory>

#include "model/base/error.hpp"
#include "model/graph/message_schedule.hpp"
#include "model/graph/work.hpp"
#include "model/predict/program.hpp"

namespace tandem::exec {
namespace {

// Fits any clock, and is far enough from every limit that differences cannot overflow.
constexpr std::int64_t kLatestSpan = std::int64_t{1} << 61;

bool is_possible(const TaskTime& time) {
  return std::max(time.start_ns, time.end_ns) <= kLatestSpan &&
         std::min(time.start_ns, time.end_ns) >= -kLatestSpan;
}

bool is_copy(const model::LaneAction& action) {
  return action.kind == model::TaskKind::capture || action.kind == model::TaskKind::deliver;
}

// Returns whether `device` has a record of the task.
bool sees(model::DeviceIndex device, const model::Task& task) {
  return task.device == device || (task.lane == model::LaneKind::channel && task.peer == device);
}

// The spans of one step, gathered from all devices.
class StepSpans {
 public:
  StepSpans(const planner::Plan& plan, const model::TaskGraph& graph, const model::Program& program,
            std::int32_t step, const std::vector<DeviceAccount>& accounts, double tick_s)
      : plan_(plan),
        graph_(graph),
        program_(program),
        step_(step),
        accounts_(accounts),
        tick_s_(tick_s) {
    const auto tasks = static_cast<std::size_t>(graph.size());
    for (std::vector<Times>* times : {&own_, &captures_, &deliveries_}) times->assign(tasks, {});
  }

  // For records checked by check_records().
  void add(model::DeviceIndex device, const TaskTime& time, std::int64_t clock_ahead_ns) {
    const auto i = static_cast<std::size_t>(time.of());
    const bool channel = graph_.tasks()[i].lane == model::LaneKind::channel;
    const bool arrives = graph_.tasks()[i].device != device;
    Times& times = !time.copy() ? own_[i] : arrives ? deliveries_[i] : captures_[i];
    // A message begins at its sender and ends at its receiver.
    if (time.copy() || !arrives) times.start_ns = time.start_ns - clock_ahead_ns;
    if (time.copy() || !channel || arrives) times.end_ns = time.end_ns - clock_ahead_ns;
  }

  // Times relative to `origin_ns`. `lane_end_ns`: when each device's cpu lane ended its last
  // action, in the step before; then in this one.
  void append(std::int64_t origin_ns, std::vector<std::int64_t>& lane_end_ns,
              std::vector<model::Span>& spans) const {
    for (model::ActionIndex i = 0; i < program_.size(); ++i) {
      const model::LaneAction& action = program_.actions()[static_cast<std::size_t>(i)];
      const model::Task& task = graph_.tasks()[static_cast<std::size_t>(action.task)];
      if (is_copy(action) ? lost(action.device) : lost(task)) continue;
      const Times& times = times_of(action);
      // Aligned clocks may be wrong by more than a short flight.
      const std::int64_t end_ns = std::max(times.start_ns, times.end_ns);
      const model::Work work = work_of(action, task);
      model::Span span = model::span_of(action, step_);
      span.start = static_cast<double>(times.start_ns - origin_ns) * tick_s_;
      span.end = static_cast<double>(end_ns - origin_ns) * tick_s_;
      span.bytes = is_copy(action) ? work.streamed_bytes : model::span_bytes(task, work);
      span.flops = work.flops;
      span.stall = static_cast<double>(stall_ns(i, lane_end_ns)) * tick_s_;
      spans.push_back(span);
      if (action.lane == model::LaneKind::cpu) {
        lane_end_ns[static_cast<std::size_t>(action.device)] = end_ns;
      }
    }
  }

  [[nodiscard]] std::int64_t first_start_ns(model::DeviceIndex device) const {
    std::int64_t first = kUnknown;
    for (const model::LaneAction& action : program_.actions()) {
      if (action.device == device) first = std::min(first, times_of(action).start_ns);
    }
    return first;
  }

 private:
  // Returns whether an end of it is at a device that was lost before its report.
  [[nodiscard]] bool lost(const model::Task& task) const {
    return lost(task.device) || (task.lane == model::LaneKind::channel && lost(task.peer));
  }
  [[nodiscard]] bool lost(model::DeviceIndex device) const {
    return device >= 0 && accounts_[static_cast<std::size_t>(device)].missing;
  }

  static constexpr std::int64_t kUnknown = std::int64_t{1} << 62;

  struct Times {
    std::int64_t start_ns = kUnknown;
    std::int64_t end_ns = kUnknown;
  };

  [[nodiscard]] const Times& times_of(const model::LaneAction& action) const {
    const auto i = static_cast<std::size_t>(action.task);
    if (action.kind == model::TaskKind::capture) return captures_[i];
    return action.kind == model::TaskKind::deliver ? deliveries_[i] : own_[i];
  }
  [[nodiscard]] model::Work work_of(const model::LaneAction& action,
                                    const model::Task& task) const {
    if (is_copy(action)) return model::copy_work(model::copy_size(action.kind, task));
    return model::work_of(plan_.model, graph_.batch(), task);
  }

  // Returns how long a cpu task waited for loads after its lane and all other dependencies were
  // ready, on the device's own clock.
  [[nodiscard]] std::int64_t stall_ns(model::ActionIndex i,
                                      const std::vector<std::int64_t>& lane_end_ns) const {
    const model::LaneAction& action = program_.actions()[static_cast<std::size_t>(i)];
    if (action.lane != model::LaneKind::cpu) return 0;
    std::int64_t loaded_ns = -kUnknown;
    std::int64_t others_ns = lane_end_ns[static_cast<std::size_t>(action.device)];
    for (const model::ActionIndex d : program_.dependencies(i)) {
      const model::LaneAction& before = program_.actions()[static_cast<std::size_t>(d)];
      const bool load = before.lane == model::LaneKind::disk;
      std::int64_t& latest = load ? loaded_ns : others_ns;
      latest = std::max(latest, times_of(before).end_ns);
    }
    const std::int64_t waited_ns = std::min(loaded_ns, times_of(action).start_ns);
    return std::max<std::int64_t>(0, waited_ns - others_ns);
  }

  const planner::Plan& plan_;
  const model::TaskGraph& graph_;
  const model::Program& program_;
  std::int32_t step_;
  const std::vector<DeviceAccount>& accounts_;
  double tick_s_;
  std::vector<Times> own_;  // by task, as the two below
  std::vector<Times> captures_;
  std::vector<Times> deliveries_;
};

}  // namespace

void check_records(const planner::Plan& plan, model::Steps& steps, model::DeviceIndex device,
                   const TimeLog& times) {
  const auto fail = [&](const std::string& fault) {
    throw Error("report of device " +
                plan.cluster.devices()[static_cast<std::size_t>(device)].name + ": " + fault +
                "; install the same tandem on every device");
  };
  auto next = times.begin();
  std::vector<char> seen;
  std::vector<char> copied;
  std::map<std::shared_ptr<const char>, model::MessageSchedule>
      schedules;  // by TaskGraph::structure
  for (std::int32_t step = 0; step < steps.count(); ++step) {
    const model::TaskGraph& graph = steps.graph(step);
    const auto [known, is_new] = schedules.try_emplace(graph.structure());
    if (is_new) known->second = model::message_schedule(graph);
    const model::MessageSchedule& schedule = known->second;
    // Of a transfer each end records the message and its copy; relays are not captured.
    const auto copies = [&](model::TaskIndex task) {
      const model::Task& own = graph.tasks()[static_cast<std::size_t>(task)];
      return own.lane == model::LaneKind::channel &&
             (own.peer == device || !schedule.is_relay(task));
    };
    const auto name = [step](model::TaskIndex task) {
      return "step " + std::to_string(step) + " task " + std::to_string(task);
    };
    seen.assign(static_cast<std::size_t>(graph.size()), 0);
    copied.assign(static_cast<std::size_t>(graph.size()), 0);
    for (; next != times.end() && next->step == step; ++next) {
      const auto i = static_cast<std::size_t>(next->of());
      const bool right = next->of() < graph.size() && sees(device, graph.tasks()[i]) &&
                         (!next->copy() || copies(next->of()));
      if (!right || !is_possible(*next)) {
        fail(name(next->of()) + " is not a task of that device, or at an impossible time");
      }
      (next->copy() ? copied : seen)[i] = 1;
    }
    for (model::TaskIndex i = 0; i < graph.size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (!sees(device, graph.tasks()[at])) continue;
      if (seen[at] == 0 || (copies(i) && copied[at] == 0)) fail(name(i) + " is missing");
    }
  }
  if (next != times.end()) fail("records out of order or beyond the last step");
}

model::Trace merge_spans(const planner::Plan& plan, model::Steps& steps,
                         const std::vector<DeviceAccount>& accounts, double tick_s) {
  model::Trace trace;
  for (const model::Device& device : plan.cluster.devices()) trace.devices.push_back(device.name);
  std::vector<std::size_t> cursors(accounts.size(), 0);
  std::int64_t origin_ns = 0;
  std::vector<std::int64_t> lane_end_ns;                           // by device
  std::map<std::shared_ptr<const char>, model::Program> programs;  // by TaskGraph::structure
  const auto program_of = [&](const model::TaskGraph& graph) -> const model::Program& {
    return programs.try_emplace(graph.structure(), graph).first->second;
  };
  std::size_t count = 0;
  for (std::int32_t step = 0; step < steps.count(); ++step)
    count += static_cast<std::size_t>(program_of(steps.graph(step)).size());
  trace.spans.reserve(count);
  for (std::int32_t step = 0; step < steps.count(); ++step) {
    const model::TaskGraph& graph = steps.graph(step);
    const model::Program& program = program_of(graph);
    StepSpans spans(plan, graph, program, step, accounts, tick_s);
    for (std::size_t d = 0; d < accounts.size(); ++d) {
      const TimeLog& times = accounts[d].times;
      for (std::size_t& at = cursors[d]; at < times.size() && times[at].step == step; ++at) {
        spans.add(static_cast<model::DeviceIndex>(d), times[at], accounts[d].clock_ahead_ns);
      }
    }
    if (step == 0) {
      origin_ns = spans.first_start_ns(plan.master);
      lane_end_ns.assign(accounts.size(), origin_ns);
    }
    spans.append(origin_ns, lane_end_ns, trace.spans);
  }
  return trace;
}

}  // namespace tandem::exec
