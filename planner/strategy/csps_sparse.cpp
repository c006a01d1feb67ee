#include "planner/strategy/csps_sparse.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "model/error.hpp"
#include "planner/strategy/block.hpp"
#include "planner/strategy/head.hpp"
#include "planner/strategy/rows.hpp"
#include "planner/strategy/spread_attention.hpp"

namespace tandem::planner {
namespace {

using model::BufferKind;
using model::BufferRef;
using model::DeviceIndex;
using model::Range;
using model::Task;
using model::TaskIndex;
using model::TaskKind;
using model::WeightBlock;

constexpr std::int32_t kOpen = model::kCausal.end;

// Level v keeps what it gathers in slot v - 1: level 1 reads what tasks have in any strategy.
std::int16_t slot_of(std::int32_t level) { return static_cast<std::int16_t>(level - 1); }
BufferRef at(BufferKind kind, std::int32_t level) { return {kind, slot_of(level)}; }

Range all(std::int64_t size) { return {0, static_cast<std::int32_t>(size)}; }

Range times(Range range, std::int64_t factor) {
  const auto f = static_cast<std::int32_t>(factor);
  return {range.begin * f, range.end * f};
}

const model::Share& share_at(const Plan& plan, std::size_t place) {
  return plan.devices[static_cast<std::size_t>(plan.sparse->order[place])].share;
}

// By place.
std::vector<Range> parts_of(const Plan& plan, std::int32_t rows) {
  const std::size_t places = plan.sparse->order.size();
  std::vector<std::int64_t> weights;
  for (std::size_t i = 0; i < places; ++i)
    weights.push_back(share_at(plan, i).computed_columns().size());
  std::vector<std::int32_t> sizes = parts_by_weight(rows, weights);
  if (std::ranges::find(sizes, 0) != sizes.end()) {
    sizes.assign(places, 0);
    sizes.back() = rows;
  }
  std::vector<Range> parts;
  std::int32_t begin = 0;
  for (const std::int32_t size : sizes) {
    parts.push_back({begin, begin + size});
    begin += size;
  }
  return parts;
}

// Heads that each device of a group attends with, by place; of the others none.
std::vector<Range> heads_of_group(const Plan& plan, Range group) {
  std::vector<std::int64_t> weights;
  for (std::int32_t i = group.begin; i < group.end; ++i)
    weights.push_back(share_at(plan, static_cast<std::size_t>(i)).computed_heads().size());
  std::vector<Range> heads(plan.sparse->order.size());
  std::int32_t begin = 0;
  const std::vector<std::int32_t> sizes =
      parts_by_weight(static_cast<std::int32_t>(plan.model.heads), weights);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    heads[static_cast<std::size_t>(group.begin) + i] = {begin, begin + sizes[i]};
    begin += sizes[i];
  }
  return heads;
}

void declare(model::TaskGraph& graph, const Plan& plan) {
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const model::Share& share = plan.devices[d].share;
    declare_buffers(graph, plan, static_cast<DeviceIndex>(d),
                    sparse_buffers(plan, share, share.head && heads_at_once(plan)));
  }
}

// One sequence's step, as devices make it of their tasks.
class Lowering {
 public:
  Lowering(const Plan& plan, const model::Batch& batch)
      : plan_(&plan),
        sparse_(&*plan.sparse),
        heads_(all(plan.model.heads)),
        graph_(batch, plan.wire),
        window_(graph_, plan) {
    declare(graph_, plan);
    for (const DeviceIndex device : sparse_->order)
      places_.push_back({.device = device, .tasks = {graph_, plan.model, device, &window_}});
  }
  Lowering(const Lowering&) = delete;
  Lowering& operator=(const Lowering&) = delete;
  Lowering(Lowering&&) = delete;
  Lowering& operator=(Lowering&&) = delete;
  ~Lowering() = default;

  model::TaskGraph prompt() && {
    const std::vector<Range> parts = parts_of(*plan_, graph_.batch().rows());
    const std::vector<bool> wanted =
        wanted_rows(graph_.batch(), plan_->model.architecture().generates());
    for (std::size_t i = 0; i < places_.size(); ++i) {
      places_[i].rows = parts[i];
      places_[i].wanted = wanted_within(wanted, parts[i]);
    }
    for (std::int32_t level = 2; level <= sparse_->levels(); ++level) add_level(level);
    scatter();
    const auto layers = static_cast<std::int32_t>(plan_->model.layers);
    for (std::int32_t layer = 0; layer < layers; ++layer) block(layer, layer + 1 == layers);
    const TaskIndex over = finish();
    // A text that is only scored (`eval`) may have any length.
    const bool own = graph_.batch().rows() == plan_->workload.prompt_tokens;
    if (own && plan_->decode_moves == DecodeMoves::keys_once) migrate(over);
    return std::move(*this).finished();
  }

