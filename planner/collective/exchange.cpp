#include "planner/collective/exchange.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::planner {

using model::Area;
using model::BufferKind;
using model::BufferRef;
using model::Range;
using model::Task;
using model::TaskIndex;

namespace {

constexpr BufferRef kPartial{BufferKind::partial, 0};
constexpr BufferRef kReceive{BufferKind::receive, 0};

// Returns whether two ranges overlap: empty ones do not, wherever they are.
bool overlap(Range a, Range b) { return std::max(a.begin, b.begin) < std::min(a.end, b.end); }

std::vector<Participant> with_master(std::vector<Participant> ranks) {
  if (!ranks.empty()) ranks.front().receives = true;
  return ranks;
}

}  // namespace

Cut equal_columns(Range columns, std::int32_t chunks, std::int32_t block) {
  const auto bound = [&](std::int32_t chunk) {
    if (chunk == chunks) return columns.end;
    const std::int64_t width = columns.size();
    const auto even = columns.begin + static_cast<std::int32_t>(width * chunk / chunks);
    return std::max(columns.begin, even / block * block);
  };
  Cut cut;
  for (std::int32_t i = 0; i < chunks; ++i) cut.chunks.push_back({bound(i), bound(i + 1)});
  return cut;
}

Exchange::Exchange(model::TaskGraph& graph, const Sum& sum, std::vector<Participant> ranks,
                   std::int32_t chunks)
    : Exchange(graph, sum, with_master(std::move(ranks)),
               equal_columns(sum.columns, chunks, wire_block(graph.wire())), kPartial) {}

Exchange::Exchange(model::TaskGraph& graph, const Sum& sum, std::vector<Participant> ranks, Cut cut,
                   BufferRef buffer)
    : graph_(&graph), sum_(sum), ranks_(std::move(ranks)), cut_(std::move(cut)), buffer_(buffer) {
  require(!ranks_.empty() && !cut_.chunks.empty(), "collective: no ranks or no chunks");
  for (const Participant& rank : ranks_)
    state_.insert(state_.end(), cut_.chunks.size(),
                  Chunk{.held = rank.contributes, .ready = rank.ready});
}

Range Exchange::part(std::int32_t rank) const {
  require(chunks() % size() == 0, "collective: as many chunks for each rank");
  const std::int32_t each = chunks() / size();
  return {rank * each, (rank + 1) * each};
}

bool Exchange::receives(std::int32_t rank) const {
  return ranks_[static_cast<std::size_t>(rank)].receives;
}

bool Exchange::master_alone() const {
  return std::none_of(ranks_.begin() + 1, ranks_.end(),
                      [](const Participant& p) { return p.receives; });
}

Area Exchange::area(Range chunks) const {
  Range extent{};
  for (std::int32_t i = chunks.begin; i < chunks.end; ++i) {
    const Range next = cut_.chunks[static_cast<std::size_t>(i)];
    if (next.empty()) continue;
    require(extent.empty() || extent.end == next.begin, "collective: chunks that are not adjacent");
    extent = {extent.empty() ? next.begin : extent.begin, next.end};
  }
  if (cut_.axis == Cut::Axis::rows) return {extent, sum_.columns};
  return {sum_.rows, extent};
}

bool Exchange::empty(Range chunks) const {
  const Area all = area(chunks);
  return all.rows.empty() || all.columns.empty();
}

Exchange::Chunk& Exchange::chunk(std::int32_t rank, std::int32_t index) {
  return state_[static_cast<std::size_t>(rank) * cut_.chunks.size() +
                static_cast<std::size_t>(index)];
}

const Exchange::Chunk& Exchange::chunk(std::int32_t rank, std::int32_t index) const {
  return state_[static_cast<std::size_t>(rank) * cut_.chunks.size() +
                static_cast<std::size_t>(index)];
}

bool Exchange::holds(std::int32_t rank, Range chunks) const {
  std::optional<bool> held;
  for (std::int32_t i = chunks.begin; i < chunks.end; ++i) {
    if (extent(i).empty()) continue;
    require(held.value_or(chunk(rank, i).held) == chunk(rank, i).held,
            "collective: chunks of one message differ");
    held = chunk(rank, i).held;
  }
  return held.value_or(chunk(rank, chunks.begin).held);
}

std::vector<TaskIndex> Exchange::made_by(std::int32_t rank, Range chunks) const {
  std::vector<TaskIndex> tasks;
  for (std::int32_t i = chunks.begin; i < chunks.end; ++i) {
    add_makers(chunk(rank, i), tasks);
  }
  std::sort(tasks.begin(), tasks.end());
  tasks.erase(std::unique(tasks.begin(), tasks.end()), tasks.end());
  return tasks;
}

void Exchange::add_makers(const Chunk& one, std::vector<TaskIndex>& tasks) const {
  if (one.ready >= 0) tasks.push_back(one.ready);
  if (one.ready >= -1) return;
  const std::vector<TaskIndex>& several = joint_[static_cast<std::size_t>(-2 - one.ready)];
  tasks.insert(tasks.end(), several.begin(), several.end());
}

