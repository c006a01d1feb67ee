// Every device holds all weights of all layers, the master also the embedding and the head, and of
// a sequence's keys and values those of its own positions, for good, as the plan assigns them
// (strategy/common/positions.hpp). One step, a prompt or a new token:
//   master: embed; send rows of hidden to their owners
//   each layer, each owner i of rows S_i:
//     norm, Q, K, V of S_i; K and V stay
//     Q of S_i to every device j with keys that they may see
//     each j: attention of S_i over its keys, and result and softmax back to i, who merges
//     output projection, residual, FFN of S_i
//   the row that the result needs: to the master, which samples
// With a causal mask rows see only parts before their own, with a window only those near enough.
// In the last layer only rows go on that the result needs.
//   bytes of a layer and pair (i, j), e an element, H heads of d:
//     |S_i| (2 H d e + 8 H)
//   of a new token, N parts: (N - 1) of these with |S_i| = 1, and e h to the owner and back, unless
//   it is the master
// Where keys and values move instead (DecodeMoves::keys_each_step, the paper's baseline), a new
// token's owner asks each part for those of a layer and gets them: of part j, K key/value heads,
//   4 + |positions of j that the token may see| 2 K d e   bytes of a layer
// It keeps them for as long as it attends them, part by part, and merges the results itself.
// Prompts move queries all the same. Where they move once (DecodeMoves::keys_once), the master has
// the prompt's last part, and in the step of the prompt, behind all else, what others keep comes to
// it (migrate_cache); new tokens are then its own, as in strategy `local`.
// Where devices have columns of the FFN of new tokens (planner/search/token_ffn.hpp), a token's
// owner sends them the residual stream after attention and gets the sum of what they compute,
// instead of computing the FFN alone: with M of them beside it, M (h e + h e') bytes a layer, e' of
// a sum. Weights do not stream.
// One request has the plan's prompt, and its parts. Of many, a scheduler places each sequence
// (model::Place): on one device, whose rows ask no device, or partitioned. A device computes the
// products of all its rows of a step at once, of whichever sequences; each partitioned sequence's
// rows attend apart. Then only queries move.

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.hpp"
#include "planner/collective/collective.hpp"
#include "planner/strategy/common/block.hpp"
#include "planner/strategy/common/cover.hpp"
#include "planner/strategy/common/head.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/placed_rows.hpp"
#include "planner/strategy/common/positions.hpp"
#include "planner/strategy/common/rows.hpp"
#include "planner/strategy/common/spread_attention.hpp"