  model::TaskGraph token() && {
    const auto length = static_cast<std::int32_t>(plan_->workload.prompt_tokens);
    const bool alone = plan_->decode_moves == DecodeMoves::keys_once;
    const std::vector<Range> parts = parts_of(*plan_, length);
    Place& own = places_.back();
    own.rows = own.active = own.wanted = {0, 1};
    SpreadRows row{
        .device = own.device, .rows = own.rows, .keys = {alone ? 0 : parts.back().begin, kOpen}};
    for (std::size_t i = 0; i + 1 < places_.size(); ++i) {
      if (!alone && !parts[i].empty()) row.others.push_back({places_[i].device, parts[i]});
    }
    own.stream = own.tasks.embed();
    const auto layers = static_cast<std::int32_t>(plan_->model.layers);
    for (std::int32_t layer = 0; layer < layers; ++layer) {
      project(own, layer);
      row.projected = own.projected;
      own.attended = attend_spread(graph_, plan_->model, layer, {&row, 1}).front();
      go_on(own, layer);
    }
    finish();
    return std::move(*this).finished();
  }

 private:
  struct Place {
    DeviceIndex device;
    DeviceTasks tasks;
    Range rows{};
    Range wanted{};  // by the result, of its rows
    Range active{};  // that go on after attention: in the last layer those wanted
    TaskIndex stream = -1;
    TaskIndex projected = -1;
    TaskIndex attended = -1;
  };
  // Scores of the keys of `owner`, made at `by`.
  struct Weighed {
    std::size_t owner;
    std::size_t by;
    TaskIndex made;
  };
  // A level beside the first, of all groups. What is by place is -1 where there is no such task.
  struct Level {
    std::int32_t number;
    std::vector<Range> group{};               // by place
    std::vector<Range> nearer{};              // the group of the level before, by place
    std::vector<std::vector<Range>> heads{};  // of the group of a place: by place
    // Of the layer: where what each place kept stands among what everybody kept.
    std::vector<Range> kept{};
    bool lists = false;  // whether rows are dropped
    std::vector<TaskIndex> listed{};
    std::vector<TaskIndex> queried{};
    std::vector<TaskIndex> paired{};
    // By place and other place: the message after which that has what it was sent.
    std::vector<std::vector<TaskIndex>> arrived{};
    std::vector<Weighed> weighed{};
    [[nodiscard]] std::int8_t list() const {
      return static_cast<std::int8_t>(lists ? slot_of(number) : 0);
    }
  };

