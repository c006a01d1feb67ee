#include "planner/strategy/csps.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "model/error.hpp"
#include "planner/collective/collective.hpp"
#include "planner/strategy/block.hpp"
#include "planner/strategy/cover.hpp"
#include "planner/strategy/csps_sparse.hpp"
#include "planner/strategy/head.hpp"
#include "planner/strategy/rows.hpp"
#include "planner/strategy/sparse_plan.hpp"
#include "planner/strategy/tensor.hpp"

namespace tandem::planner {
namespace {

using model::BufferKind;
using model::BufferRef;
using model::DeviceIndex;
using model::Range;
using model::Task;
using model::TaskIndex;
using model::WeightBlock;

constexpr BufferRef kQuery{BufferKind::query, 0};
constexpr BufferRef kKeyValue{BufferKind::key_value, 0};
constexpr BufferRef kAttention{BufferKind::attention, 0};

Range all(std::int64_t size) { return {0, static_cast<std::int32_t>(size)}; }

Range times(Range range, std::int64_t factor) {
  const auto f = static_cast<std::int32_t>(factor);
  return {range.begin * f, range.end * f};
}

Ranking ranking_of(const Plan& plan) {
  return ranking(plan.layout, std::vector<bool>(plan.devices.size(), true),
                 parse_allreduce(plan.allreduce.prompt));
}

// By rank.
std::vector<Range> rows_by_rank(const Plan& plan, const Ranking& ranks, std::int32_t total) {
  std::vector<std::int64_t> weights;
  for (const DeviceIndex device : ranks.devices)
    weights.push_back(
        plan.devices[static_cast<std::size_t>(device)].share.computed_columns().size());
  std::vector<Range> rows;
  std::int32_t begin = 0;
  for (const std::int32_t size : parts_by_weight(total, weights)) {
    rows.push_back({begin, begin + size});
    begin += size;
  }
  return rows;
}

class Lowering {
 public:
  Lowering(const Plan& plan, const model::Batch& batch, const Ranking& ranks,
           const std::vector<Range>& rows)
      : plan_(&plan), graph_(batch, plan.wire), window_(graph_, plan) {
    const std::vector<bool> wanted = wanted_rows(batch, plan.model.architecture().generates());
    for (std::size_t rank = 0; rank < ranks.devices.size(); ++rank) {
      const DeviceIndex device = ranks.devices[rank];
      const Range heads = plan.devices[static_cast<std::size_t>(device)].share.computed_heads();
      ranks_.push_back({.device = device,
                        .tasks = {graph_, plan.model, device, &window_},
                        .heads = heads,
                        .kv_heads = plan.model.kv_heads_for(heads),
                        .rows = rows[rank],
                        .wanted = wanted_within(wanted, rows[rank])});
      std::int32_t begin = rows[rank].begin;
      for (const std::int32_t size : equal_parts(rows[rank].size(), std::max(plan.tiles, 1))) {
        if (size > 0) tiles_.push_back({.rank = rank, .rows = {begin, begin + size}});
        begin += size;
      }
    }
  }
  Lowering(const Lowering&) = delete;
  Lowering& operator=(const Lowering&) = delete;
  Lowering(Lowering&&) = delete;
  Lowering& operator=(Lowering&&) = delete;
  ~Lowering() = default;

  model::TaskGraph run() && {
    declare_buffers(graph_, *plan_);
    scatter();
    const auto layers = static_cast<std::int32_t>(plan_->model.layers);
    for (std::int32_t layer = 0; layer < layers; ++layer) block(layer, layer + 1 == layers);
    finish_step(graph_, *plan_, window_, ranks_.front().tasks, collect());
    window_.finish();
    return std::move(graph_);
  }

 private:
  struct Rank {
    DeviceIndex device;
    DeviceTasks tasks;
    Range heads;     // that it attends with
    Range kv_heads;  // which those read
    Range rows;
    Range wanted;                      // by the result, of its rows
    Range active{};                    // that go on after attention: in the last layer those wanted
    TaskIndex stream = -1;             // that wrote its rows of hidden
    std::vector<TaskIndex> results{};  // of attention elsewhere, for its rows
  };
  // Adjacent rows of one rank, which travel and are attended together.
  struct Tile {
    std::size_t rank;
    Range rows;
    TaskIndex made = -1;                // that wrote its queries, keys and values
    std::vector<TaskIndex> arrivals{};  // of those, by rank; -1 at its own
  };

  [[nodiscard]] Range active(const Tile& tile) const {
    return ranks_[tile.rank].active.intersect(tile.rows);
  }

