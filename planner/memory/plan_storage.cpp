#include "planner/memory/plan_storage.hpp"

#include <algorithm>
#include <numeric>

#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/report/trace.hpp"
#include "planner/memory/session_memory.hpp"
#include "planner/plan/long_work.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "planner/strategy/common/head.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/rows.hpp"
#include "planner/strategy/common/stages.hpp"

namespace tandem::planner {
namespace {

std::vector<model::Batch> largest_batches(const Plan& plan, const model::Extents& extents) {
  const bool generates = plan.model.architecture().generates();
  std::vector<model::Batch> batches;
  // Every sequence may be freed and started again in a step; announcements carry both operations.
  const std::vector<model::CacheOp> ops(static_cast<std::size_t>(2 * extents.sequences));
  batches.push_back(
      {{{.rows = static_cast<std::int32_t>(extents.rows), .sampled = generates ? 1 : 0}}, ops});
  if (!generates) return batches;
  model::Batch tokens{.segments = {}, .cache = ops};
  const std::int64_t sequences = std::min(extents.sequences, extents.rows);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(sequences); ++i)
    tokens.segments.push_back({.sequence = i, .rows = 1});
  batches.push_back(std::move(tokens));
  return batches;
}

// If rows are split, the messages of a channel, and how many of them may be in flight, depend on
// the devices with rows and on the rows with results. These are prompts of which all rows have
// results; prompts with too few rows for all devices, so that some wait for no message, or all
// compute otherwise; and prompts of several sequences, whose last rows are scattered.
std::vector<model::Batch> parted_batches(const Plan& plan, const model::Extents& extents) {
  if (!splits_rows(plan)) return {};
  constexpr std::int64_t kSteps = 8;  // of lengths up to the number of devices
  const bool generates = plan.model.architecture().generates();
  std::vector<model::Batch> batches;
  const auto add = [&](std::int64_t rows, std::int64_t sampled) {
    batches.push_back({{{.rows = static_cast<std::int32_t>(rows),
                         .sampled = static_cast<std::int32_t>(sampled)}}});
  };
  // For a single row sp needs the master alone, but participants are declared before a prompt's
  // length is known. An encoder returns all rows, but a single row, as in a warm-up, uses other
  // messages.
  const std::int64_t all = generates ? std::max<std::int64_t>(2, extents.rows) : 1;
  add(all, all);
  const auto devices = static_cast<std::int64_t>(plan.devices.size());
  const std::int64_t step = (devices + kSteps - 1) / kSteps;
  for (std::int64_t rows = 2; rows < std::min(devices, all); rows += step)
    add(rows, generates ? 1 : rows);
  if (const auto least = find_strategy(plan.strategy).least_split_rows) {
    const std::int64_t rows = std::min<std::int64_t>(least(plan), all) - 1;
    if (rows >= 2) add(rows, generates ? 1 : rows);
  }
  const std::int64_t sequences = std::min(extents.sequences, all / 2);
  if (sequences < 2 || !generates) return batches;
  model::Batch several;
  const std::vector<std::int32_t> parts =
      equal_parts(static_cast<std::int32_t>(all), static_cast<std::int32_t>(sequences));
  for (const std::int32_t rows : parts)
    several.segments.push_back({.sequence = static_cast<std::int32_t>(several.segments.size()),
                                .rows = rows,
                                .sampled = 1});
  batches.push_back(std::move(several));
  return batches;
}

// With a split LM head, the number and size of messages with logits in flight depend on the places
// of sampled rows: apart, as in prompts, or adjacent, as for new tokens.
std::vector<model::Batch> batches_of_split_head(const Plan& plan, const model::Extents& extents) {
  if (!splits_head(plan)) return {};
  const auto rows = static_cast<std::int32_t>(extents.rows);
  const auto sequences = static_cast<std::int32_t>(std::min(extents.sequences, extents.rows));
  const auto segment = [](std::int32_t sequence, std::int32_t length, std::int32_t sampled) {
    return model::Segment{.sequence = sequence, .rows = length, .sampled = sampled};
  };
  model::Batch apart;
  model::Batch prompt_last;
  model::Batch gap;
  const std::vector<std::int32_t> parts = equal_parts(rows, sequences);
  for (std::int32_t i = 0; i < sequences; ++i) {
    const bool last = i + 1 == sequences;
    apart.segments.push_back(segment(i, parts[static_cast<std::size_t>(i)], 1));
    prompt_last.segments.push_back(segment(i, last ? rows - sequences + 1 : 1, 1));
    gap.segments.push_back(segment(i, 1, i + 2 == sequences ? 0 : 1));
  }
  std::vector<model::Batch> batches{std::move(apart), std::move(prompt_last), std::move(gap)};
  if (extents.sampled > extents.sequences) {
    const std::int64_t scored = extents.sampled - extents.sequences + 1;
    batches.push_back(
        {{segment(0, rows, static_cast<std::int32_t>(std::min<std::int64_t>(scored, rows)))}});
  }
  return batches;
}

// Where schedulers place sequences, each of `batches` at each device. One sequence may also be
// unplaced, as in a warm-up.
std::vector<model::Batch> placed_batches(const Plan& plan, std::vector<model::Batch> batches) {
  const Strategy& strategy = find_strategy(plan.strategy);
  if (strategy.placed == nullptr || plan.capacity.sequences == 0) return batches;
  std::vector<model::Batch> all;
  for (model::Batch& batch : batches) {
    for (model::Batch& placed : strategy.placed(plan, batch)) all.push_back(std::move(placed));
    if (batch.segments.size() == 1) all.push_back(std::move(batch));
  }
  return all;
}

std::vector<model::TaskGraph> largest_graphs(const Plan& plan, const model::Extents& extents) {
  const Strategy& strategy = find_strategy(plan.strategy);
  std::vector<model::TaskGraph> graphs;
  for (const model::Batch& batch : placed_batches(plan, largest_batches(plan, extents))) {
    between_long_work();
    graphs.push_back(strategy.lower(plan, batch));
  }
  return graphs;
}

std::vector<model::DeviceStorage> storage_of(const Plan& plan, const model::Extents& extents,
                                             const std::vector<model::TaskGraph>& graphs) {
  std::vector<model::DeviceStorage> storage(plan.devices.size());
  const auto add = [&](const model::TaskGraph& graph) {
    between_long_work();
    const std::vector<model::DeviceStorage> more = model::storage_of(graph, storage.size());
    for (std::size_t d = 0; d < storage.size(); ++d) model::widen(storage[d], more[d]);
  };
  for (const model::TaskGraph& graph : graphs) add(graph);
  for (const model::Batch& batch : parted_batches(plan, extents))
    add(find_strategy(plan.strategy).lower(plan, batch));
  for (const model::Batch& batch : batches_of_split_head(plan, extents))
    add(find_strategy(plan.strategy).lower(plan, batch));
  return storage;
}

}  // namespace

