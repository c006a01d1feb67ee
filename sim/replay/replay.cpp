#include "sim/replay/replay.hpp"

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "model/predict/program.hpp"
#include "model/predict/step_extrapolation.hpp"
#include "sim/network/child.hpp"
#include "sim/network/fair_flows.hpp"
#include "sim/network/flow_order.hpp"
#include "sim/network/simgrid_flows.hpp"
#include "sim/replay/frames.hpp"
#include "sim/replay/replay_run.hpp"

namespace tandem::sim {

using model::Span;

namespace {

using Body = std::function<void(Flows&, Output&)>;

// Runs `body` on SimGrid in a child: it allows one engine a process. `steps` are null with a
// scheduler.
void on_simgrid(const model::Cluster& cluster, model::Steps* steps, const Body& body,
                const Reader& reader) {
  SpanBlocks blocks;
  run_in_child(
      {.subject = "simulation", .timeout = {}},
      [&](const std::function<void(Bytes)>& send) {
        FrameWriter frames(send, blocks);
        SimGridFlows flows(cluster, steps != nullptr ? steps->channels() : std::nullopt);
        body(flows, frames);
        frames.flush();
      },
      [&](Bytes frame) { read_frame(frame, blocks, reader); });
}

// By what knows of no variation.
void here(const model::Cluster& cluster, const Body& body, const Reader& reader) {
  DirectOutput output(reader);
  FairFlows flows(cluster);
  body(flows, output);
  output.flush();
}

Reader into(model::RunRecorder& recorder) {
  return {.spans = [&recorder](std::span<const Span> spans) { recorder.record(spans); },
          .step = [&recorder](const model::ScheduledStep& step) { recorder.submit(step); }};
}

Reader into(model::BlendRecorder& blends) {
  return {.spans = [&blends](std::span<const Span> spans) { blends.record(spans); },
          .blend = [&blends](const model::StepBlend& blend) { blends.add(blend); }};
}

Body all_steps(const model::Cluster& cluster, const model::CostModel& costs, model::Steps& steps,
               std::uint64_t seed) {
  return [&, seed](Flows& flows, Output& output) {
    Replay(cluster, costs, &steps, flows, output, seed).run_all();
  };
}

Body few_steps(const model::Cluster& cluster, const model::CostModel& costs, model::Steps& steps) {
  return [&](Flows& flows, Output& output) {
    Replay replay(cluster, costs, &steps, flows, output, 1);
    model::evaluate_extrapolated(steps, replay,
                                 [&](const model::StepBlend& blend) { output.add(blend); });
  };
}

// With the master of `recorder`.
Body scheduled_steps(const model::Cluster& cluster, const model::CostModel& costs,
                     model::Scheduler& scheduler, model::GraphSource& graphs,
                     const model::RunRecorder& recorder, std::uint64_t seed) {
  return [&, seed](Flows& flows, Output& output) {
    Replay(cluster, costs, scheduler, graphs, recorder.master(), flows, output, seed)
        .run_scheduled();
  };
}

bool can_extend(const model::Cluster& cluster, model::Steps& steps) {
  return model::variation(cluster).empty() && steps.any_order() && steps.count() >= 2 &&
         drains(steps.graph(0)) && drains(steps.graph(1));
}

}  // namespace

void replay(const model::Cluster& cluster, const model::CostModel& costs, model::Steps& steps,
            model::RunRecorder& recorder) {
  replay_seeded(cluster, costs, steps, recorder, 1);
}

void replay_seeded(const model::Cluster& cluster, const model::CostModel& costs,
                   model::Steps& steps, model::RunRecorder& recorder, std::uint64_t seed) {
  on_simgrid(cluster, &steps, all_steps(cluster, costs, steps, seed), into(recorder));
}

void replay_scheduled(const model::Cluster& cluster, const model::CostModel& costs,
                      model::Scheduler& scheduler, model::GraphSource& graphs,
                      model::RunRecorder& recorder, std::uint64_t seed) {
  on_simgrid(cluster, nullptr, scheduled_steps(cluster, costs, scheduler, graphs, recorder, seed),
             into(recorder));
}

void replay_extrapolated(const model::Cluster& cluster, const model::CostModel& costs,
                         model::Steps& steps, model::RunRecorder& recorder) {
  if (!can_extend(cluster, steps)) {
    replay(cluster, costs, steps, recorder);
    return;
  }
  model::BlendRecorder blends(cluster, recorder.master(), recorder);
  on_simgrid(cluster, &steps, few_steps(cluster, costs, steps), into(blends));
}

void evaluate_fair(const model::Cluster& cluster, const model::CostModel& costs,
                   model::Steps& steps, model::RunRecorder& recorder) {
  if (!model::variation(cluster).empty()) {
    replay(cluster, costs, steps, recorder);
    return;
  }
  here(cluster, all_steps(cluster, costs, steps, 1), into(recorder));
}

void extend_fair(const model::Cluster& cluster, const model::CostModel& costs, model::Steps& steps,
                 model::RunRecorder& recorder) {
  if (!can_extend(cluster, steps)) {
    evaluate_fair(cluster, costs, steps, recorder);
    return;
  }
  model::BlendRecorder blends(cluster, recorder.master(), recorder);
  here(cluster, few_steps(cluster, costs, steps), into(blends));
}

void evaluate_fair_scheduled(const model::Cluster& cluster, const model::CostModel& costs,
                             model::Scheduler& scheduler, model::GraphSource& graphs,
                             model::RunRecorder& recorder) {
  if (!model::variation(cluster).empty()) {
    replay_scheduled(cluster, costs, scheduler, graphs, recorder);
    return;
  }
  here(cluster, scheduled_steps(cluster, costs, scheduler, graphs, recorder, 1), into(recorder));
}

}  // namespace tandem::sim
