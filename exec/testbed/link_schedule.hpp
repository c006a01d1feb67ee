#pragma once

// When packets arrive that share the links of a cluster: a function of when they were sent.

#include <chrono>
#include <cstdint>
#include <optional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "model/cluster/cluster.hpp"

namespace tandem::exec {

// Fluid, cut-through links. The head of a packet enters a link when the link is free, and its first
// byte goes on to the next link at once, after the latency; each link is busy for bytes /
// bandwidth. So a packet alone on its route takes
//   sum(latency) + bytes / min(bandwidth)
// and packets of the same route follow each other at min(bandwidth). Packets that wait for a link
// are served by start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996) among pairs of sender
// and receiver, which is max-min fair up to one packet a pair; packets of a pair stay in order. A
// split-duplex link is two such links, a shared one is one for both directions, and a fatpipe is
// one for each pair. Bytes may be 0: such a packet waits for its turn and occupies nothing. Value
// type.
class LinkSchedule {
 public:
  using Clock = std::chrono::steady_clock;
  using Packet = std::uint32_t;  // the caller's number of it
  struct Delivery {
    Clock::time_point due;  // its last byte arrives
    Packet packet = 0;
  };

  explicit LinkSchedule(const model::Cluster& cluster);

  // A packet that `from` sends to another device `to` at `at`, no earlier than any time given
  // before.
  void offer(Packet packet, model::DeviceIndex from, model::DeviceIndex to, double bytes,
             Clock::time_point at);
  // Lets the links serve until `now`. Appends the packets that reached their last link meanwhile,
  // of which it is known when they are due: possibly after `now`, and in no particular order.
  void advance(Clock::time_point now, std::vector<Delivery>& deliveries);
  // Returns when a packet reaches a link or a link becomes free for one that waits, if any does.
  [[nodiscard]] std::optional<Clock::time_point> next() const;
  // The least latency of a route's last link: what advance() learns of next() is due no earlier
  // than so long after it. So the links may serve late by that, and nothing is late.
  [[nodiscard]] std::chrono::nanoseconds slack() const { return slack_; }

 private:
  // Nanoseconds since the epoch of the clock, in fractions: packets of 0 bytes and fast links.
  using Time = double;
  struct Travel {
    Packet packet = 0;
    std::uint32_t pair = 0;  // sender * devices + receiver
    std::uint32_t hop = 0;   // position on the route
    double bytes = 0.0;
    Time head = 0.0;  // its first byte reaches the link
    Time tail = 0.0;  // its last byte would, were the link infinitely fast
  };
  struct Waiting {
    double tag = 0.0;  // virtual time at which its service begins
    std::uint64_t order = 0;
    Travel travel;
    bool operator>(const Waiting& other) const {
      return tag != other.tag ? tag > other.tag : order > other.order;
    }
  };
  struct Server {  // a link, one direction of it, or what one pair has of it
    Time free = 0.0;
    double virtual_time = 0.0;  // bytes
    bool wakes = false;         // an event for its queue is pending
    // By pair: the virtual time at which its last packet ends.
    std::unordered_map<std::uint32_t, double> served;
    std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> queue;
  };
  struct Step {  // a hop of a route
    std::uint32_t server = 0;
    double ns_per_byte = 0.0;
    double latency_ns = 0.0;
  };
  enum class EventKind : std::uint8_t { arrival, free };
  struct Event {
    Time at = 0.0;
    std::uint64_t order = 0;
    EventKind kind = EventKind::arrival;
    std::uint32_t server = 0;  // of a link that becomes free
    Travel travel;             // that arrives
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  void arrive(const Travel& travel, std::vector<Delivery>& deliveries);
  void serve(std::uint32_t server, Time now, std::vector<Delivery>& deliveries);
  void pass(const Step& step, Travel travel, Time start, std::vector<Delivery>& deliveries);
  [[nodiscard]] const Step& step_of(const Travel& travel) const {
    return routes_[travel.pair][travel.hop];
  }

  std::uint32_t devices_ = 0;
  std::vector<std::vector<Step>> routes_;  // by pair
  std::vector<Server> servers_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
  std::chrono::nanoseconds slack_{};
};

}  // namespace tandem::exec
