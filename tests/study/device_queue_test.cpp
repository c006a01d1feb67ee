#include "study/device_queue.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "model/base/error.hpp"

namespace tandem::study::device_queue_test {
namespace {

std::vector<DeviceJob> drawn(std::mt19937_64& random, std::size_t count, std::size_t devices) {
  std::uniform_int_distribution<std::size_t> taken(1, devices);
  std::uniform_real_distribution<double> seconds(0.0, 3.0);
  std::vector<DeviceJob> jobs;
  double now_s = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    now_s += seconds(random);
    jobs.push_back({.arrival_s = now_s, .devices = taken(random), .service_s = seconds(random)});
  }
  return jobs;
}

}  // namespace

TEST_CASE("study/device queue: requests that need all devices follow Lindley's recursion") {
  std::mt19937_64 random(1);
  std::vector<DeviceJob> jobs = drawn(random, 200, 1);
  for (DeviceJob& job : jobs) job.devices = 5;
  const std::vector<double> waits = waits_for_devices(jobs, 5);
  REQUIRE(waits.size() == jobs.size());
  double wait_s = 0.0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    CHECK(waits[i] == doctest::Approx(wait_s));
    if (i + 1 < jobs.size())
      wait_s =
          std::max(0.0, wait_s + jobs[i].service_s - (jobs[i + 1].arrival_s - jobs[i].arrival_s));
  }
}

TEST_CASE("study/device queue: at every start devices suffice, and a moment before they do not") {
  constexpr std::size_t kDevices = 6;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const std::vector<DeviceJob> jobs = drawn(random, 60, kDevices);
    const std::vector<double> waits = waits_for_devices(jobs, kDevices);
    const auto start_s = [&](std::size_t i) { return jobs[i].arrival_s + waits[i]; };
    // Of those before `i`, as seen just before `now_s`, or just after it.
    const auto busy = [&](std::size_t i, double now_s) {
      std::size_t devices = 0;
      for (std::size_t k = 0; k < i; ++k)
        devices +=
            start_s(k) <= now_s && now_s < start_s(k) + jobs[k].service_s ? jobs[k].devices : 0;
      return devices;
    };
    constexpr double kMoment = 1e-9;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      CAPTURE(i);
      CHECK(waits[i] >= 0.0);
      CHECK(busy(i, start_s(i) + kMoment) + jobs[i].devices <= kDevices);
      if (i > 0) CHECK(start_s(i) >= start_s(i - 1));
      const bool first = i == 0 || start_s(i) > start_s(i - 1);
      if (waits[i] > 0.0 && first)
        CHECK(busy(i, start_s(i) - kMoment) + jobs[i].devices > kDevices);
    }
  }
}

TEST_CASE("study/device queue: the mean wait of Poisson arrivals and equal services") {
  // M/D/1: rho s / (2 (1 - rho)).
  std::mt19937_64 random(3);
  constexpr double kLoad = 0.6;
  std::exponential_distribution<double> gap(kLoad);
  std::vector<DeviceJob> jobs;
  double now_s = 0.0;
  constexpr std::size_t kJobs = 200'000;
  for (std::size_t i = 0; i < kJobs; ++i)
    jobs.push_back({.arrival_s = now_s += gap(random), .devices = 1, .service_s = 1.0});
  double mean_s = 0.0;
  for (const double wait_s : waits_for_devices(jobs, 1)) mean_s += wait_s / kJobs;
  CHECK(mean_s == doctest::Approx(kLoad / (2.0 * (1.0 - kLoad))).epsilon(0.03));
}

TEST_CASE("study/device queue: what no queue can serve is refused") {
  const auto refused = [](DeviceJob job) {
    CHECK_THROWS_AS(waits_for_devices(std::vector{DeviceJob{.arrival_s = 1.0}, job}, 2), Error);
  };
  refused({.arrival_s = 2.0, .devices = 3});
  refused({.arrival_s = 2.0, .devices = 0});
  refused({.arrival_s = 0.5});
  refused({.arrival_s = std::nan("")});
  refused({.arrival_s = 2.0, .devices = 1, .service_s = -1.0});
  refused({.arrival_s = 2.0, .devices = 1, .service_s = std::nan("")});
}

}  // namespace tandem::study::device_queue_test