namespace tandem::planner {
namespace {

using model::BufferKind;
using model::BufferRef;
using model::DeviceIndex;
using model::Range;
using model::TaskIndex;
using model::WeightBlock;

constexpr BufferRef kAttention{BufferKind::attention, 0};
constexpr BufferRef kSoftmax{BufferKind::softmax, 0};
constexpr BufferRef kHidden{BufferKind::hidden, 0};
constexpr BufferRef kKeyValue{BufferKind::key_value, 0};
constexpr BufferRef kRemoteKv{BufferKind::remote_kv, 0};

BufferRef arriving(BufferRef buffer) { return {buffer.kind, 1}; }

// Returns the number of blocks in the type of declarations.
std::int16_t counted(std::int64_t blocks) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int16_t>::max();
  if (blocks <= kMost) return static_cast<std::int16_t>(blocks);
  throw Error("strategy 'spread': a cache of " + std::to_string(blocks) +
              " blocks of positions at one device, expected at most " + std::to_string(kMost) +
              "; use more devices or fewer tokens");
}

const model::Share& share_of(const Plan& plan, DeviceIndex device) {
  return plan.devices[static_cast<std::size_t>(device)].share;
}

bool migrates(const Plan& plan) { return plan.decode_moves == DecodeMoves::keys_once; }

// Returns the blocks of the plan's sequences on a device with these positions of the prompt.
std::int64_t blocks_of(const Plan& plan, Range positions) {
  if (places_sequences(plan)) return served_blocks(plan, positions);
  if (positions.empty()) return 1;  // 0 would be those of all positions
  const bool last = positions.end == plan.workload.prompt_tokens;
  const std::int64_t end = last ? plan.workload.positions() : positions.end;
  return model::cache_blocks(end) - positions.begin / model::kCacheBlock;
}

// A cache of the device's own positions, or of all that move to it, and memory for results of
// others.
std::vector<model::BufferDeclaration> buffers(const Plan& plan, DeviceIndex device,
                                              const model::Share& share, bool streams_head) {
  std::vector<model::BufferDeclaration> buffers =
      model::share_buffers(plan.model, share, streams_head);
  const bool keeps_all = migrates(plan) && device == plan.master;
  for (model::BufferDeclaration& buffer : buffers) {
    if (buffer.name.kind == BufferKind::key_value && !keeps_all)
      buffer.blocks = counted(blocks_of(plan, share.part.positions));
  }
  if (plan.cluster.size() == 1) return buffers;
  const Range kept = share.part.positions;
  if (plan.decode_moves == DecodeMoves::keys_each_step && kept.begin > 0 &&
      kept.end == plan.workload.prompt_tokens) {
    model::BufferDeclaration others = *model::find_buffer(buffers, kKeyValue);
    others.name = kRemoteKv;
    others.layers = {0, 1};
    others.blocks = counted(model::cache_blocks(kept.begin));
    buffers.push_back(others);
  }
  buffers.push_back(
      {.name = arriving(kAttention), .columns = plan.model.heads * plan.model.head_dim});
  for (const BufferRef softmax : {kSoftmax, arriving(kSoftmax)})
    buffers.push_back({.name = softmax, .columns = 2 * plan.model.heads});
  return buffers;
}

class Lowering {
 public:
  // `rows`: of the batch, by part; if it is not placed, the first of them is at position `first` or
  // later.
  Lowering(const Plan& plan, const model::Batch& batch, const std::vector<PositionPart>& parts,
           const std::vector<PlacedRows>& rows, std::int64_t first, bool prompt)
      : plan_(&plan),
        graph_(batch, plan.wire),
        first_(first),
        gathers_(!prompt && plan.decode_moves == DecodeMoves::keys_each_step),
        migrates_(prompt && migrates(plan)),
        shares_ffn_(batch.rows() == 1 && has_column_parts(plan)) {
    const std::vector<bool> wanted = wanted_rows(batch, plan.model.architecture().generates());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].device == plan.master) master_ = i;
      parts_.push_back({.device = parts[i].device,
                        .tasks = {graph_, plan.model, parts[i].device},
                        .keys = parts[i].positions,
                        .columns = share_of(plan, parts[i].device).part.columns,
                        .placed = rows[i],
                        .rows = rows[i].rows,
                        .wanted = wanted_within(wanted, rows[i].rows)});
    }
  }
  Lowering(const Lowering&) = delete;
  Lowering& operator=(const Lowering&) = delete;
  Lowering(Lowering&&) = delete;
  Lowering& operator=(Lowering&&) = delete;
  ~Lowering() = default;

  model::TaskGraph run() && {
    const TaskIndex embedded = parts_[master_].tasks.embed();
    for (Part& part : parts_) {
      if (part.rows.empty()) continue;
      part.stream = &part == &parts_[master_] ? embedded
                                              : send_hidden(graph_, plan_->model, plan_->master,
                                                            part.device, part.rows, embedded);
    }
    const auto layers = static_cast<std::int32_t>(plan_->model.layers);
    for (std::int32_t layer = 0; layer < layers; ++layer) block(layer, layer + 1 == layers);
    const TaskIndex over = collect();
    if (migrates_) migrate(over);
    return std::move(graph_);
  }

 private:
  struct Part {
    DeviceIndex device;
    DeviceTasks tasks;
    Range keys;     // positions, which it keeps
    Range columns;  // of the FFN of new tokens, where that is shared out
    PlacedRows placed;
    Range rows;
    Range wanted;           // by the result, of its rows
    Range active{};         // that attend: in the last layer those wanted
    TaskIndex stream = -1;  // that wrote its rows of hidden
    TaskIndex projected = -1;
    TaskIndex asked = -1;               // for its keys and values, where those move
    std::vector<TaskIndex> attended{};  // its rows, so far
  };
  [[nodiscard]] bool is_causal() const {
    return plan_->model.architecture().mask == model::Mask::causal;
  }

  // Returns whether some row of `from`, at positions from `first` on, may see keys of `to`, in this
  // step or a later one of its structure.
  [[nodiscard]] bool sees(const Part& from, const Part& to, std::int64_t window) const {
    if (from.active.empty() || to.keys.empty() || &from == &to) return false;
    if (!is_causal()) return true;
    const std::int64_t first = first_ + from.active.begin;
    if (to.keys.begin >= first + from.active.size()) return false;
    return window == 0 || to.keys.end > first + 1 - window;
  }

  // Positions of `to` that rows of `from` may see.
  [[nodiscard]] Range seen(const Part& from, const Part& to, std::int64_t window) const {
    if (window == 0 || !is_causal()) return to.keys;
    const auto first = static_cast<std::int32_t>(first_ + from.active.begin + 1 - window);
    return {std::max(to.keys.begin, first), to.keys.end};
  }

  void block(std::int32_t layer, bool last) {
    const Range heads = whole_range(plan_->model.heads);
    for (Part& part : parts_) {
      part.active = last ? part.wanted : part.rows;
      if (part.rows.empty()) continue;
      part.tasks.wait(part.stream);
      part.tasks.norm_rows(WeightBlock::attention, layer, part.rows);
      part.projected = part.tasks.first_product(WeightBlock::attention, layer, part.rows, heads);
    }
    gathers_ ? gather(layer) : attention(layer);
    for (Part& part : parts_) {
      if (part.active.empty()) continue;
      part.tasks.wait(part.attended);
      part.stream =
          shares_ffn_ ? share_ffn(part, layer) : part.tasks.after_attention(layer, part.active);
    }
  }

  // What the rows of a part attend to.
  [[nodiscard]] std::vector<SpreadRows> asking(const Part& part, std::int64_t window) const {
    if (!graph_.batch().places.empty())
      return attended_rows(part.placed, part.device, part.active, window, part.projected);
    SpreadRows rows{
        .device = part.device, .keys = {{part.active, part.keys}}, .projected = part.projected};
    for (const Part& other : parts_) {
      if (sees(part, other, window))
        rows.others.push_back({other.device, part.active, {{part.active, other.keys}}});
    }
    return {std::move(rows)};
  }

  void attention(std::int32_t layer) {
    const std::int64_t window = plan_->model.window_of(layer);
    std::vector<SpreadRows> all;
    std::vector<Part*> owners;
    for (Part& part : parts_) {
      part.attended.clear();
      if (part.active.empty()) continue;
      for (SpreadRows& rows : asking(part, window)) {
        all.push_back(std::move(rows));
        owners.push_back(&part);
      }
    }
    const std::vector<std::vector<TaskIndex>> attended =
        attend_spread(graph_, plan_->model, layer, all);
    for (std::size_t i = 0; i < owners.size(); ++i)
      owners[i]->attended.insert(owners[i]->attended.end(), attended[i].begin(), attended[i].end());
  }

  // A new token's owner requests the others' keys and values of this layer, part by part, as soon
  // as those of the layer before have been attended, by one number of its row: at most one layer's
  // travels ahead.
  void gather(std::int32_t layer) {
    Part& owner = parts_.back();
    const std::int64_t window = plan_->model.window_of(layer);
    std::vector<Part*> others;
    for (Part& part : parts_) {
      if (sees(owner, part, window)) others.push_back(&part);
    }
    if (layer == 0) ask(others, owner.stream, layer);
    std::vector<TaskIndex> arrivals;
    arrivals.reserve(others.size());
    for (const Part* const other : others) {
      arrivals.push_back(graph_.add(
          model::cache_transfer_task(
              {.device = other->device,
               .layer = layer,
               .rows = owner.active,
               .columns = whole_range(2 * plan_->model.kv_heads * plan_->model.head_dim)},
              owner.device, seen(owner, *other, window), graph_.wire()),
          {other->asked}));
    }
    const model::TaskExtent heads{.device = owner.device,
                                  .layer = layer,
                                  .rows = owner.active,
                                  .columns = whole_range(plan_->model.heads)};
    const auto attends = [&](Range keys, bool of_remote_kv, TaskIndex after) {
      return graph_.add(
          model::attend_task(heads, {.keys = keys,
                                     .window = static_cast<std::int32_t>(window),
                                     .causal = is_causal(),
                                     .statistics = !others.empty(),
                                     .of_remote_kv = of_remote_kv,
                                     .output = of_remote_kv ? arriving(kAttention) : kAttention}),
          {after, owner.projected});
    };
    TaskIndex attended = attends(owner.keys, false, owner.projected);
    for (std::size_t i = 0; i < others.size(); ++i) {
      const TaskIndex made = attends(seen(owner, *others[i], window), true, arrivals[i]);
      attended = graph_.add(model::merge_task(heads, arriving(kAttention)), {attended, made, made});
    }
    owner.attended = {attended};
    if (layer + 1 == plan_->model.layers) return;
    std::vector<Part*> next;
    for (Part& part : parts_) {
      if (sees(owner, part, plan_->model.window_of(layer + 1))) next.push_back(&part);
    }
    ask(next, attended, layer);
  }

  void ask(const std::vector<Part*>& others, TaskIndex after, std::int32_t layer) {
    for (Part* const other : others) {
      other->asked = graph_.add(model::transfer_task({.device = parts_.back().device,
                                                      .layer = layer,
                                                      .rows = parts_.back().active,
                                                      .columns = {0, 1}},
                                                     other->device, kHidden, kHidden),
                                {after});
    }
  }

  // The rest of a new token's layer: on the owner, except FFN columns, of which each device has
  // some. Those devices get the FFN's input, and the owner the sum of their results.
  TaskIndex share_ffn(Part& owner, std::int32_t layer) {
    const TaskIndex made = owner.tasks.second_product(WeightBlock::attention, layer, owner.active,
                                                      whole_range(plan_->model.heads));
    const TaskIndex stream =
        owner.tasks.add_rows(WeightBlock::attention, layer, owner.active, {&made, 1});
    // Those that wait for a message first.
    std::vector<Participant> participants;
    for (Part& part : parts_) {
      if (&part == &owner || part.columns.empty()) continue;
      participants.push_back({.device = part.device,
                              .receives = false,
                              .ready = send_hidden(graph_, plan_->model, owner.device, part.device,
                                                   owner.active, stream)});
    }
    for (Part& part : parts_) {
      for (Participant& one : participants) {
        if (one.device == part.device) one.ready = part.tasks.ffn(layer, part.columns, one.ready);
      }
    }
    const bool contributes = !owner.columns.empty();
    participants.insert(
        participants.begin(),
        {.device = owner.device,
         .contributes = contributes,
         .ready = contributes ? owner.tasks.ffn(layer, owner.columns, stream) : -1});
    const TaskIndex passed =
        contributes ? -1 : owner.tasks.pass_by(WeightBlock::ffn, layer, stream);
    lower_sum(graph_,
              {.master = owner.device,
               .layer = layer,
               .rows = owner.active,
               .columns = hidden_columns(plan_->model)},
              parse_allreduce(plan_->allreduce.prompt), owner_first(owner.device), participants);
    return owner.tasks.add_partial(WeightBlock::ffn, layer, participants.front().sum, passed);
  }

  // The plan's layout with `owner` first, as it receives the sum.
  [[nodiscard]] Proximity owner_first(DeviceIndex owner) const {
    Proximity layout = plan_->layout;
    const auto at = std::ranges::find(layout.order, owner);
    std::rotate(layout.order.begin(), at, at + 1);
    return layout;
  }

  // Sends wanted rows to the master and appends its epilogue.
  TaskIndex collect() {
    DeviceTasks& master = parts_[master_].tasks;
    for (const Part& part : parts_) {
      if (part.wanted.empty()) continue;
      master.wait(part.device == plan_->master
                      ? part.stream
                      : send_hidden(graph_, plan_->model, part.device, plan_->master, part.wanted,
                                    part.stream));
    }
    return master.finish(-1);
  }

  // To the master, which has the prompt's last part, and from then on all of them.
  void migrate(TaskIndex over) {
    std::vector<KeptRows> others;
    for (const Part& part : parts_) {
      if (!part.rows.empty() && part.device != plan_->master)
        others.push_back({.device = part.device, .rows = part.rows, .made = part.projected});
    }
    migrate_cache(graph_, plan_->model, others, plan_->master, over);
  }

  const Plan* plan_;
  model::TaskGraph graph_;
  std::int64_t first_;  // position of the batch's first row, or one before it
  bool gathers_;        // keys and values move to its rows, which are one part's
  bool migrates_;       // they stay with the master when the step is over
  // For one row each device computes its columns: also for a prompt of one token, whose steps have
  // the structure, and so the graph, of a new token's.
  bool shares_ffn_;
  std::size_t master_ = 0;
  std::vector<Part> parts_;
};

