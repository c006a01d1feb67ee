#pragma once

// Gets their weights to the workers, while others are still being sliced. Private to the master.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "exec/session/peer_session.hpp"
#include "exec/weights/store/block_maker.hpp"

namespace tandem::exec {

// One weight block of a worker's share.
struct Parcel {
  MadeBlock block;
  // Reads the block and returns it once its bytes were seen to be what the label says; a damaged
  // block is sliced once more first.
  std::function<MadeBlock()> checked;
};

// What a shipment did.
struct ShippedWeights {
  std::uint64_t offered_bytes = 0;     // of all blocks
  std::uint64_t sent_bytes = 0;        // of the pieces that a worker lacked
  std::vector<std::string> remarks{};  // of workers on the plan that they accepted
};

// A worker that is offered blocks checks what it has, which takes as long as its disk takes, and is
// then perhaps sent the rest, which takes as long as the network takes: each worker is served by a
// thread of its own.
class Shipment {
 public:
  // `session` outlives it.
  explicit Shipment(Session& session);
  // Waits for the threads; a session that has failed ends them.
  ~Shipment();
  Shipment(const Shipment&) = delete;
  Shipment& operator=(const Shipment&) = delete;

  // Offers the plan. A refusal, or any other failure, fails the session.
  void open(model::DeviceIndex to, const std::string& name, PlanOffer offer);
  // The next block of the share of `to`: what it lacks of it is sent.
  void add(model::DeviceIndex to, Parcel parcel);
  // `to` gets no more blocks.
  void close(model::DeviceIndex to);
  // Returns when every worker has its weights. `show` is told now and then whom is waited for.
  // Throws Error if the session has failed.
  void finish(const std::function<void(const std::string& text)>& show);
  // What was offered and sent to all workers; complete after finish().
  [[nodiscard]] const ShippedWeights& shipped() const { return shipped_; }

 private:
  struct Way {
    model::DeviceIndex to = 0;
    std::string name;
    std::deque<Parcel> waiting;  // under the mutex
    bool closed = false;         // under the mutex
    std::string remark{};        // under the mutex
    std::atomic<bool> done = false;
    std::atomic<std::uint64_t> offered = 0;
    std::atomic<std::uint64_t> wanted = 0;
    std::atomic<std::uint64_t> sent = 0;
    std::jthread thread;
  };
  [[nodiscard]] Way& way_to(model::DeviceIndex to);
  void serve(const PlanOffer& offer, Way& way);
  // The next blocks that are ready, as many as a message holds; none at the end.
  [[nodiscard]] std::vector<Parcel> next(Way& way);
  void offer(std::vector<Parcel>& parcels, Way& way);
  void send(std::vector<Parcel>& parcels, const BlocksWanted& wanted, Way& way);

  Session* session_;
  std::mutex mutex_;
  std::condition_variable changed_;
  ShippedWeights shipped_;
  std::vector<std::unique_ptr<Way>> ways_;  // last: the threads use the others
};

}  // namespace tandem::exec
