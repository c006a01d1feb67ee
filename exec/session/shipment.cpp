#include "exec/session/shipment.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "exec/weights/store/block_assembly.hpp"
#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

constexpr std::chrono::milliseconds kTurn{200};

}  // namespace

Shipment::Shipment(Session& session) : session_(&session) {}

Shipment::~Shipment() = default;

void Shipment::open(model::DeviceIndex to, const std::string& name, PlanOffer offer) {
  auto way = std::make_unique<Way>();
  way->to = to;
  way->name = name;
  Way& present = *way;
  {
    const std::lock_guard lock(mutex_);
    ways_.push_back(std::move(way));
  }
  present.thread = std::jthread([this, &present, offer = std::move(offer)] {
    try {
      serve(offer, present);
    } catch (const std::exception& error) {
      session_->cancel(model::describe(error));
    }
    {
      const std::lock_guard lock(mutex_);
      present.done = true;
    }
    changed_.notify_all();
  });
}

Shipment::Way& Shipment::way_to(model::DeviceIndex to) {
  const auto found =
      std::ranges::find_if(ways_, [to](const std::unique_ptr<Way>& way) { return way->to == to; });
  require(found != ways_.end(), "Shipment: a way that was opened");
  return **found;
}

void Shipment::add(model::DeviceIndex to, Parcel parcel) {
  {
    const std::lock_guard lock(mutex_);
    way_to(to).waiting.push_back(std::move(parcel));
  }
  changed_.notify_all();
}

void Shipment::close(model::DeviceIndex to) {
  {
    const std::lock_guard lock(mutex_);
    way_to(to).closed = true;
  }
  changed_.notify_all();
}

void Shipment::serve(const PlanOffer& offer_of_plan, Way& way) {
  Control& control = session_->control();
  control.send(way.to, offer_of_plan);
  const auto answer = control.expect<PlanAnswer>(way.to);
  if (answer.verdict == PlanVerdict::refused) {
    throw Error(way.name + ": " + answer.reason);
  }
  {
    const std::lock_guard lock(mutex_);
    way.remark = answer.reason;
  }
  for (auto parcels = next(way); !parcels.empty(); parcels = next(way)) offer(parcels, way);
}

std::vector<Parcel> Shipment::next(Way& way) {
  std::unique_lock lock(mutex_);
  while (way.waiting.empty() && !way.closed) {
    changed_.wait_for(lock, kTurn);
    session_->check();
  }
  std::vector<Parcel> parcels;
  std::size_t pieces = 0;
  while (!way.waiting.empty() && parcels.size() < kMaxOfferedBlocks) {
    pieces += way.waiting.front().block.label.pieces().count;
    if (pieces > kMaxOfferedPieces && !parcels.empty()) break;
    parcels.push_back(std::move(way.waiting.front()));
    way.waiting.pop_front();
  }
  return parcels;
}

void Shipment::offer(std::vector<Parcel>& parcels, Way& way) {
  Control& control = session_->control();
  BlocksOffer offer;
  for (const Parcel& parcel : parcels) {
    offer.blocks.push_back(parcel.block.label.digests());
    way.offered += parcel.block.file.bytes;
  }
  control.send(way.to, offer);
  while (true) {
    const auto wanted = control.expect<BlocksWanted>(way.to);
    if (wanted.blocks.size() != parcels.size()) {
      throw Error(way.name + ": answered for " + std::to_string(wanted.blocks.size()) +
                  " blocks of weights, expected " + std::to_string(parcels.size()) +
                  "; install the same tandem on every device");
    }
    if (std::ranges::all_of(wanted.blocks, [](const auto& pieces) { return pieces.empty(); }))
      return;
    send(parcels, wanted, way);
  }
}

void Shipment::send(std::vector<Parcel>& parcels, const BlocksWanted& wanted, Way& way) {
  for (std::size_t i = 0; i < parcels.size(); ++i) {
    const std::vector<std::uint64_t> sizes = parcels[i].block.label.pieces().piece_bytes();
    for (const std::uint32_t piece : wanted.blocks[i]) {
      if (piece < sizes.size()) {
        way.wanted += sizes[piece];
        continue;
      }
      throw Error(way.name + ": wants piece " + std::to_string(piece) + " of a block of " +
                  std::to_string(sizes.size()) + "; install the same tandem on every device");
    }
  }
  for (std::size_t i = 0; i < parcels.size(); ++i) {
    if (wanted.blocks[i].empty()) continue;
    // A file that is altered must not go out; a worker that shares this cache removed it.
    MadeBlock block = parcels[i].checked();
    if (block.label.id() != parcels[i].block.label.id()) {
      throw Error("weights of " + way.name + ": changed since they were offered; start again");
    }
    parcels[i].block = std::move(block);
    send_pieces(
        parcels[i].block.file, parcels[i].block.label.pieces(), wanted.blocks[i], kMaxChunkBytes,
        [&](std::span<const std::byte> chunk) {
          session_->control().send(way.to, WeightChunk{.bytes = {chunk.begin(), chunk.end()}});
          way.sent += chunk.size();
          session_->activity().tick();
        });
  }
}

void Shipment::finish(const std::function<void(const std::string& text)>& show) {
  for (const std::unique_ptr<Way>& way : ways_) {
    std::unique_lock lock(mutex_);
    while (!way->done) {
      const std::uint64_t sent = way->sent;
      const std::uint64_t wanted = way->wanted;
      const bool sending = sent < wanted;
      Activity& activity = session_->activity();
      const Heartbeat told = activity.read();
      if (sending) {
        if (told.done != sent) {
          activity.enter(Phase::sending, way->to, wanted);
          activity.advance(sent);
        }
        show("sending the weights of " + way->name + ": " + std::to_string(sent * 100 / wanted) +
             "%");
      } else {
        if (told.phase != Phase::waiting || told.subject != way->to) {
          activity.enter(Phase::waiting, way->to);
        }
        show("waiting for " + way->name);
      }
      changed_.wait_for(lock, kTurn, [&] { return way->done.load(); });
    }
    shipped_.offered_bytes += way->offered;
    shipped_.sent_bytes += way->sent;
    if (!way->remark.empty()) shipped_.remarks.push_back(std::move(way->remark));
  }
  ways_.clear();
  session_->check();
}

}  // namespace tandem::exec