// Lowers a batch that the strategy alone determines: one request.
model::TaskGraph lower_one(const Plan& plan, const model::Batch& batch) {
  std::vector<PositionPart> parts = position_parts(plan);
  std::vector<PlacedRows> rows(parts.size());
  const std::int32_t count = batch.rows();
  const bool one = batch.segments.size() == 1;
  // A plan for several requests is warmed up with other lengths, too.
  const bool own = count == plan.workload.prompt_tokens;
  const bool prompt =
      one && batch.segments[0].past == 0 && (own || (places_sequences(plan) && count > 1));
  if (!prompt && !(one && count == 1)) {
    throw Error("strategy 'spread': a step of " + std::to_string(batch.segments.size()) +
                " sequences and " + std::to_string(count) +
                " rows, expected the plan's prompt of " +
                std::to_string(plan.workload.prompt_tokens) +
                " tokens, or one new token; plan for this, or with another strategy");
  }
  if (places_sequences(plan))
    parts = sequence_parts(plan, prompt ? count : plan.workload.prompt_tokens);
  if (prompt) {
    for (std::size_t i = 0; i < parts.size(); ++i)
      rows[i].rows = parts[i].positions.intersect({0, count});
  } else {
    rows.back().rows = {0, 1};
    for (PositionPart& part : parts) {
      if (migrates(plan)) part.positions = &part == &parts.back() ? model::kCausal : Range{};
    }
  }
  return Lowering(plan, batch, parts, rows, prompt ? 0 : plan.workload.prompt_tokens, prompt).run();
}

