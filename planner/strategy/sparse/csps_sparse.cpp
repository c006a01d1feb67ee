#include "planner/strategy/sparse/csps_sparse.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "model/base/error.hpp"
#include "model/graph/tasks.hpp"
#include "planner/strategy/common/block.hpp"
#include "planner/strategy/common/head.hpp"
#include "planner/strategy/common/rows.hpp"
#include "planner/strategy/common/spread_attention.hpp"
#include "planner/strategy/sparse/csps_level_tasks.hpp"
#include "planner/strategy/sparse/sparse_plan.hpp"

namespace tandem::planner {
namespace {

using model::BufferKind;
using model::BufferRef;
using model::DeviceIndex;
using model::Range;
using model::TaskIndex;
using model::WeightBlock;

constexpr std::int32_t kOpen = model::kCausal.end;

// Level v gathers rows in slot v - 1 (SparseLevel::slot).
BufferRef at(BufferKind kind, std::int32_t level) {
  return {kind, static_cast<std::int16_t>(level - 1)};
}

// One sequence's step, as devices make it of their tasks.
class Lowering {
 public:
  Lowering(const Plan& plan, const model::Batch& batch)
      : plan_(&plan),
        sparse_(&*plan.sparse),
        heads_(whole_range(plan.model.heads)),
        graph_(batch, plan.wire),
        window_(graph_, plan) {
    for (const DeviceIndex device : sparse_->order)
      places_.push_back({.device = device, .tasks = {graph_, plan.model, device, &window_}});
  }
  Lowering(const Lowering&) = delete;
  Lowering& operator=(const Lowering&) = delete;
  Lowering(Lowering&&) = delete;
  Lowering& operator=(Lowering&&) = delete;
  ~Lowering() = default;

