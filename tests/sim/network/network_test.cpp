// How messages share links: closed forms.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planner/collective/collective.hpp"
#include "sim/network/bottlenecks.hpp"
#include "sim/platform/platform.hpp"
#include "sim/replay/replay.hpp"
#include "tests/sim/sim_fixture.hpp"
#include "tests/support/shared_medium.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::sim::testing::network_test {
namespace {

using model::Direction;
using model::Sharing;

constexpr double kTau = 1e-3;          // klonet8: latency of a link
constexpr double kBandwidth = 37.5e6;  // bytes a second: 300 Mbps

const model::Cluster& klonet8() {
  static const model::Cluster cluster =
      read_platform(tandem::testing::in_sources("scenarios/platforms/klonet8.xml").string())
          .cluster;
  return cluster;
}

double star_time(std::int32_t columns) {
  TaskGraph graph(one_row());
  std::vector<planner::Participant> participants;
  participants.reserve(klonet8().devices().size());
  for (DeviceIndex d = 0; d < klonet8().size(); ++d) participants.push_back({.device = d});
  planner::lower_sum(graph, {.master = 0, .rows = {0, 1}, .columns = {0, columns}},
                     planner::parse_allreduce("star"), planner::proximity(klonet8(), 0),
                     participants);
  return makespan(simulated(klonet8(), graph));
}

// Reduce and broadcast along a tree of depth 2: 0 <- {1, 2}, 1 <- {3, 4, 5}, 2 <- {6, 7}.
double tree_time(std::int32_t columns) {
  const std::vector<DeviceIndex> parent{-1, 0, 0, 1, 1, 1, 2, 2};
  TaskGraph graph(one_row());
  std::vector<std::vector<TaskIndex>> got(parent.size());
  for (DeviceIndex d = 7; d > 0; --d) {
    const auto i = static_cast<std::size_t>(d);
    got[static_cast<std::size_t>(parent[i])].push_back(
        graph.add(message(d, parent[i], columns), got[i]));
  }
  for (DeviceIndex d = 1; d < 8; ++d) {
    const auto i = static_cast<std::size_t>(d);
    got[i] = {graph.add(message(parent[i], d, columns), got[static_cast<std::size_t>(parent[i])])};
  }
  return makespan(simulated(klonet8(), graph));
}

// Reduce-scatter and all-gather: 2 (N - 1) rounds of an N-th each to the next device.
double ring_time(std::int32_t columns) {
  constexpr DeviceIndex kDevices = 8;
  TaskGraph graph(one_row());
  std::vector<TaskIndex> last;
  for (int round = 0; round < 2 * (kDevices - 1); ++round) {
    std::vector<TaskIndex> now;
    for (DeviceIndex d = 0; d < kDevices; ++d) {
      std::vector<TaskIndex> after;
      if (round > 0) after = {last[static_cast<std::size_t>((d + kDevices - 1) % kDevices)]};
      now.push_back(graph.add(message(d, (d + 1) % kDevices, columns / kDevices), after));
    }
    last = now;
  }
  return makespan(simulated(klonet8(), graph));
}

bool same(double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(b); }

// Two messages of 1000 bytes at once over one link of 1000 B/s: when they are done.
std::pair<double, double> pair_times(Sharing sharing, bool opposite) {
  const Direction there = sharing == Sharing::split_duplex ? Direction::up : Direction::none;
  // Hosts a, b and c, d behind routers x and y that the link connects.
  std::vector<model::Link> links{link("l", 0.0, 1000.0, sharing)};
  std::vector<model::Edge> edges{{"x", "y", {{0, there}}, true}};
  for (const std::string name : {"a", "b", "c", "d"}) {
    edges.push_back({name,
                     name < "c" ? "x" : "y",
                     {{static_cast<model::LinkIndex>(links.size()), Direction::up}},
                     true});
    links.push_back(link("l" + name, 0.0, 1e12, Sharing::split_duplex));
  }
  const model::Cluster cluster("pair", {device("a"), device("b"), device("c"), device("d")},
                               {"x", "y"}, links, edges);
  TaskGraph graph(one_row());
  graph.add(message(0, 2, 250), {});
  graph.add(opposite ? message(3, 1, 250) : message(1, 3, 250), {});
  const Spans spans = simulated(cluster, graph);
  return {spans.at({0, 0}).end, spans.at({0, 1}).end};
}

}  // namespace

