// Clusters that are the same but for names.

#include "model/cluster/cluster_edit.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.hpp"
#include "tests/model/model_fixtures.hpp"
#include "tests/support/plain_clusters.hpp"

namespace tandem::model::cluster_edit_test {
namespace {

Direction other_way(Direction direction) {
  if (direction == Direction::none) return direction;
  return direction == Direction::up ? Direction::down : Direction::up;
}

// `cluster` with other names, routers, links and edges in another order, edges the other way round
// and links upside down.
Cluster disguised(const Cluster& cluster, std::mt19937& random) {
  std::map<std::string, std::string> names;
  const auto renamed = [&](const std::string& name) {
    const std::string fresh = std::to_string(random()) + "-" + std::to_string(names.size());
    return names.try_emplace(name, fresh).first->second;
  };
  std::vector<Device> devices = cluster.devices();
  for (Device& device : devices) device.name = renamed(device.name);
  std::vector<std::string> routers = cluster.routers();
  std::ranges::shuffle(routers, random);
  for (std::string& router : routers) router = renamed(router);
  std::vector<LinkIndex> order(cluster.links().size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, random);
  std::vector<bool> upside_down_links(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) upside_down_links[i] = random() % 2 == 0;
  std::vector<Link> links(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    Link& link = links[static_cast<std::size_t>(order[i])];
    link = cluster.links()[i];
    link.name = renamed("link " + link.name);
    if (!upside_down_links[i]) continue;
    for (LinkChange& change : link.changes) change.direction = other_way(change.direction);
  }
  std::vector<Edge> edges = cluster.edges();
  std::ranges::shuffle(edges, random);
  for (Edge& edge : edges) {
    edge.from = renamed(edge.from);
    edge.to = renamed(edge.to);
    const bool turned = edge.symmetrical && random() % 2 == 0;
    if (turned) {
      std::swap(edge.from, edge.to);
      std::ranges::reverse(edge.hops);
    }
    for (Hop& hop : edge.hops) {
      const bool upside_down = upside_down_links[static_cast<std::size_t>(hop.link)];
      if (turned != upside_down) hop.direction = other_way(hop.direction);
      hop.link = order[static_cast<std::size_t>(hop.link)];
    }
  }
  return {"disguised", devices, routers, links, edges};
}

}  // namespace

TEST_CASE("model/cluster_edit: names and orders are all that an anonymous cluster lacks") {
  std::mt19937 random(7);
  for (int i = 0; i < 60; ++i) {
    Cluster cluster = tandem::test::homes_of(1 + i % 3, 1 + i % 4, 1e-3, 5e-3, 1e6);
    cluster = with_devices(cluster, [&](Device& device) {
      device.memory = Bytes{static_cast<double>(random() % 3 + 1) * 1e9};
    });
    cluster = with_links(cluster, [&](Link& link) {
      link.latency = Seconds{static_cast<double>(random() % 1000 + 1) * 1e-5};
    });
    CAPTURE(i);
    const Cluster plain = anonymous(cluster);
    CHECK(plain == anonymous(disguised(cluster, random)));
    CHECK(plain == anonymous(plain));
    REQUIRE(plain.size() == cluster.size());
    for (DeviceIndex a = 0; a < cluster.size(); ++a) {
      Device device = plain.devices()[static_cast<std::size_t>(a)];
      device.name = cluster.devices()[static_cast<std::size_t>(a)].name;
      CHECK(device == cluster.devices()[static_cast<std::size_t>(a)]);
      for (DeviceIndex b = 0; b < cluster.size(); ++b) {
        if (a == b) continue;
        CHECK(plain.route(a, b).hops.size() == cluster.route(a, b).hops.size());
        CHECK(plain.route(a, b).latency.value() == cluster.route(a, b).latency.value());
        CHECK(plain.route(a, b).bandwidth.value() == cluster.route(a, b).bandwidth.value());
      }
    }
    // One number of one device or link.
    const auto which = static_cast<std::size_t>(random());
    std::size_t at = 0;
    if (i % 2 == 0) {
      const Cluster other = with_devices(cluster, [&](Device& device) {
        if (at++ == which % cluster.devices().size()) device.slowdown = 1.5;
      });
      CHECK_FALSE(anonymous(other) == plain);
    } else if (cluster.size() > 3) {
      const std::string used = plain.links()[which % plain.links().size()].name;
      const Cluster other = with_links(plain, [&](Link& link) {
        if (link.name == used) link.loss = 0.01;
      });
      CHECK_FALSE(anonymous(other) == plain);
    }
  }
}

TEST_CASE("model/cluster_edit: an anonymous mesh does not depend on the direction of its edges") {
  std::mt19937 random(11);
  for (int devices = 2; devices < 9; ++devices) {
    const Cluster mesh = tandem::test::mesh_of(devices, 2e-3, 1e6);
    Cluster busy = with_links(mesh, [&](Link& link) {
      link.latency = Seconds{static_cast<double>(random() % 3 + 1) * 1e-3};
      link.changes.push_back(
          {.at = Seconds{1.0}, .direction = Direction::up, .latency = Seconds{0.5}});
    });
    CAPTURE(devices);
    CHECK(anonymous(busy) == anonymous(disguised(busy, random)));
    // A change of the other direction is another cluster.
    const Cluster other = with_links(busy, [&](Link& link) {
      if (link.name == "0-1") link.changes.front().direction = Direction::down;
    });
    CHECK_FALSE(anonymous(busy) == anonymous(other));
    for (DeviceIndex a = 0; a < mesh.size(); ++a) {
      for (DeviceIndex b = 0; b < a; ++b)
        CHECK(anonymous(with_exchanged(mesh, a, b)) == anonymous(mesh));
    }
  }
}

// A tree of devices, each linked to an earlier one, and a few links more; of `equal` latencies some
// routes are equally short.
Cluster linked_devices(std::mt19937& random, int count, bool equal) {
  std::uniform_real_distribution<double> any(1e-4, 1e-2);
  std::vector<Device> devices;
  std::vector<Link> links;
  std::vector<Edge> edges;
  std::set<std::pair<int, int>> linked;
  const auto link = [&](int from, int to) {
    if (from == to || !linked.insert(std::minmax(from, to)).second) return;
    edges.push_back({.from = "d" + std::to_string(from),
                     .to = "d" + std::to_string(to),
                     .hops = {{static_cast<LinkIndex>(links.size()), Direction::up}}});
    links.push_back({.name = "l" + std::to_string(links.size()),
                     .latency = Seconds{equal ? 1e-3 : any(random)},
                     .bandwidth = BytesPerSecond{1e6}});
  };
  for (int d = 0; d < count; ++d) {
    devices.push_back(tandem::test::plain_device(d));
    if (d > 0) link(d, static_cast<int>(random() % static_cast<unsigned>(d)));
  }
  for (int more = 0; more < count / 3; ++more)
    link(static_cast<int>(random() % static_cast<unsigned>(count)),
         static_cast<int>(random() % static_cast<unsigned>(count)));
  return {"linked", devices, {}, links, edges};
}

TEST_CASE("model/cluster_edit: devices that are not used pass on what they passed before") {
  std::mt19937 random(23);
  int kept = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const Cluster cluster = linked_devices(random, 3 + trial % 5, trial % 2 == 0);
    std::vector<bool> used(cluster.devices().size());
    for (std::size_t d = 0; d < used.size(); ++d) used[d] = random() % 2 == 0;
    used[random() % used.size()] = true;
    const Cluster few = of_devices(cluster, used);
    CAPTURE(trial);
    REQUIRE(few.size() == std::ranges::count(used, true));
    if (!few.routers().empty()) ++kept;
    for (DeviceIndex a = 0; a < few.size(); ++a) {
      for (DeviceIndex b = 0; b < few.size(); ++b) {
        if (a == b) continue;
        const auto named = [&](DeviceIndex d) {
          return cluster.find(few.devices()[static_cast<std::size_t>(d)].name);
        };
        CHECK(few.route(a, b).hops == cluster.route(named(a), named(b)).hops);
      }
    }
  }
  CHECK(kept > 20);
}