model::TaskGraph lower(const Plan& plan, const model::Batch& batch) {
  require(!batch.segments.empty(), "spread: a batch with a sequence");
  check_placing(plan);
  if (batch.places.empty()) return lower_one(plan, batch);
  refuse_many(plan);
  const std::vector<PositionPart> parts = position_parts(plan);
  return Lowering(plan, batch, parts, placed_rows(plan, batch, parts), 0, false).run();
}

void check(const Plan& plan) {
  check_master_ends(plan);
  check_positions(plan);
  check_token_columns(plan);
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    check_whole(plan, static_cast<DeviceIndex>(d));
    if (!plan.devices[d].window.streams()) continue;
    throw Error("plan: device '" + plan.cluster.devices()[d].name +
                "' streams its weights with strategy 'spread': expected all of them in memory; "
                "make the plan again with `tandem plan`");
  }
  check_placing(plan);
  constexpr std::int64_t kMost = 32767 * model::kCacheBlock;
  if (plan.workload.positions() > kMost) {
    throw Error("plan: " + std::to_string(plan.workload.positions()) +
                " positions with strategy 'spread': expected at most " + std::to_string(kMost) +
                "; plan for fewer tokens");
  }
}

void check_own_lengths(const Plan& plan, const Workload& workload) {
  const bool fits = workload.prompt_tokens == plan.workload.prompt_tokens &&
                    workload.new_tokens <= plan.workload.new_tokens;
  if (fits) return;
  if (places_sequences(plan)) {
    throw Error(
        "strategy 'spread': the plan is for several requests, expected them as '--workload' or "
        "'--samples'; give the prompt in a workload file, or plan for one request");
  }
  throw Error("strategy 'spread': " + std::to_string(workload.prompt_tokens) + " prompt and " +
              std::to_string(workload.new_tokens) + " new tokens, expected " +
              std::to_string(plan.workload.prompt_tokens) + " and at most " +
              std::to_string(plan.workload.new_tokens) +
              ", by which the plan parts caches; plan with '--prompt-tokens " +
              std::to_string(workload.prompt_tokens) + " --new-tokens " +
              std::to_string(workload.new_tokens) + "'");
}

}  // namespace

Strategy spread_strategy() {
  return {.name = "spread",
          .summary = "cache positions",
          .namesakes = {{.name = "context-parallel"}},
          .sharding = {.weights = Weights::replicated,
                       .prefill = PrefillRows::with_cache,
                       .cache = KvCache::by_position,
                       .decode = Decode::owner},
          .allreduce = "star",
          .tasks = lower,
          .check = check,
          .buffers = buffers,
          .lengths = check_own_lengths,
          .serves_many = refuse_many,
          .placed = placed_at_each};
}

}  // namespace tandem::planner
