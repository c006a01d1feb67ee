#include "exec/testbed/link_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;

double to_ns(LinkSchedule::Clock::time_point time) {
  return static_cast<double>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

// Rounded up, so that at this moment the time has come.
LinkSchedule::Clock::time_point to_time(double ns) {
  return LinkSchedule::Clock::time_point(
      std::chrono::nanoseconds(static_cast<std::int64_t>(std::ceil(ns))));
}

}  // namespace

LinkSchedule::LinkSchedule(const model::Cluster& cluster)
    : devices_(static_cast<std::uint32_t>(cluster.size())) {
  // A link has a server for each direction, of which a shared one uses the first alone.
  servers_.resize(2 * cluster.links().size());
  routes_.resize(static_cast<std::size_t>(devices_) * devices_);
  double slack_ns = std::numeric_limits<double>::max();
  for (model::DeviceIndex from = 0; from < cluster.size(); ++from) {
    for (model::DeviceIndex to = 0; to < cluster.size(); ++to) {
      if (from == to) continue;
      std::vector<Step>& steps =
          routes_[static_cast<std::uint32_t>(from) * devices_ + static_cast<std::uint32_t>(to)];
      for (const model::Hop& hop : cluster.route(from, to).hops) {
        const model::Link& link = cluster.links()[static_cast<std::size_t>(hop.link)];
        auto server = 2 * static_cast<std::uint32_t>(hop.link);
        switch (link.sharing) {
          case model::Sharing::shared:
            break;
          case model::Sharing::split_duplex:
            server += hop.direction == model::Direction::down ? 1 : 0;
            break;
          case model::Sharing::fatpipe:  // as if each pair had the link alone
            server = static_cast<std::uint32_t>(servers_.size());
            servers_.emplace_back();
            break;
        }
        steps.push_back({.server = server,
                         .ns_per_byte = kNanosecondsPerSecond / link.bandwidth.value(),
                         .latency_ns = link.latency.value() * kNanosecondsPerSecond});
      }
      require(!steps.empty(), "LinkSchedule: a route without links");
      slack_ns = std::min(slack_ns, steps.back().latency_ns);
    }
  }
  if (devices_ > 1) slack_ = std::chrono::nanoseconds(static_cast<std::int64_t>(slack_ns));
}

void LinkSchedule::offer(Packet packet, model::DeviceIndex from, model::DeviceIndex to,
                         double bytes, Clock::time_point at) {
  const auto sender = static_cast<std::uint32_t>(from);
  const auto receiver = static_cast<std::uint32_t>(to);
  require(sender < devices_ && receiver < devices_ && sender != receiver,
          "LinkSchedule: no such pair of devices");
  const Time now = to_ns(at);
  events_.push({.at = now,
                .order = order_++,
                .travel = {.packet = packet,
                           .pair = sender * devices_ + receiver,
                           .bytes = bytes,
                           .head = now,
                           .tail = now}});
}

void LinkSchedule::advance(Clock::time_point now, std::vector<Delivery>& deliveries) {
  const Time until = to_ns(now);
  while (!events_.empty() && events_.top().at <= until) {
    const Event event = events_.top();
    events_.pop();
    switch (event.kind) {
      case EventKind::arrival:
        arrive(event.travel, deliveries);
        break;
      case EventKind::free:
        servers_[event.server].wakes = false;
        serve(event.server, event.at, deliveries);
        break;
    }
  }
}

std::optional<LinkSchedule::Clock::time_point> LinkSchedule::next() const {
  if (events_.empty()) return std::nullopt;
  return to_time(events_.top().at);
}

void LinkSchedule::arrive(const Travel& travel, std::vector<Delivery>& deliveries) {
  const Step& step = step_of(travel);
  Server& server = servers_[step.server];
  double& served = server.served[travel.pair];
  const double tag = std::max(server.virtual_time, served);
  served = tag + travel.bytes;
  server.queue.push({.tag = tag, .order = order_++, .travel = travel});
  serve(step.server, travel.head, deliveries);
}

void LinkSchedule::serve(std::uint32_t number, Time now, std::vector<Delivery>& deliveries) {
  Server& server = servers_[number];
  while (!server.queue.empty() && server.free <= now) {
    const Waiting next = server.queue.top();
    server.queue.pop();
    const Step& step = step_of(next.travel);
    server.virtual_time = next.tag;
    server.free = now + next.travel.bytes * step.ns_per_byte;
    pass(step, next.travel, now, deliveries);
  }
  if (server.queue.empty() || server.wakes) return;
  server.wakes = true;
  events_.push({.at = server.free,
                .order = order_++,
                .kind = EventKind::free,
                .server = number,
                .travel = {}});
}

void LinkSchedule::pass(const Step& step, Travel travel, Time start,
                        std::vector<Delivery>& deliveries) {
  travel.head = start + step.latency_ns;
  travel.tail = std::max(start + travel.bytes * step.ns_per_byte, travel.tail) + step.latency_ns;
  if (++travel.hop == routes_[travel.pair].size()) {
    deliveries.push_back({.due = to_time(travel.tail), .packet = travel.packet});
    return;
  }
  events_.push({.at = travel.head, .order = order_++, .travel = travel});
}

}  // namespace tandem::exec
