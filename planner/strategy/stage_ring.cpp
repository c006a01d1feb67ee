#include "planner/strategy/stage_ring.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.hpp"
#include "model/graph/announcement.hpp"
#include "model/predict/analytic.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/stages.hpp"
#include "planner/strategy/pipeline.hpp"

namespace tandem::planner {
namespace {

using model::Span;

// Returns the resource that `messages` occupy longest in sequence: a link or, if the master informs
// a stage of a step, a channel with more than the stage's message.
model::RingBottleneck most_loaded(const model::Cluster& cluster,
                                  const std::vector<Span>& messages) {
  std::map<std::pair<model::LinkIndex, model::Direction>, double> links;
  std::map<model::Channel, double> channels;
  for (const Span& message : messages) {
    const model::Route& route = cluster.route(message.device, message.peer);
    channels[{message.device, message.peer}] += message.end - message.start - route.latency.value();
    for (const model::Hop& hop : route.hops) {
      const model::Link& link = cluster.links()[static_cast<std::size_t>(hop.link)];
      if (link.sharing == model::Sharing::fatpipe) continue;
      const bool duplex = link.sharing == model::Sharing::split_duplex;
      links[{hop.link, duplex ? hop.direction : model::Direction::none}] +=
          message.bytes / link.bandwidth.value();
    }
  }
  model::RingBottleneck most;
  for (const auto& [where, seconds] : links) {
    if (seconds > most.seconds)
      most = {"link " + cluster.links()[static_cast<std::size_t>(where.first)].name, seconds};
  }
  for (const auto& [channel, seconds] : channels) {
    if (seconds > most.seconds) {
      const auto name = [&](model::DeviceIndex d) {
        return cluster.devices()[static_cast<std::size_t>(d)].name;
      };
      most = {"channel from " + name(channel.first) + " to " + name(channel.second), seconds};
    }
  }
  return most;
}

// For stages that are groups: a group's time is from the arrival of its root's message to the one
// that it sends, as its devices wait for each other. The messages within a group are inside that
// time, and are reported as the load of a link or a channel.
model::Ring group_ring(const Plan& plan, const model::TaskGraph& graph,
                       const std::vector<Span>& spans) {
  model::Ring ring;
  std::vector<model::DeviceIndex> roots;
  const std::vector<Stage> made = stages(plan);
  if (made.front().root != plan.master) {
    ring.stages.push_back(
        {.name = plan.cluster.devices()[static_cast<std::size_t>(plan.master)].name});
    roots.push_back(plan.master);
  }
  for (const Stage& stage : made) {
    std::string name;
    for (const model::DeviceIndex device : stage.devices)
      name +=
          (name.empty() ? "" : "+") + plan.cluster.devices()[static_cast<std::size_t>(device)].name;
    ring.stages.push_back({.name = name});
    roots.push_back(stage.root);
  }
  std::vector<Span> messages;
  std::vector<Span> between;  // stages, in order
  double end = 0.0;
  for (const Span& span : spans) {
    end = std::max(end, span.end);
    if (span.lane == model::LaneKind::channel) messages.push_back(span);
  }
  std::ranges::sort(messages, {}, &Span::task);
  for (const Span& span : messages) {
    const model::Task& task = graph.tasks()[static_cast<std::size_t>(span.task)];
    const std::size_t next = between.size() + 1;
    if (next > roots.size() || is_announcement(task) ||
        task.input.kind != model::BufferKind::hidden)
      continue;
    if (task.device == roots[next - 1] && task.peer == roots[next % roots.size()])
      between.push_back(span);
  }
  double begin = 0.0;
  for (std::size_t i = 0; i < between.size(); ++i) {
    const model::Route& route = plan.cluster.route(between[i].device, between[i].peer);
    model::RingStage& stage = ring.stages[i];
    stage.compute_s += between[i].start - begin;
    stage.latency_s = route.latency.value();
    stage.wire_s = between[i].bytes / route.bandwidth.value();
    stage.overhead_s =
        std::max(0.0, between[i].end - between[i].start - stage.wire_s - stage.latency_s);
    begin = between[i].end;
  }
  ring.stages[between.size() % ring.stages.size()].compute_s += end - begin;
  return ring;
}

}  // namespace

namespace {

// A step of a sample; of new tokens with as many sequences as one of the plan's has.
model::Batch step_of(const Plan& plan, std::int64_t past, std::int64_t rows) {
  const Strategy& strategy = find_strategy(plan.strategy);
  if (!strategy.sharding.splits_layers()) {
    throw Error("strategy '" + plan.strategy +
                "': all devices work on one step, expected one that gives devices whole layers; "
                "plan with --strategy pipeline");
  }
  model::Batch batch;
  const std::int64_t sequences =
      rows > 1 ? 1 : std::max<std::int64_t>(1, in_a_step(plan.reserved()));
  for (std::int64_t s = 0; s < sequences; ++s) {
    batch.segments.push_back({.sequence = static_cast<std::int32_t>(s),
                              .past = static_cast<std::int32_t>(past),
                              .rows = static_cast<std::int32_t>(rows),
                              .sampled = plan.workload.new_tokens > 0 ? 1 : 0});
  }
  return batch;
}

}  // namespace

model::Ring lane_ring(const Plan& plan, std::int64_t past, std::int64_t rows) {
  const model::TaskGraph graph =
      find_strategy(plan.strategy).lower(plan, step_of(plan, past, rows));
  model::OneStep step(graph);
  model::RunRecorder recorder(plan.cluster, plan.master, true);
  evaluate_analytic(plan.cluster, plan.cost_model(), step, recorder);
  model::Ring ring;
  for (const model::Device& device : plan.cluster.devices())
    ring.stages.push_back({.name = device.name});
  std::vector<Span> messages;
  double end = 0.0;
  for (const Span& span : recorder.trace().spans) {
    if (span.lane == model::LaneKind::channel) messages.push_back(span);
    if (span.lane != model::LaneKind::cpu) continue;
    end = std::max(end, span.end);
    ring.stages.at(static_cast<std::size_t>(span.device)).compute_s += span.end - span.start;
  }
  ring.other = most_loaded(plan.cluster, messages);
  ring.delay_s = end - round_time(ring);
  return ring;
}

model::Ring ring_of(const Plan& plan, std::int64_t past, std::int64_t rows) {
  const Strategy& strategy = find_strategy(plan.strategy);
  const model::Batch batch = step_of(plan, past, rows);
  const model::TaskGraph graph = strategy.lower(plan, batch);
  model::OneStep step(graph);
  model::RunRecorder recorder(plan.cluster, plan.master, true);
  evaluate_analytic(plan.cluster, plan.cost_model(), step, recorder);

  if (has_groups(plan)) {
    // The time of a stage does not depend on when it is informed of the step.
    const model::TaskGraph untold = strategy.tasks(plan, batch);
    model::OneStep alone(untold);
    model::RunRecorder stages_alone(plan.cluster, plan.master, true);
    evaluate_analytic(plan.cluster, plan.cost_model(), alone, stages_alone);
    model::Ring ring = group_ring(plan, untold, stages_alone.trace().spans);
    double end = 0.0;
    std::vector<Span> messages;
    for (const Span& span : recorder.trace().spans) {
      end = std::max(end, span.lane == model::LaneKind::cpu ? span.end : 0.0);
      if (span.lane == model::LaneKind::channel) messages.push_back(span);
    }
    ring.other = most_loaded(plan.cluster, messages);
    ring.delay_s = end - round_time(ring);
    return ring;
  }
  model::Ring ring;
  std::vector<std::size_t> place(plan.devices.size(), plan.devices.size());
  for (const model::DeviceIndex device : stage_order(plan)) {
    const auto d = static_cast<std::size_t>(device);
    if (device != plan.master && plan.devices[d].share.layers.empty()) continue;
    place[d] = ring.stages.size();
    ring.stages.push_back({.name = plan.cluster.devices()[d].name});
  }
  std::vector<Span> messages;
  double end = 0.0;
  for (const Span& span : recorder.trace().spans) {
    if (span.lane == model::LaneKind::disk) continue;
    if (span.lane == model::LaneKind::channel) {
      messages.push_back(span);
    } else {
      end = std::max(end, span.end);
      ring.stages.at(place[static_cast<std::size_t>(span.device)]).compute_s +=
          span.end - span.start;
    }
  }
  for (const Span& message : messages) {
    const model::Route& route = plan.cluster.route(message.device, message.peer);
    const double wire = message.bytes / route.bandwidth.value();
    const double overhead = message.end - message.start - wire - route.latency.value();
    model::RingStage& stage = ring.stages.at(place[static_cast<std::size_t>(message.device)]);
    // Announcements take time of their own, outside the ring.
    if (is_announcement(graph.tasks()[static_cast<std::size_t>(message.task)])) continue;
    stage.overhead_s += std::max(0.0, overhead);
    stage.wire_s += wire;
    stage.latency_s += route.latency.value();
  }
  ring.other = most_loaded(plan.cluster, messages);
  ring.delay_s = end - round_time(ring);
  return ring;
}

std::int64_t samples_in_flight(const Plan& plan) {
  const Capacity capacity = plan.reserved();
  return std::max<std::int64_t>(1, std::min(capacity.steps, capacity.sequences));
}

model::Ring typical_ring(const Plan& plan) {
  return ring_of(plan, plan.workload.prompt_tokens + plan.workload.new_tokens / 2);
}

model::Ring typical_lane_ring(const Plan& plan) {
  return lane_ring(plan, plan.workload.prompt_tokens + plan.workload.new_tokens / 2);
}

}  // namespace tandem::planner
