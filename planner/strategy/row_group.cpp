#include "planner/strategy/row_group.hpp"

#include <algorithm>
#include <utility>

#include "model/base/error.hpp"
#include "planner/strategy/common/rows.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;
using model::Range;
using model::Share;
using model::TaskIndex;
using model::WeightBlock;

constexpr model::BufferRef kPartial{model::BufferKind::partial, 0};

std::vector<bool> among(const Plan& plan, const std::vector<DeviceIndex>& devices) {
  std::vector<bool> members(plan.devices.size(), false);
  for (const DeviceIndex device : devices) members[static_cast<std::size_t>(device)] = true;
  return members;
}

}  // namespace

void check_rows(const Plan& plan, const std::vector<DeviceIndex>& devices) {
  const auto holds_both = [&](DeviceIndex device) {
    return has_rows(plan.devices[static_cast<std::size_t>(device)].share);
  };
  if (std::ranges::any_of(devices, holds_both)) return;
  throw Error(
      "plan: no device holds both heads and FFN columns: expected at least one, which rows are "
      "shared out to with strategy 'galaxy'; make the plan again with `tandem plan`");
}

RowGroup::RowGroup(model::TaskGraph& graph, const Plan& plan, WindowTasks& window,
                   const std::vector<DeviceIndex>& devices, std::vector<bool> wanted)
    : graph_(&graph),
      plan_(&plan),
      halves_(parse_allreduce(plan.allreduce.prompt)),
      ranking_(ranking(plan.layout, among(plan, devices), halves_)),
      wanted_(std::move(wanted)) {
  for (const DeviceIndex device : ranking_.devices)
    devices_.emplace_back(graph, plan.model, device, &window);
  part_rows(graph.batch().rows());
  if (!plan.sparse) return;
  std::vector<Range> by_rank;
  for (std::size_t rank = 0; rank < devices_.size(); ++rank) by_rank.push_back(rows(rank));
  sparse_.emplace(graph, plan, std::move(by_rank));
}

void RowGroup::scatter(TaskIndex ready) {
  for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
    stream_.push_back(ready);
    if (rank > 0 && !rows(rank).empty()) stream_.back() = send(0, rank, rows(rank), ready);
  }
}

void RowGroup::compute(Range layers) {
  for (std::int32_t layer = layers.begin; layer < layers.end; ++layer) {
    half(WeightBlock::attention, layer, false);
    half(WeightBlock::ffn, layer, layer + 1 == layers.end);
  }
}

std::vector<TaskIndex> RowGroup::collect() {
  std::vector<TaskIndex> at_root;
  for (const Result& one : result_)
    at_root.push_back(one.rank == 0 ? one.made : send(one.rank, 0, one.rows, one.made));
  return at_root;
}

void RowGroup::part_rows(std::int32_t total) {
  std::int32_t owners = 0;
  for (std::size_t rank = 0; rank < devices_.size(); ++rank)
    owners += has_rows(share(rank)) ? 1 : 0;
  const std::vector<std::int32_t> parts = equal_parts(total, owners);
  std::int32_t begin = 0;
  std::size_t next = 0;
  for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
    const std::int32_t size = has_rows(share(rank)) ? parts[next++] : 0;
    for (const std::int32_t tile : equal_parts(size, static_cast<std::int32_t>(tiles()))) {
      tiles_.push_back({begin, begin + tile});
      begin += tile;
    }
  }
}

TaskIndex RowGroup::send(std::size_t from, std::size_t to, Range rows, TaskIndex after) {
  return send_hidden(*graph_, plan_->model, ranking_.devices[from], ranking_.devices[to], rows,
                     after);
}

void RowGroup::half(WeightBlock block, std::int32_t layer, bool last) {
  last_.assign(devices_.size(), -1);
  std::vector<TaskIndex> normed(devices_.size(), -1);
  for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
    if (!columns(block, rank).empty())
      devices_[rank].begin_block(block, layer, columns(block, rank));
    if (rows(rank).empty()) continue;
    devices_[rank].wait(stream_[rank]);
    normed[rank] = devices_[rank].norm_rows(block, layer, rows(rank));
  }
  gather(block, layer, normed);
  if (block == WeightBlock::attention) attend(layer);
  reduce(block, layer, last);
}

void RowGroup::attend(std::int32_t layer) {
  if (sparse_) sparse_->choose(layer);
  for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
    const Range heads = share(rank).heads;
    if (heads.empty()) continue;
    if (sparse_) {
      sparse_->attend(ranking_.devices[rank], heads);
    } else {
      devices_[rank].attend(layer, {0, graph_->batch().rows()}, heads);
    }
  }
}

