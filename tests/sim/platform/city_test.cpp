#include "sim/platform/city.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "model/base/digest.hpp"
#include "model/base/error.hpp"
#include "sim/platform/platform.hpp"

namespace tandem::sim::testing::city_test {
namespace {

// As read back, by SimGrid too.
model::Cluster city(const City& values) {
  std::string path = (std::filesystem::temp_directory_path() / "tandem-city-XXXXXX").string();
  REQUIRE(::mkdtemp(path.data()) != nullptr);
  const std::string file = path + "/city.xml";
  std::ofstream(file) << city_platform_xml(values);
  const Platform platform = read_platform(file);
  std::filesystem::remove_all(path);
  CHECK(platform.defaults.empty());
  return platform.cluster;
}

std::string refusal(const City& values) {
  try {
    (void)city_platform_xml(values);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("sim/city: SimGrid and tandem read it alike, for any number of homes and devices") {
  for (const City values : {City{1, 1, 1}, City{1, 7, 2}, City{33, 3, 3}, City{67, 1, 4}}) {
    CAPTURE(values.homes);
    const model::Cluster cluster = city(values);
    CHECK(cluster.size() == values.homes * values.devices_per_home);
    // Homes, switches for 32 of them each, the core.
    CHECK(static_cast<std::int64_t>(cluster.routers().size()) ==
          values.homes + (values.homes + 31) / 32 + 1);
    CHECK(cluster.devices()[0].name == "desktop-0-0");
  }
}

TEST_CASE("sim/city: equal arguments give equal bytes, another seed others") {
  const City values{5, 2, 9};
  CHECK(city_platform_xml(values) == city_platform_xml(values));
  CHECK(city_platform_xml(values) != city_platform_xml({5, 2, 10}));
}

TEST_CASE("sim/city: the bytes are those of every machine and compiler") {
  CHECK(model::sha256_hex(city_platform_xml({3, 2, 7})) ==
        "25890404291d3192217a53f1fbe08c80e9c9cda0d0b38fffc0d9bcb6e2af6cc6");
}

TEST_CASE("sim/city: a home is the same however many there are") {
  const model::Cluster small = city({4, 2, 5});
  const model::Cluster large = city({40, 2, 5});
  for (std::size_t d = 0; d < small.devices().size(); ++d)
    CHECK(small.devices()[d] == large.devices()[d]);
  CHECK(small.route(0, 7).latency == large.route(0, 7).latency);
}

TEST_CASE("sim/city: up and down the line differ, and stations share a home's air") {
  const model::Cluster cluster = city({12, 4, 1});
  int slower_up = 0;
  int twice = 0;
  for (model::DeviceIndex d = 4; d < cluster.size(); ++d) {
    slower_up += cluster.route(d, 0).bandwidth < cluster.route(0, d).bandwidth ? 1 : 0;
    if (d % 4 == 3) continue;
    // The next device of the same home: two stations pass the air twice, at half its bandwidth.
    const model::Route& way = cluster.route(d, d + 1);
    if (way.hops.size() != 2 || way.hops[0] != way.hops[1]) continue;
    ++twice;
    const model::Link& air = cluster.links()[static_cast<std::size_t>(way.hops[0].link)];
    CHECK(way.bandwidth.value() == doctest::Approx(air.bandwidth.value() / 2));
    CHECK(way.latency.value() == doctest::Approx(2 * air.latency.value()));
  }
  CHECK(slower_up > 30);
  CHECK(twice > 0);
}

TEST_CASE("sim/city: numbers out of range are one clear error") {
  CHECK(refusal({0, 1, 1}) ==
        "city: 0 homes, expected 1 to 4096; choose a number within that range");
  CHECK(refusal({1, 65, 1}).find("65 devices a home, expected 1 to 64") != std::string::npos);
  CHECK(refusal({4096, 2, 1}).find("8192 devices, expected 1 to 4096") != std::string::npos);
}

}  // namespace tandem::sim::testing::city_test
