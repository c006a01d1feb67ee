// Sequence-parallel prompts without tensor parallelism (CSPS's SP-NTP; the exchange is that of
// DeepSpeed-Ulysses): every device holds all heads and FFN columns of all layers, in memory or
// through a window, the master also the embedding and the head. Device d computes heads A_d and
// FFN columns B_d where rows are not parted (Share::part), and of a prompt's R rows S_d, in
// proportion to B_d. One step of a prompt:
//   master: embed; send rows S_d of hidden to device d
//   each layer, on every device:
//     norm, Q, K, V of S_d, all heads
//     first all-to-all: Q of S_d, heads A_j, and K, V of their key/value heads, to device j
//     attention of all rows, heads A_d: heads part the causal triangle evenly
//     second all-to-all: what came out for rows S_j to device j
//     output projection, up and down projection of S_d, and the residual adds
//   rows that the result needs: to the master, which samples
// In the last layer only rows that the result needs are attended and go on.
//   bytes of a layer, e an element, K_j key/value heads that the heads A_j read, without the last:
//     e d sum over devices j of (R - S_j) (|A_j| + 2 K_j)   and   e d sum over j of (R - S_j) |A_j|
// back: with equal parts and N <= K in all e R d (2 H + 2 K) (N - 1) / N. Key/value heads that
// several devices read travel to each of them.
//
// Keys and values of heads A_d stay at device d, where the prompt's attention was: new tokens are
// computed as in strategy `tensor`, of the parts A_d and B_d, and nothing migrates. So are steps
// too short to give every device a row. Any number of sequences may be in a step.

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "model/base/error.hpp"
#include "planner/collective/collective.hpp"
#include "planner/strategy/common/block.hpp"
#include "planner/strategy/common/cover.hpp"
#include "planner/strategy/common/gathered_weights.hpp"
#include "planner/strategy/common/head.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/rows.hpp"
#include "planner/strategy/sparse/csps_sparse.hpp"
#include "planner/strategy/sparse/sparse_plan.hpp"
#include "planner/strategy/tensor.hpp"

namespace tandem::planner {
namespace {

using model::BufferKind;
using model::BufferRef;
using model::DeviceIndex;
using model::Range;
using model::TaskIndex;
using model::WeightBlock;

constexpr BufferRef kQuery{BufferKind::query, 0};
constexpr BufferRef kKeyValue{BufferKind::key_value, 0};
constexpr BufferRef kAttention{BufferKind::attention, 0};

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

bool leaves_one_out(const std::vector<Range>& rows) {
  return std::ranges::any_of(rows, [](Range part) { return part.empty(); });
}

// More rows leave no device with fewer, as rows are shared out one by one (parts_by_weight), and as
// many rows as the model has FFN columns leave none without.
std::int32_t least_split_rows(const Plan& plan) {
  if (plan.sparse) return 1;  // prompts of one length
  const Ranking ranks = ranking_of(plan);
  std::int32_t too_few = 0;
  auto enough = static_cast<std::int32_t>(plan.model.intermediate);
  while (enough - too_few > 1) {
    const std::int32_t middle = too_few + (enough - too_few) / 2;
    (leaves_one_out(rows_by_rank(plan, ranks, middle)) ? too_few : enough) = middle;
  }
  return enough;
}

class Lowering {
 public:
  Lowering(const Plan& plan, const model::Batch& batch, const Ranking& ranks,
           const std::vector<Range>& rows)
      : plan_(&plan), graph_(batch, plan.wire), window_(graph_, plan) {
    std::vector<std::int32_t> asking;
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
      asking.push_back(rows[rank].begin);
      for (const std::int32_t size : equal_parts(rows[rank].size(), std::max(plan.tiles, 1))) {
        if (size > 0) tiles_.push_back({.rank = rank, .rows = {begin, begin + size}});
        begin += size;
      }
    }
    if (plan.gather_weights) gathered_.emplace(graph_, plan, ranks.devices, std::move(asking));
  }
  Lowering(const Lowering&) = delete;
  Lowering& operator=(const Lowering&) = delete;
  Lowering(Lowering&&) = delete;
  Lowering& operator=(Lowering&&) = delete;
  ~Lowering() = default;

