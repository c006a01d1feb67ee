#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "model/base/limits.hpp"
#include "tests/model/model_fixtures.hpp"

namespace tandem::model::cluster_test {

using test::contains;
using test::error_of;

namespace {

// Parts of a cluster that tests change before they build it.
struct Parts {
  std::vector<Device> devices;
  std::vector<std::string> routers;
  std::vector<Link> links;
  std::vector<Edge> edges;
  [[nodiscard]] Cluster build() const { return {"c", devices, routers, links, edges}; }
  void add_link(const std::string& name, double latency_s, double bandwidth_Bps,
                Sharing sharing = Sharing::shared) {
    links.push_back({name, Seconds{latency_s}, BytesPerSecond{bandwidth_Bps}, sharing});
  }
};

// a and b by one shared link.
Parts pair() {
  Parts parts;
  parts.devices = {test::device("a"), test::device("b")};
  parts.add_link("l", 1e-3, 1e6);
  parts.edges = {{.from = "a", .to = "b", .hops = {{0, Direction::none}}}};
  return parts;
}

}  // namespace

TEST_CASE("model/cluster: latencies add up, the slowest link is the bandwidth") {
  Parts parts;
  parts.devices = {test::device("a"), test::device("b")};
  parts.routers = {"r"};
  parts.add_link("wifi", 2e-3, 5e6);
  parts.add_link("lan", 1e-3, 1e8, Sharing::split_duplex);
  parts.edges = {{.from = "a", .to = "r", .hops = {{0, Direction::none}}},
                 {.from = "r", .to = "b", .hops = {{1, Direction::down}}}};
  const Cluster cluster = parts.build();
  const Route& there = cluster.route(0, 1);
  CHECK(there.hops == std::vector<Hop>{{0, Direction::none}, {1, Direction::down}});
  CHECK(there.latency.value() == doctest::Approx(3e-3));
  CHECK(there.bandwidth.value() == 5e6);
  CHECK(cluster.route(1, 0).hops == std::vector<Hop>{{1, Direction::up}, {0, Direction::none}});
  CHECK(&cluster.route(0, 1) == &there);  // references last
  CHECK_THROWS_AS((void)cluster.route(0, 0), std::logic_error);
  CHECK_THROWS_AS((void)cluster.route(0, 2), std::logic_error);  // a router is no device
  CHECK_THROWS_AS((void)cluster.route(-1, 0), std::logic_error);
}

TEST_CASE("model/cluster: a route of several links is reversed with its directions") {
  Parts parts = pair();
  parts.add_link("m", 1e-3, 1e6, Sharing::split_duplex);
  parts.add_link("n", 1e-3, 1e6, Sharing::split_duplex);
  parts.edges[0].hops = {{1, Direction::up}, {0, Direction::none}, {2, Direction::down}};
  const Cluster cluster = parts.build();
  CHECK(cluster.route(1, 0).hops ==
        std::vector<Hop>{{2, Direction::up}, {0, Direction::none}, {1, Direction::down}});
}

TEST_CASE("model/cluster: given edges first, then fewest links, least latency, smallest order") {
  Parts parts;
  for (const char* name : {"a", "b", "c", "d"}) parts.devices.push_back(test::device(name));
  for (int i = 0; i < 6; ++i) parts.add_link("l" + std::to_string(i), 1e-3, 1e6);
  const auto edge = [](const char* from, const char* to, std::vector<LinkIndex> links) {
    Edge e{.from = from, .to = to};
    for (const LinkIndex l : links) e.hops.push_back({l, Direction::none});
    return e;
  };
  SUBCASE("an edge of three links between a and b beats two links by c") {
    parts.edges = {edge("a", "b", {0, 1, 2}), edge("a", "c", {3}), edge("c", "b", {4}),
                   edge("d", "a", {5})};
    const Cluster cluster = parts.build();
    CHECK(cluster.route(0, 1).hops.size() == 3);
    CHECK(cluster.route(3, 1).hops == std::vector<Hop>{{5}, {3}, {4}});  // but not on the way
  }
  SUBCASE("two links with more latency beat three with less") {
    parts.links[4].latency = Seconds{1.0};
    parts.edges = {edge("a", "d", {0, 1}), edge("d", "b", {2}), edge("a", "c", {3}),
                   edge("c", "b", {4})};
    CHECK(parts.build().route(0, 1).hops == std::vector<Hop>{{3}, {4}});
  }
  SUBCASE("of as many links, the lower latency") {
    parts.links[3].latency = Seconds{0.9e-3};
    parts.edges = {edge("a", "c", {0}), edge("c", "b", {1}), edge("a", "d", {2}),
                   edge("d", "b", {3})};
    CHECK(parts.build().route(0, 1).hops == std::vector<Hop>{{2}, {3}});
  }
  SUBCASE("equal: through the netpoint that comes first, however the edges are ordered") {
    parts.edges = {edge("a", "d", {2}), edge("d", "b", {3}), edge("a", "c", {0}),
                   edge("c", "b", {1})};
    CHECK(parts.build().route(0, 1).hops == std::vector<Hop>{{0}, {1}});
  }
}

TEST_CASE("model/cluster: shortest routes equal Floyd and Warshall's on random graphs") {
  std::mt19937 random(11);
  const auto draw = [&](std::size_t below) { return random() % below; };
  for (int round = 0; round < 30; ++round) {
    CAPTURE(round);
    Parts parts;
    const std::size_t devices = 1 + draw(7);
    const std::size_t routers = draw(5);
    const std::size_t points = devices + routers;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < points; ++i) {
      names.push_back("p" + std::to_string(i));
      if (i < devices) {
        parts.devices.push_back(test::device(names[i]));
      } else {
        parts.routers.push_back(names[i]);
      }
    }
    std::vector<std::vector<double>> links(points, std::vector<double>(points, 1e9));
    std::vector<std::vector<bool>> direct(points, std::vector<bool>(points, false));
    const auto connect = [&](std::size_t a, std::size_t b) {
      if (a == b || direct[a][b]) return;
      Edge edge{.from = names[a], .to = names[b]};
      const std::size_t hops = 1 + draw(3);
      for (std::size_t h = 0; h < hops; ++h) {
        edge.hops.push_back({static_cast<LinkIndex>(parts.links.size())});
        parts.add_link("l" + std::to_string(parts.links.size()),
                       1e-3 * static_cast<double>(1 + draw(3)), 1e6);
      }
      parts.edges.push_back(edge);
      direct[a][b] = direct[b][a] = true;
      links[a][b] = links[b][a] = static_cast<double>(hops);
    };
    for (std::size_t i = 1; i < points; ++i) connect(i, draw(i));  // a tree: connected
    for (std::size_t i = 0; i < points; ++i) connect(draw(points), draw(points));
    const auto given = links;
    for (std::size_t k = 0; k < points; ++k) {
      for (std::size_t i = 0; i < points; ++i) {
        for (std::size_t j = 0; j < points; ++j) {
          links[i][j] = std::min(links[i][j], links[i][k] + links[k][j]);
        }
      }
    }
    const Cluster cluster = parts.build();
    for (std::size_t i = 0; i < devices; ++i) {
      for (std::size_t j = 0; j < devices; ++j) {
        if (i == j) continue;
        const Route& route =
            cluster.route(static_cast<DeviceIndex>(i), static_cast<DeviceIndex>(j));
        CHECK(static_cast<double>(route.hops.size()) == (direct[i][j] ? given[i][j] : links[i][j]));
      }
    }
  }
}