  model::TaskGraph prompt() && {
    rows_ = sparse_rows(*plan_, graph_.batch().rows());
    const std::vector<bool> wanted =
        wanted_rows(graph_.batch(), plan_->model.architecture().generates());
    for (std::size_t i = 0; i < places_.size(); ++i) {
      places_[i].rows = rows_[i];
      places_[i].wanted = wanted_within(wanted, rows_[i]);
    }
    for (std::int32_t number = 2; number <= sparse_->levels(); ++number) {
      LevelTasks level{.of = {*plan_, number, rows_}, .by = {*plan_, number}};
      if (level.of.attends()) levels_.push_back(std::move(level));
    }
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
    const std::vector<Range> parts = sparse_rows(*plan_, length);
    Place& own = places_.back();
    own.rows = own.active = own.wanted = {0, 1};
    SpreadRows row{.device = own.device,
                   .keys = {{own.rows, {alone ? 0 : parts.back().begin, kOpen}}}};
    for (std::size_t i = 0; i + 1 < places_.size(); ++i) {
      if (!alone && !parts[i].empty())
        row.others.push_back({places_[i].device, own.rows, {{own.rows, parts[i]}}});
    }
    own.stream = own.tasks.embed();
    const auto layers = static_cast<std::int32_t>(plan_->model.layers);
    for (std::int32_t layer = 0; layer < layers; ++layer) {
      project(own, layer);
      row.projected = own.projected;
      own.attended = attend_spread(graph_, plan_->model, layer, {&row, 1}).front().front();
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
  [[nodiscard]] Range kv(Range heads) const { return plan_->model.kv_heads_for(heads); }

  TaskIndex send(std::size_t from, std::size_t to, BufferRef input, BufferRef output,
                 std::int32_t layer, Range rows, Range columns, TaskIndex after) {
    // Lists, softmax and scores are no activations.
    const bool activations = input.kind == BufferKind::query ||
                             input.kind == BufferKind::gathered ||
                             input.kind == BufferKind::attention;
    return graph_.add(
        model::transfer_task(extent(from, layer, rows, columns), places_[to].device, input, output,
                             activations ? graph_.wire() : model::WireFormat::f32),
        {after});
  }

  [[nodiscard]] model::TaskExtent extent(std::size_t place, std::int32_t layer, Range rows,
                                         Range columns) const {
    return {.device = places_[place].device, .layer = layer, .rows = rows, .columns = columns};
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
    for (const LevelTasks& level : levels_) add_scores(level, layer);
    std::vector<Range> active;
    for (const Place& place : places_) active.push_back(place.active);
    for (LevelTasks& level : levels_) choose(level, layer, active);
    for (LevelTasks& level : levels_) gather(level, layer);
    for (LevelTasks& level : levels_) exchange(level, layer);
    const bool scored = sparse_->drops(layer + 1);
    for (std::size_t i = 0; i < places_.size(); ++i) attend_own(i, layer, scored);
    // With pieces, results travel while farther levels are attended.
    const bool tiled = sparse_->tiled(layer);
    for (LevelTasks& level : levels_) {
      attend(level, layer);
      if (!tiled) merge(level, layer);
    }
    for (const LevelTasks& level : levels_) {
      if (tiled) merge(level, layer);
    }
    for (LevelTasks& level : levels_) {
      if (scored) tell_softmax(level, layer);
    }
    for (Place& place : places_) {
      if (!place.active.empty()) go_on(place, layer);
    }
    if (scored) weigh(layer);
  }

  // Selects the kept rows of a level, and their lists.
  void choose(LevelTasks& level, std::int32_t layer, const std::vector<Range>& active) {
    level.of.choose(layer, active);
    level.tiles = sparse_->tiles_of(layer, level.of.number());
    level.listed.assign(places_.size(), -1);
    for (const KeptPart& part : level.of.parts()) {
      for (std::size_t i = 0; part.lists && i < places_.size(); ++i) {
        if (!level.of.takes_part(i)) continue;
        level.listed[i] = graph_.add(
            model::select_task(extent(i, layer, places_[i].rows, part.heads), part.kept[i],
                               at(BufferKind::selection, level.of.number())),
            {});
      }
    }
  }

  // Sets `last` to the task if there are rows.
  void gather(std::size_t place, const LevelTasks& level, const KeptPart& part, BufferKind from,
              BufferKind to, std::int32_t layer, Range rows, TaskIndex& last) {
    if (rows.empty()) return;
    last = graph_.add(model::gather_task(extent(place, layer, rows, part.heads), {from},
                                         at(to, level.of.number()), level.of.list(part)),
                      {});
  }

  void gather(LevelTasks& level, std::int32_t layer) {
    level.queried.assign(places_.size(), -1);
    level.paired.assign(places_.size(), -1);
    for (const KeptPart& part : level.of.parts()) {
      for (std::size_t i = 0; i < places_.size(); ++i) {
        gather(i, level, part, BufferKind::query, BufferKind::query, layer,
               level.of.queries(part, i), level.queried[i]);
        gather(i, level, part, BufferKind::key_value, BufferKind::gathered, layer,
               level.of.keys(part, i), level.paired[i]);
      }
    }
  }

  // The first all-to-all. The first piece of queries needs all keys, the others are attended while
  // those after them travel.
  void exchange(LevelTasks& level, std::int32_t layer) {
    const std::int64_t d = plan_->model.head_dim;
    level.arrived.assign(places_.size(), std::vector<LevelTasks::Arrived>(places_.size()));
    for (const KeptPart& part : level.of.parts()) {
      for (std::size_t i = 0; i < places_.size(); ++i) {
        for (const std::size_t j : level.by.attending(part, i)) {
          if (i == j) continue;
          const Range heads = level.by.heads(part, i, j);
          LevelTasks::Arrived& there = level.arrived[i][j];
          const auto pass = [&](BufferKind kind, Range rows, Range columns, TaskIndex made) {
            if (rows.empty()) return;
            const BufferRef buffer = at(kind, level.of.number());
            there.last = send(i, j, buffer, buffer, layer, rows, columns, made);
          };
          const auto ask = [&](Range piece) {
            pass(BufferKind::query, piece, scaled(heads, d), level.queried[i]);
          };
          const bool listed = part.lists && level.of.takes_part(i);
          const std::vector<Range> asked = level.pieces(part, i);
          pass(BufferKind::selection, listed ? part.kept[i] : Range{}, kv(heads), level.listed[i]);
          if (!asked.empty()) ask(asked.front());
          pass(BufferKind::gathered, level.of.keys(part, i), scaled(kv(heads), 2 * d),
               level.paired[i]);
          there.keys = there.last;
          there.pieces = {there.last};
          for (std::size_t piece = 1; piece < asked.size(); ++piece) {
            ask(asked[piece]);
            there.pieces.push_back(there.last);
          }
        }
      }
    }
  }

  void attend_own(std::size_t i, std::int32_t layer, bool scored) {
    Place& place = places_[i];
    if (place.active.empty()) return;
    const bool merged = std::ranges::any_of(levels_, [&](const LevelTasks& level) {
      return std::ranges::any_of(level.of.parts(), [&](const KeptPart& part) {
        return !level.of.queries(part, i).empty();
      });
    });
    place.attended =
        graph_.add(model::attend_task(extent(i, layer, place.active, heads_),
                                      {.keys = place.rows, .statistics = scored || merged}),
                   {place.projected});
  }

  // Each device attends with its heads for the queries of each place.
  void attend(LevelTasks& level, std::int32_t layer) {
    level.attended.clear();
    level.last_attended.assign(places_.size(), -1);
    level.each_piece([&](const KeptPart& part, std::size_t i, Range rows, std::size_t piece) {
      for (const std::size_t j : level.by.attending(part, i)) {
        level.last_attended[j] =
            graph_.add(model::attend_task(extent(j, layer, rows, level.by.heads(part, i, j)),
                                          {.keys = level.of.asked(part, i),
                                           .statistics = true,
                                           .selection = level.of.list(part),
                                           .query = at(BufferKind::query, level.of.number()),
                                           .output = at(BufferKind::attention, level.of.number())}),
                       level.arrivals(i, piece, j));
        level.attended.push_back(level.last_attended[j]);
      }
    });
  }

  // The second all-to-all, and what places make of it.
  void merge(const LevelTasks& level, std::int32_t layer) {
    const std::int64_t d = plan_->model.head_dim;
    const BufferRef result = at(BufferKind::attention, level.of.number());
    const BufferRef softmax = at(BufferKind::softmax, level.of.number());
    const bool several = level.of.parts().size() > 1;
    auto next = level.attended.begin();
    level.each_piece([&](const KeptPart& part, std::size_t i, Range rows, std::size_t /*piece*/) {
      std::vector<TaskIndex> there{places_[i].attended};
      for (const std::size_t j : level.by.attending(part, i)) {
        const TaskIndex own = *next++;
        if (j == i) continue;
        const TaskIndex made = several ? level.last_attended[j] : own;
        const Range heads = level.by.heads(part, i, j);
        send(j, i, result, result, layer, rows, scaled(heads, d), made);
        there.push_back(send(j, i, softmax, softmax, layer, rows, scaled(heads, 2), made));
      }
      places_[i].attended = graph_.add(
          model::merge_task(extent(i, layer, rows, part.heads), result, level.of.list(part)),
          there);
    });
  }

  // The softmax over all levels, to the places that attended for these rows.
  void tell_softmax(LevelTasks& level, std::int32_t layer) {
    const BufferRef softmax = at(BufferKind::softmax, level.of.number());
    std::vector<TaskIndex> made(places_.size(), -1);
    for (const KeptPart& part : level.of.parts()) {
      for (std::size_t i = 0; i < places_.size(); ++i)
        gather(i, level, part, BufferKind::softmax, BufferKind::softmax, layer,
               level.of.queries(part, i), made[i]);
    }
    for (const KeptPart& part : level.of.parts()) {
      for (std::size_t i = 0; i < places_.size(); ++i) {
        const Range rows = level.of.queries(part, i);
        for (const std::size_t j : level.by.attending(part, i)) {
          if (j == i || rows.empty()) continue;
          level.arrived[i][j].last = send(i, j, softmax, softmax, layer, rows,
                                          scaled(level.by.heads(part, i, j), 2), made[i]);
        }
      }
    }
  }

  // Appends the scores of keys: of each place's own, and of those attended to for others.
  void weigh(std::int32_t layer) {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].rows.empty()) continue;
      graph_.add(model::score_task(extent(i, layer, places_[i].rows, heads_), places_[i].rows,
                                   {BufferKind::query}, {BufferKind::scores}),
                 {});
    }
    for (LevelTasks& level : levels_) weigh(level, layer);
  }