  model::TaskGraph run() && {
    scatter();
    for (std::size_t rank = 0; rank < ranks_.size() && gathered_; ++rank)
      gathered_->begins(rank, ranks_[rank].stream);
    send_weights(WeightBlock::attention, 0);
    send_weights(WeightBlock::ffn, 0);
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
    return graph_.add(model::transfer_task(
                          {.device = from.device, .layer = layer, .rows = rows, .columns = columns},
                          to.device, buffer, buffer, graph_.wire()),
                      {after});
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
    const Range heads = whole_range(plan_->model.heads);
    for (Rank& rank : ranks_) {
      rank.active = last ? last_rows(rank) : rank.rows;
      rank.tasks.begin_block(WeightBlock::attention, layer, heads);
      rank.tasks.wait(rank.stream);
      rank.tasks.norm_rows(WeightBlock::attention, layer, rank.rows);
    }
    for (Tile& tile : tiles_) {
      tile.made = first_product(tile.rank, layer, tile.rows);
    }
    for (Tile& tile : tiles_) send_heads(tile, layer);
    if (plan_->tiles == 0 && !last) {
      attend_at_once(layer);
    } else {
      if (plan_->model.architecture().mask != model::Mask::causal) wait_for_all();
      for (const Tile& tile : tiles_) attend(tile, layer);
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      end_attention(rank, layer);
      if (!gathered_) ffn(rank, layer);
    }
    if (!gathered_) return;
    // The next layer's weights travel from where their places are free.
    if (!last) send_weights(WeightBlock::attention, layer + 1);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) ffn(rank, layer);
    if (!last) send_weights(WeightBlock::ffn, layer + 1);
  }

  // Sends a rank's share to the ranks that compute with it.
  void send_weights(WeightBlock block, std::int32_t layer) {
    if (!gathered_) return;
    const bool last = layer + 1 == static_cast<std::int32_t>(plan_->model.layers);
    std::vector<bool> wanted;
    for (const Rank& rank : ranks_)
      wanted.push_back(block == WeightBlock::attention || !last || !rank.wanted.empty());
    gathered_->send(block, layer, wanted);
  }

  [[nodiscard]] Range part(std::size_t rank, WeightBlock block) const {
    const model::Share& share = plan_->devices[static_cast<std::size_t>(ranks_[rank].device)].share;
    return block == WeightBlock::attention ? share.heads : share.columns;
  }

  // Queries, keys and values of all heads.
  TaskIndex first_product(std::size_t rank, std::int32_t layer, Range rows) {
    constexpr WeightBlock block = WeightBlock::attention;
    DeviceTasks& tasks = ranks_[rank].tasks;
    if (!gathered_) return tasks.first_product(block, layer, rows, whole_range(plan_->model.heads));
    TaskIndex made = -1;
    for (const std::size_t of : gathered_->order(rank)) {
      tasks.wait(gathered_->arrival(block, of, rank));
      made = tasks.first_product(block, layer, rows, part(of, block),
                                 of == rank ? std::int16_t{0} : gathered_->weights_slot(block, of));
    }
    return made;
  }

  // Appends the sum of attention or the FFN. Shares are summed in the rank's order.
  TaskIndex sum(std::size_t rank, WeightBlock block, std::int32_t layer) {
    Rank& own = ranks_[rank];
    const Range rows = own.active;
    const bool attention = block == WeightBlock::attention;
    if (!gathered_) {
      const Range columns = whole_range(attention ? plan_->model.heads : plan_->model.intermediate);
      if (!attention) own.tasks.first_product(block, layer, rows, columns);
      return own.tasks.second_product(block, layer, rows, columns);
    }
    TaskIndex made = -1;
    for (const std::size_t of : gathered_->order(rank)) {
      const Range columns = part(of, block);
      const std::int16_t weights_slot =
          of == rank ? std::int16_t{0} : gathered_->weights_slot(block, of);
      own.tasks.wait(gathered_->arrival(block, of, rank));
      if (!attention) own.tasks.first_product(block, layer, rows, columns, weights_slot);
      made = of == rank ? own.tasks.second_product(block, layer, rows, columns)
                        : own.tasks.add_product(block, layer, rows, columns, weights_slot);
    }
    return made;
  }

  // Blocks that stream pass by even if no row is wanted: then one goes on.
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
        send(from, to, kQuery, layer, active(tile), scaled(to.heads, d), tile.made);
      // The later of both: a channel keeps its order.
      tile.arrivals[other] =
          send(from, to, kKeyValue, layer, tile.rows, scaled(to.kv_heads, 2 * d), tile.made);
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