TEST_CASE("model/cluster: a route against a one-way edge needs another way") {
  Parts parts = pair();
  parts.edges[0].symmetrical = false;
  CHECK(contains(error_of([&] { return parts.build(); }), "no route from 'b' to 'a'"));
  parts.add_link("back", 5e-3, 1e6);
  parts.edges.push_back({.from = "b", .to = "a", .hops = {{1}}, .symmetrical = false});
  CHECK(parts.build().route(1, 0).latency.value() == 5e-3);
}

TEST_CASE("model/cluster: a thousand devices") {
  const Cluster cluster = test::star(1024);
  CHECK(cluster.route(0, 1023).hops ==
        std::vector<Hop>{{0, Direction::up}, {1023, Direction::down}});
  CHECK(cluster.route(517, 3).hops == std::vector<Hop>{{517, Direction::up}, {3, Direction::down}});
}

TEST_CASE("model/cluster: equality and copies") {
  const Cluster a = test::star(3);
  Cluster b = a;
  (void)b.route(0, 2);
  CHECK(a == b);
  CHECK_FALSE(a == test::star(4));
  CHECK(b.route(0, 2).hops == a.route(0, 2).hops);
  CHECK(a.find("d2") == 2);
  CHECK(contains(error_of([&] { return a.find("x"); }), "'x': unknown in cluster 'star'"));
  CHECK(contains(error_of([&] { return a.find("core"); }), "d0, d1, d2"));
}

