#include "exec/shipment.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "model/error.hpp"

namespace tandem::exec {
namespace {

constexpr std::chrono::milliseconds kTurn{200};

}  // namespace

Shipment::Shipment(Session& session) : session_(&session) {}

Shipment::~Shipment() = default;

void Shipment::send(Parcel parcel) {
  auto way = std::make_unique<Way>();
  way->to = parcel.to;
  way->name = parcel.name;
  way->bytes = parcel.file.bytes;
  Way& present = *way;
  ways_.push_back(std::move(way));
  present.thread = std::jthread([this, &present, parcel = std::move(parcel)] {
    try {
      serve(parcel, present);
    } catch (const std::exception& error) {
      session_->cancel(error.what());
    }
    {
      const std::lock_guard lock(mutex_);
      present.done = true;
    }
    changed_.notify_all();
  });
}

void Shipment::serve(const Parcel& parcel, Way& way) {
  Control& control = session_->control();
  control.send(parcel.to, parcel.offer);
  const auto answer = control.expect<PlanAnswer>(parcel.to);
  switch (answer.verdict) {
    case PlanVerdict::accepted:
      return;
    case PlanVerdict::needs_shard:
      break;
    case PlanVerdict::refused:
      throw Error(parcel.name + ": " + printable(answer.reason));
  }
  // A file that is altered must not go out; a worker that shares this cache removed it.
  const ShardFile file = parcel.again();
  if (file.sha256 != parcel.file.sha256) {
    throw Error("weights of " + parcel.name + ": changed since they were offered; start again");
  }
  control.send(parcel.to, ShardBegin{.sha256 = file.sha256, .bytes = file.bytes});
  send_shard(file, kMaxChunkBytes, [&](std::span<const std::byte> chunk) {
    control.send(parcel.to, ShardChunk{.bytes = {chunk.begin(), chunk.end()}});
    way.sent += chunk.size();
    session_->activity().tick();
  });
  control.send(parcel.to, ShardEnd{});
}

void Shipment::finish(const std::function<void(const std::string& text)>& show) {
  for (const std::unique_ptr<Way>& way : ways_) {
    std::unique_lock lock(mutex_);
    while (!way->done) {
      const std::uint64_t sent = way->sent;
      const bool sending = 0 < sent && sent < way->bytes;
      Activity& activity = session_->activity();
      const Heartbeat told = activity.read();
      if (sending) {
        if (told.done != sent) {
          activity.enter(Phase::sending, way->to, way->bytes);
          activity.advance(sent);
        }
        show("sending the weights of " + way->name + ": " +
             std::to_string(sent * 100 / way->bytes) + "%");
      } else {
        if (told.phase != Phase::waiting || told.subject != way->to) {
          activity.enter(Phase::waiting, way->to);
        }
        show("waiting for " + way->name);
      }
      changed_.wait_for(lock, kTurn, [&] { return way->done.load(); });
    }
  }
  ways_.clear();
  session_->check();
}

}  // namespace tandem::exec
