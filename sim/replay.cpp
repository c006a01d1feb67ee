#include "sim/replay.hpp"

#include <functional>
#include <span>

#include "model/extension.hpp"
#include "model/program.hpp"
#include "sim/child.hpp"
#include "sim/flow_order.hpp"
#include "sim/frames.hpp"
#include "sim/replay_run.hpp"

namespace tandem::sim {

using model::Span;

void replay(const model::Cluster& cluster, const model::CostModel& costs, model::Steps& steps,
            model::RunRecorder& recorder) {
  replay_seeded(cluster, costs, steps, recorder, 1);
}

void replay_seeded(const model::Cluster& cluster, const model::CostModel& costs,
                   model::Steps& steps, model::RunRecorder& recorder, std::uint64_t seed) {
  SpanBlocks blocks;
  run_in_child(
      {.subject = "simulation", .timeout = {}},
      [&](const std::function<void(Bytes)>& send) {
        FrameWriter frames(send, blocks);
        Replay(cluster, costs, &steps, frames, seed).run_all();
        frames.flush();
      },
      [&](Bytes frame) {
        read_frame(frame, blocks,
                   {.spans = [&](std::span<const Span> spans) { recorder.record(spans); }});
      });
}

void replay_scheduled(const model::Cluster& cluster, const model::CostModel& costs,
                      model::Scheduler& scheduler, model::GraphSource& graphs,
                      model::RunRecorder& recorder, std::uint64_t seed) {
  SpanBlocks blocks;
  run_in_child(
      {.subject = "simulation", .timeout = {}},
      [&](const std::function<void(Bytes)>& send) {
        FrameWriter frames(send, blocks);
        Replay(cluster, costs, scheduler, graphs, recorder.master(), frames, seed).run_scheduled();
        frames.flush();
      },
      [&](Bytes frame) {
        read_frame(frame, blocks,
                   {.spans = [&](std::span<const Span> spans) { recorder.record(spans); },
                    .step = [&](const model::ScheduledStep& step) { recorder.submit(step); }});
      });
}

void replay_extended(const model::Cluster& cluster, const model::CostModel& costs,
                     model::Steps& steps, model::RunRecorder& recorder) {
  if (!model::variation(cluster).empty() || !steps.any_order() || steps.count() < 2 ||
      !drains(steps.graph(0)) || !drains(steps.graph(1))) {
    replay(cluster, costs, steps, recorder);
    return;
  }
  model::BlendRecorder blends(cluster, recorder.master(), recorder);
  SpanBlocks blocks;
  run_in_child(
      {.subject = "simulation", .timeout = {}},
      [&](const std::function<void(Bytes)>& send) {
        FrameWriter frames(send, blocks);
        Replay replay(cluster, costs, &steps, frames, 1);
        model::evaluate_extended(steps, replay,
                                 [&](const model::StepBlend& blend) { frames.add(blend); });
        frames.flush();
      },
      [&](Bytes frame) {
        read_frame(frame, blocks,
                   {.spans = [&](std::span<const Span> spans) { blends.record(spans); },
                    .blend = [&](const model::StepBlend& blend) { blends.add(blend); }});
      });
}

}  // namespace tandem::sim
