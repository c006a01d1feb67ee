// CSPS, Table 3: the time of moving a new token's query, or all keys and values, in one layer.

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "model/predict/device_profile.hpp"
#include "model/report/trace.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "sim/replay/replay.hpp"
#include "study/experiment/experiment.hpp"
#include "study/experiment/tpi.hpp"

namespace tandem::study {
namespace {

using model::BufferKind;
using model::TaskIndex;

constexpr std::size_t kGpus = 8;

// Eight devices of one server, or the first of each of eight.
model::Cluster testbed(const Scenarios& scenarios, bool one_server) {
  model::Cluster all = scenarios.platform("a100-8x8");
  for (model::DeviceIndex d = 1; d < static_cast<model::DeviceIndex>(kGpus) && !one_server; ++d)
    all = model::with_exchanged(all, d, d * static_cast<model::DeviceIndex>(kGpus));
  return model::with_devices(model::first_devices(all, kGpus), [](model::Device& device) {
    device.memory = model::Bytes{kAnyMemory};
  });
}

// The messages of `graph` that send what `kinds` names, each after those that it waits for.
model::TaskGraph messages(const model::TaskGraph& graph, std::span<const BufferKind> kinds) {
  model::TaskGraph only(graph.batch(), graph.wire());
  std::vector<std::vector<TaskIndex>> ends;  // by task of `graph`: messages that it is after
  ends.reserve(static_cast<std::size_t>(graph.size()));
  for (TaskIndex i = 0; i < graph.size(); ++i) {
    const model::Task& task = graph.tasks()[static_cast<std::size_t>(i)];
    std::vector<TaskIndex> after;
    for (const TaskIndex d : graph.dependencies(i)) {
      const std::vector<TaskIndex>& of = ends[static_cast<std::size_t>(d)];
      after.insert(after.end(), of.begin(), of.end());
    }
    std::ranges::sort(after);
    after.erase(std::unique(after.begin(), after.end()), after.end());
    if (task.kind == model::TaskKind::transfer &&
        std::ranges::find(kinds, task.input.kind) != kinds.end())
      after = {only.add(task, after)};
    ends.push_back(std::move(after));
  }
  return only;
}

struct Moved {
  double seconds = 0.0;
  double bytes = 0.0;
};

// On SimGrid.
Moved moved(const planner::Plan& plan, std::span<const BufferKind> kinds) {
  const auto past = static_cast<std::int32_t>(plan.workload.prompt_tokens);
  const model::TaskGraph only = messages(
      planner::find_strategy(plan.strategy).lower(plan, planner::decode_batch(past)), kinds);
  Moved all;
  for (const model::Task& task : only.tasks())
    all.bytes += static_cast<double>(model::payload_bytes(task));
  model::OneStep step(only);
  model::RunRecorder recorder(plan.cluster, plan.master, /*keep_spans=*/true);
  sim::replay(plan.cluster, plan.cost_model(), step, recorder);
  for (const model::Span& span : recorder.trace().spans)
    all.seconds = std::max(all.seconds, span.end);
  return all;
}

planner::Plan spread_plan(const model::Cluster& cluster, const model::Transformer& transformer,
                          std::int64_t tokens, planner::DecodeMoves moves) {
  planner::Request request{.model = transformer,
                           .cluster = cluster,
                           .strategy = "spread",
                           .partition = "equal",
                           .decode_moves = moves,
                           .workload = {.prompt_tokens = tokens, .new_tokens = 2},
                           .wire = model::WireFormat::f16};
  return std::get<planner::Plan>(planner::make_plan(request));
}

}  // namespace

ExperimentReport csps_table3(const Scenarios& scenarios, Progress& progress) {
  const model::Csv table = scenarios.paper("csps_table3");
  ExperimentReport report{
      .key_names = {"data set", "model", "devices of"},
      .remarks = {
          "one layer; keys, values and messages in 2 bytes a number; new token, tokens before it "
          "in "
          "eight equal parts: seven send theirs (kv), or get the query (q) and answer (q_back)",
          "every message at once, as fast as links are: nothing is calibrated"}};
  progress.expect(2 * table.rows.size());
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const std::string& name = table.at(i, "model");
    model::Transformer transformer = scenarios.model(name).first_layers(1);
    transformer.formats = model::WeightFormats{model::WeightFormat::f16};
    transformer.cache = model::CacheFormat::f16;
    const auto tokens = static_cast<std::int64_t>(paper_reading(table, i, "tokens").value);
    for (const bool one_server : {true, false}) {
      const model::Cluster cluster = testbed(scenarios, one_server);
      const std::vector<std::string> keys{table.at(i, "data_set"), name,
                                          one_server ? "one server" : "eight servers"};
      const std::string row = keys[0] + ", " + name + ", ";
      const auto add = [&](const std::string& quantity, const Reading& paper, const Moved& found,
                           std::string note) {
        report.rows.push_back({.keys = keys,
                               .quantity = quantity,
                               .paper = paper,
                               .tandem = Reading::number(found.seconds * 1e3),
                               .printed = row + quantity,
                               .note = std::move(note)});
      };
      const planner::Plan queries =
          spread_plan(cluster, transformer, tokens, planner::DecodeMoves::queries);
      const Reading q_ms = paper_reading(table, i, "q_ms");
      const Moved q = moved(queries, std::array{BufferKind::query});
      add("q_ms", q_ms, q,
          "seven messages, " + model::to_text(model::Bytes{q.bytes}) +
              " in all, are that fast on the wire; the table prints no less than 1 ms: its calls "
              "(Ray, PyTorch, NCCL) take " +
              model::fixed(q_ms.value * 1e-3 / q.seconds, 0) +
              " times as long before a byte moves, which no network model has");
      add("q_back_ms", {},
          moved(queries, std::array{BufferKind::query, BufferKind::attention, BufferKind::softmax}),
          "");
      const planner::Plan caches =
          spread_plan(cluster, transformer, tokens, planner::DecodeMoves::keys_each_step);
      const Reading kv_ms = paper_reading(table, i, "kv_ms");
      const Moved kv = moved(caches, std::array{BufferKind::key_value});
      add("kv_ms", kv_ms, kv,
          model::to_text(model::Bytes{kv.bytes}) + " in " + model::fixed(kv_ms.value, 0) +
              " ms are " + model::to_text(model::BytesPerSecond{kv.bytes / kv_ms.value * 1e3}) +
              ", where one line of 400 Gbps carries 50 GB/s. The table's slopes, 318 (GLM-4) and "
              "347 "
              "ms (InternLM2.5) a million tokens, are 16,384 bytes a token, keys and values of all "
              "32 heads, as appendix A counts, though the models have 2 and 8: with a constant of "
              "0.8 s all four rows are met (csps-steps)");
      progress.advance(1);
    }
  }
  return report;
}

}  // namespace tandem::study
