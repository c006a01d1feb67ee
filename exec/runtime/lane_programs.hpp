#pragma once

// What one device does in a step, worked out once for a graph and used for every step of its
// structure.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/graph/task_graph.hpp"
#include "model/graph/work.hpp"
#include "model/predict/program.hpp"

namespace tandem::exec {

// One thing that the computing thread does. It does them in order; that order alone decides which
// values a task sees, whenever messages come and go.
struct Action {
  enum class Kind : std::uint8_t {
    run,      // execute a cpu task
    capture,  // take the payload of an outgoing transfer and hand it to its channel (no relay's)
    deliver,  // wait for an incoming transfer and write it into its buffer
    await,    // wait for a load
  };
  Kind kind = Kind::run;
  model::TaskIndex task = 0;
  std::int32_t channel = -1;   // of `outgoing` or `incoming`
  std::int32_t position = -1;  // in the channel's messages; in the disk's loads
  std::int32_t event = -1;     // run: of the disk's events; -1: no load waits for it
};

// A message of a channel.
struct MessageRef {
  std::int32_t channel = -1;   // of `outgoing` or `incoming`
  std::int32_t position = -1;  // in the channel's messages
  [[nodiscard]] bool exists() const { return channel >= 0; }
};

// A transfer as one end sees it. Payloads wait in slots: the sender's until they are sent, the
// receiver's until they are delivered and passed on.
struct ChannelMessage {
  model::TaskIndex task = 0;
  std::size_t bytes = 0;  // payload
  std::int32_t slot = 0;
  std::int32_t previous = -1;  // the message that had the slot before; -1: none
  // Of weights, set by the runtime: where they lie at their sender, and where they visit; null: the
  // payload waits in its slot.
  const std::byte* lies_at = nullptr;
  std::byte* gathered = nullptr;
  MessageRef source{};               // of a relay: the incoming message that it passes on
  std::vector<MessageRef> relays{};  // of an incoming message: the outgoing ones that pass it on
};

struct ChannelProgram {
  model::DeviceIndex peer = 0;
  std::vector<ChannelMessage> messages;  // in program order, which is the order on the wire
  std::int32_t slots = 0;
  std::size_t slot_bytes = 0;    // the largest message that waits in one
  std::size_t direct_bytes = 0;  // the largest that waits in none, as weights
  bool passes_on = false;        // incoming: some message of it is passed on as it arrives

  // Whether a device of its own would send and receive them on its computing thread.
  [[nodiscard]] bool by_computing_thread() const {
    return static_cast<double>(largest_bytes()) <= model::kInlineBytes;
  }
  [[nodiscard]] std::size_t largest_bytes() const { return std::max(slot_bytes, direct_bytes); }
};

// A load as its lane sees it. An event is the end of a cpu task of this device that loads wait for.
struct DiskLoad {
  model::TaskIndex task = 0;
  std::vector<std::int32_t> events{};          // of the same step
  std::vector<std::int32_t> earlier_events{};  // of the step before
  std::size_t block = 0;  // of the device's streamed blocks; set by the runtime
  double bytes = 0.0;     // set by the runtime
};

struct DiskProgram {
  std::vector<DiskLoad> loads;  // in program order
  std::int32_t events = 0;      // those of the graph, by their numbers, come first
};

struct LanePrograms {
  std::vector<Action> actions;
  std::size_t epilogue = 0;  // the first action of the epilogue; all that follow are, too
  std::vector<ChannelProgram> outgoing;  // by peer, ascending
  std::vector<ChannelProgram> incoming;
  DiskProgram disk;
  std::size_t records = 0;     // of TaskTime that a step makes
  double relayed_bytes = 0.0;  // of payloads that are sent without being captured
};

// The programs of `device`, equivalent to executing the whole graph serially in index order:
//   a cpu task is run in index order;
//   captures and deliveries stand among them as model/graph/message_schedule.hpp says, which is
//   where the predictors charge them.
// Payloads wait in slots as model/graph/channel_slots.hpp says, so that no cyclic waiting can
// arise. A task that depends on a transfer which this device sends may start when its payload is
// captured; on a relay, when the message that it passes on is delivered. A load starts as soon as
// the loads before it and the cpu tasks that it depends on are done; the computing thread waits for
// it before the first task that depends on it, after everything else that the task waits for.
// Throws Error if the graph makes a task of this device depend on one that it cannot know to be
// done.
[[nodiscard]] LanePrograms make_lane_programs(const model::TaskGraph& graph,
                                              model::DeviceIndex device);

}  // namespace tandem::exec