TEST_CASE("model/cluster_edit: nothing passes through a device that is away") {
  std::mt19937 random(5);
  const Cluster line = [&] {
    while (true) {
      Cluster made = linked_devices(random, 3, false);
      if (made.edges().size() == 2) return made;
    }
  }();
  int cut = 0;
  for (const Device& device : line.devices()) {
    std::optional<Cluster> left;
    try {
      left = without_device(line, device.name);
    } catch (const Error&) {
      ++cut;
    }
    if (left) CHECK(left->routers().empty());
  }
  CHECK(cut == 1);
  CHECK(of_devices(line, {true, false, true}).size() == 2);
}

TEST_CASE("model/cluster_edit: without one of two that are alike the same is left") {
  const auto without = [](const Cluster& cluster, const std::string& name) {
    return anonymous(without_device(cluster, name));
  };
  const Cluster star = test::star(4);
  CHECK(without(star, "d1") == without(star, "d3"));
  const Cluster near = with_links(star, [](Link& link) {
    if (link.name == "d3-link") link.latency = Seconds{1e-6};
  });
  CHECK(without(near, "d1") == without(near, "d2"));
  CHECK_FALSE(without(near, "d1") == without(near, "d3"));
  CHECK_FALSE(anonymous(near) == anonymous(star));
  // A home that is left empty is gone with its link, whatever that was like.
  const Cluster homes = with_links(tandem::test::homes_of(3, 1, 1e-3, 5e-3, 1e6), [](Link& link) {
    if (link.name == "home2-core") link.latency = Seconds{1.0};
  });
  const std::string last = homes.devices()[2].name;
  CHECK(without(homes, last).routers().size() == 3);
  CHECK(without(homes, last).links().size() == 4);
  CHECK(without(homes, last) == anonymous(tandem::test::homes_of(2, 1, 1e-3, 5e-3, 1e6)));
}

TEST_CASE("model/cluster_edit: devices that change places keep what they are") {
  const Cluster star = with_links(test::star(3), [](Link& link) {
    if (link.name == "d2-link") link.latency = Seconds{1e-2};
  });
  const Cluster other = with_exchanged(star, 0, 2);
  CHECK(other.devices()[0].name == "d2");
  CHECK(other.devices()[2].name == "d0");
  CHECK(other.route(0, 1).latency.value() == star.route(2, 1).latency.value());
  CHECK(anonymous(with_exchanged(star, 0, 1)) == anonymous(star));
  CHECK_FALSE(anonymous(other) == anonymous(star));
  CHECK(with_exchanged(other, 0, 2) == star);
}

}  // namespace tandem::model::cluster_edit_test