model::Extents extents_of(const Capacity& capacity, std::int64_t scored_rows) {
  return {.rows = capacity.rows,
          .positions = capacity.positions,
          .sequences = capacity.sequences,
          .sampled = capacity.sequences + std::max<std::int64_t>(0, scored_rows - 1),
          .steps = std::max<std::int64_t>(1, capacity.steps)};
}

model::Extents serving_extents(const Capacity& capacity) {
  model::Extents extents = extents_of(capacity);
  extents.graphs += static_cast<std::int64_t>(GraphCache::kMost);
  return extents;
}

std::vector<model::DeviceStorage> storage_of(const Plan& plan, const model::Extents& extents) {
  return storage_of(plan, extents, largest_graphs(plan, extents));
}

std::vector<model::MemoryUse> predicted_memory(const Plan& plan, const model::Extents& extents) {
  std::vector<model::TaskGraph> graphs = largest_graphs(plan, extents);
  const std::vector<model::DeviceStorage> storage = storage_of(plan, extents, graphs);
  if (graphs.size() > 2) {  // of placed batches; a session keeps as many as `extents` has
    std::ranges::sort(graphs, std::ranges::greater{}, &model::TaskGraph::allocated_bytes);
    graphs.erase(graphs.begin() + 2, graphs.end());
  }
  std::vector<SessionLoad> loads;
  if (std::ranges::any_of(plan.profiles, [](const auto& one) { return one.program_bytes > 0.0; }))
    loads = session_loads(plan, graphs, storage, extents);
  const std::vector<bool> connected = workers_of(plan, storage);
  std::vector<model::MemoryUse> memory;
  memory.reserve(storage.size());
  for (std::size_t d = 0; d < storage.size(); ++d) {
    const DevicePlan& device = plan.devices[d];
    model::MemoryUse& use = memory.emplace_back();
    if (!connected[d] && d != static_cast<std::size_t>(plan.master)) continue;
    use = model::memory_use(storage[d], extents);
    use.weights = weight_bytes(plan.model, device.share, device.window);
    use.program = plan.profiles[d].program_bytes;
    if (use.program == 0.0) continue;  // nothing executes: a plan on paper
    use.weights += page_padding(plan.model, device.share, device.window);
    use.program += session_bytes(loads[d]);
  }
  return memory;
}

