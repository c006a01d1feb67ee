// Networks of known segments, measured with noise: the same segments are found.

#include "exec/discovery/network_inference.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <string>

namespace tandem::test::network_inference_test {

using namespace tandem::exec;

namespace {

constexpr double kMega = 1e6 / 8.0;  // of Mbps

constexpr DeviceSet set_of(std::initializer_list<int> devices) {
  DeviceSet set = 0;
  for (const int d : devices) set |= DeviceSet{1} << d;
  return set;
}

Segment port(int device, double out, double in) {
  return {.kind = SegmentKind::port,
          .members = DeviceSet{1} << device,
          .out = out * kMega,
          .in = in * kMega};
}

std::vector<Segment> ports(int devices, double mbps) {
  std::vector<Segment> all;
  all.reserve(static_cast<std::size_t>(devices));
  for (int d = 0; d < devices; ++d) all.push_back(port(d, mbps, mbps));
  return all;
}

NetworkMeasurements measured(const std::vector<Segment>& truth, int devices, double noise,
                             unsigned seed, double unfair = 0.0) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0.0, 1.0);
  NetworkMeasurements result{.devices = devices, .trials = trials_of(devices), .latencies = {}};
  for (Trial& trial : result.trials) {
    const std::vector<double> rates = fair_rates(truth, trial);
    // TCP: some flows get more of what they share, others less; the sum stays.
    std::vector<double> skew(trial.size(), 1.0);
    for (std::size_t f = 0; f + 1 < trial.size(); f += 2) {
      const double part = unfair * std::abs(normal(random));
      skew[f] += std::min(part, 0.6);
      skew[f + 1] -= std::min(part, 0.6) * rates[f] / rates[f + 1];
      if (skew[f + 1] < 0.2) skew[f] = skew[f + 1] = 1.0;
    }
    for (std::size_t f = 0; f < trial.size(); ++f)
      trial[f].rate = rates[f] * skew[f] * (1.0 + noise * std::clamp(normal(random), -2.5, 2.5));
  }
  for (int a = 0; a < devices; ++a) {
    for (int b = a + 1; b < devices; ++b)
      result.latencies.push_back({.a = a, .b = b, .seconds = 1e-3});
  }
  return result;
}

const Segment* find(const NetworkSegments& network, SegmentKind kind, DeviceSet members, int n) {
  const DeviceSet others = ((DeviceSet{1} << n) - 1) & ~members;
  for (const Segment& segment : network.segments) {
    if (segment.kind != kind) continue;
    if (segment.members == members || (kind != SegmentKind::medium && segment.members == others))
      return &segment;
  }
  return nullptr;
}

int count(const NetworkSegments& network, SegmentKind kind) {
  int found = 0;
  for (const Segment& segment : network.segments)
    found += segment.kind == kind && segment.members != 0 ? 1 : 0;
  return found;
}

// The greatest relative error of the rates of any trial's sum, alone or at once.
double worst_sum(const NetworkSegments& network, const std::vector<Segment>& truth, int devices) {
  double worst = 0.0;
  for (const Trial& trial : trials_of(devices)) {
    double expected = 0.0;
    double got = 0.0;
    for (const double rate : fair_rates(truth, trial)) expected += rate;
    for (const double rate : fair_rates(network.segments, trial)) got += rate;
    worst = std::max(worst, std::abs(got / expected - 1.0));
  }
  return worst;
}

}  // namespace

TEST_CASE("discovery/network inference: a star of a switch has ports and nothing shared") {
  std::vector<Segment> truth = ports(4, 1000.0);
  truth[3] = port(3, 100.0, 100.0);
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const NetworkSegments found = infer_network(measured(truth, 4, 0.05, seed));
    CHECK(found.segments.size() == 4);
    CHECK(worst_sum(found, truth, 4) < 0.1);
  }
}