  void add_level(std::int32_t number) {
    Level level{.number = number};
    bool any = false;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      level.group.push_back(sparse_->group(number, i));
      level.nearer.push_back(sparse_->group(number - 1, i));
      level.heads.push_back(heads_of_group(*plan_, level.group[i]));
    }
    for (std::size_t i = 0; i < places_.size(); ++i)
      any = any || before(level, i) || after(level, i);
    if (any) levels_.push_back(std::move(level));
  }

  // Whether rows come before, or follow, those of `place` at a level. Either every place has rows
  // or the last alone.
  [[nodiscard]] bool before(const Level& level, std::size_t place) const {
    return !places_.front().rows.empty() && level.group[place].begin < level.nearer[place].begin;
  }
  [[nodiscard]] bool after(const Level& level, std::size_t place) const {
    return !places_.front().rows.empty() && level.nearer[place].end < level.group[place].end;
  }

  // What a place asks with at a level, and what it has for others.
  [[nodiscard]] Range queries(const Level& level, std::size_t place) const {
    if (!before(level, place)) return {};
    return level.lists ? level.kept[place] : places_[place].active;
  }
  [[nodiscard]] Range keys(const Level& level, std::size_t place) const {
    return after(level, place) && !askers(level, place).empty() ? level.kept[place] : Range{};
  }
  // What all those ask with who ask for keys of `place`.
  [[nodiscard]] Range askers(const Level& level, std::size_t place) const {
    return joined(level.nearer[place].end, level.group[place].end,
                  [&](std::size_t i) { return queries(level, i); });
  }
  // What all those have whom `place` asks.
  [[nodiscard]] Range asked(const Level& level, std::size_t place) const {
    return joined(level.group[place].begin, level.nearer[place].begin,
                  [&](std::size_t i) { return keys(level, i); });
  }
  template <class RangeOf>
  static Range joined(std::int32_t begin, std::int32_t end, const RangeOf& range_of) {
    Range all{};
    for (std::int32_t i = begin; i < end; ++i) {
      const Range own = range_of(static_cast<std::size_t>(i));
      if (!own.empty()) all = {all.empty() ? own.begin : all.begin, own.end};
    }
    return all;
  }

  // The places of the group that attend with some heads: those that follow in turn first, `place`
  // itself last. If each sends in that order, nobody is sent to by all at once.
  [[nodiscard]] std::vector<std::size_t> attending(const Level& level, std::size_t place) const {
    const Range group = level.group[place];
    std::vector<std::size_t> found;
    for (std::int32_t step = 1; step <= group.size(); ++step) {
      const std::int32_t turn = static_cast<std::int32_t>(place) - group.begin + step;
      const std::int32_t next = group.begin + turn % group.size();
      const auto other = static_cast<std::size_t>(next);
      if (!level.heads[place][other].empty()) found.push_back(other);
    }
    return found;
  }

  [[nodiscard]] Range kv(Range heads) const { return plan_->model.kv_heads_for(heads); }

  TaskIndex send(std::size_t from, std::size_t to, BufferRef input, BufferRef output,
                 std::int32_t layer, Range rows, Range columns, TaskIndex after) {
    Task task;
    task.kind = TaskKind::transfer;
    task.lane = model::LaneKind::channel;
    task.device = places_[from].device;
    task.peer = places_[to].device;
    task.layer = layer;
    task.rows = rows;
    task.columns = columns;
    task.input = input;
    task.output = output;
    // Lists, softmax and scores are no activations.
    const bool activations = input.kind == BufferKind::query ||
                             input.kind == BufferKind::gathered ||
                             input.kind == BufferKind::attention;
    if (activations) task.wire = graph_.wire();
    return graph_.add(task, {after});
  }

  TaskIndex add(std::size_t place, Task task, const std::vector<TaskIndex>& after = {}) {
    task.device = places_[place].device;
    return graph_.add(task, after);
  }

  static Task make(TaskKind kind, std::int32_t layer, Range rows, Range columns, BufferRef input,
                   BufferRef output) {
    Task task;
    task.kind = kind;
    task.layer = layer;
    task.rows = rows;
    task.columns = columns;
    task.input = input;
    task.output = output;
    task.statistics = kind == TaskKind::attend;
    return task;
  }

  void scatter() {
    const std::size_t master = places_.size() - 1;
    const TaskIndex embedded = places_[master].tasks.embed();
    for (std::size_t i = 0; i < places_.size(); ++i) {
      Place& place = places_[i];
      if (place.rows.empty()) continue;
      place.stream = i == master ? embedded
                                 : send_hidden(graph_, plan_->model, plan_->master, place.device,
                                               place.rows, embedded);
    }
  }

  void project(Place& place, std::int32_t layer) {
    place.tasks.wait(place.stream);
    place.tasks.norm_rows(WeightBlock::attention, layer, place.rows);
    place.projected = place.tasks.first_product(WeightBlock::attention, layer, place.rows, heads_);
  }

  void block(std::int32_t layer, bool last) {
    for (Place& place : places_) {
      place.active = last ? place.wanted : place.rows;
      if (!place.rows.empty()) project(place, layer);
    }
    for (const Level& level : levels_) add_scores(level, layer);
    for (Level& level : levels_) choose(level, layer);
    for (Level& level : levels_) gather(level, layer);
    for (Level& level : levels_) exchange(level, layer);
    const bool scored = sparse_->drops(layer + 1);
    for (std::size_t i = 0; i < places_.size(); ++i) attend_own(i, layer, scored);
    for (const Level& level : levels_) attend(level, layer);
    for (Level& level : levels_) {
      if (scored) tell_softmax(level, layer);
    }
    for (Place& place : places_) {
      if (!place.active.empty()) go_on(place, layer);
    }
    if (scored) weigh(layer);
  }

  // What is kept at a level, and where it stands.
  void choose(Level& level, std::int32_t layer) {
    const double dropped = sparse_->dropped(layer, level.number);
    level.lists = dropped > 0.0;
    level.kept.clear();
    level.listed.assign(places_.size(), -1);
    std::int32_t begin = 0;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const std::int32_t size = kept_rows(dropped, places_[i].rows.size());
      level.kept.push_back({begin, begin + size});
      begin += size;
    }
    for (std::size_t i = 0; level.lists && i < places_.size(); ++i) {
      if (!before(level, i) && !after(level, i)) continue;
      Task task = make(TaskKind::select, layer, places_[i].rows, heads_, {BufferKind::scores},
                       at(BufferKind::selection, level.number));
      task.keys = level.kept[i];
      level.listed[i] = add(i, task);
    }
  }

  TaskIndex gathered(std::size_t place, const Level& level, BufferKind from, BufferKind to,
                     std::int32_t layer, Range rows) {
    if (rows.empty()) return -1;
    Task task = make(TaskKind::gather, layer, rows, heads_, {from}, at(to, level.number));
    task.selection = level.list();
    return add(place, task);
  }

  void gather(Level& level, std::int32_t layer) {
    level.queried.assign(places_.size(), -1);
    level.paired.assign(places_.size(), -1);
    for (std::size_t i = 0; i < places_.size(); ++i) {
      level.queried[i] =
          gathered(i, level, BufferKind::query, BufferKind::query, layer, queries(level, i));
      level.paired[i] =
          gathered(i, level, BufferKind::key_value, BufferKind::gathered, layer, keys(level, i));
    }
  }

  // The first all-to-all. What a channel takes arrives in order: the last message tells of all.
  void exchange(Level& level, std::int32_t layer) {
    const std::int64_t d = plan_->model.head_dim;
    level.arrived.assign(places_.size(), std::vector<TaskIndex>(places_.size(), -1));
    for (std::size_t i = 0; i < places_.size(); ++i) {
      for (const std::size_t j : attending(level, i)) {
        if (i == j) continue;
        const Range heads = level.heads[i][j];
        const auto pass = [&](BufferKind kind, Range rows, Range columns, TaskIndex made) {
          if (made < 0) return;
          const BufferRef buffer = at(kind, level.number);
          level.arrived[i][j] = send(i, j, buffer, buffer, layer, rows, columns, made);
        };
        pass(BufferKind::selection, level.kept[i], kv(heads), level.listed[i]);
        pass(BufferKind::query, queries(level, i), times(heads, d), level.queried[i]);
        pass(BufferKind::gathered, keys(level, i), times(kv(heads), 2 * d), level.paired[i]);
      }
    }
  }

  void attend_own(std::size_t i, std::int32_t layer, bool scored) {
    Place& place = places_[i];
    if (place.active.empty()) return;
    Task task = make(TaskKind::attend, layer, place.active, heads_, {BufferKind::query},
                     {BufferKind::attention});
    task.keys = place.rows;
    task.statistics = scored || std::ranges::any_of(levels_, [&](const Level& level) {
                        return !queries(level, i).empty();
                      });
    place.attended = add(i, task, {place.projected});
  }

  // Everybody's heads of what each place asks, and the second all-to-all.
  void attend(const Level& level, std::int32_t layer) {
    const std::int64_t d = plan_->model.head_dim;
    const BufferRef result = at(BufferKind::attention, level.number);
    const BufferRef softmax = at(BufferKind::softmax, level.number);
    std::vector<std::vector<TaskIndex>> attended(places_.size());
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (queries(level, i).empty()) continue;
      for (const std::size_t j : attending(level, i)) {
        Task task = make(TaskKind::attend, layer, queries(level, i), level.heads[i][j],
                         at(BufferKind::query, level.number), result);
        task.keys = asked(level, i);
        task.selection = level.list();
        std::vector<TaskIndex> after;
        const auto wait = [&](std::size_t of) {
          if (level.arrived[of][j] >= 0) after.push_back(level.arrived[of][j]);
        };
        wait(i);
        for (std::int32_t k = level.group[i].begin; k < level.nearer[i].begin; ++k)
          wait(static_cast<std::size_t>(k));
        attended[i].push_back(add(j, task, after));
      }
    }
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const Range rows = queries(level, i);
      if (rows.empty()) continue;
      std::vector<TaskIndex> there{places_[i].attended};
      const std::vector<std::size_t> by = attending(level, i);
      for (std::size_t n = 0; n < by.size(); ++n) {
        const std::size_t j = by[n];
        if (j == i) continue;
        const Range heads = level.heads[i][j];
        send(j, i, result, result, layer, rows, times(heads, d), attended[i][n]);
        there.push_back(send(j, i, softmax, softmax, layer, rows, times(heads, 2), attended[i][n]));
      }
      Task task = make(TaskKind::merge, layer, rows, heads_, result, {BufferKind::attention});
      task.selection = level.list();
      places_[i].attended = add(i, task, there);
    }
  }

  // The softmax over all levels, to whoever attended for these rows.
  void tell_softmax(Level& level, std::int32_t layer) {
    const BufferRef softmax = at(BufferKind::softmax, level.number);
    std::vector<TaskIndex> made;
    for (std::size_t i = 0; i < places_.size(); ++i)
      made.push_back(
          gathered(i, level, BufferKind::softmax, BufferKind::softmax, layer, queries(level, i)));
    for (std::size_t i = 0; i < places_.size(); ++i) {
      for (const std::size_t j : attending(level, i)) {
        if (j == i || made[i] < 0) continue;
        level.arrived[i][j] = send(i, j, softmax, softmax, layer, queries(level, i),
                                   times(level.heads[i][j], 2), made[i]);
      }
    }
  }

  // What keys weigh: of each place's own, and of what was attended to for others.
  void weigh(std::int32_t layer) {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].rows.empty()) continue;
      Task task = make(TaskKind::score, layer, places_[i].rows, heads_, {BufferKind::query},
                       {BufferKind::scores});
      task.keys = places_[i].rows;
      add(i, task);
    }
    for (Level& level : levels_) {
      level.weighed.clear();
      for (std::size_t i = 0; i < places_.size(); ++i) {
        if (keys(level, i).empty()) continue;
        for (const std::size_t j : attending(level, i)) {
          Task task =
              make(TaskKind::score, layer, askers(level, i), level.heads[i][j],
                   at(BufferKind::query, level.number), at(BufferKind::scores, level.number));
          task.keys = keys(level, i);
          task.selection = level.list();
          std::vector<TaskIndex> after;
          for (std::int32_t k = level.nearer[i].end; k < level.group[i].end; ++k) {
            const TaskIndex told = level.arrived[static_cast<std::size_t>(k)][j];
            if (told >= 0) after.push_back(told);
          }
          level.weighed.push_back({.owner = i, .by = j, .made = add(j, task, after)});
        }
      }
    }
  }

  // What the layer before made of them, to the keys' owners, one after another.
  void add_scores(const Level& level, std::int32_t layer) {
    if (!sparse_->drops(layer)) return;
    for (const Weighed& part : level.weighed) {
      const BufferRef own = at(BufferKind::scores, level.number);
      const BufferRef arriving = at(BufferKind::scores, sparse_->levels() + 1);
      const Range columns = kv(level.heads[part.owner][part.by]);
      const Range rows = level.kept[part.owner];
      const bool here = part.owner == part.by;
      const TaskIndex made =
          here ? part.made
               : send(part.by, part.owner, own, arriving, layer, rows, columns, part.made);
      Task task =
          make(TaskKind::add, layer, rows, columns, here ? own : arriving, {BufferKind::scores});
      task.selection = level.list();
      add(part.owner, task, {made});
    }
  }

  // Everybody's keys and values of the prompt to the master, whose new tokens see them all.
  void migrate(TaskIndex over) {
    std::vector<KeptRows> others;
    for (std::size_t i = 0; i + 1 < places_.size(); ++i) {
      if (!places_[i].rows.empty())
        others.push_back({places_[i].device, places_[i].rows, places_[i].projected});
    }
    migrate_cache(graph_, plan_->model, others, places_.back().device, over);
  }

  // The rest of the layer, of the place's own rows.
  static void go_on(Place& place, std::int32_t layer) {
    place.tasks.wait(place.attended);
    place.stream = place.tasks.after_attention(layer, place.active);
  }

  // Wanted rows to the master, and what it makes of them.
  TaskIndex finish() {
    std::vector<TaskIndex> there;
    for (const Place& place : places_) {
      if (place.wanted.empty()) continue;
      there.push_back(place.device == plan_->master
                          ? place.stream
                          : send_hidden(graph_, plan_->model, place.device, plan_->master,
                                        place.wanted, place.stream));
    }
    return finish_step(graph_, *plan_, window_, places_.back().tasks, there);
  }

  model::TaskGraph finished() && {
    window_.finish();
    return std::move(graph_);
  }

  const Plan* plan_;
  const SparseAttention* sparse_;
  Range heads_;  // of the model
  model::TaskGraph graph_;
  WindowTasks window_;
  std::vector<Place> places_;
  std::vector<Level> levels_;  // that have something to attend to, nearest first
};