std::vector<model::MemoryUse> predicted_memory(const Plan& plan) {
  const Capacity reserved = plan.reserved();
  const bool serves = plan.capacity.sequences > 0;
  return predicted_memory(plan, serves ? serving_extents(reserved) : extents_of(reserved));
}

Plan with_predicted_memory(Plan plan) {
  const std::vector<model::MemoryUse> memory = predicted_memory(plan);
  for (std::size_t d = 0; d < plan.devices.size(); ++d) plan.devices[d].memory = memory[d];
  return plan;
}

bool fits(const Plan& plan) {
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    if (plan.devices[d].memory.total() > plan.cluster.devices()[d].memory.value()) return false;
  }
  return true;
}

void check_budgets(const Plan& plan, std::span<const model::MemoryUse> memory,
                   const std::string& subject, const std::string& remedy) {
  const auto refuse = [&](const model::Device& device, const model::MemoryUse& use) {
    throw Error(subject + " " + model::to_text(model::Bytes{use.total()}) + ", the program's " +
                model::to_text(model::Bytes{use.program}) + " included, on device " + device.name +
                ", expected at most its budget of " + model::to_text(device.memory) + "; " +
                remedy);
  };
  for (std::size_t d = 0; d < memory.size(); ++d) {
    const model::Device& device = plan.cluster.devices()[d];
    if (memory[d].total() > device.memory.value()) refuse(device, memory[d]);
  }
}

std::vector<double> timeline_bytes(const Plan& plan, std::vector<double> records) {
  const double all = std::accumulate(records.begin(), records.end(), 0.0);
  // A span is made of one record, or of the two of a message's ends.
  records[static_cast<std::size_t>(plan.master)] =
      all + all / model::kRecordBytes * sizeof(model::Span);
  return records;
}

void check_timeline_budgets(const Plan& plan, const model::Extents& extents,
                            const std::vector<double>& timeline, const std::string& subject) {
  const std::vector<model::MemoryUse> memory = predicted_memory(plan, extents);
  for (std::size_t d = 0; d < memory.size(); ++d) {
    const double need = timeline[d] + memory[d].total();
    const model::Device& device = plan.cluster.devices()[d];
    if (need <= device.memory.value()) continue;
    throw Error(subject + " needs " + model::to_text(model::Bytes{timeline[d]}) + " on device " +
                device.name + ", " + model::to_text(model::Bytes{need}) +
                " with all else, expected at most its budget of " + model::to_text(device.memory) +
                "; leave out --trace, or give it fewer tokens");
  }
}

std::vector<double> most_records(const Plan& plan, const Capacity& capacity, std::int64_t steps) {
  const Strategy& strategy = find_strategy(plan.strategy);
  const model::Extents extents = extents_of(capacity);
  std::vector<model::Batch> batches = largest_batches(plan, extents);
  for (model::Batch& batch : parted_batches(plan, extents)) batches.push_back(std::move(batch));
  // Every sequence of a step may end a prompt in it; then each has its own tasks of the head.
  model::Batch prompts;
  const std::int64_t sequences = std::min(in_a_step(capacity), kMostSequences);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(sequences); ++i)
    prompts.segments.push_back({.sequence = i, .rows = 2});
  prompts.segments[0].rows =
      static_cast<std::int32_t>(std::max<std::int64_t>(2, capacity.rows - 2 * (sequences - 1)));
  batches.push_back(std::move(prompts));
  std::vector<double> most(plan.devices.size(), 0.0);
  for (const model::Batch& batch : placed_batches(plan, std::move(batches))) {
    const std::vector<double> bytes =
        model::record_bytes(strategy.lower(plan, batch), plan.devices.size());
    for (std::size_t d = 0; d < most.size(); ++d)
      most[d] = std::max(most[d], bytes[d] * static_cast<double>(steps));
  }
  return most;
}

}  // namespace tandem::planner
