// TPI-LLM's testbed: where latency is the bottleneck of a sum (docs/explanation/collectives.md).

#include "study/experiment/allreduce_testbed.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>

namespace tandem::study::allreduce_testbed_test {
namespace {

TEST_CASE("study/allreduce testbed: latency is half of the time at the documented size") {
  const AllreduceTestbed testbed{};  // 8 devices
  const double n = testbed.devices;
  const double latency_s = 4.0 * testbed.link_latency.value();
  const double lb = latency_s * testbed.bandwidth.value();
  struct Crossing {
    std::string allreduce;
    double latencies;  // of a sum
    double bytes;
  };
  const Crossing crossings[] = {{"star", 2.0, lb / (n - 1.0)},
                                {"tree", 4.0, 4.0 / 9.0 * lb},
                                {"halving", 6.0, lb * n * 3.0 / (n - 1.0)},
                                {"ring", 14.0, n * lb}};
  for (const Crossing& crossing : crossings) {
    CAPTURE(crossing.allreduce);
    // Whole parts of eight f32 columns.
    const auto columns = static_cast<std::int32_t>(std::round(crossing.bytes / 32.0) * 8.0);
    const double seconds = simulated_allreduce(testbed, crossing.allreduce, columns).value();
    CHECK(seconds == doctest::Approx(2.0 * crossing.latencies * latency_s).epsilon(1e-3));
  }
}

TEST_CASE("study/allreduce testbed: 12.2 of the star's 20.2 ms for 32 KiB are data") {
  const double ms = simulated_allreduce({}, "star", 8192).value() * 1e3;
  CHECK(ms == doctest::Approx(8.0 + 2.0 * 7.0 * 32768.0 / 37.5e6 * 1e3).epsilon(1e-9));
}

}  // namespace
}  // namespace tandem::study::allreduce_testbed_test
