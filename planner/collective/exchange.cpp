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
                   std::int32_t parts)
    : graph_(&graph), sum_(sum), ranks_(std::move(ranks)), parts_(parts) {
  require(!ranks_.empty() && parts_ > 0, "collective: no ranks or no parts");
  for (const Participant& rank : ranks_)
    state_.insert(state_.end(), static_cast<std::size_t>(parts_),
                  Part{.held = rank.contributes, .ready = rank.ready});
}

bool Exchange::receives(std::int32_t rank) const {
  return rank == 0 || ranks_[static_cast<std::size_t>(rank)].receives;
}

bool Exchange::master_alone() const {
  return std::none_of(ranks_.begin() + 1, ranks_.end(),
                      [](const Participant& p) { return p.receives; });
}

Range Exchange::columns(Range parts) const {
  const auto bound = [&](std::int32_t part) {
    const std::int64_t width = sum_.columns.size();
    return sum_.columns.begin + static_cast<std::int32_t>(width * part / parts_);
  };
  return {bound(parts.begin), bound(parts.end)};
}

Exchange::Part& Exchange::part(std::int32_t rank, std::int32_t index) {
  return state_[static_cast<std::size_t>(rank) * static_cast<std::size_t>(parts_) +
                static_cast<std::size_t>(index)];
}

const Exchange::Part& Exchange::part(std::int32_t rank, std::int32_t index) const {
  return state_[static_cast<std::size_t>(rank) * static_cast<std::size_t>(parts_) +
                static_cast<std::size_t>(index)];
}

bool Exchange::holds(std::int32_t rank, Range parts) const {
  const bool held = part(rank, parts.begin).held;
  for (std::int32_t i = parts.begin; i < parts.end; ++i)
    require(part(rank, i).held == held, "collective: parts of one message differ");
  return held;
}

std::vector<TaskIndex> Exchange::made_by(std::int32_t rank, Range parts) const {
  std::vector<TaskIndex> tasks;
  for (std::int32_t i = parts.begin; i < parts.end; ++i) {
    const TaskIndex ready = part(rank, i).ready;
    if (ready >= 0) tasks.push_back(ready);
  }
  std::sort(tasks.begin(), tasks.end());
  tasks.erase(std::unique(tasks.begin(), tasks.end()), tasks.end());
  return tasks;
}

Task Exchange::task(TaskKind kind, std::int32_t rank, Range parts) const {
  Task made;
  made.kind = kind;
  made.device = ranks_[static_cast<std::size_t>(rank)].device;
  made.layer = sum_.layer;
  made.rows = sum_.rows;
  made.columns = columns(parts);
  return made;
}

TaskIndex Exchange::send(std::int32_t from, std::int32_t to, Range parts, BufferRef output) {
  Task transfer = task(TaskKind::transfer, from, parts);
  transfer.lane = model::LaneKind::channel;
  transfer.peer = ranks_[static_cast<std::size_t>(to)].device;
  transfer.input = kPartial;
  transfer.output = output;
  // Columns keep their places, so it is as wide as what is summed.
  if (output.kind == BufferKind::receive)
    graph_->declare(transfer.peer, {.name = output, .columns = sum_.columns.end});
  return graph_->add(transfer, made_by(from, parts));
}

void Exchange::set(std::int32_t rank, Range parts, TaskIndex ready) {
  for (std::int32_t i = parts.begin; i < parts.end; ++i)
    part(rank, i) = {.held = true, .ready = ready};
}

void Exchange::merge(std::int32_t from, std::int32_t to, Range parts) {
  if (!holds(from, parts)) return;
  if (columns(parts).empty()) {
    set(to, parts, -1);
    return;
  }
  if (!holds(to, parts)) {
    set(to, parts, send(from, to, parts, kPartial));
    return;
  }
  std::vector<TaskIndex> dependencies = made_by(to, parts);
  dependencies.push_back(send(from, to, parts, kReceive));
  Task add = task(TaskKind::add, to, parts);
  add.input = kReceive;
  add.output = kPartial;
  set(to, parts, graph_->add(add, dependencies));
}

void Exchange::copy(std::int32_t from, std::int32_t to, Range parts) {
  require(holds(from, parts), "collective: a part without a value is sent");
  set(to, parts, columns(parts).empty() ? -1 : send(from, to, parts, kPartial));
}

TaskIndex Exchange::deposit(std::int32_t from, std::int32_t to, Range parts, std::int16_t slot) {
  require(holds(from, parts), "collective: a part without a value is sent");
  if (columns(parts).empty()) return -1;
  return send(from, to, parts, {BufferKind::receive, slot});
}

}  // namespace tandem::planner