TEST_CASE("model/cluster: a single device needs no network") {
  const Cluster one("one", {test::device("a")}, {}, {}, {});
  CHECK(one.size() == 1);
}

TEST_CASE("model/cluster: each broken invariant costs one line that names it") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const auto message = [](auto change) {
    Parts parts = pair();
    change(parts);
    return error_of([&] { return parts.build(); });
  };
  CHECK(message([](Parts&) {}).empty());
  CHECK(contains(message([](Parts& p) { p.devices.clear(); }), "no devices"));
  CHECK(
      contains(message([](Parts& p) { p.devices[1].name = "a"; }), "device 'a': the name is giv"));
  CHECK(contains(message([](Parts& p) { p.devices[1].name = ""; }), "a name with 0 bytes"));
  for (const char* name : {" b", "b "})
    CHECK(contains(message([&](Parts& p) { p.devices[1].name = name; }), "a name with a blank at"));
  CHECK(contains(message([](Parts& p) { p.devices[1].name = "b#1"; }), "a name with a #"));
  CHECK(contains(message([](Parts& p) { p.routers = {"a"}; }), "router 'a': the name is given tw"));
  CHECK(contains(message([](Parts& p) { p.links.push_back(p.links[0]); }), "link 'l': the name"));
  CHECK(contains(message([](Parts& p) { p.devices[0].cores = 0; }), "device 'a': cores is 0"));
  CHECK(contains(message([](Parts& p) { p.devices[0].memory = Bytes{-1}; }), "memory is -1"));
  CHECK(contains(message([&](Parts& p) { p.devices[0].flop_rate = FlopsPerSecond{nan}; }),
                 "flop_rate is nan"));
  CHECK(contains(message([](Parts& p) { p.devices[0].memory_bandwidth = BytesPerSecond{0}; }),
                 "memory_bandwidth is 0"));
  CHECK(contains(message([&](Parts& p) { p.devices[0].disk_bandwidth = BytesPerSecond{infinity}; }),
                 "disk_bandwidth is inf"));
  CHECK(message([](Parts& p) { p.devices[0].disk_bandwidth = BytesPerSecond{0}; }).empty());
  CHECK(contains(message([](Parts& p) { p.devices[0].slowdown = 0; }), "slowdown is 0"));
  CHECK(contains(message([](Parts& p) { p.links[0].latency = Seconds{-1e-3}; }),
                 "latency is -0.001, expected a number from 0 to 1000000"));
  CHECK(message([](Parts& p) { p.links[0].latency = Seconds{0}; }).empty());
  CHECK(contains(message([](Parts& p) { p.links[0].bandwidth = BytesPerSecond{0}; }),
                 "link 'l': bandwidth is 0"));
  CHECK(contains(message([](Parts& p) { p.edges.clear(); }), "no route from 'a' to 'b'"));
  CHECK(contains(message([](Parts& p) { p.edges[0].hops.clear(); }), "no links"));
  CHECK(contains(message([](Parts& p) { p.edges[0].to = "x"; }), "'x' is neither a device nor a"));
  CHECK(contains(message([](Parts& p) { p.edges[0].to = "a"; }), "leads to itself"));
  CHECK(
      contains(message([](Parts& p) { p.edges[0].hops[0].link = 1; }), "link number 1, expected"));
  CHECK(contains(message([](Parts& p) { p.edges[0].hops[0].link = -1; }), "link number -1"));
  CHECK(contains(message([](Parts& p) { p.edges[0].hops[0].direction = Direction::up; }),
                 "has a direction but is not split-duplex"));
  CHECK(contains(message([](Parts& p) { p.links[0].sharing = Sharing::split_duplex; }),
                 "is split-duplex but has no direction"));
  CHECK(contains(message([](Parts& p) { p.edges.push_back(p.edges[0]); }), "given twice"));
  CHECK(contains(
      message([](Parts& p) { p.edges.push_back({.from = "b", .to = "a", .hops = {{0}}}); }),
      "given twice"));
}