TEST_CASE("sim/network: star all-reduce of 4 B on klonet8: 8 tau + 14 B / W = 8.0015 ms") {
  CHECK(same(star_time(1), 8 * kTau + 14 * 4.0 / kBandwidth));
  CHECK(star_time(1) == doctest::Approx(8.0015e-3).epsilon(1e-5));
}

TEST_CASE("sim/network: star all-reduce of 32 KiB on klonet8: 8 tau + 14 B / W = 20.2 ms") {
  CHECK(same(star_time(8192), 8 * kTau + 14 * 32768.0 / kBandwidth));
}

TEST_CASE("sim/network: star all-reduce of 1 MB on klonet8: 8 tau + 14 B / W = 381 ms") {
  CHECK(same(star_time(250000), 8 * kTau + 14 * 1e6 / kBandwidth));
}

TEST_CASE("sim/network: tree all-reduce of depth 2 on klonet8: 16 tau + 9 B / W") {
  // Up, 2 has its two terms before 1 has its three, and sends while 1 waits: 3 + 1. Down: 2 + 3.
  CHECK(same(tree_time(1), 16 * kTau + 9 * 4.0 / kBandwidth));         // 16.001 ms
  CHECK(same(tree_time(8192), 16 * kTau + 9 * 32768.0 / kBandwidth));  // 23.9 ms
  CHECK(same(tree_time(250000), 16 * kTau + 9 * 1e6 / kBandwidth));    // 256 ms
}

TEST_CASE("sim/network: ring all-reduce on klonet8: 14 (4 tau + B / (8 W))") {
  CHECK(same(ring_time(8), 14 * (4 * kTau + 32.0 / 8 / kBandwidth)));
  CHECK(same(ring_time(8192), 14 * (4 * kTau + 32768.0 / 8 / kBandwidth)));  // 57.5 ms
  CHECK(same(ring_time(250000), 14 * (4 * kTau + 1e6 / 8 / kBandwidth)));    // 103 ms
}

TEST_CASE("sim/network: from station to station a message passes the air twice: 2 B / W") {
  // 1000 bytes, 1000 bytes a second, 5 ms a pass; a faster uplink to a port of the access point.
  const model::Cluster cluster(
      "wifi", {device("a"), device("b"), device("c")}, {"point"},
      {link("air", 5e-3, 1000.0, Sharing::shared), link("port", 1e-3, 1e6, Sharing::split_duplex)},
      {{"a", "point", {{0, Direction::none}}, true},
       {"b", "point", {{0, Direction::none}}, true},
       {"c", "point", {{1, Direction::up}}, true}});
  CHECK(cluster.route(0, 1).bandwidth.value() == 500.0);
  CHECK(cluster.route(0, 2).bandwidth.value() == 1000.0);
  const auto ends = [&](const std::vector<std::pair<int, int>>& pairs) {
    TaskGraph graph(one_row());
    for (const auto& [from, to] : pairs) graph.add(message(from, to, 250), {});
    std::vector<double> times;
    for (const auto& [id, span] : simulated(cluster, graph)) times.push_back(span.end);
    return times;
  };
  CHECK(same(ends({{0, 1}})[0], 2.0 + 10e-3));
  CHECK(same(ends({{0, 2}})[0], 1.0 + 6e-3));
  // Rate r each: 2 r + 2 r = W; both are done after 4 s.
  CHECK(same(ends({{0, 1}, {1, 0}})[1], 4.0 + 10e-3));
  // 2 r + r = W: after 3 s both are done.
  const auto mixed = ends({{0, 1}, {2, 1}});
  CHECK(same(mixed[0], 3.0 + 10e-3));
  CHECK(same(mixed[1], 3.0 + 6e-3));
  GraphSteps alone({[] {
    TaskGraph graph(one_row());
    graph.add(message(0, 1, 250), {});
    return graph;
  }()});
  CHECK(same(makespan(analytic(cluster, free_costs(cluster), alone)), 2.0 + 10e-3));
}