  // Every rank waits for what arrives for all tiles.
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
                                 scaled(ranks_[from].heads, plan_->model.head_dim), attended));
  }

  // The output projection, of the rank's own rows.
  void end_attention(std::size_t rank, std::int32_t layer) {
    Rank& own = ranks_[rank];
    own.tasks.wait(std::exchange(own.results, {}));
    if (own.active.empty()) return;
    const TaskIndex made = sum(rank, WeightBlock::attention, layer);
    own.tasks.end_block(made);
    const TaskIndex added =
        own.tasks.add_rows(WeightBlock::attention, layer, own.active, {&made, 1});
    if (gathered_) gathered_->used(WeightBlock::attention, rank, added);
  }

  // The rest of the layer.
  void ffn(std::size_t rank, std::int32_t layer) {
    Rank& own = ranks_[rank];
    if (own.active.empty()) return;
    own.tasks.begin_block(WeightBlock::ffn, layer, whole_range(plan_->model.intermediate));
    own.tasks.norm_rows(WeightBlock::ffn, layer, own.active);
    const TaskIndex made = sum(rank, WeightBlock::ffn, layer);
    own.tasks.end_block(made);
    own.stream = own.tasks.add_rows(WeightBlock::ffn, layer, own.active, {&made, 1});
    if (gathered_) gathered_->used(WeightBlock::ffn, rank, own.stream);
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
  std::optional<GatheredWeights> gathered_{};
};

model::TaskGraph lower(const Plan& plan, const model::Batch& batch) {
  if (plan.sparse) return lower_sparse(plan, batch);
  if (!is_prompt(batch)) return tensor_strategy().tasks(plan, batch);
  // Shares that a search tries may leave a device without heads.
  if (plan.gather_weights && !std::ranges::all_of(plan.devices, [](const DevicePlan& device) {
        return has_rows(device.share);
      }))
    return tensor_strategy().tasks(plan, batch);
  const Ranking ranks = ranking_of(plan);
  const std::vector<Range> rows = rows_by_rank(plan, ranks, batch.rows());
  if (leaves_one_out(rows)) return tensor_strategy().tasks(plan, batch);
  return Lowering(plan, batch, ranks, rows).run();
}

// Checks that parts are consecutive and none is empty.
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

// Each device holds what it computes of new tokens, and no other device holds it.
void check_gathered(const Plan& plan) {
  const std::vector<DeviceIndex> devices = all_devices(plan);
  check_cover(plan, devices);
  for (const DeviceIndex device : devices) {
    const DevicePlan& own = plan.devices[static_cast<std::size_t>(device)];
    if (own.share.heads.empty() || own.share.columns.empty()) {
      fail_share(plan, device,
                 "holds no heads or no FFN columns: expected some of both, as weights are gathered "
                 "for rows in proportion to the latter");
    }
    if (own.window.streams()) {
      fail_share(plan, device,
                 "streams weights: expected all of its share in memory, from where others gather "
                 "it; plan with '--window all', or without '--gather-weights'");
    }
  }
  check_gathered_blocks(plan);
}

void check_parts_of_all(const Plan& plan) {
  for (std::size_t d = 0; d < plan.devices.size(); ++d)
    check_whole(plan, static_cast<DeviceIndex>(d));
  check_parts(plan, &model::Part::heads, plan.model.heads, "heads");
  check_parts(plan, &model::Part::columns, plan.model.intermediate, "FFN columns");
}

void check(const Plan& plan) {
  check_master_ends(plan);
  plan.gather_weights ? check_gathered(plan) : check_parts_of_all(plan);
  if (plan.sparse) check_sparse_plan(plan);
  if (!plan.sparse && plan.decode_moves != DecodeMoves::queries) {
    throw Error("plan: keys and values that move ('decode_moves' " +
                std::string(to_string(plan.decode_moves)) +
                "): expected none without levels, as caches lie by heads; plan with '--levels'");
  }
}

std::vector<model::BufferDeclaration> buffers(const Plan& plan, DeviceIndex device,
                                              const model::Share& share, bool streams_head) {
  if (plan.gather_weights) {
    // For its rows a device computes all heads and columns.
    model::Share computed = share;
    computed.heads = whole_range(plan.model.heads);
    computed.columns = whole_range(plan.model.intermediate);
    std::vector<model::BufferDeclaration> declared =
        model::share_buffers(plan.model, computed, streams_head);
    std::ranges::copy(gathering_buffers(plan, device), std::back_inserter(declared));
    return declared;
  }
  return plan.sparse ? sparse_buffers(plan, share, streams_head)
                     : model::share_buffers(plan.model, share, streams_head);
}

}  // namespace

Strategy csps_strategy() {
  return {.name = "csps",
          .summary = "a prompt's rows, new tokens as tensor",
          .namesakes = {{.name = "deepspeed-ulysses"}, {.name = "ulysses"}},
          .sharding = {.weights = Weights::replicated,
                       .prefill = PrefillRows::split,
                       .cache = KvCache::by_heads,
                       .decode = Decode::tensor,
                       .gather_weights = true},
          .allreduce = "star",
          .tasks = lower,
          .check = check,
          .buffers = buffers,
          .least_split_rows = least_split_rows,
          .lengths = check_sparse_lengths,
          .serves_many = refuse_served_sparse};
}

}  // namespace tandem::planner
