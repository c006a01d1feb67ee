#include "planner/strategy/common/head.hpp"

#include <algorithm>
#include <utility>

#include "model/graph/candidates.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;
using model::Range;
using model::TaskIndex;

// The sampled rows of each segment, those without any left out.
std::vector<Range> by_segment(const model::Batch& batch) {
  std::vector<Range> ranges;
  std::int32_t end = 0;
  for (const model::Segment& segment : batch.segments) {
    end += segment.rows;
    if (segment.sampled > 0) ranges.push_back({end - segment.sampled, end});
  }
  return ranges;
}

// A device other than the master with rows of the head.
struct Helper {
  DeviceIndex device;
  Range vocabulary;
  Range candidates;
  DeviceTasks tasks;
  TaskIndex last = -1;  // of its tasks here
};

class SplitHead {
 public:
  SplitHead(model::TaskGraph& graph, const Plan& plan, WindowTasks& window)
      : graph_(&graph),
        plan_(&plan),
        at_once_(heads_at_once(plan)),
        runs_(sampled_runs(graph.batch())) {
    for (std::size_t d = 0; d < plan.devices.size(); ++d) {
      const auto device = static_cast<DeviceIndex>(d);
      const model::Share& share = plan.devices[d].share;
      if (device == plan.master || !share.head) continue;
      helpers_.push_back({.device = device,
                          .vocabulary = model::head_rows(plan.model, share),
                          .candidates = candidates_of(plan, device),
                          .tasks = DeviceTasks(graph, plan.model, device, &window)});
    }
  }

  // The runs that all devices compute before the master samples any.
  [[nodiscard]] std::vector<std::span<const Range>> passes() const {
    const std::span<const Range> all = runs_;
    std::vector<std::span<const Range>> some;
    if (at_once_ && !all.empty()) some.push_back(all);
    for (std::size_t i = 0; i < all.size() && !at_once_; ++i) some.push_back(all.subspan(i, 1));
    return some;
  }

  // Sends the residual stream to devices without it.
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
  }

  // Sends the logits of `runs`, or the best of them, to the master; returns the arrivals.
  [[nodiscard]] std::vector<TaskIndex> send(std::span<const Range> runs) {
    std::vector<TaskIndex> arrivals;
    // With many rows at once, one message for each segment's: so many sequences need room for so
    // many messages, wherever their rows are, and a text for one.
    const std::vector<Range> messages =
        at_once_ ? by_segment(graph_->batch()) : std::vector<Range>(runs.begin(), runs.end());
    for (Helper& helper : helpers_) {
      helper.last = helper.tasks.logits(runs, helper.last);
      if (plan_->candidates > 0)
        helper.last =
            helper.tasks.shortlist(runs, helper.vocabulary, helper.candidates, helper.last);
      for (const Range rows : messages) arrivals.push_back(send_logits(helper, rows));
    }
    return arrivals;
  }

 private:
  [[nodiscard]] TaskIndex send_logits(const Helper& helper, Range run) {
    const bool some = plan_->candidates > 0;
    const model::BufferRef sent{some ? model::BufferKind::candidates : model::BufferKind::logits};
    return graph_->add(
        model::transfer_task({.device = helper.device,
                              .rows = run,
                              .columns = some ? helper.candidates : helper.vocabulary},
                             plan_->master, sent, sent),
        {helper.last});
  }

  model::TaskGraph* graph_;
  const Plan* plan_;
  bool at_once_;
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

Range all_candidates(const Plan& plan) {
  Range all{};
  for (std::size_t d = 0; d < plan.devices.size(); ++d)
    all.end += candidates_of(plan, static_cast<DeviceIndex>(d)).size();
  return all;
}

Range candidates_of(const Plan& plan, DeviceIndex device) {
  if (plan.candidates == 0) return {};
  const auto columns = static_cast<std::int32_t>(model::candidate_columns(plan.candidates));
  Range own{0, 0};
  for (DeviceIndex d = 0; d <= device; ++d) {
    if (!plan.devices[static_cast<std::size_t>(d)].share.head) continue;
    own = {own.end, own.end + columns};
  }
  return plan.devices[static_cast<std::size_t>(device)].share.head ? own : Range{};
}

bool heads_at_once(const Plan& plan) {
  return std::ranges::any_of(plan.devices, [](const DevicePlan& device) {
    return device.share.head && device.window.streams();
  });
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
  for (const std::span<const Range> runs : others.passes()) {
    const std::vector<TaskIndex> arrivals = others.send(runs);
    last = master.logits(runs, last);
    if (plan.candidates == 0) {
      master.wait(arrivals);
      last = master.sample(runs, last);
      continue;
    }
    const model::Share& share = plan.devices[static_cast<std::size_t>(plan.master)].share;
    last = master.shortlist(runs, model::head_rows(plan.model, share),
                            candidates_of(plan, plan.master), last);
    master.wait(arrivals);
    last = master.sample(runs, all_candidates(plan),
                         {0, static_cast<std::int32_t>(model::candidate_columns(plan.candidates))},
                         last);
  }
  return last;
}

}  // namespace tandem::planner
