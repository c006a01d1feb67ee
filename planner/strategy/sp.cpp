// Sequence parallelism, the baseline "SP" of Galaxy (section IV-A; Li et al. 2023): every device
// holds all heads and FFN columns of all layers, the master also the embedding and the head. Of
// a prompt's R rows device d has S_d, equal parts. One step of a prompt:
//   master: embed; send rows S_d of hidden to device d
//   each layer, on every device with rows:
//     norm, Q, K, V of S_d              all-gather of keys and values, into all devices' caches
//     attention of S_d over all positions, output projection, hidden += partial
//     norm, up and down projection of S_d, hidden += partial
//   rows that the result needs: to the master, which samples
// The all-gather is that of the collective that the plan names for prompts.
//
// What follows a sequence's prompt is the master's alone: a sequence's only new row that is sampled
// from (a new token, or the last token of a prompt in chunks, or a prompt of one token) is computed
// there on its cache, as `local` does, and its keys and values go nowhere. So a sequence continues
// with single rows once it has been sampled from. Weights do not stream, and a plan reserves memory
// for one sequence at a time.
//   bytes of a prompt's step, e an element, K key/value heads of d, W rows of the result:
//     e (h (R - S_M) + L (N - 1) R 2 K d + h (W - W_M))

#include <algorithm>
#include <utility>

#include "model/base/error.hpp"
#include "planner/collective/collective.hpp"
#include "planner/strategy/common/block.hpp"
#include "planner/strategy/common/cover.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/rows.hpp"
#include "planner/strategy/local.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;
using model::Range;
using model::Segment;
using model::TaskIndex;
using model::WeightBlock;

constexpr model::BufferRef kKeyValue{model::BufferKind::key_value, 0};

// Returns whether only the master computes this segment.
bool is_masters(const Segment& segment) { return segment.rows == 1 && segment.sampled == 1; }

class Lowering {
 public:
  Lowering(const Plan& plan, const model::Batch& batch)
      : plan_(&plan),
        graph_(batch, plan.wire),
        gathering_(parse_allreduce(plan.allreduce.prompt)),
        ranking_(ranking(plan.layout, std::vector<bool>(plan.devices.size(), true), gathering_)),
        wanted_(wanted_rows(batch, plan.model.architecture().generates())) {
    for (const DeviceIndex device : ranking_.devices)
      devices_.emplace_back(graph_, plan.model, device);
    part_rows();
  }
  Lowering(const Lowering&) = delete;
  Lowering& operator=(const Lowering&) = delete;

  model::TaskGraph run() && {
    scatter();
    for (std::int32_t layer = 0; layer < static_cast<std::int32_t>(plan_->model.layers); ++layer)
      block(layer);
    collect();
    devices_.front().finish(-1);
    return std::move(graph_);
  }

 private:
  // Adjacent rows of one device. Those of prompts are gathered, the master's own are not.
  struct Run {
    Range rows;
    bool gathered = true;
    TaskIndex stream = -1;     // that wrote its rows of hidden
    TaskIndex projected = -1;  // that wrote its keys and values
  };

  void part_rows() {
    std::int32_t of_prompts = 0;
    for (const Segment& segment : graph_.batch().segments)
      of_prompts += is_masters(segment) ? 0 : segment.rows;
    std::vector<std::int32_t> left =
        equal_parts(of_prompts, static_cast<std::int32_t>(devices_.size()));
    runs_.resize(devices_.size());
    std::size_t rank = 0;
    std::int32_t row = 0;
    for (const Segment& segment : graph_.batch().segments) {
      const std::int32_t end = row + segment.rows;
      if (is_masters(segment)) {
        runs_.front().push_back({.rows = {row, end}, .gathered = false});
        row = end;
      }
      while (row < end) {
        while (left[rank] == 0) ++rank;
        const std::int32_t taken = std::min(left[rank], end - row);
        left[rank] -= taken;
        std::vector<Run>& own = runs_[rank];
        if (!own.empty() && own.back().gathered && own.back().rows.end == row) {
          own.back().rows.end += taken;
        } else {
          own.push_back({.rows = {row, row + taken}});
        }
        row += taken;
      }
    }
  }

  TaskIndex send(std::size_t from, std::size_t to, Range rows, TaskIndex after) {
    return send_hidden(graph_, plan_->model, ranking_.devices[from], ranking_.devices[to], rows,
                       after);
  }

