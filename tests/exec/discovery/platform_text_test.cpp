// The platform file of known segments: routes, rates, latencies.

#include "exec/discovery/platform_text.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace tandem::test::platform_text_test {

using namespace tandem::exec;

namespace {

constexpr double kMega = 1e6 / 8.0;  // of Mbps

DiscoveredDevice device(const std::string& name, double seconds_per_byte = 0.0) {
  DiscoveredDevice device;
  device.name = name;
  device.endpoint = {.host = "10.0.0.1", .port = 7700};
  device.about.cores = 4;
  device.about.memory_bytes = std::uint64_t{3} << 30U;
  auto& rate = device.profile.rate;
  rate[static_cast<std::size_t>(model::TaskKind::transfer)].points = {
      {.intensity = 1.0, .seconds_per_byte = seconds_per_byte}};
  rate[static_cast<std::size_t>(model::TaskKind::ffn_up)].points = {
      {.intensity = 1.0, .seconds_per_byte = 1e-10},
      {.intensity = 32.0, .seconds_per_byte = 4e-10}};
  device.profile.disk_bandwidth = model::BytesPerSecond{5e8};
  return device;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("discovery/platform text: hosts state what was measured") {
  const std::string xml = platform_xml("home", "a comment", {device("desk")}, {});
  CHECK(has(xml, "<!-- a comment -->"));
  CHECK(has(xml, "<zone id=\"home\" routing=\"Full\">"));
  // 32 rows * 0.5 flops a byte / 0.4 ns = 40 Gflops on 4 cores
  CHECK(has(xml, "<host id=\"desk\" speed=\"10Gf\" core=\"4\">"));
  CHECK(has(xml, "<prop id=\"tandem:memory\" value=\"3072MiB\"/>"));
  CHECK(has(xml, "<prop id=\"tandem:memory_bandwidth\" value=\"10000MBps\"/>"));
  CHECK(has(xml, "<prop id=\"tandem:disk_bandwidth\" value=\"500MBps\"/>"));
}

TEST_CASE("discovery/platform text: duplex ports, a medium that stations pass twice, a slow path") {
  NetworkSegments network;
  network.segments = {
      {.kind = SegmentKind::port, .members = 1, .out = 1000 * kMega, .in = 950 * kMega},
      {.kind = SegmentKind::port, .members = 0},
      {.kind = SegmentKind::port, .members = 4, .out = 40 * kMega, .in = 250 * kMega},
      {.kind = SegmentKind::medium, .members = 6, .out = 300 * kMega},
      {.kind = SegmentKind::path, .members = 1, .to = 1, .out = 100 * kMega}};
  network.latency = {1e-4, 0.0, 2e-4, 1e-3, 0.0};
  network.rest.assign(9, 0.0);
  network.rest[1] = network.rest[3] = 5e-3;
  const std::string xml =
      platform_xml("home", "c", {device("a"), device("b"), device("c")}, network);
  CHECK(has(xml,
            "<link id=\"port-a\" bandwidth=\"974.7Mbps\" latency=\"100us\" "
            "sharing_policy=\"SPLITDUPLEX\"/>"));
  CHECK(!has(xml, "port-b"));
  CHECK(has(xml,
            "<link id=\"port-c-out\" bandwidth=\"40Mbps\" latency=\"200us\" "
            "sharing_policy=\"SHARED\"/>"));
  CHECK(has(xml, "<link id=\"port-c-in\" bandwidth=\"250Mbps\""));
  CHECK(has(xml,
            "<link id=\"medium-1\" bandwidth=\"300Mbps\" latency=\"1000us\" "
            "sharing_policy=\"SHARED\"/>"));
  CHECK(has(xml,
            "<link id=\"delay-a-b\" bandwidth=\"1000000Mbps\" latency=\"5000us\" "
            "sharing_policy=\"FATPIPE\"/>"));
  CHECK(has(xml,
            "src=\"a\" dst=\"b\" symmetrical=\"NO\">\n"
            "      <link_ctn id=\"port-a\" direction=\"UP\"/>\n"
            "      <link_ctn id=\"medium-1\"/>\n"
            "      <link_ctn id=\"path-a-b\"/>\n"
            "      <link_ctn id=\"delay-a-b\"/>\n"
            "    </route>"));
  CHECK(has(xml,
            "src=\"c\" dst=\"b\" symmetrical=\"NO\">\n"
            "      <link_ctn id=\"port-c-out\"/>\n"
            "      <link_ctn id=\"medium-1\"/>\n"
            "      <link_ctn id=\"medium-1\"/>\n"
            "    </route>"));
}

TEST_CASE("discovery/platform text: what a profile charges for a byte is not in the link, too") {
  NetworkSegments network;
  network.segments = {{.kind = SegmentKind::port, .members = 1, .out = 1e8, .in = 1e8},
                      {.kind = SegmentKind::port, .members = 2, .out = 1e8, .in = 1e8}};
  network.latency = {0.0, 0.0};
  SUBCASE("10 ns measured, of which 2 are the profile's: 8 ns, 1000 Mbps") {
    const std::string xml =
        platform_xml("home", "c", {device("a", 2e-9), device("b", 2e-9)}, network);
    CHECK(has(xml, "<link id=\"port-a\" bandwidth=\"1000Mbps\""));
  }
  SUBCASE("10 ns measured, of which the profile claims 20: a tenth is left") {
    const std::string xml =
        platform_xml("home", "c", {device("a", 2e-8), device("b", 2e-8)}, network);
    CHECK(has(xml, "<link id=\"port-a\" bandwidth=\"8000Mbps\""));
  }
}

TEST_CASE("discovery/platform text: this machine is local in the list of hosts") {
  std::vector<DiscoveredDevice> devices{device("desk"), device("board")};
  devices[0].local = true;
  CHECK(hosts_text(devices) == "desk local\nboard 10.0.0.1:7700\n");
}

}  // namespace tandem::test::platform_text_test
