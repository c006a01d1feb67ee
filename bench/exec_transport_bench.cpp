// What transport and waiting add to a star all-reduce of one hidden row between two processes on
// this machine: the worker sends its partial sum, the master adds it and sends the sum back. The
// time of a round, less the time of the additions, on the worker; median and p99 in microseconds.

#include <benchmark/benchmark.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <vector>

#include "exec/transport/listener.hpp"
#include "exec/transport/mesh.hpp"
#include "exec/transport/tcp_transport.hpp"
#include "model/base/error.hpp"
#include "model/base/statistics.hpp"
#include "model/report/trace.hpp"

namespace {

using namespace tandem;
using namespace tandem::exec;

constexpr std::size_t kHidden = 2048;
constexpr int kRounds = 4000;
constexpr int kWarmup = 500;

Clock::time_point soon() { return Clock::now() + std::chrono::seconds(20); }

// What a device computes between two all-reduces, in place of a layer: it keeps both cores as busy
// as a real run does and lets the sockets cool down.
void compute(std::chrono::microseconds time) {
  const Clock::time_point end = Clock::now() + time;
  while (Clock::now() < end) {
  }
}

// Devices do not share a core; left to itself the scheduler puts both ends of a conversation on
// one.
void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

struct Case {
  bool secure = true;
  bool spin = true;
  std::chrono::microseconds compute{0};
};

MeshOptions mesh_of(model::DeviceIndex self, const Endpoint& worker, const Case& setting) {
  MeshOptions options;
  options.self = self;
  options.channels = {{.from = 0, .to = 1}, {.from = 1, .to = 0}};
  options.addresses = {"", to_text(worker)};
  if (setting.secure) options.key = Key{};
  return options;
}

void master(const Endpoint& worker, const Case& setting) {
  TcpTransport transport(0, open_channels(mesh_of(0, worker, setting), {}, {.deadline = soon()}),
                         std::make_shared<Cancellation>());
  std::vector<float> partial(kHidden, 1.0F);
  std::vector<float> sum(kHidden, 0.0F);
  for (int i = 0; i < kRounds; ++i) {
    compute(setting.compute);
    transport.receive(1, {.step = i, .task = 0}, std::as_writable_bytes(std::span(partial)), soon(),
                      setting.spin);
    for (std::size_t k = 0; k < kHidden; ++k) sum[k] = sum[k] * 0.5F + partial[k];
    transport.send(1, {.step = i, .task = 1}, std::as_bytes(std::span(sum)));
  }
}

// Seconds of each round beyond the additions, at the worker.
std::vector<double> worker(ListenSocket socket, const Case& setting) {
  const Endpoint endpoint = socket.endpoint();
  const MeshOptions options = mesh_of(1, endpoint, setting);
  Listener listener(std::move(socket), options.key);
  const NextClient next = [&listener](const Patience& patience) {
    std::optional<Incoming> incoming = listener.accept(patience);
    if (incoming) incoming->welcome();
    return incoming;
  };
  TcpTransport transport(1, open_channels(options, next, {.deadline = soon()}),
                         std::make_shared<Cancellation>());
  std::vector<float> partial(kHidden, 1.0F);
  std::vector<double> seconds;
  for (int i = 0; i < kRounds; ++i) {
    compute(setting.compute);
    const Clock::time_point start = Clock::now();
    transport.send(0, {.step = i, .task = 0}, std::as_bytes(std::span(partial)));
    transport.receive(0, {.step = i, .task = 1}, std::as_writable_bytes(std::span(partial)), soon(),
                      setting.spin);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return seconds;
}

double addition_seconds() {
  std::vector<float> partial(kHidden, 1.0F);
  std::vector<float> sum(kHidden, 0.0F);
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 1000; ++i) {
    for (std::size_t k = 0; k < kHidden; ++k) sum[k] = sum[k] * 0.5F + partial[k];
    benchmark::DoNotOptimize(sum.data());
    benchmark::ClobberMemory();
  }
  return std::chrono::duration<double>(Clock::now() - start).count() / 1000;
}

void all_reduce(benchmark::State& state) {
  const Case setting{.secure = state.range(0) == 1,
                     .spin = state.range(1) == 1,
                     .compute = std::chrono::microseconds(state.range(2))};
  std::vector<double> added;
  for ([[maybe_unused]] auto _ : state) {
    ListenSocket socket({.host = "127.0.0.1"}, setting.secure);
    const pid_t pid = ::fork();
    if (pid == 0) {
      try {
        pin(1);
        master(socket.endpoint(), setting);
        ::_exit(0);
      } catch (const std::exception& fault) {
        std::cerr << fault.what() << '\n';
        ::_exit(1);
      }
    }
    pin(0);
    const std::vector<double> seconds = worker(std::move(socket), setting);
    ::waitpid(pid, nullptr, 0);
    added.insert(added.end(), seconds.begin() + kWarmup, seconds.end());
  }
  const double work = addition_seconds();
  state.counters["median_us"] = (model::quantile(added, 0.5) - work) * 1e6;
  state.counters["p99_us"] = (model::quantile(added, 0.99) - work) * 1e6;
}

}  // namespace

BENCHMARK(all_reduce)
    ->ArgNames({"tls", "spin", "compute_us"})
    ->ArgsProduct({{0, 1}, {0, 1}, {0, 200}})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK_MAIN();