TEST_CASE("sim/network: a shared medium is shared max-min: six flows, unequal, both directions") {
  constexpr double kMedium = 20e6;
  const auto flows = tandem::test::medium_flows();
  const std::vector<double> expected = tandem::test::max_min_ends(flows, kMedium);
  TaskGraph graph(one_row());
  for (const auto& flow : flows)
    graph.add(message(flow.from, flow.to, static_cast<std::int32_t>(flow.bytes / 4)), {});
  const Spans spans = simulated(tandem::test::medium_of(kMedium), graph);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    CAPTURE(i);
    CHECK(same(spans.at({0, static_cast<TaskIndex>(i)}).end, expected[i]));
  }
}

TEST_CASE("sim/network: latencies of unequal links add up: 1 + 20 + 300 ms + B / W") {
  const model::Cluster cluster(
      "line", {device("a"), device("b")}, {"x", "y"},
      {link("1", 1e-3, 5000.0, Sharing::split_duplex), link("2", 20e-3, 1000.0, Sharing::shared),
       link("3", 300e-3, 2000.0, Sharing::split_duplex)},
      {{"a", "x", {{0, Direction::up}}, true},
       {"x", "y", {{1, Direction::none}}, true},
       {"y", "b", {{2, Direction::up}}, true}});
  TaskGraph graph(one_row());
  graph.add(message(0, 1, 250), {});
  graph.add(message(1, 0, 250), {});
  // Both directions share the one link that is not duplex.
  for (const auto& [id, span] : simulated(cluster, graph)) CHECK(same(span.end, 2.0 + 0.321));
}

TEST_CASE("sim/network: both directions share a shared link: 2 s instead of 1 s") {
  const auto [first, second] = pair_times(Sharing::shared, true);
  CHECK(first == doctest::Approx(2.0));
  CHECK(second == doctest::Approx(2.0));
}

TEST_CASE("sim/network: each direction of a split-duplex link has its own bandwidth") {
  const auto [there, back] = pair_times(Sharing::split_duplex, true);
  CHECK(there == doctest::Approx(1.0));
  CHECK(back == doctest::Approx(1.0));
  const auto [first, second] = pair_times(Sharing::split_duplex, false);
  CHECK(first == doctest::Approx(2.0));
  CHECK(second == doctest::Approx(2.0));
}

TEST_CASE("sim/network: messages on a fatpipe do not share") {
  for (const bool opposite : {false, true}) {
    const auto [first, second] = pair_times(Sharing::fatpipe, opposite);
    CHECK(first == doctest::Approx(1.0));
    CHECK(second == doctest::Approx(1.0));
  }
}

TEST_CASE(
    "sim/network: two flows share a link equally however long and slow the rest of their way") {
  // a -> b has one more link, of 2 s; c -> d one more, of 1 us and a bandwidth of its own. Both
  // cross `common` at 1000 B/s: 500 B/s each, 2000 B in 4 s.
  const model::Cluster cluster(
      "cross", {device("a"), device("b"), device("c"), device("d")}, {},
      {link("common", 0.5, 1000.0, Sharing::shared), link("far", 2.0, 1e9, Sharing::shared),
       link("near", 1e-6, 5e3, Sharing::shared)},
      {{"a", "b", {{1}, {0}}, true},
       {"c", "d", {{0}, {2}}, true},
       {"a", "c", {{1}, {2}}, true},
       {"b", "d", {{1}, {2}}, true}});
  TaskGraph graph(one_row());
  graph.add(message(0, 1, 500), {});
  graph.add(message(2, 3, 500), {});
  const Spans spans = simulated(cluster, graph);
  CHECK(spans.at({0, 0}).end == doctest::Approx(4.0 + 2.5).epsilon(1e-12));
  CHECK(spans.at({0, 1}).end == doctest::Approx(4.0 + 0.5 + 1e-6).epsilon(1e-12));
}