[[noreturn]] void refuse(const std::string& what) {
  throw Error("plan: sparse attention (--levels, --drop): " + what);
}

// A step of `rows`, of which no new token follows, is to be a prompt to the plan.
void check_sparse_rows(const Plan& plan, std::int64_t rows) {
  if (rows != 1 || plan.workload.prompt_tokens == 1) return;
  refuse(
      "a prompt of 1 token, which looks like a new one, expected 2 or more; plan with "
      "'--prompt-tokens 1'");
}

}  // namespace

model::TaskGraph lower_sparse(const Plan& plan, const model::Batch& batch) {
  if (plan.capacity.sequences > 0) refuse_served_sparse(plan);
  require(!batch.segments.empty(), "sparse attention: a batch with a sequence");
  if (batch.segments.size() > 1)
    refuse("a step of " + std::to_string(batch.segments.size()) +
           " sequences, expected one; plan without them for many requests");
  return is_prompt(batch) ? Lowering(plan, batch).prompt() : Lowering(plan, batch).token();
}

std::vector<model::BufferDeclaration> sparse_buffers(const Plan& plan, const model::Share& share,
                                                     bool streams_head) {
  std::vector<model::BufferDeclaration> buffers =
      model::share_buffers(plan.model, share, streams_head);
  if (share.layers.empty()) return buffers;
  const std::int64_t heads = plan.model.heads;
  const std::int64_t kv = plan.model.kv_heads;
  const std::int64_t d = plan.model.head_dim;
  const std::int32_t levels = plan.sparse->levels();
  bool drops = false;
  for (std::int32_t layer = 0; layer < static_cast<std::int32_t>(plan.model.layers); ++layer)
    drops = drops || plan.sparse->drops(layer);
  buffers.push_back({.name = {BufferKind::softmax}, .columns = 2 * heads});
  for (std::int32_t level = 2; level <= levels; ++level) {
    buffers.push_back({.name = at(BufferKind::query, level), .columns = heads * d});
    buffers.push_back({.name = at(BufferKind::attention, level), .columns = heads * d});
    buffers.push_back({.name = at(BufferKind::softmax, level), .columns = 2 * heads});
    buffers.push_back({.name = at(BufferKind::gathered, level), .columns = 2 * kv * d});
    if (drops)
      buffers.push_back({.name = at(BufferKind::selection, level),
                         .columns = kv,
                         .format = model::ElementFormat::i32});
  }
  for (std::int32_t slot = 1; drops && slot <= levels + 1; ++slot)
    buffers.push_back({.name = at(BufferKind::scores, slot), .columns = kv});
  buffers.push_back(
      {.name = {BufferKind::panels}, .rows = model::RowCount::positions, .columns = 2 * d});
  return buffers;
}