TEST_CASE("discovery/network inference: one device on Wi-Fi has a half-duplex link") {
  std::vector<Segment> truth = ports(4, 1000.0);
  truth[1] = {.kind = SegmentKind::medium, .members = set_of({1}), .out = 400.0 * kMega};
  truth[3] = port(3, 100.0, 100.0);
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const NetworkSegments found = infer_network(measured(truth, 4, 0.05, seed));
    const Segment* const medium = find(found, SegmentKind::medium, set_of({1}), 4);
    REQUIRE(medium != nullptr);
    CHECK(medium->out == doctest::Approx(400.0 * kMega).epsilon(0.1));
    CHECK(count(found, SegmentKind::medium) == 1);
    CHECK(count(found, SegmentKind::port) == 3);  // its own is redundant
    CHECK(worst_sum(found, truth, 4) < 0.1);
  }
}

TEST_CASE("discovery/network inference: stations share one medium, a wired device does not") {
  for (const int devices : {3, 4, 5}) {
    std::vector<Segment> truth{port(0, 1000.0, 1000.0)};
    DeviceSet stations = 0;
    for (int d = 1; d < devices; ++d) stations |= DeviceSet{1} << d;
    truth.push_back({.kind = SegmentKind::medium, .members = stations, .out = 300.0 * kMega});
    for (unsigned seed = 0; seed < 10; ++seed) {
      CAPTURE(devices);
      CAPTURE(seed);
      const NetworkSegments found = infer_network(measured(truth, devices, 0.05, seed));
      const Segment* const medium = find(found, SegmentKind::medium, stations, devices);
      REQUIRE(medium != nullptr);
      CHECK(medium->out == doctest::Approx(300.0 * kMega).epsilon(0.1));
      CHECK(worst_sum(found, truth, devices) < 0.12);
    }
  }
}

TEST_CASE("discovery/network inference: two switches have an uplink, powerline a bridge") {
  for (const SegmentKind kind : {SegmentKind::uplink, SegmentKind::bridge}) {
    std::vector<Segment> truth = ports(4, 1000.0);
    truth.push_back(
        {.kind = kind, .members = set_of({0, 1}), .out = 1000.0 * kMega, .in = 1000.0 * kMega});
    if (kind == SegmentKind::bridge) truth.back().out = 200.0 * kMega;
    for (unsigned seed = 0; seed < 20; ++seed) {
      CAPTURE(seed);
      const NetworkSegments found = infer_network(measured(truth, 4, 0.05, seed, 0.2));
      const Segment* const shared = find(found, kind, set_of({0, 1}), 4);
      REQUIRE(shared != nullptr);
      CHECK(shared->out == doctest::Approx(truth.back().out).epsilon(0.12));
      CHECK(found.segments.size() == 5);
    }
  }
}

TEST_CASE("discovery/network inference: six devices behind two switches, one of them slow") {
  std::vector<Segment> truth = ports(6, 1000.0);
  truth[5] = port(5, 400.0, 400.0);
  truth.push_back({.kind = SegmentKind::uplink,
                   .members = set_of({1, 3}),
                   .out = 1000.0 * kMega,
                   .in = 1000.0 * kMega});
  for (unsigned seed = 0; seed < 5; ++seed) {
    CAPTURE(seed);
    const NetworkSegments found = infer_network(measured(truth, 6, 0.05, seed));
    CHECK(find(found, SegmentKind::uplink, set_of({1, 3}), 6) != nullptr);
    CHECK(worst_sum(found, truth, 6) < 0.15);
  }
}

TEST_CASE("discovery/network inference: a line whose directions differ, and one slow path") {
  std::vector<Segment> truth = ports(4, 1000.0);
  truth[2] = port(2, 40.0, 250.0);
  truth.push_back(
      {.kind = SegmentKind::path, .members = set_of({0}), .to = 1, .out = 300.0 * kMega});
  for (unsigned seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    const NetworkSegments found = infer_network(measured(truth, 4, 0.05, seed));
    CHECK(found.segments[2].out == doctest::Approx(40.0 * kMega).epsilon(0.1));
    CHECK(found.segments[2].in == doctest::Approx(250.0 * kMega).epsilon(0.1));
    REQUIRE(count(found, SegmentKind::path) == 1);
    CHECK(found.segments.back().out == doctest::Approx(300.0 * kMega).epsilon(0.2));
  }
}

