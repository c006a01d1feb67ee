#pragma once

// Gets their shards to the workers, while others are still being sliced. Private to the master.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "exec/runtime/session.hpp"
#include "exec/weights/shard_file.hpp"

namespace tandem::exec {

struct Parcel {
  model::DeviceIndex to = 0;
  std::string name;  // of the device
  PlanOffer offer;
  ShardFile file;
  std::function<ShardFile()> again;  // makes the file anew, if it has gone meanwhile
};

// A worker that is offered a plan checks what it has, which takes as long as its disk takes, and
// then perhaps a network as long to be sent the rest: each is served by a thread of its own.
class Shipment {
 public:
  // `session` outlives it.
  explicit Shipment(Session& session);
  // Waits for the threads; a session that has failed ends them.
  ~Shipment();
  Shipment(const Shipment&) = delete;
  Shipment& operator=(const Shipment&) = delete;

  // Offers the plan, and sends the shard if it is wanted. A refusal, or any other failure, fails
  // the session.
  void send(Parcel parcel);
  // Returns when every worker has its shard. `show` is told now and then whom is waited for. Throws
  // Error if the session has failed.
  void finish(const std::function<void(const std::string& text)>& show);

 private:
  struct Way {
    model::DeviceIndex to = 0;
    std::string name;
    std::atomic<bool> done = false;
    std::atomic<std::uint64_t> sent = 0;
    std::uint64_t bytes = 0;
    std::jthread thread;
  };
  void serve(const Parcel& parcel, Way& way);

  Session* session_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Way>> ways_;  // last: the threads use the others
};

}  // namespace tandem::exec