  void weigh(LevelTasks& level, std::int32_t layer) {
    level.weighed.clear();
    std::vector<TaskIndex> last(places_.size(), -1);
    for (std::size_t p = 0; p < level.of.parts().size(); ++p) {
      const KeptPart& part = level.of.parts()[p];
      for (std::size_t i = 0; i < places_.size(); ++i) {
        if (level.of.keys(part, i).empty()) continue;
        for (const std::size_t j : level.by.attending(part, i)) {
          // The owner's keys have arrived before, for attention.
          const Range asking = level.of.asking_places(i);
          last[j] =
              graph_.add(model::score_task(
                             extent(j, layer, level.of.askers(part, i), level.by.heads(part, i, j)),
                             level.of.keys(part, i), at(BufferKind::query, level.of.number()),
                             at(BufferKind::scores, level.of.number()), level.of.list(part)),
                         level.arrivals(asking, j));
          level.weighed.push_back({.part = p, .owner = i, .by = j, .made = last[j]});
        }
      }
    }
    if (level.of.parts().size() == 1) return;
    for (LevelTasks::Weighed& weighed : level.weighed) weighed.made = last[weighed.by];
  }

  // Sends the previous layer's scores to the keys' owners, in order.
  void add_scores(const LevelTasks& level, std::int32_t layer) {
    if (!sparse_->drops(layer)) return;
    for (const LevelTasks::Weighed& weighed : level.weighed) {
      const KeptPart& part = level.of.parts()[weighed.part];
      const BufferRef own = at(BufferKind::scores, level.of.number());
      const BufferRef arriving = at(BufferKind::scores, sparse_->levels() + 1);
      const Range columns = kv(level.by.heads(part, weighed.owner, weighed.by));
      const Range rows = part.kept[weighed.owner];
      const bool here = weighed.owner == weighed.by;
      const TaskIndex made =
          here ? weighed.made
               : send(weighed.by, weighed.owner, own, arriving, layer, rows, columns, weighed.made);
      graph_.add(model::add_task(extent(weighed.owner, layer, rows, columns), here ? own : arriving,
                                 {BufferKind::scores}, level.of.list(part)),
                 {made});
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

  // Sends wanted rows to the master and appends its epilogue.
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
  std::vector<Range> rows_;  // of the prompt, by place
  std::vector<Place> places_;
  std::vector<LevelTasks> levels_;  // that have something to attend to, nearest first
};

// A step of `rows` without a following new token must be a prompt to the plan.
void check_sparse_rows(const Plan& plan, std::int64_t rows) {
  if (rows != 1 || plan.workload.prompt_tokens == 1) return;
  refuse_sparse(
      "a prompt of 1 token, which looks like a new one, expected 2 or more; plan with "
      "'--prompt-tokens 1'");
}

}  // namespace

model::TaskGraph lower_sparse(const Plan& plan, const model::Batch& batch) {
  check_sparse_batch(plan, batch);
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
      {.name = {BufferKind::packed_kv}, .rows = model::RowCount::positions, .columns = 2 * d});
  return buffers;
}

void check_sparse_lengths(const Plan& plan, const Workload& workload) {
  if (!plan.sparse) return;
  if (workload.new_tokens <= 1) return check_sparse_rows(plan, workload.prompt_tokens);
  if (workload.prompt_tokens == plan.workload.prompt_tokens) return;
  refuse_sparse(std::to_string(workload.prompt_tokens) + " prompt tokens, expected " +
                std::to_string(plan.workload.prompt_tokens) +
                ", whose parts new tokens ask for; plan with '--prompt-tokens " +
                std::to_string(workload.prompt_tokens) + "'");
}

}  // namespace tandem::planner