TEST_CASE("discovery/network inference: two devices, full duplex and half duplex") {
  const std::vector<Segment> duplex = ports(2, 100.0);
  CHECK(count(infer_network(measured(duplex, 2, 0.05, 1)), SegmentKind::medium) == 0);
  const std::vector<Segment> half{
      {.kind = SegmentKind::medium, .members = set_of({0}), .out = 100.0 * kMega}};
  const NetworkSegments found = infer_network(measured(half, 2, 0.05, 1));
  CHECK(count(found, SegmentKind::medium) == 1);
  CHECK(worst_sum(found, half, 2) < 0.1);
}

TEST_CASE("discovery/network inference: latencies are those of segments, else of pairs") {
  std::vector<Segment> truth = ports(4, 1000.0);
  NetworkMeasurements star = measured(truth, 4, 0.0, 1);
  const std::vector<double> own{0.5e-3, 2e-3, 0.5e-3, 1e-3};
  for (PairLatency& pair : star.latencies)
    pair.seconds = own[static_cast<std::size_t>(pair.a)] + own[static_cast<std::size_t>(pair.b)];
  NetworkSegments found = infer_network(star);
  for (std::size_t d = 0; d < 4; ++d)
    CHECK(found.latency[d] == doctest::Approx(own[d]).epsilon(0.01));
  // One pair with a detour: every pair keeps its measured latency.
  star.latencies.front().seconds += 5e-3;
  found = infer_network(star);
  for (const PairLatency& pair : star.latencies) {
    double sum =
        found.rest[static_cast<std::size_t>(pair.a) * 4 + static_cast<std::size_t>(pair.b)];
    for (std::size_t s = 0; s < found.segments.size(); ++s) {
      const Passes of = passes(found.segments[s], pair.a, pair.b);
      sum += (of.out + of.in) * found.latency[s];
    }
    CHECK(sum == doctest::Approx(pair.seconds).epsilon(0.05));
  }
}

TEST_CASE("discovery/network inference: trials cover every pair, and rounds have disjoint pairs") {
  for (int devices = 2; devices <= 9; ++devices) {
    CAPTURE(devices);
    std::vector<int> alone(static_cast<std::size_t>(devices) * static_cast<std::size_t>(devices),
                           0);
    std::vector<int> met(alone.size(), 0);
    for (const Trial& trial : trials_of(devices)) {
      if (trial.size() == 1)
        ++alone[static_cast<std::size_t>(trial[0].from) * static_cast<std::size_t>(devices) +
                static_cast<std::size_t>(trial[0].to)];
      DeviceSet seen = 0;
      bool disjoint = trial.size() > 1;
      for (const Flow& flow : trial) {
        const DeviceSet ends = DeviceSet{1} << flow.from | DeviceSet{1} << flow.to;
        disjoint = disjoint && (seen & ends) == 0;
        seen |= ends;
      }
      if (!disjoint) continue;
      for (const Flow& flow : trial)
        ++met[static_cast<std::size_t>(flow.from) * static_cast<std::size_t>(devices) +
              static_cast<std::size_t>(flow.to)];
    }
    for (int a = 0; a < devices; ++a) {
      for (int b = 0; b < devices; ++b) {
        const auto at = static_cast<std::size_t>(a) * static_cast<std::size_t>(devices) +
                        static_cast<std::size_t>(b);
        CHECK(alone[at] == (a == b ? 0 : 1));
        if (devices >= 4 && a != b) CHECK(met[at] >= 1);
      }
    }
  }
}

TEST_CASE("discovery/network inference: a pair that was not measured is the caller's fault") {
  NetworkMeasurements two = measured(ports(2, 100.0), 2, 0.0, 1);
  two.trials.erase(two.trials.begin());
  CHECK_THROWS_AS(static_cast<void>(infer_network(two)), std::logic_error);
}

}  // namespace tandem::test::network_inference_test