void Exchange::set_makers(Chunk& one, std::vector<TaskIndex> tasks) {
  std::sort(tasks.begin(), tasks.end());
  tasks.erase(std::unique(tasks.begin(), tasks.end()), tasks.end());
  if (tasks.size() < 2) {
    one.ready = tasks.empty() ? -1 : tasks.front();
    return;
  }
  joint_.push_back(std::move(tasks));
  one.ready = -1 - static_cast<TaskIndex>(joint_.size());
}

TaskIndex Exchange::last_maker(const Chunk& one) const {
  return one.ready >= -1 ? one.ready : joint_[static_cast<std::size_t>(-2 - one.ready)].back();
}

Exchange Exchange::among(const std::vector<std::int32_t>& member,
                         const std::vector<bool>& receiving, std::vector<Range> chunks) {
  std::vector<Participant> ranks;
  for (std::size_t i = 0; i < member.size(); ++i) {
    ranks.push_back(ranks_[static_cast<std::size_t>(member[i])]);
    ranks.back().receives = receiving[i];
  }
  Exchange part(*graph_, sum_, std::move(ranks), {.axis = cut_.axis, .chunks = std::move(chunks)},
                buffer_);
  part.is_level_ = true;
  for (std::int32_t rank = 0; rank < part.size(); ++rank) {
    const std::int32_t here = member[static_cast<std::size_t>(rank)];
    for (std::int32_t c = 0; c < part.chunks(); ++c) {
      std::vector<TaskIndex> tasks;
      std::optional<bool> held;
      for (std::int32_t i = 0; i < this->chunks(); ++i) {
        if (!overlap(extent(i), part.extent(c))) continue;
        require(held.value_or(chunk(here, i).held) == chunk(here, i).held,
                "collective: a chunk that is held in part");
        held = chunk(here, i).held;
        if (*held) make(here, {i, i + 1});
        if (*held) add_makers(chunk(here, i), tasks);
      }
      // Nothing is sent of an empty chunk, on any rank.
      part.chunk(rank, c) = {.held = held.value_or(true)};
      part.set_makers(part.chunk(rank, c), std::move(tasks));
    }
  }
  return part;
}

void Exchange::take(const Exchange& done, const std::vector<std::int32_t>& member) {
  for (std::int32_t rank = 0; rank < done.size(); ++rank) {
    const std::int32_t here = member[static_cast<std::size_t>(rank)];
    for (std::int32_t i = 0; i < chunks(); ++i) {
      std::vector<TaskIndex> tasks;
      std::int32_t covered = 0;
      bool held = true;
      for (std::int32_t c = 0; c < done.chunks(); ++c) {
        if (!overlap(extent(i), done.extent(c))) continue;
        covered += std::min(extent(i).end, done.extent(c).end) -
                   std::max(extent(i).begin, done.extent(c).begin);
        held = held && done.chunk(rank, c).held;
        done.add_makers(done.chunk(rank, c), tasks);
      }
      if (covered == 0 || !held) continue;
      require(covered == extent(i).size(), "collective: a chunk that is covered in part");
      chunk(here, i).held = chunk(here, i).made = true;
      set_makers(chunk(here, i), std::move(tasks));
    }
  }
}

void Exchange::make_with(Hook hook) {
  make_ = std::move(hook);
  for (Chunk& one : state_) one.made = !one.held;
}

void Exchange::make(std::int32_t rank, Range chunks) {
  for (std::int32_t i = chunks.begin; i < chunks.end; ++i) {
    if (std::exchange(chunk(rank, i).made, true)) continue;
    const TaskIndex maker = make_(rank, i);
    chunk(rank, i).ready = maker;
  }
}

void Exchange::use(std::int32_t rank, std::int32_t index) {
  Chunk& one = chunk(rank, index);
  if (!use_ || !receives(rank) || !one.held || std::exchange(one.used, true)) return;
  if (!empty({index, index + 1})) static_cast<void>(use_(rank, index));
}

void Exchange::use_all() {
  for (std::int32_t rank = 0; rank < size(); ++rank) {
    std::vector<std::int32_t> order(cut_.chunks.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](std::int32_t i) { return last_maker(chunk(rank, i)); });
    for (const std::int32_t i : order) use(rank, i);
  }
}

void Exchange::give(std::int32_t rank, Range chunks, TaskIndex ready) {
  for (std::int32_t i = chunks.begin; i < chunks.end; ++i) {
    Chunk& one = chunk(rank, i);
    one.held = one.made = true;
    one.ready = ready;
  }
}

model::TaskExtent Exchange::extent(std::int32_t rank, Range chunks) const {
  const Area of = area(chunks);
  return {.device = ranks_[static_cast<std::size_t>(rank)].device,
          .layer = sum_.layer,
          .rows = of.rows,
          .columns = of.columns};
}

TaskIndex Exchange::send(std::int32_t from, std::int32_t to, Range chunks, BufferRef output) {
  return send(from, buffer_, to, chunks, output, made_by(from, chunks));
}