TEST_CASE(
    "sim/network: a flow that is bounded elsewhere leaves the rest of the link to the other") {
  // common: 900 B/s; c -> d is bounded to 300 B/s, so a -> b has 600 B/s: max-min, not 450.
  // 600 B: c -> d in 2 s; 1500 B: a -> b 1200 B in these 2 s, the rest at 900 B/s.
  const model::Cluster cluster(
      "cross", {device("a"), device("b"), device("c"), device("d")}, {},
      {link("common", 0.0, 900.0, Sharing::shared), link("bound", 0.0, 300.0, Sharing::shared),
       link("other", 0.0, 1e9, Sharing::shared)},
      {{"a", "b", {{0}}, true},
       {"c", "d", {{0}, {1}}, true},
       {"a", "c", {{2}}, true},
       {"b", "d", {{2}}, true}});
  TaskGraph graph(one_row());
  graph.add(message(0, 1, 375), {});
  graph.add(message(2, 3, 150), {});
  const Spans spans = simulated(cluster, graph);
  CHECK(spans.at({0, 1}).end == doctest::Approx(2.0).epsilon(1e-12));
  CHECK(spans.at({0, 0}).end == doctest::Approx(2.0 + 300.0 / 900.0).epsilon(1e-12));
}

// Steps that tell their channels.
class ToldSteps : public GraphSteps {
 public:
  explicit ToldSteps(TaskGraph graph) : GraphSteps({std::move(graph)}) {}
  [[nodiscard]] std::optional<std::vector<model::Channel>> channels() override {
    const TaskGraph* const one = &graph(0);
    return model::channels_of({&one, 1});
  }
};

TEST_CASE("sim/network: of a switch with equal lines, a star needs the master's line alone") {
  std::vector<model::Channel> channels;
  for (DeviceIndex d = 1; d < klonet8().size(); ++d) {
    channels.emplace_back(0, d);
    channels.emplace_back(d, 0);
  }
  const Bottlenecks bottlenecks(klonet8(), channels);
  for (const auto& [from, to] : channels) {
    CAPTURE(from);
    CAPTURE(to);
    const std::vector<model::Hop>& hops = klonet8().route(from, to).hops;
    std::vector<bool> limits;
    for (const model::Hop& hop : hops) limits.push_back(bottlenecks.limits(hop));
    CHECK(hops.size() == 4);
    CHECK(std::count(limits.begin(), limits.end(), true) == 1);
    CHECK((from == 0 ? limits[0] || limits[1] : limits[2] || limits[3]));
  }
}

