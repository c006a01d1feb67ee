#include "exec/testbed/link_schedule.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace tandem::test::link_schedule_test {
namespace {

using exec::LinkSchedule;
using model::Direction;
using model::Sharing;
using Clock = LinkSchedule::Clock;

constexpr double kRate = 1e6;      // bytes a second
constexpr double kLatency = 1e-3;  // seconds
constexpr double kRounding = 5e-9;

struct LinkOptions {
  double latency_s = kLatency;
  double rate_Bps = kRate;
  Sharing sharing = Sharing::split_duplex;
};

// Devices d0, d1, ... each behind links of its own to one router: `links` of each.
model::Cluster star(const std::vector<std::vector<LinkOptions>>& links) {
  std::vector<model::Device> devices;
  std::vector<model::Link> all;
  std::vector<model::Edge> edges;
  for (std::size_t d = 0; d < links.size(); ++d) {
    const std::string name = "d" + std::to_string(d);
    devices.push_back({.name = name,
                       .flop_rate = model::FlopsPerSecond{1e9},
                       .memory_bandwidth = model::BytesPerSecond{1e9},
                       .memory = model::Bytes{1e9}});
    std::vector<model::Hop> hops;
    for (const LinkOptions& link : links[d]) {
      hops.push_back(
          {.link = static_cast<model::LinkIndex>(all.size()),
           .direction = link.sharing == Sharing::split_duplex ? Direction::up : Direction::none});
      all.push_back({.name = "l" + std::to_string(all.size()),
                     .latency = model::Seconds{link.latency_s},
                     .bandwidth = model::BytesPerSecond{link.rate_Bps},
                     .sharing = link.sharing});
    }
    edges.push_back({.from = name, .to = "router", .hops = hops});
  }
  return {"star", devices, {"router"}, all, edges};
}

Clock::time_point at(double seconds) {
  return Clock::time_point(std::chrono::nanoseconds(std::llround(seconds * 1e9)));
}
double seconds_of(Clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

struct Sent {
  model::DeviceIndex from = 0;
  model::DeviceIndex to = 0;
  double bytes = 0.0;
  double at_s = 0.0;
};

// When each of `packets`, in the order of their times, arrives. `step_s`: how often links serve.
std::vector<double> arrivals_of(const model::Cluster& cluster, const std::vector<Sent>& packets,
                                double step_s = std::numeric_limits<double>::infinity()) {
  LinkSchedule schedule(cluster);
  std::vector<LinkSchedule::Delivery> deliveries;
  double now_s = 0.0;
  for (std::size_t i = 0; i < packets.size(); ++i) {
    for (; now_s + step_s < packets[i].at_s; now_s += step_s)
      schedule.advance(at(now_s + step_s), deliveries);
    schedule.offer(static_cast<LinkSchedule::Packet>(i), packets[i].from, packets[i].to,
                   packets[i].bytes, at(packets[i].at_s));
  }
  while (const auto next = schedule.next()) schedule.advance(*next, deliveries);
  std::vector<double> arrivals(packets.size(), -1.0);
  for (const LinkSchedule::Delivery& delivery : deliveries) {
    CHECK(arrivals[delivery.packet] == -1.0);
    arrivals[delivery.packet] = seconds_of(delivery.due);
  }
  return arrivals;
}

void check_time(double measured_s, double expected_s) {
  CHECK(measured_s == doctest::Approx(expected_s).epsilon(1e-12).scale(kRounding * 1e12));
}

}  // namespace

TEST_CASE("exec/testbed links: a packet alone takes sum(latency) + bytes / min(bandwidth)") {
  const model::Cluster cluster =
      star({{{.latency_s = 1e-3, .rate_Bps = 2e6}, {.latency_s = 2e-3, .rate_Bps = 0.5e6}},
            {{.latency_s = 4e-3, .rate_Bps = 1e6}}});
  SUBCASE("1000 B over 2, 0.5 and 1 MB/s: 1 + 2 + 4 + 2 ms") {
    check_time(arrivals_of(cluster, {{0, 1, 1000, 5.0}})[0], 5.009);
    check_time(arrivals_of(cluster, {{1, 0, 1000, 5.0}})[0], 5.009);
  }
  SUBCASE("no bytes: the latencies alone") {
    check_time(arrivals_of(cluster, {{0, 1, 0, 5.0}})[0], 5.007);
  }
}

TEST_CASE("exec/testbed links: packets of a route follow each other at its narrowest link's rate") {
  const model::Cluster cluster =
      star({{{.rate_Bps = 4e6}, {.rate_Bps = 1e6}}, {{.rate_Bps = 2e6}}});
  std::vector<Sent> packets(10, {0, 1, 1000, 0.0});
  const std::vector<double> arrivals = arrivals_of(cluster, packets);
  for (std::size_t i = 0; i < packets.size(); ++i) {
    CAPTURE(i);
    check_time(arrivals[i], 3e-3 + static_cast<double>(i + 1) * 1e-3);
  }
}

TEST_CASE("exec/testbed links: pairs that share a link get equal parts of it") {
  const model::Cluster cluster = star({{{.rate_Bps = 100e6}}, {{.rate_Bps = 100e6}}, {{}}});
  // Equal rates also where one sends packets that are four times as large.
  std::vector<Sent> packets;
  packets.reserve(50);
  for (int i = 0; i < 10; ++i) packets.push_back({0, 2, 4000, 0.0});
  for (int i = 0; i < 40; ++i) packets.push_back({1, 2, 1000, 0.0});
  const std::vector<double> arrivals = arrivals_of(cluster, packets);
  const double shared_s = 80'000 / kRate;
  for (const std::size_t last : {9U, 49U})
    CHECK(std::abs(arrivals[last] - shared_s - 2 * kLatency) <= 4000 / kRate + kRounding);
  // The link is never idle meanwhile.
  check_time(std::max(arrivals[9], arrivals[49]), 2 * kLatency + shared_s);
  // Half of each are there at half time.
  CHECK(std::abs(arrivals[4] - arrivals[24]) <= 5000 / kRate);
}

TEST_CASE("exec/testbed links: a short packet waits for no more than the packet under way") {
  const model::Cluster cluster = star({{{.rate_Bps = 1e9}}, {{.rate_Bps = 1e9}}, {{}}});
  std::vector<Sent> packets(50, {0, 2, 1000, 0.0});
  packets.push_back({1, 2, 4, 10e-3});
  const double waited_s = arrivals_of(cluster, packets).back() - 10e-3 - 2 * kLatency;
  CHECK(waited_s >= 0.0);
  CHECK(waited_s <= 1004 / kRate + kRounding);
}

TEST_CASE("exec/testbed links: directions share a shared link, pairs all but a fatpipe") {
  const auto last_s = [](Sharing sharing, const std::vector<Sent>& packets) {
    const LinkOptions wide{.rate_Bps = 1e12};
    const std::vector<double> arrivals =
        arrivals_of(star({{{.sharing = sharing}}, {wide}, {wide}}), packets);
    return *std::ranges::max_element(arrivals) - 2 * kLatency;
  };
  // What comes to d0 reaches its link 1 ms later than what d0 sends.
  const std::vector<Sent> both{{0, 1, 3000, 0.0}, {1, 0, 3000, 0.0}};
  CHECK(last_s(Sharing::split_duplex, both) == doctest::Approx(3e-3).epsilon(1e-4));
  CHECK(last_s(Sharing::shared, both) == doctest::Approx(3e-3 + 3e-3 - kLatency).epsilon(1e-4));
  CHECK(last_s(Sharing::fatpipe, both) == doctest::Approx(3e-3).epsilon(1e-4));
  const std::vector<Sent> pairs{{0, 1, 3000, 0.0}, {0, 2, 3000, 0.0}};
  CHECK(last_s(Sharing::split_duplex, pairs) == doctest::Approx(6e-3).epsilon(1e-4));
  CHECK(last_s(Sharing::shared, pairs) == doctest::Approx(6e-3).epsilon(1e-4));
  CHECK(last_s(Sharing::fatpipe, pairs) == doctest::Approx(3e-3).epsilon(1e-4));
  const std::vector<Sent> one{{0, 1, 3000, 0.0}, {0, 1, 3000, 0.0}};
  for (const Sharing sharing : {Sharing::split_duplex, Sharing::shared, Sharing::fatpipe})
    CHECK(last_s(sharing, one) == doctest::Approx(6e-3).epsilon(1e-4));
}

TEST_CASE("exec/testbed links: from station to station a medium is loaded twice") {
  // Both stations' routes to the access point are the same link.
  std::vector<model::Device> devices;
  for (const char* name : {"a", "b"})
    devices.push_back({.name = name,
                       .flop_rate = model::FlopsPerSecond{1e9},
                       .memory_bandwidth = model::BytesPerSecond{1e9},
                       .memory = model::Bytes{1e9}});
  const model::Cluster cluster("wifi", devices, {"ap"},
                               {{.name = "air",
                                 .latency = model::Seconds{kLatency},
                                 .bandwidth = model::BytesPerSecond{kRate},
                                 .sharing = Sharing::shared}},
                               {{.from = "a", .to = "ap", .hops = {{.link = 0}}},
                                {.from = "b", .to = "ap", .hops = {{.link = 0}}}});
  const int count = 100;
  const std::vector<Sent> packets(count, {0, 1, 1000, 0.0});
  const double last_s = arrivals_of(cluster, packets).back();
  CHECK(last_s == doctest::Approx(2e-3 * count).epsilon(0.02));
  CHECK(last_s ==
        doctest::Approx(count * 1000 / cluster.route(0, 1).bandwidth.value()).epsilon(0.02));
}

TEST_CASE("exec/testbed links: arrivals are a function of when packets were sent") {
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed): the same packets every time
  const model::Cluster cluster =
      star({{{.latency_s = 0.2e-3, .rate_Bps = 3e6}},
            {{.rate_Bps = 1e6, .sharing = Sharing::shared}},
            {{.latency_s = 0.0, .rate_Bps = 2e6}, {.latency_s = 0.5e-3, .rate_Bps = 5e6}},
            {{.rate_Bps = 0.7e6, .sharing = Sharing::fatpipe}}});
  std::uniform_int_distribution<int> device(0, 3);
  std::uniform_real_distribution<double> gap(0.0, 0.5e-3);
  std::uniform_int_distribution<int> bytes(0, 3000);
  std::vector<Sent> packets;
  double now_s = 1.0;
  while (packets.size() < 500) {
    const Sent packet{device(random), device(random), static_cast<double>(bytes(random)), now_s};
    if (packet.from == packet.to) continue;
    packets.push_back(packet);
    now_s += gap(random);
  }
  const std::vector<double> arrivals = arrivals_of(cluster, packets);
  SUBCASE("however often the links are served") {
    CHECK(arrivals_of(cluster, packets, 0.1e-3) == arrivals);
    CHECK(arrivals_of(cluster, packets, 3e-3) == arrivals);
  }
  SUBCASE("never before latency + bytes / bandwidth, and in order between two devices") {
    std::map<std::pair<int, int>, double> last;
    for (std::size_t i = 0; i < packets.size(); ++i) {
      const auto& [from, to, size, sent_s] = packets[i];
      const model::Route& route = cluster.route(from, to);
      CAPTURE(i);
      CHECK(arrivals[i] >=
            sent_s + route.latency.value() + size / route.bandwidth.value() - kRounding);
      CHECK(arrivals[i] >= last[std::pair(from, to)]);
      last[std::pair(from, to)] = arrivals[i];
    }
  }
}

TEST_CASE("exec/testbed links: what becomes known late is due later than the slack") {
  const model::Cluster cluster = star({{{}}, {{.latency_s = 0.3e-3}}});
  LinkSchedule schedule(cluster);
  CHECK(schedule.slack() == std::chrono::microseconds(300));
  std::vector<LinkSchedule::Delivery> deliveries;
  schedule.offer(0, 0, 1, 100, at(1.0));
  while (deliveries.empty()) {
    const Clock::time_point next = *schedule.next();
    schedule.advance(next, deliveries);
    if (!deliveries.empty()) CHECK(deliveries[0].due >= next + schedule.slack());
  }
}

}  // namespace tandem::test::link_schedule_test
