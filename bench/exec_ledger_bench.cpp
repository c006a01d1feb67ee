// How well the link ledger emulates: measured message times against latency + bytes / bandwidth
// over four links of 1 ms and 300 Mbps, and an incast of eight senders against eight times the
// bytes.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "exec/emulation/ledger.hpp"
#include "exec/emulation/ledger_transport.hpp"
#include "model/base/statistics.hpp"
#include "model/report/trace.hpp"
#include "tests/exec/transport/transport_pair.hpp"

namespace {

using namespace tandem;
using namespace tandem::exec;
using model::Direction;

constexpr double kBandwidth = 300e6 / 8;  // bytes per second
constexpr double kLatency = 1e-3;         // seconds

// `count` devices, each two links away from the core router.
model::Cluster home(int count) {
  std::vector<model::Device> devices;
  std::vector<std::string> routers{"core"};
  std::vector<model::Link> links;
  std::vector<model::Edge> edges;
  for (int i = 0; i < count; ++i) {
    const std::string name = "d" + std::to_string(i);
    devices.push_back({.name = name,
                       .flop_rate = model::FlopsPerSecond{1e9},
                       .memory_bandwidth = model::BytesPerSecond{1e9},
                       .memory = model::Bytes{1e9},
                       .disk_bandwidth = model::BytesPerSecond{0}});
    std::vector<model::Hop> hops;
    for (const char* part : {"a", "b"}) {
      hops.push_back(
          {.link = static_cast<model::LinkIndex>(links.size()), .direction = Direction::up});
      links.push_back({.name = name + part,
                       .latency = model::Seconds{kLatency},
                       .bandwidth = model::BytesPerSecond{kBandwidth}});
    }
    edges.push_back({.from = name, .to = "core", .hops = hops});
  }
  return {"home", devices, routers, links, edges};
}

struct Emulated {
  explicit Emulated(int senders) : cluster(home(senders + 1)) {
    std::vector<ChannelId> channels;
    for (int i = 1; i <= senders; ++i) channels.push_back({.from = i, .to = 0});
    mesh = test::open_mesh(senders + 1, channels, random_key());
    const auto ledger = std::make_shared<Ledger>(cluster);
    for (model::DeviceIndex i = 0; i <= senders; ++i) {
      const auto index = static_cast<std::size_t>(i);
      devices.push_back(std::make_unique<LedgerTransport>(std::move(mesh.devices[index]), ledger,
                                                          cluster, i, mesh.cancellations[index]));
    }
  }
  // Seconds from the first send to the last arrival when all senders send at once.
  double round(std::size_t bytes, int index) {
    const MessageTag tag{.step = index, .task = 0};
    const Clock::time_point deadline = Clock::now() + std::chrono::seconds(60);
    const auto senders = static_cast<int>(devices.size()) - 1;
    std::vector<Clock::time_point> arrived(devices.size());
    std::vector<std::thread> threads;
    for (int i = 1; i <= senders; ++i) {
      threads.emplace_back([&, i] {
        std::vector<std::byte> payload(bytes);
        arrived[static_cast<std::size_t>(i)] =
            devices[0]->receive(i, tag, payload, deadline, false).arrived;
      });
    }
    // All threads are asleep in their calls when it begins.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::vector<Clock::time_point> started(devices.size(), Clock::time_point::max());
    for (int i = 1; i <= senders; ++i) {
      threads.emplace_back([&, i] {
        const std::vector<std::byte> payload(bytes);
        started[static_cast<std::size_t>(i)] = Clock::now();
        devices[static_cast<std::size_t>(i)]->send(0, tag, payload);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return std::chrono::duration<double>(*std::ranges::max_element(arrived) -
                                         *std::ranges::min_element(started))
        .count();
  }
  model::Cluster cluster;
  test::Mesh mesh;
  std::vector<std::unique_ptr<LedgerTransport>> devices;
};

// Arguments: senders, bytes a message.
void ledger(benchmark::State& state) {
  const auto senders = static_cast<int>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  Emulated emulated(senders);
  const double expected =
      4 * kLatency + static_cast<double>(senders) * static_cast<double>(bytes) / kBandwidth;
  std::vector<double> seconds;
  int index = 0;
  for ([[maybe_unused]] auto _ : state) {
    for (int i = 0; i < 20; ++i) seconds.push_back(emulated.round(bytes, index++));
  }
  const double median = model::quantile(seconds, 0.5);
  state.counters["expected_ms"] = expected * 1e3;
  state.counters["median_ms"] = median * 1e3;
  state.counters["p90_ms"] = model::quantile(seconds, 0.9) * 1e3;
  state.counters["deviation_percent"] = (median / expected - 1) * 100;
}

}  // namespace

BENCHMARK(ledger)
    ->ArgNames({"senders", "bytes"})
    ->ArgsProduct({{1}, {4, 8192, 65536, 1 << 20, 4 << 20}})
    ->ArgsProduct({{8}, {8192, 1 << 20}})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK_MAIN();