TEST_CASE("sim/network: links that limit nothing change no time, on 200 random networks") {
  std::mt19937 random(31);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  std::int64_t left_out = 0;
  std::int64_t kept = 0;
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    // Devices behind gateways at one switch. Few different speeds, so that many are equal.
    const int devices = draw(2, 6);
    std::vector<model::Device> made;
    std::vector<std::string> routers{"switch"};
    std::vector<model::Link> links;
    std::vector<model::Edge> edges;
    const auto connect = [&](const std::string& from, const std::string& to) {
      constexpr std::array kSharings{Sharing::shared, Sharing::split_duplex, Sharing::fatpipe};
      const Sharing sharing = kSharings.at(static_cast<std::size_t>(draw(0, 7) % 3));
      model::Link link{.name = from + to,
                       .latency = model::Seconds{1e-4 * draw(0, 3)},
                       .bandwidth = model::BytesPerSecond{1e6 * draw(1, 3)},
                       .sharing = sharing};
      if (draw(0, 9) == 0 && sharing == Sharing::shared)
        link.background = model::BytesPerSecond{2e5};
      edges.push_back(
          {.from = from,
           .to = to,
           .hops = {{static_cast<model::LinkIndex>(links.size()),
                     sharing == Sharing::split_duplex ? Direction::up : Direction::none}}});
      links.push_back(link);
    };
    for (int d = 0; d < devices; ++d) {
      const std::string name = std::to_string(d);
      made.push_back({.name = "d" + name,
                      .cores = 1,
                      .flop_rate = model::FlopsPerSecond{1e9},
                      .memory_bandwidth = model::BytesPerSecond{1e9},
                      .memory = model::Bytes{1e9}});
      routers.push_back("g" + name);
      connect("d" + name, "g" + name);
      connect("g" + name, "switch");
    }
    const model::Cluster cluster("random", made, routers, links, edges);
    TaskGraph graph(one_row());
    const int messages = draw(1, 40);
    for (int m = 0; m < messages; ++m) {
      const int from = draw(0, devices - 1);
      const int to = (from + draw(1, devices - 1)) % devices;
      std::vector<TaskIndex> after;
      if (m > 0 && draw(0, 1) == 0) after.push_back(draw(0, m - 1));
      graph.add(message(from, to, draw(1, 5000)), after);
    }
    ToldSteps told(graph);
    const auto channels = told.channels();
    REQUIRE(channels);
    const Bottlenecks bottlenecks(cluster, *channels);
    for (const auto& [from, to] : *channels) {
      int limiting = 0;
      for (const model::Hop& hop : cluster.route(from, to).hops) {
        const bool limits = bottlenecks.limits(hop);
        ++(limits ? kept : left_out);
        limiting += limits ? 1 : 0;
      }
      CHECK(limiting > 0);
    }
    GraphSteps untold({graph});
    const Spans whole = simulated(cluster, free_costs(cluster), untold);
    const Spans fewer = simulated(cluster, free_costs(cluster), told);
    REQUIRE(whole.size() == fewer.size());
    for (const auto& [id, span] : whole) {
      CHECK(fewer.at(id).start == doctest::Approx(span.start).epsilon(1e-9));
      CHECK(fewer.at(id).end == doctest::Approx(span.end).epsilon(1e-9));
    }
  }
  CHECK(left_out > 500);
  CHECK(kept > 500);
}

TEST_CASE("sim/network: a message that comes later takes its share from then on") {
  // 1000 B/s; a -> b 2000 B from 0 s, c -> d 500 B from 1 s: both at 500 B/s until 2 s, a -> b
  // then has 500 B left: 2.5 s. c -> d waits for a message of 1 s on a link of its own.
  const model::Cluster cluster(
      "cross", {device("a"), device("b"), device("c"), device("d")}, {},
      {link("common", 0.0, 1000.0, Sharing::shared), link("own", 0.0, 1000.0, Sharing::shared),
       link("other", 0.0, 1e9, Sharing::shared)},
      {{"a", "b", {{0}}, true},
       {"c", "d", {{0}}, true},
       {"a", "c", {{2}}, true},
       {"b", "d", {{2}}, true},
       {"d", "a", {{1}}, true}});
  TaskGraph graph(one_row());
  graph.add(message(0, 1, 500), {});
  const TaskIndex before = graph.add(message(3, 0, 250), {});
  graph.add(message(2, 3, 125), {before});
  const Spans spans = simulated(cluster, graph);
  CHECK(spans.at({0, 2}).start == doctest::Approx(1.0).epsilon(1e-12));
  CHECK(spans.at({0, 2}).end == doctest::Approx(2.0).epsilon(1e-12));
  CHECK(spans.at({0, 0}).end == doctest::Approx(2.5).epsilon(1e-12));
}

}  // namespace tandem::sim::testing::network_test