TEST_CASE("model/cluster: names that a terminal would obey or not show are refused") {
  const auto message = [](const std::string& name) {
    Parts parts = pair();
    parts.links[0].name = name;
    return error_of([&] { return parts.build(); });
  };
  for (const char* good : {"l", "b\u00FCro", "\u7DDA-1", "a b", "\U0001F4BB"})
    CHECK(message(good).empty());
  CHECK(contains(message(""), "0 bytes, expected 1 to 256"));
  CHECK(contains(message(std::string(257, 'a')), "257 bytes"));
  CHECK(contains(message("b\xFCro"), "byte 0xFC, expected UTF-8"));
  CHECK(contains(message("\xC0\xAF"), "byte 0xC0"));
  CHECK(contains(message("a\xE2\x82"), "byte 0xE2"));
  CHECK(contains(message(std::string("a\0b", 3)), "character U+0000"));
  CHECK(contains(message("a\x1B[31m"), "character U+001B"));
  CHECK(contains(message("a\xC2\x9B"), "character U+009B"));
  CHECK(contains(message("a\xE2\x80\xAE"), "character U+202E"));
  CHECK(contains(message("a\xE2\x81\xA6"), "character U+2066"));
  CHECK(contains(message("a\xE2\x80\x8B"), "character U+200B"));
  CHECK(contains(message("\xEF\xBB\xBF"
                         "a"),
                 "character U+FEFF"));
}

TEST_CASE("model/cluster: counts and numbers beyond all platforms are refused") {
  const auto message = [](auto change) {
    Parts parts = pair();
    change(parts);
    return error_of([&] { return parts.build(); });
  };
  for (const double rate : {1e-300, 0.5, 1e22, 1e308, 5e-324}) {
    CAPTURE(rate);
    CHECK(contains(message([&](Parts& p) { p.devices[0].flop_rate = FlopsPerSecond{rate}; }),
                   "flop_rate is"));
    CHECK(contains(message([&](Parts& p) { p.links[0].bandwidth = BytesPerSecond{rate}; }),
                   "bandwidth is"));
    CHECK(contains(message([&](Parts& p) { p.devices[0].disk_bandwidth = BytesPerSecond{rate}; }),
                   "or 0;"));
  }
  CHECK(contains(message([](Parts& p) { p.links[0].latency = Seconds{1e300}; }),
                 "latency is 1e+300"));
  CHECK(
      contains(message([](Parts& p) { p.links[0].jitter = Seconds{1e7}; }), "jitter is 10000000"));
  CHECK(contains(message([](Parts& p) { p.devices[0].slowdown = 1e-9; }), "slowdown is 1e-09"));
  CHECK(contains(message([](Parts& p) { p.devices[0].cores = 65537; }), "cores is 65537"));
  CHECK(contains(message([](Parts& p) { p.devices[0].speeds.resize(limits::kChanges + 1); }),
                 "10001 changes during a run, expected at most 10000"));
  CHECK(contains(message([](Parts& p) {
                   p.links[0].changes.resize(limits::kChanges + 1, {.latency = Seconds{1.0}});
                 }),
                 "10001 changes"));
  CHECK(contains(message([](Parts& p) { p.edges[0].hops.resize(limits::kHops + 1); }),
                 "1001 links, expected at most 1000"));
  CHECK(contains(message([](Parts& p) { p.links.resize(limits::kNetwork + 1); }),
                 "100001 links, expected at most 100000"));
}

}  // namespace tandem::model::cluster_test
