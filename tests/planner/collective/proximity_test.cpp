#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/support/collective_fixture.hpp"

namespace tandem::test::proximity_test {
namespace {

using planner::Proximity;
using planner::proximity;
using Order = std::vector<model::DeviceIndex>;
using Groups = std::vector<std::int32_t>;

TEST_CASE("planner/proximity: equal distances leave the devices in order after the master") {
  CHECK(proximity(access_of(5, 1e-3, 1e6), 0).order == Order{0, 1, 2, 3, 4});
  CHECK(proximity(access_of(5, 1e-3, 1e6), 3).order == Order{3, 0, 1, 2, 4});
  CHECK(proximity(mesh_of(4, 1e-3, 1e6), 0).order.size() == 4);
  CHECK(proximity(access_of(5, 1e-3, 1e6), 3).group == Groups{0, 0, 0, 0, 0});
  CHECK(proximity(access_of(1, 1e-3, 1e6), 0).order == Order{0});
}

TEST_CASE("planner/proximity: homes are groups, and follow one another") {
  // Device d is in home d mod 3.
  const Proximity near = proximity(homes_of(3, 2, 1e-3, 5e-3, 1e6), 4);
  CHECK(near.order == Order{4, 1, 0, 3, 2, 5});
  CHECK(near.group == Groups{1, 0, 2, 1, 0, 2});
}

TEST_CASE("planner/proximity: latencies of a ratio below 2 part nobody") {
  CHECK(proximity(homes_of(2, 2, 1e-3, 1.9e-3, 1e6), 0).group == Groups{0, 0, 0, 0});
  CHECK(proximity(homes_of(2, 2, 1e-3, 2e-3, 1e6), 0).group == Groups{0, 1, 0, 1});
  CHECK(proximity(homes_of(2, 2, 0.0, 1e-3, 1e6), 0).group == Groups{0, 1, 0, 1});
  CHECK(proximity(homes_of(2, 2, 0.0, 0.0, 1e6), 0).group == Groups{0, 0, 0, 0});
}

TEST_CASE("planner/proximity: every device once, whatever the network and the master") {
  for (int homes = 1; homes <= 4; ++homes) {
    for (int members = 1; members <= 4; ++members) {
      for (const double far : {0.0, 1e-3, 9e-3}) {
        const model::Cluster cluster = homes_of(homes, members, 1e-3, far, 1e6);
        for (model::DeviceIndex master = 0; master < cluster.size(); ++master) {
          const Proximity near = proximity(cluster, master);
          CHECK(near.order.front() == master);
          CHECK(std::set<model::DeviceIndex>(near.order.begin(), near.order.end()).size() ==
                static_cast<std::size_t>(cluster.size()));
          CHECK(near.group[static_cast<std::size_t>(master)] == 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem::test::proximity_test
