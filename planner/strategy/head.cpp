#include "planner/strategy/head.hpp"

#include <algorithm>
#include <utility>

namespace tandem::planner {
namespace {

using model::DeviceIndex;
using model::Range;
using model::Task;
using model::TaskIndex;

// One run of each row.
std::vector<Range> apart(std::span<const Range> runs) {
  std::vector<Range> rows;
  for (const Range run : runs) {
    for (std::int32_t row = run.begin; row < run.end; ++row) rows.push_back({row, row + 1});
  }
  return rows;
}

// A device beside the master with rows of the head.
struct Helper {
  DeviceIndex device;
  Range vocabulary;
  bool streams;
  DeviceTasks tasks;
  TaskIndex last = -1;  // of its tasks here
};

class SplitHead {
 public:
  SplitHead(model::TaskGraph& graph, const Plan& plan, WindowTasks& window)
      : graph_(&graph), plan_(&plan), runs_(sampled_runs(graph.batch())) {
    for (std::size_t d = 0; d < plan.devices.size(); ++d) {
      const auto device = static_cast<DeviceIndex>(d);
      const model::Share& share = plan.devices[d].share;
      if (device == plan.master || !share.head) continue;
      helpers_.push_back({.device = device,
                          .vocabulary = model::head_rows(plan.model, share),
                          .streams = window.fetches(device),
                          .tasks = DeviceTasks(graph, plan.model, device, &window)});
    }
  }

  [[nodiscard]] const std::vector<Range>& runs() const { return runs_; }

  // The residual stream to those who lack it. A device that streams makes all its logits now.
  void begin(std::span<const TaskIndex> after, const std::vector<TaskIndex>& replicas) {
    if (runs_.empty()) return;
    for (Helper& helper : helpers_) {
      const auto d = static_cast<std::size_t>(helper.device);
      TaskIndex there = replicas.empty() ? -1 : replicas[d];
      if (there < 0) {
        // One message, so that more sequences need no more room for messages.
        there = send_hidden(*graph_, plan_->model, plan_->master, helper.device,
                            {runs_.front().begin, runs_.back().end}, after);
      }
      helper.tasks.wait(there);
    }
    for (Helper& helper : helpers_) {
      if (helper.streams) helper.last = helper.tasks.logits(runs_, -1);
    }
  }

  // The logits of `runs`, on their way to the master; returns what it has them with.
  [[nodiscard]] std::vector<TaskIndex> send(std::span<const Range> runs) {
    std::vector<TaskIndex> arrivals;
    for (Helper& helper : helpers_) {
      if (helper.streams) {
        // All wait at once: a message for each row, so that room for rows is room for any runs.
        for (const Range row : apart(runs)) arrivals.push_back(send_logits(helper, row));
        continue;
      }
      for (const Range run : runs) {
        helper.last = helper.tasks.logits({&run, 1}, helper.last);
        arrivals.push_back(send_logits(helper, run));
      }
    }
    return arrivals;
  }

 private:
  [[nodiscard]] TaskIndex send_logits(const Helper& helper, Range run) {
    Task task;
    task.kind = model::TaskKind::transfer;
    task.lane = model::LaneKind::channel;
    task.device = helper.device;
    task.peer = plan_->master;
    task.rows = run;
    task.columns = helper.vocabulary;
    task.input = task.output = {model::BufferKind::logits, 0};
    return graph_->add(task, {helper.last});
  }

  model::TaskGraph* graph_;
  const Plan* plan_;
  std::vector<Range> runs_;
  std::vector<Helper> helpers_;
};

}  // namespace

bool splits_head(const Plan& plan) {
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    if (static_cast<DeviceIndex>(d) != plan.master && plan.devices[d].share.head) return true;
  }
  return false;
}

bool samples_all(const model::Batch& batch) {
  return std::ranges::all_of(batch.segments, [](const model::Segment& segment) {
    return segment.sampled == segment.rows;
  });
}

TaskIndex finish_step(model::TaskGraph& graph, const Plan& plan, WindowTasks& window,
                      DeviceTasks& master, std::span<const TaskIndex> after,
                      const std::vector<TaskIndex>& replicas) {
  if (after.size() == 1 && !splits_head(plan)) return master.finish(after.front());
  if (!splits_head(plan)) {
    master.wait(after);
    return master.finish(-1);
  }
  SplitHead others(graph, plan, window);
  others.begin(after, replicas);
  master.wait(after);
  TaskIndex last = -1;
  for (const std::span<const Range> runs : master.passes(others.runs())) {
    const std::vector<TaskIndex> arrivals = others.send(runs);
    last = master.logits(runs, last);
    master.wait(arrivals);
    last = master.sample(runs, last);
  }
  return last;
}

}  // namespace tandem::planner