  void scatter() {
    const TaskIndex embedded = devices_.front().embed();
    for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
      for (Run& run : runs_[rank])
        run.stream = rank == 0 ? embedded : send(0, rank, run.rows, embedded);
    }
  }

  void block(std::int32_t layer) {
    const Range heads{0, static_cast<std::int32_t>(plan_->model.heads)};
    for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
      for (Run& run : runs_[rank]) {
        devices_[rank].wait(run.stream);
        devices_[rank].norm_rows(WeightBlock::attention, layer, run.rows);
        run.projected =
            devices_[rank].first_product(WeightBlock::attention, layer, run.rows, heads);
      }
    }
    const std::vector<std::vector<TaskIndex>> gathered = gather(layer);
    for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
      DeviceTasks& device = devices_[rank];
      for (Run& run : runs_[rank]) {
        device.wait(gathered[rank]);
        device.attend(layer, run.rows, heads);
        run.stream = device.after_attention(layer, run.rows);
      }
    }
  }

  // Sends keys and values of all prompts' rows to every device. Returns the arrivals by rank.
  std::vector<std::vector<TaskIndex>> gather(std::int32_t layer) {
    std::size_t most = 1;  // runs of one device
    std::vector<std::vector<const Run*>> own(runs_.size());
    for (std::size_t rank = 0; rank < runs_.size(); ++rank) {
      for (const Run& run : runs_[rank]) {
        if (run.gathered) own[rank].push_back(&run);
      }
      most = std::max(most, own[rank].size());
    }
    Cut cut{.axis = Cut::Axis::rows, .chunks = {}};
    std::vector<Participant> ranks;
    for (std::size_t rank = 0; rank < own.size(); ++rank) {
      ranks.push_back({.device = ranking_.devices[rank], .contributes = false});
      for (std::size_t i = 0; i < most; ++i)
        cut.chunks.push_back(i < own[rank].size() ? own[rank][i]->rows : Range{});
    }
    const auto width = static_cast<std::int32_t>(2 * plan_->model.kv_heads * plan_->model.head_dim);
    Exchange exchange(graph_,
                      {.master = plan_->master,
                       .layer = layer,
                       .rows = {0, graph_.batch().rows()},
                       .columns = {0, width}},
                      std::move(ranks), std::move(cut), kKeyValue);
    for (std::size_t rank = 0; rank < own.size(); ++rank) {
      const auto first = static_cast<std::int32_t>(rank * most);
      for (std::size_t i = 0; i < most; ++i) {
        const std::int32_t chunk = first + static_cast<std::int32_t>(i);
        exchange.give(static_cast<std::int32_t>(rank), {chunk, chunk + 1},
                      i < own[rank].size() ? own[rank][i]->projected : -1);
      }
    }
    gathering_.collective->all_gather(exchange, ranking_.topology);
    std::vector<std::vector<TaskIndex>> arrivals;
    arrivals.reserve(own.size());
    for (std::int32_t rank = 0; rank < exchange.size(); ++rank)
      arrivals.push_back(exchange.made_by(rank, exchange.all()));
    return arrivals;
  }

  void collect() {
    for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
      for (const Run& run : runs_[rank]) {
        const Range wanted = wanted_within(wanted_, run.rows);
        if (wanted.empty()) continue;
        devices_.front().wait(rank == 0 ? run.stream : send(rank, 0, wanted, run.stream));
      }
    }
  }

  const Plan* plan_;
  model::TaskGraph graph_;
  Allreduce gathering_;
  Ranking ranking_;
  std::vector<bool> wanted_;            // by row
  std::vector<DeviceTasks> devices_;    // by rank
  std::vector<std::vector<Run>> runs_;  // by rank
};

model::TaskGraph lower(const Plan& plan, const model::Batch& batch) {
  if (std::ranges::all_of(batch.segments, is_masters)) return local_strategy().tasks(plan, batch);
  return Lowering(plan, batch).run();
}

void check(const Plan& plan) {
  check_master_ends(plan);
  for (std::size_t d = 0; d < plan.devices.size(); ++d)
    check_whole(plan, static_cast<DeviceIndex>(d));
  const std::string& remedy = "; make the plan again with `tandem plan`";
  if (plan.capacity.sequences > 1) {
    throw Error("plan: capacity: " + std::to_string(plan.capacity.sequences) +
                " sequences with strategy '" + plan.strategy +
                "': expected one at a time; plan with '--policy sequential'");
  }
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    if (!plan.devices[d].window.streams()) continue;
    throw Error("plan: device '" + plan.cluster.devices()[d].name +
                "' streams its weights with strategy '" + plan.strategy +
                "': expected all of them in memory" + remedy);
  }
}

}  // namespace

Strategy sp_strategy() {
  return {.name = "sp",
          .summary = "a prompt's rows",
          .namesakes = {{.name = "sequence-parallel"}},
          .sharding = {.weights = Weights::replicated,
                       .prefill = PrefillRows::split,
                       .cache = KvCache::at_master,
                       .decode = Decode::master},
          .allreduce = "ring",
          .tasks = lower,
          .check = check};
}

}  // namespace tandem::planner
