#include "exec/testbed/testbed_facts.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "model/base/error.hpp"

namespace tandem::test::testbed_facts_test {
namespace {

model::Cluster pair(double latency_s, double flops, const std::string& second = "sofa") {
  const auto device = [&](const std::string& name) {
    return model::Device{.name = name,
                         .flop_rate = model::FlopsPerSecond{flops},
                         .memory_bandwidth = model::BytesPerSecond{1e9},
                         .memory = model::Bytes{1e9}};
  };
  return {
      "pair",
      {device("desk"), device(second)},
      {},
      {{.name = "cable",
        .latency = model::Seconds{latency_s},
        .bandwidth = model::BytesPerSecond{1e6}}},
      {{.from = "desk", .to = second, .hops = {{.link = 0, .direction = model::Direction::up}}}}};
}

}  // namespace

TEST_CASE("exec/testbed facts: are read as they were written") {
  const exec::TestbedFacts facts{.turn = "/proc/7/fd/5",
                                 .network = "abc",
                                 .platform = "pair",
                                 .dilation = 2.5,
                                 .environment = {{"tcp", "cubic"}, {"scheduling", "nice"}}};
  CHECK(exec::parse_testbed_facts(exec::to_json(facts), "file") == facts);
  CHECK_THROWS_AS(static_cast<void>(exec::parse_testbed_facts("{}", "file")), Error);
  CHECK_THROWS_AS(static_cast<void>(exec::parse_testbed_facts("no JSON", "file")), Error);
  std::string slow = exec::to_json(facts);
  slow.replace(slow.find("2.5"), 3, "0.5");
  CHECK_THROWS_AS(static_cast<void>(exec::parse_testbed_facts(slow, "file")), Error);
}

TEST_CASE("exec/testbed facts: a network is its devices' names, routes and links") {
  const std::string digest = exec::network_digest(pair(1e-3, 1e9));
  CHECK(exec::network_digest(pair(1e-3, 2e9)) == digest);
  CHECK(exec::network_digest(pair(2e-3, 1e9)) != digest);
  CHECK(exec::network_digest(pair(1e-3, 1e9, "bed")) != digest);
}

}  // namespace tandem::test::testbed_facts_test