void check_sparse_plan(const Plan& plan) {
  if (plan.model.architecture().mask != model::Mask::causal ||
      !plan.model.architecture().generates())
    refuse("model " + plan.model.name +
           " attends to later tokens, too, expected a decoder; leave them out");
  for (std::int32_t layer = 0; layer < static_cast<std::int32_t>(plan.model.layers); ++layer) {
    if (plan.model.window_of(layer) > 0)
      refuse("layer " + std::to_string(layer) + " of model " + plan.model.name + " sees " +
             std::to_string(plan.model.window_of(layer)) +
             " tokens back, expected all; leave them out");
  }
  if (plan.tiles != 0)
    refuse(std::to_string(plan.tiles) + " tiles, expected 0; plan without '--tiles'");
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    if (plan.devices[d].window.streams())
      refuse("device '" + plan.cluster.devices()[d].name +
             "' streams its weights, expected all in memory; plan with '--window all'");
  }
  if (plan.capacity.sequences > 0) refuse_served_sparse(plan);
}

void check_sparse_lengths(const Plan& plan, const Workload& workload) {
  if (!plan.sparse) return;
  if (workload.new_tokens <= 1) return check_sparse_rows(plan, workload.prompt_tokens);
  if (workload.prompt_tokens == plan.workload.prompt_tokens) return;
  refuse(std::to_string(workload.prompt_tokens) + " prompt tokens, expected " +
         std::to_string(plan.workload.prompt_tokens) +
         ", whose parts new tokens ask for; plan with '--prompt-tokens " +
         std::to_string(workload.prompt_tokens) + "'");
}

void refuse_served_sparse(const Plan& plan) {
  if (!plan.sparse) return;
  refuse("a workload of requests, expected one request; leave out '--workload'");
}

}  // namespace tandem::planner