Exchange RowGroup::exchange(WeightBlock block, std::int32_t layer, bool reduces,
                            std::vector<Range> chunks) {
  std::vector<Participant> ranks;
  for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
    const bool computes = !columns(block, rank).empty();
    ranks.push_back({.device = ranking_.devices[rank],
                     .contributes = reduces && computes,
                     .receives = !reduces && computes});
  }
  return {*graph_,
          {.master = ranking_.devices.front(),
           .layer = layer,
           .rows = {0, graph_->batch().rows()},
           .columns = hidden_columns(plan_->model)},
          std::move(ranks),
          Cut{.axis = Cut::Axis::rows, .chunks = std::move(chunks)},
          reduces ? kPartial : devices_.front().normed()};
}

// Everyone's normed rows to all that compute this half, and its first product.
void RowGroup::gather(WeightBlock block, std::int32_t layer, const std::vector<TaskIndex>& normed) {
  Exchange gathering = exchange(block, layer, false, tiles_);
  for (std::int32_t rank = 0; rank < gathering.size(); ++rank)
    gathering.give(rank, gathering.part(rank), normed[static_cast<std::size_t>(rank)]);
  const auto product = [&](std::int32_t rank, Range chunks) {
    const auto r = static_cast<std::size_t>(rank);
    devices_[r].wait(gathering.made_by(rank, chunks));
    return last_[r] = devices_[r].first_product(block, layer, gathering.area(chunks).rows,
                                                columns(block, r));
  };
  if (overlaps()) {
    gathering.use_with([&](std::int32_t rank, std::int32_t chunk) {
      return product(rank, {chunk, chunk + 1});
    });
  }
  halves_.collective->all_gather(gathering, ranking_.topology);
  if (overlaps()) return gathering.use_all();
  for (std::int32_t rank = 0; rank < gathering.size(); ++rank) {
    if (gathering.receives(rank)) product(rank, gathering.all());
  }
}

// Appends the second product, the sums of each rank's rows, and the residual add. In the last half
// only for rows that the result needs.
void RowGroup::reduce(WeightBlock block, std::int32_t layer, bool last) {
  std::vector<Range> chunks = tiles_;
  if (last) {
    for (Range& chunk : chunks) chunk = wanted_within(wanted_, chunk);
  }
  Exchange summing = exchange(block, layer, true, chunks);
  std::vector<TaskIndex> whole(devices_.size(), -1);  // without tiles, the product of all rows
  const Range all =
      last ? wanted_within(wanted_, {0, graph_->batch().rows()}) : Range{0, graph_->batch().rows()};
  summing.make_with([&](std::int32_t rank, std::int32_t chunk) {
    const auto r = static_cast<std::size_t>(rank);
    const Range rows = chunks[static_cast<std::size_t>(chunk)];
    if (rows.empty()) return TaskIndex{-1};
    if (overlaps())
      return last_[r] = devices_[r].second_product(block, layer, rows, columns(block, r));
    if (whole[r] >= 0) return whole[r];
    whole[r] = last_[r] = devices_[r].second_product(block, layer, all, columns(block, r));
    // While the first sums travel.
    if (sparse_ && block == WeightBlock::attention)
      sparse_->weigh(ranking_.devices[r], columns(block, r));
    return whole[r];
  });
  halves_.collective->reduce_scatter(summing, ranking_.topology);
  for (std::int32_t rank = 0; rank < summing.size(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    summing.make(rank, summing.part(rank));
    if (!columns(block, r).empty()) devices_[r].end_block(last_[r]);
  }
  for (std::int32_t rank = 0; rank < summing.size(); ++rank) add(block, layer, summing, rank, last);
}

void RowGroup::add(WeightBlock block, std::int32_t layer, const Exchange& summing,
                   std::int32_t rank, bool last) {
  const auto r = static_cast<std::size_t>(rank);
  const Range part = summing.part(rank);
  if (!last) {
    if (rows(r).empty()) return;
    stream_[r] = devices_[r].add_rows(block, layer, rows(r), summing.made_by(rank, part));
    return;
  }
  for (std::int32_t chunk = part.begin; chunk < part.end; ++chunk) {
    const Range wanted = summing.area({chunk, chunk + 1}).rows;
    if (wanted.empty()) continue;
    stream_[r] =
        devices_[r].add_rows(block, layer, wanted, summing.made_by(rank, {chunk, chunk + 1}));
    result_.push_back({r, wanted, stream_[r]});
  }
}

}  // namespace tandem::planner
