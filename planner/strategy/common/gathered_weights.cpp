#include "planner/strategy/common/gathered_weights.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/graph/memory.hpp"
#include "model/graph/tasks.hpp"
#include "planner/strategy/common/block.hpp"
#include "planner/strategy/common/cover.hpp"

namespace tandem::planner {
namespace {

using model::BufferKind;
using model::BufferRef;
using model::DeviceIndex;
using model::Range;
using model::TaskIndex;
using model::WeightBlock;

constexpr std::array kBlocks{WeightBlock::attention, WeightBlock::ffn};

// Returns a device's part of such a block: query heads, FFN columns.
Range held(const model::Share& share, WeightBlock block) {
  return block == WeightBlock::attention ? share.heads : share.columns;
}

// Slot 0 means the device's own weights.
std::int16_t slot_of(WeightBlock block, DeviceIndex owner) {
  return static_cast<std::int16_t>(1 + 2 * owner + (block == WeightBlock::ffn ? 1 : 0));
}

std::int64_t largest_block(const Plan& plan, WeightBlock block, const model::Share& share) {
  const Range columns = held(share, block);
  std::int64_t largest = 0;
  for (std::int32_t layer = 0; layer < plan.model.layers && !columns.empty(); ++layer)
    largest = std::max(largest, model::block_extent(plan.model, block, layer, columns));
  return largest;
}

std::int64_t largest_block(const Plan& plan, WeightBlock block, DeviceIndex owner) {
  return largest_block(plan, block, plan.devices[static_cast<std::size_t>(owner)].share);
}

// Returns what is wrong with a device's share; empty: nothing.
std::string too_large(const Plan& plan, const model::Share& share) {
  for (const WeightBlock block : kBlocks) {
    const std::int64_t bytes = largest_block(plan, block, share);
    if (bytes <= std::numeric_limits<std::int32_t>::max()) continue;
    return "holds a block of " + model::to_text(model::Bytes{static_cast<double>(bytes)}) +
           " that others gather: expected less than 2 GiB; plan with more devices, "
           "'--partition equal' or a smaller '--dtype', or without '--gather-weights'";
  }
  return {};
}

}  // namespace

std::vector<model::BufferDeclaration> gathering_buffers(const Plan& plan, DeviceIndex device) {
  std::vector<model::BufferDeclaration> buffers{
      {.name = {BufferKind::receive, 0}, .columns = plan.model.hidden}};
  for (DeviceIndex owner = 0; owner < static_cast<DeviceIndex>(plan.devices.size()); ++owner) {
    for (const WeightBlock block : kBlocks) {
      const std::int64_t bytes = owner == device ? 0 : largest_block(plan, block, owner);
      if (bytes == 0) continue;
      buffers.push_back({.name = {BufferKind::gathered_weights, slot_of(block, owner)},
                         .rows = model::RowCount::one,
                         .columns = bytes,
                         .format = model::ElementFormat::bytes});
    }
  }
  return buffers;
}

void check_gathered_blocks(const Plan& plan) {
  for (DeviceIndex owner = 0; owner < plan.cluster.size(); ++owner) {
    const std::string no = too_large(plan, plan.devices[static_cast<std::size_t>(owner)].share);
    if (!no.empty()) fail_share(plan, owner, no);
  }
}

std::string too_large_to_gather(const Plan& plan, std::span<const model::Share> shares) {
  for (std::size_t d = 0; d < shares.size(); ++d) {
    const std::string no = too_large(plan, shares[d]);
    if (!no.empty()) return "device '" + plan.cluster.devices()[d].name + "': " + no;
  }
  return {};
}

GatheredWeights::GatheredWeights(model::TaskGraph& graph, const Plan& plan,
                                 std::span<const DeviceIndex> devices,
                                 std::vector<std::int32_t> asking)
    : graph_(&graph),
      plan_(&plan),
      devices_(devices),
      asking_(std::move(asking)),
      first_(devices.size(), -1),
      visits_(kBlocks.size() * devices.size() * devices.size()) {
  check_gathered_blocks(plan);  // of shares that are only thought of, too
}

void GatheredWeights::begins(std::size_t rank, TaskIndex first) { first_[rank] = first; }

std::size_t GatheredWeights::place(WeightBlock block, std::size_t of, std::size_t rank) const {
  const std::size_t second = block == WeightBlock::ffn ? 1 : 0;
  return (second * devices_.size() + of) * devices_.size() + rank;
}

std::vector<std::size_t> GatheredWeights::order(std::size_t rank) const {
  std::vector<std::size_t> all;
  for (std::size_t step = 0; step < devices_.size(); ++step)
    all.push_back((rank + step) % devices_.size());
  return all;
}

void GatheredWeights::send(WeightBlock block, std::int32_t layer, const std::vector<bool>& wanted) {
  struct Sent {
    std::size_t from;
    std::size_t to;
    TaskIndex asked;
  };
  std::vector<Sent> all;
  for (std::size_t step = 1; step < devices_.size(); ++step) {
    for (std::size_t to = 0; to < devices_.size(); ++to) {
      if (wanted[to]) all.push_back({order(to)[step], to, -1});
    }
  }
  for (Sent& one : all) {
    const TaskIndex used = visits_[place(block, one.from, one.to)].used;
    if (used < 0) {
      one.asked = first_[one.from];
      continue;
    }
    const std::int32_t row = asking_[one.to];
    one.asked = graph_->add(
        model::transfer_task(
            {.device = devices_[one.to], .layer = layer, .rows = {row, row + 1}, .columns = {0, 1}},
            devices_[one.from], {BufferKind::hidden}, {BufferKind::hidden}),
        {used});
  }
  for (const Sent& one : all) {
    const DeviceIndex owner = devices_[one.from];
    const Range columns = held(plan_->devices[static_cast<std::size_t>(owner)].share, block);
    visits_[place(block, one.from, one.to)].arrival = graph_->add(
        model::weights_transfer_task(
            owner, devices_[one.to], block, layer, columns,
            static_cast<std::int32_t>(model::block_extent(plan_->model, block, layer, columns)),
            slot_of(block, owner)),
        {one.asked});
  }
}

TaskIndex GatheredWeights::arrival(WeightBlock block, std::size_t of, std::size_t rank) const {
  return visits_[place(block, of, rank)].arrival;
}

void GatheredWeights::used(WeightBlock block, std::size_t rank, TaskIndex last) {
  for (std::size_t of = 0; of < devices_.size(); ++of) visits_[place(block, of, rank)].used = last;
}

std::int16_t GatheredWeights::weights_slot(WeightBlock block, std::size_t of) const {
  return slot_of(block, devices_[of]);
}

}  // namespace tandem::planner