  TaskIndex send(const Rank& from, const Rank& to, BufferRef buffer, std::int32_t layer, Range rows,
                 Range columns, TaskIndex after) {
    Task task;
    task.kind = model::TaskKind::transfer;
    task.lane = model::LaneKind::channel;
    task.wire = graph_.wire();
    task.device = from.device;
    task.peer = to.device;
    task.layer = layer;
    task.rows = rows;
    task.columns = columns;
    task.input = task.output = buffer;
    return graph_.add(task, {after});
  }

  TaskIndex send_stream(const Rank& from, const Rank& to, Range rows, TaskIndex after) {
    return send_hidden(graph_, plan_->model, from.device, to.device, rows, after);
  }

  void scatter() {
    const TaskIndex embedded = ranks_.front().tasks.embed();
    for (Rank& rank : ranks_) {
      rank.stream = &rank == &ranks_.front()
                        ? embedded
                        : send_stream(ranks_.front(), rank, rank.rows, embedded);
    }
  }

  // The ranks that follow `rank` in turn: if each sends in that order, every rank is sent to once
  // at any time.
  [[nodiscard]] std::vector<std::size_t> others(std::size_t rank) const {
    std::vector<std::size_t> all;
    for (std::size_t step = 1; step < ranks_.size(); ++step)
      all.push_back((rank + step) % ranks_.size());
    return all;
  }

  void block(std::int32_t layer, bool last) {
    const Range heads = all(plan_->model.heads);
    for (Rank& rank : ranks_) {
      rank.active = last ? last_rows(rank) : rank.rows;
      rank.tasks.begin_block(WeightBlock::attention, layer, heads);
      rank.tasks.wait(rank.stream);
      rank.tasks.norm_rows(WeightBlock::attention, layer, rank.rows);
    }
    for (Tile& tile : tiles_) {
      tile.made =
          ranks_[tile.rank].tasks.first_product(WeightBlock::attention, layer, tile.rows, heads);
    }
    for (Tile& tile : tiles_) send_heads(tile, layer);
    if (plan_->tiles == 0 && !last) {
      attend_at_once(layer);
    } else {
      if (plan_->model.architecture().mask != model::Mask::causal) wait_for_all();
      for (const Tile& tile : tiles_) attend(tile, layer);
    }
    for (Rank& rank : ranks_) go_on(rank, layer);
  }

  // Blocks that stream pass by also where nobody wants a row: then one goes on.
  [[nodiscard]] Range last_rows(const Rank& rank) const {
    if (!rank.wanted.empty() || !window_.fetches(rank.device)) return rank.wanted;
    return {rank.rows.end - 1, rank.rows.end};
  }

  // The first all-to-all, of one tile.
  void send_heads(Tile& tile, std::int32_t layer) {
    const std::int64_t d = plan_->model.head_dim;
    const Rank& from = ranks_[tile.rank];
    tile.arrivals.assign(ranks_.size(), -1);
    for (const std::size_t other : others(tile.rank)) {
      const Rank& to = ranks_[other];
      if (!active(tile).empty())
        send(from, to, kQuery, layer, active(tile), times(to.heads, d), tile.made);
      // The later of both: what a channel takes arrives in order.
      tile.arrivals[other] =
          send(from, to, kKeyValue, layer, tile.rows, times(to.kv_heads, 2 * d), tile.made);
    }
  }

  // Everybody's heads of the tile's rows, and the second all-to-all. Keys and values of the rows
  // before it are there with the tiles before.
  void attend(const Tile& tile, std::int32_t layer) {
    const Range rows = active(tile);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      ranks_[rank].tasks.wait(tile.arrivals[rank]);
    if (rows.empty()) return;
    std::vector<TaskIndex> attended;
    for (Rank& rank : ranks_) attended.push_back(rank.tasks.attend(layer, rows, rank.heads));
    for (const std::size_t other : others(tile.rank))
      send_back(other, tile, attended[other], layer);
  }

  // Every rank, for what comes to it of all tiles.
  void wait_for_all() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (const Tile& tile : tiles_) ranks_[rank].tasks.wait(tile.arrivals[rank]);
    }
  }

  void attend_at_once(std::int32_t layer) {
    wait_for_all();
    std::vector<TaskIndex> attended;
    for (Rank& rank : ranks_)
      attended.push_back(rank.tasks.attend(layer, {0, graph_.batch().rows()}, rank.heads));
    for (const Tile& tile : tiles_) {
      for (const std::size_t other : others(tile.rank))
        send_back(other, tile, attended[other], layer);
    }
  }

  void send_back(std::size_t from, const Tile& tile, TaskIndex attended, std::int32_t layer) {
    Rank& owner = ranks_[tile.rank];
    owner.results.push_back(send(ranks_[from], owner, kAttention, layer, active(tile),
                                 times(ranks_[from].heads, plan_->model.head_dim), attended));
  }

