#pragma once

// One device's program for a step, made once for a graph and used for every step of its structure.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/graph/task_graph.hpp"
#include "model/graph/work.hpp"
#include "model/predict/program.hpp"

namespace tandem::exec {

// An action of the computing thread. Actions run in order, and that order alone decides which
// values a task sees, whenever messages arrive.
struct Action {
  enum class Kind : std::uint8_t {
    run,      // execute a cpu task
    capture,  // copy the payload of an outgoing transfer into its channel (relays: none)
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
  // Of weights, set by the runtime: their memory at the sender, and at the receiver; null: the
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
  std::size_t direct_bytes = 0;  // the largest without a slot, as weights
  bool passes_on = false;        // incoming: has a message that is relayed on arrival

  // Returns whether messages are small enough for a computing thread to send and receive them
  // itself.
  [[nodiscard]] bool by_computing_thread() const {
    return static_cast<double>(largest_bytes()) <= model::kInlineBytes;
  }
  [[nodiscard]] std::size_t largest_bytes() const { return std::max(slot_bytes, direct_bytes); }
};

// A load of the disk lane. An event is the end of a cpu task of this device that loads wait for.
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
  std::size_t epilogue = 0;              // its first action; all later actions belong to it, too
  std::vector<ChannelProgram> outgoing;  // by peer, ascending
  std::vector<ChannelProgram> incoming;
  DiskProgram disk;
  std::size_t records = 0;     // of TaskTime per step
  double relayed_bytes = 0.0;  // of payloads sent without a capture
};

// Makes the programs of `device`, equivalent to executing the whole graph serially in index order.
// Cpu tasks run in index order. Captures and deliveries are placed among them by
// model/graph/message_schedule.hpp, where predictors charge them, too. Payloads wait in slots by
// model/graph/channel_slots.hpp, which excludes deadlock. A task that depends on a transfer that
// this device sends may start once its payload is captured; on a relay, once the message that it
// passes on is delivered. A load starts as soon as the loads before it and the cpu tasks it depends
// on are done; the computing thread waits for it before the first task that depends on it, after
// all other dependencies of that task. Throws Error if the graph makes a task of this device depend
// on one whose end the device cannot observe.
[[nodiscard]] LanePrograms make_lane_programs(const model::TaskGraph& graph,
                                              model::DeviceIndex device);

}  // namespace tandem::exec
