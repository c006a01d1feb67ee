#include "planner/collective/exchange.hpp"

#include <algorithm>
#include <utility>

#include "model/error.hpp"

namespace tandem::planner {

using model::BufferKind;
using model::BufferRef;
using model::Range;
using model::Task;
using model::TaskIndex;
using model::TaskKind;

namespace {

constexpr BufferRef kPartial{BufferKind::partial, 0};
constexpr BufferRef kReceive{BufferKind::receive, 0};

}  // namespace

Exchange::Exchange(model::TaskGraph& graph, const Sum& sum, std::vector<Participant> ranks,
                   std::int32_t chunks)
    : graph_(&graph), sum_(sum), ranks_(std::move(ranks)), chunks_(chunks) {
  require(!ranks_.empty() && chunks_ > 0, "collective: no ranks or no chunks");
  for (const Participant& rank : ranks_)
    state_.insert(state_.end(), static_cast<std::size_t>(chunks_),
                  Chunk{.held = rank.contributes, .ready = rank.ready});
}

bool Exchange::receives(std::int32_t rank) const {
  return rank == 0 || ranks_[static_cast<std::size_t>(rank)].receives;
}

bool Exchange::master_alone() const {
  return std::none_of(ranks_.begin() + 1, ranks_.end(),
                      [](const Participant& p) { return p.receives; });
}

Range Exchange::columns(Range chunks) const {
  const auto bound = [&](std::int32_t chunk) {
    const std::int64_t width = sum_.columns.size();
    return sum_.columns.begin + static_cast<std::int32_t>(width * chunk / chunks_);
  };
  return {bound(chunks.begin), bound(chunks.end)};
}

Exchange::Chunk& Exchange::chunk(std::int32_t rank, std::int32_t index) {
  return state_[static_cast<std::size_t>(rank) * static_cast<std::size_t>(chunks_) +
                static_cast<std::size_t>(index)];
}

const Exchange::Chunk& Exchange::chunk(std::int32_t rank, std::int32_t index) const {
  return state_[static_cast<std::size_t>(rank) * static_cast<std::size_t>(chunks_) +
                static_cast<std::size_t>(index)];
}

bool Exchange::holds(std::int32_t rank, Range chunks) const {
  const bool held = chunk(rank, chunks.begin).held;
  for (std::int32_t i = chunks.begin; i < chunks.end; ++i)
    require(chunk(rank, i).held == held, "collective: chunks of one message differ");
  return held;
}

std::vector<TaskIndex> Exchange::made_by(std::int32_t rank, Range chunks) const {
  std::vector<TaskIndex> tasks;
  for (std::int32_t i = chunks.begin; i < chunks.end; ++i) {
    const TaskIndex ready = chunk(rank, i).ready;
    if (ready >= 0) tasks.push_back(ready);
  }
  std::sort(tasks.begin(), tasks.end());
  tasks.erase(std::unique(tasks.begin(), tasks.end()), tasks.end());
  return tasks;
}

Task Exchange::task(TaskKind kind, std::int32_t rank, Range chunks) const {
  Task made;
  made.kind = kind;
  made.device = ranks_[static_cast<std::size_t>(rank)].device;
  made.layer = sum_.layer;
  made.rows = sum_.rows;
  made.columns = columns(chunks);
  return made;
}

TaskIndex Exchange::send(std::int32_t from, std::int32_t to, Range chunks, BufferRef output) {
  Task transfer = task(TaskKind::transfer, from, chunks);
  transfer.lane = model::LaneKind::channel;
  transfer.peer = ranks_[static_cast<std::size_t>(to)].device;
  transfer.input = kPartial;
  transfer.output = output;
  // Columns keep their places, so it is as wide as what is summed.
  if (output.kind == BufferKind::receive)
    graph_->declare(transfer.peer, {.name = output, .columns = sum_.columns.end});
  return graph_->add(transfer, made_by(from, chunks));
}

void Exchange::set(std::int32_t rank, Range chunks, TaskIndex ready) {
  for (std::int32_t i = chunks.begin; i < chunks.end; ++i)
    chunk(rank, i) = {.held = true, .ready = ready};
}

void Exchange::merge(std::int32_t from, std::int32_t to, Range chunks) {
  if (!holds(from, chunks)) return;
  if (columns(chunks).empty()) {
    set(to, chunks, -1);
    return;
  }
  if (!holds(to, chunks)) {
    set(to, chunks, send(from, to, chunks, kPartial));
    return;
  }
  std::vector<TaskIndex> dependencies = made_by(to, chunks);
  dependencies.push_back(send(from, to, chunks, kReceive));
  Task add = task(TaskKind::add, to, chunks);
  add.input = kReceive;
  add.output = kPartial;
  set(to, chunks, graph_->add(add, dependencies));
}

void Exchange::copy(std::int32_t from, std::int32_t to, Range chunks) {
  require(holds(from, chunks), "collective: a chunk without a value is sent");
  set(to, chunks, columns(chunks).empty() ? -1 : send(from, to, chunks, kPartial));
}

TaskIndex Exchange::deposit(std::int32_t from, std::int32_t to, Range chunks, std::int16_t slot) {
  require(holds(from, chunks), "collective: a chunk without a value is sent");
  if (columns(chunks).empty()) return -1;
  return send(from, to, chunks, {BufferKind::receive, slot});
}

}  // namespace tandem::planner