TaskIndex Exchange::send(std::int32_t from, BufferRef input, std::int32_t to, Range chunks,
                         BufferRef output, const std::vector<TaskIndex>& after) {
  const Task transfer =
      model::transfer_task(extent(from, chunks), ranks_[static_cast<std::size_t>(to)].device, input,
                           output, graph_->wire());
  // Columns keep their places, so the slot is as wide as the summed buffer.
  if (output.kind == BufferKind::receive)
    graph_->declare(transfer.peer, {.name = output, .columns = sum_.columns.end});
  return graph_->add(transfer, after);
}

void Exchange::begin_step() {
  ++steps_;
  in_step_ = true;
  delays_ = is_level_;
}

void Exchange::merge(std::int32_t from, std::int32_t to, Range chunks) {
  if (!in_step_) {
    if (const auto arrival = arrival_of({from, to, chunks})) complete(*arrival);
    return;
  }
  for (std::int32_t i = chunks.begin; i < chunks.end; ++i) {
    delays_ = delays_ || chunk(from, i).target_in == steps_;
    require(std::exchange(chunk(to, i).target_in, steps_) != steps_,
            "collective: a chunk is the target of two merges of one step");
  }
  merges_.push_back({from, to, chunks});
}

std::optional<Exchange::Arrival> Exchange::arrival_of(const Merge& merge) {
  const auto& [from, to, chunks] = merge;
  if (!holds(from, chunks)) return std::nullopt;
  make(from, chunks);
  if (empty(chunks)) return Arrival{.rank = to, .chunks = chunks, .is_added = false, .after = {}};
  if (!holds(to, chunks)) {
    return Arrival{.rank = to,
                   .chunks = chunks,
                   .is_added = false,
                   .after = {send(from, to, chunks, buffer_)}};
  }
  make(to, chunks);
  std::vector<TaskIndex> after = made_by(to, chunks);
  after.push_back(send(from, to, chunks, kReceive));
  return Arrival{.rank = to, .chunks = chunks, .is_added = true, .after = std::move(after)};
}

void Exchange::complete(const Arrival& arrival) {
  TaskIndex made = arrival.after.empty() ? -1 : arrival.after.back();
  if (arrival.is_added)
    made = graph_->add(model::add_task(extent(arrival.rank, arrival.chunks), kReceive, buffer_),
                       arrival.after);
  give(arrival.rank, arrival.chunks, made);
}

void Exchange::end_step() {
  in_step_ = false;
  std::vector<Arrival> arrivals;
  for (const Merge& merge : std::exchange(merges_, {})) {
    std::optional<Arrival> arrival = arrival_of(merge);
    if (!arrival) continue;
    if (delays_) {
      arrivals.push_back(std::move(*arrival));
    } else {
      complete(*arrival);
    }
  }
  for (const Arrival& arrival : arrivals) complete(arrival);
}

void Exchange::copy(std::int32_t from, std::int32_t to, Range chunks) {
  require(!in_step_, "collective: a copy in a step of merges");
  require(holds(from, chunks), "collective: a chunk without a value is sent");
  make(from, chunks);
  give(to, chunks, empty(chunks) ? -1 : send(from, to, chunks, buffer_));
}

std::vector<Range> Exchange::runs(std::int32_t from, std::int32_t to,
                                  std::span<const std::int32_t> of) const {
  std::vector<Range> found;
  std::int32_t end = -1;  // of what the run covers of the cut's dimension; -1: nothing yet
  for (const std::int32_t rank : of) {
    for (std::int32_t i = part(rank).begin; i < part(rank).end; ++i) {
      const Range covers = cut_.chunks[static_cast<std::size_t>(i)];
      const bool joins = !found.empty() && found.back().end == i &&
                         chunk(from, i).held == chunk(from, i - 1).held &&
                         chunk(to, i).held == chunk(to, i - 1).held &&
                         (covers.empty() || end < 0 || covers.begin == end);
      if (joins) {
        found.back().end = i + 1;
      } else {
        found.push_back({i, i + 1});
        end = -1;
      }
      if (!covers.empty()) end = covers.end;
    }
  }
  return found;
}

void Exchange::merge_parts(std::int32_t from, std::int32_t to, std::span<const std::int32_t> of) {
  for (const Range run : runs(from, to, of)) merge(from, to, run);
}

void Exchange::copy_parts(std::int32_t from, std::int32_t to, std::span<const std::int32_t> of) {
  for (const Range run : runs(from, to, of)) copy(from, to, run);
}

TaskIndex Exchange::deposit(std::int32_t from, std::int32_t to, Range chunks, std::int16_t slot) {
  require(holds(from, chunks), "collective: a chunk without a value is sent");
  make(from, chunks);
  if (empty(chunks)) return -1;
  return send(from, to, chunks, {BufferKind::receive, slot});
}

TaskIndex Exchange::pass_on(std::int32_t from, std::int16_t held, std::int32_t to, Range chunks,
                            std::int16_t slot, const std::vector<TaskIndex>& after) {
  if (empty(chunks)) return -1;
  return send(from, {BufferKind::receive, held}, to, chunks, {BufferKind::receive, slot}, after);
}

}  // namespace tandem::planner