  // The rest of the layer, of the rank's own rows.
  void go_on(Rank& rank, std::int32_t layer) {
    DeviceTasks& tasks = rank.tasks;
    const Range rows = rank.active;
    tasks.wait(std::exchange(rank.results, {}));
    if (rows.empty()) return;
    TaskIndex made =
        tasks.second_product(WeightBlock::attention, layer, rows, all(plan_->model.heads));
    tasks.end_block(made);
    tasks.add_rows(WeightBlock::attention, layer, rows, {&made, 1});
    const Range columns = all(plan_->model.intermediate);
    tasks.begin_block(WeightBlock::ffn, layer, columns);
    tasks.norm_rows(WeightBlock::ffn, layer, rows);
    tasks.first_product(WeightBlock::ffn, layer, rows, columns);
    made = tasks.second_product(WeightBlock::ffn, layer, rows, columns);
    tasks.end_block(made);
    rank.stream = tasks.add_rows(WeightBlock::ffn, layer, rows, {&made, 1});
  }

  // Wanted rows, to the master. Returns all that it has them after.
  std::vector<TaskIndex> collect() {
    std::vector<TaskIndex> there;
    for (const Rank& rank : ranks_) {
      if (rank.wanted.empty()) continue;
      there.push_back(&rank == &ranks_.front()
                          ? rank.stream
                          : send_stream(rank, ranks_.front(), rank.wanted, rank.stream));
    }
    return there;
  }

  const Plan* plan_;
  model::TaskGraph graph_;
  WindowTasks window_;
  std::vector<Rank> ranks_;
  std::vector<Tile> tiles_;  // in the order of their rows
};

model::TaskGraph lower(const Plan& plan, const model::Batch& batch) {
  if (plan.sparse) return lower_sparse(plan, batch);
  if (!is_prompt(batch)) return tensor_strategy().tasks(plan, batch);
  const Ranking ranks = ranking_of(plan);
  const std::vector<Range> rows = rows_by_rank(plan, ranks, batch.rows());
  if (std::ranges::any_of(rows, [](Range part) { return part.empty(); }))
    return tensor_strategy().tasks(plan, batch);
  return Lowering(plan, batch, ranks, rows).run();
}

// Parts follow one another, and none is empty.
void check_parts(const Plan& plan, Range model::Part::*dimension, std::int64_t total,
                 const std::string& what) {
  std::int32_t next = 0;
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const Range part = plan.devices[d].share.part.*dimension;
    if (part.begin != next || part.empty()) {
      fail_share(plan, static_cast<DeviceIndex>(d),
                 "computes " + what + " " + text(part) + ": expected at least one, beginning at " +
                     std::to_string(next) + ", where the device before ends");
    }
    next = part.end;
  }
  if (next != total) {
    throw Error("plan: " + what + " that devices compute end at " + std::to_string(next) +
                ": expected all " + std::to_string(total) +
                " of the model; make the plan again with `tandem plan`");
  }
}

void check(const Plan& plan) {
  check_master_ends(plan);
  for (std::size_t d = 0; d < plan.devices.size(); ++d)
    check_whole(plan, static_cast<DeviceIndex>(d));
  check_parts(plan, &model::Part::heads, plan.model.heads, "heads");
  check_parts(plan, &model::Part::columns, plan.model.intermediate, "FFN columns");
  if (plan.sparse) check_sparse_plan(plan);
  if (!plan.sparse && plan.decode_moves != DecodeMoves::queries) {
    throw Error("plan: keys and values that move ('decode_moves' " +
                std::string(to_string(plan.decode_moves)) +
                "): expected none without levels, as caches lie by heads; plan with '--levels'");
  }
}

std::vector<model::BufferDeclaration> buffers(const Plan& plan, DeviceIndex /*device*/,
                                              const model::Share& share, bool streams_head) {
  return plan.sparse ? sparse_buffers(plan, share, streams_head)
                     : model::share_buffers(plan.model, share, streams_head);
}

}  // namespace

Strategy csps_strategy() {
  return {.name = "csps",
          .summary =
              "a prompt's rows split over devices that hold or stream the whole model, "
              "attention by heads, new tokens as tensor (CSPS, SP-NTP)",
          .replicates = true,
          .divides_work = true,
          .splits_head = true,
          .parts_rows = true,
          .tiles = true,
          .drops = true,
          .with_split_weights = "galaxy",
          .migrates = true,
          .allreduce = "star",
          .tasks = lower,
          .check = check,
          .buffers = buffers,
          .lengths = check_sparse_lengths,
          .serves_many = refuse_served_sparse};
}

}  // namespace tandem::planner
