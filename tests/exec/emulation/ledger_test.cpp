#include "exec/emulation/ledger.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "exec/emulation/ledger_transport.hpp"
#include "tests/exec/transport/transport_pair.hpp"
#include "tests/support/shared_medium.hpp"

namespace tandem::exec::ledger_test {

using namespace tandem::exec::test;
using model::Direction;
using model::Hop;
using model::Sharing;

namespace {

model::Device device(const std::string& name) {
  return {.name = name,
          .flop_rate = model::FlopsPerSecond{1e9},
          .memory_bandwidth = model::BytesPerSecond{1e9},
          .memory = model::Bytes{1e9},
          .disk_bandwidth = model::BytesPerSecond{0}};
}

// `count` devices, each with its own link to one switch.
model::Cluster star(int count, model::Seconds latency, model::BytesPerSecond bandwidth,
                    Sharing sharing = Sharing::split_duplex) {
  std::vector<model::Device> devices;
  std::vector<model::Link> links;
  std::vector<model::Edge> edges;
  for (int i = 0; i < count; ++i) {
    const std::string name = "d" + std::to_string(i);
    devices.push_back(device(name));
    links.push_back({.name = "l" + std::to_string(i),
                     .latency = latency,
                     .bandwidth = bandwidth,
                     .sharing = sharing});
    const Direction up = sharing == Sharing::split_duplex ? Direction::up : Direction::none;
    edges.push_back({.from = name, .to = "switch", .hops = {{.link = i, .direction = up}}});
  }
  return {"star", devices, {"switch"}, links, edges};
}

Clock::time_point at(double seconds) {
  return Clock::time_point(
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
}
double seconds_of(Clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

constexpr std::size_t kMiB = std::size_t{1} << 20;

}  // namespace

TEST_CASE("ledger/reserve: alone, a message takes bytes / min(bandwidth)") {
  const model::Cluster cluster(
      "chain", {device("a"), device("b")}, {"r"},
      {{.name = "fast", .bandwidth = model::BytesPerSecond{100e6}},
       {.name = "slow", .bandwidth = model::BytesPerSecond{10e6}}},
      {{.from = "a", .to = "r", .hops = {{.link = 0, .direction = Direction::up}}},
       {.from = "r", .to = "b", .hops = {{.link = 1, .direction = Direction::up}}}});
  Ledger ledger(cluster);
  const std::vector<Hop> hops = cluster.route(0, 1).hops;
  CHECK(seconds_of(ledger.reserve(hops, 1'000'000, at(5))) == doctest::Approx(5.1));
  // The fast link was free after 10 ms, the slow one after 100 ms.
  CHECK(seconds_of(ledger.reserve(std::span(hops).first(1), 1'000'000, at(5))) ==
        doctest::Approx(5.02));
  CHECK(seconds_of(ledger.reserve(std::span(hops).last(1), 1'000'000, at(5))) ==
        doctest::Approx(5.2));
  CHECK(seconds_of(ledger.reserve(hops, 0, at(7))) == doctest::Approx(7.0));
}

TEST_CASE("ledger/reserve: split_duplex has two clocks, shared has one, fatpipe none") {
  const Hop up{.link = 0, .direction = Direction::up};
  const Hop down{.link = 0, .direction = Direction::down};
  const Hop none{.link = 0};
  const auto second_of = [&](Sharing sharing, Hop first, Hop second) {
    Ledger ledger(star(2, model::Seconds{0}, model::BytesPerSecond{1e6}, sharing));
    static_cast<void>(ledger.reserve(std::span(&first, 1), 1'000'000, at(1)));
    return seconds_of(ledger.reserve(std::span(&second, 1), 1'000'000, at(1)));
  };
  CHECK(second_of(Sharing::split_duplex, up, down) == doctest::Approx(2.0));
  CHECK(second_of(Sharing::split_duplex, up, up) == doctest::Approx(3.0));
  CHECK(second_of(Sharing::shared, none, none) == doctest::Approx(3.0));
  CHECK(second_of(Sharing::fatpipe, none, none) == doctest::Approx(2.0));
}

TEST_CASE("ledger/reserve: processes share the clocks, and no reservation is lost") {
  const model::Cluster cluster = star(2, model::Seconds{0}, model::BytesPerSecond{1e6});
  Ledger ledger(cluster);
  const Hop hop{.link = 1, .direction = Direction::down};
  constexpr int kProcesses = 3;
  constexpr int kTimes = 2000;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      try {
        Ledger mine(cluster, ledger.descriptor());
        for (int turn = 0; turn < kTimes; ++turn) {
          static_cast<void>(mine.reserve(std::span(&hop, 1), 1000, at(10)));
        }
        ::_exit(0);
      } catch (const std::exception&) {
        ::_exit(1);
      }
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    CHECK(status == 0);
  }
  // 3 * 2000 * 1 ms = 6 s taken, and 1 ms more.
  CHECK(seconds_of(ledger.reserve(std::span(&hop, 1), 1000, at(10))) == doctest::Approx(16.001));
}

TEST_CASE("ledger/attach: another cluster's ledger, or none, is refused") {
  const Ledger ledger(star(2, model::Seconds{0}, model::BytesPerSecond{1e6}));
  CHECK_NOTHROW(
      Ledger(star(2, model::Seconds{0}, model::BytesPerSecond{1e6}), ledger.descriptor()));
  CHECK(contains(error_of([&] {
                   Ledger(star(200, model::Seconds{0}, model::BytesPerSecond{1e6}),
                          ledger.descriptor());
                 }),
                 "not the ledger of this cluster"));
  CHECK_THROWS_AS(Ledger(star(2, model::Seconds{0}, model::BytesPerSecond{1e6}), -1), Error);
}

namespace {

struct Emulated {
  Emulated(const model::Cluster& cluster, const std::vector<ChannelId>& channels)
      : mesh(open_mesh(cluster.size(), channels, random_key())),
        ledger(std::make_shared<Ledger>(cluster)) {
    for (model::DeviceIndex i = 0; i < cluster.size(); ++i) {
      const auto index = static_cast<std::size_t>(i);
      devices.push_back(std::make_unique<LedgerTransport>(std::move(mesh.devices[index]), ledger,
                                                          cluster, i, mesh.cancellations[index]));
    }
  }
  Mesh mesh;
  std::shared_ptr<Ledger> ledger;
  std::vector<std::unique_ptr<LedgerTransport>> devices;
};

MessageTag tag(int task) { return {.step = 0, .task = task}; }

}  // namespace

// Messages are told when they were ready, so that emulated times are exact, however late a busy
// machine sends or receives.
TEST_CASE("ledger/transport: a message takes latency + bytes / bandwidth, its channel the latter") {
  const model::Cluster cluster = star(2, model::Seconds{2e-3}, model::BytesPerSecond{100e6});
  Emulated home(cluster, {{.from = 1, .to = 0}});
  int task = 0;
  for (const std::size_t bytes : {std::size_t{4}, std::size_t{65536}, std::size_t{65537}, kMiB}) {
    CAPTURE(bytes);
    std::vector<std::byte> sent(bytes, static_cast<std::byte>(bytes % 251));
    std::vector<std::byte> got(bytes);
    MessageTimes arrival;
    std::thread receiving([&, task] {
      arrival = home.devices[0]->receive(1, tag(task), got, Clock::now() + std::chrono::seconds(10),
                                         true);
    });
    const Clock::time_point start = Clock::now();
    const MessageTimes sending =
        home.devices[1]->send_since(0, tag(task), sent, start, /*by_computing_thread=*/false);
    const Clock::time_point returned = Clock::now();
    receiving.join();
    const double wire = static_cast<double>(bytes) / 100e6;
    const double occupied = std::chrono::duration<double>(sending.sent - start).count();
    const double whole = std::chrono::duration<double>(arrival.arrived - start).count();
    CHECK(returned >= sending.sent);
    CHECK(occupied == doctest::Approx(wire).epsilon(1e-3));
    CHECK(whole == doctest::Approx(wire + 4e-3).epsilon(1e-3));
    CHECK(got == sent);
    ++task;
    std::this_thread::sleep_for(milliseconds(1));
  }
}

TEST_CASE("ledger/transport: a message is due by when it was ready, however late it is sent") {
  const model::Cluster cluster = star(2, model::Seconds{20e-3}, model::BytesPerSecond{10e6});
  Mesh mesh = open_mesh(2, {{.from = 0, .to = 1}}, random_key());
  const auto ledger = std::make_shared<Ledger>(cluster);
  const auto overhead = [](std::size_t bytes, bool by_computing_thread) {
    return std::chrono::duration_cast<Clock::duration>(
               milliseconds(by_computing_thread ? 3 : 300)) +
           std::chrono::nanoseconds(bytes);
  };
  LedgerTransport sender(std::move(mesh.devices[0]), ledger, cluster, 0, mesh.cancellations[0],
                         overhead);
  LedgerTransport receiver(std::move(mesh.devices[1]), ledger, cluster, 1, mesh.cancellations[1]);
  const std::vector<std::byte> payload(10'000);
  std::vector<std::byte> got(payload.size());
  const Clock::time_point ready = Clock::now();
  for (int i = 0; i < 2; ++i) {
    CAPTURE(i);
    std::this_thread::sleep_for(milliseconds(5));
    const MessageTimes sent = sender.send_since(1, tag(i), payload, ready, true);
    std::this_thread::sleep_for(milliseconds(5));
    const MessageTimes times =
        receiver.receive(0, tag(i), got, Clock::now() + std::chrono::seconds(10), false);
    // 3.01 ms of overhead and 1 ms of bytes, each after the other; 40 ms in flight.
    const double channel = (i + 1) * 4.01e-3;
    CHECK(std::chrono::duration<double>(sent.sent - ready).count() == doctest::Approx(channel));
    CHECK(std::chrono::duration<double>(times.arrived - ready).count() ==
          doctest::Approx(channel + 40e-3));
  }
}

TEST_CASE("ledger/transport: messages of a channel overlap in flight and do not overtake") {
  // 10 messages of 1 ms over 20 ms of latency: 30 ms, not 210.
  const model::Cluster cluster = star(2, model::Seconds{10e-3}, model::BytesPerSecond{10e6});
  Emulated home(cluster, {{.from = 0, .to = 1}});
  std::vector<Clock::time_point> arrivals;
  const Clock::time_point start = Clock::now();
  std::thread receiving([&] {
    std::vector<std::byte> got(10000);
    for (int i = 0; i < 10; ++i) {
      arrivals.push_back(
          home.devices[1]
              ->receive(0, tag(i), got, Clock::now() + std::chrono::seconds(10), false)
              .arrived);
    }
  });
  const std::vector<std::byte> payload(10000);
  for (int i = 0; i < 10; ++i)
    home.devices[0]->send_since(1, tag(i), payload, start, /*by_computing_thread=*/false);
  receiving.join();
  CHECK(std::ranges::is_sorted(arrivals));
  const double total = std::chrono::duration<double>(arrivals.back() - start).count();
  CHECK(total == doctest::Approx(30e-3).epsilon(1e-3));
}

TEST_CASE("ledger/transport: senders of one link share it: 3 x 200 kB at 10 MB/s end after 60 ms") {
  const model::Cluster cluster = star(4, model::Seconds{1e-3}, model::BytesPerSecond{10e6});
  Emulated home(cluster, {{.from = 1, .to = 0}, {.from = 2, .to = 0}, {.from = 3, .to = 0}});
  std::vector<std::thread> threads;
  std::vector<double> ends(3);
  const Clock::time_point start = Clock::now();
  for (int i = 1; i <= 3; ++i) {
    threads.emplace_back([&, i] {
      const std::vector<std::byte> payload(200'000);
      home.devices[static_cast<std::size_t>(i)]->send(0, tag(i), payload);
    });
    threads.emplace_back([&, i] {
      std::vector<std::byte> got(200'000);
      const MessageTimes times =
          home.devices[0]->receive(i, tag(i), got, Clock::now() + std::chrono::seconds(10), false);
      ends[static_cast<std::size_t>(i - 1)] =
          std::chrono::duration<double>(times.arrived - start).count();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(std::ranges::max(ends) >= 62e-3 * 0.999);
}

// The ledger's pieces against max-min shares, which SimGrid is held against too: within 2%. In
// emulated time, which is all that reservations depend on: each sender asks for its next piece when
// the one before has left.
TEST_CASE("ledger/reserve: a shared medium is shared max-min within 2%: six flows, unequal") {
  constexpr double kBandwidth = 20e6;
  const model::Cluster cluster = tandem::test::medium_of(kBandwidth);
  const auto flows = tandem::test::medium_flows();
  const std::vector<double> expected = tandem::test::max_min_ends(flows, kBandwidth);
  Ledger ledger(cluster);
  const Clock::time_point start{};
  std::vector<Clock::time_point> ends(flows.size(), start);
  std::vector<std::size_t> left;
  for (const auto& flow : flows) left.push_back(flow.bytes);
  while (true) {
    std::size_t next = flows.size();
    for (std::size_t i = 0; i < flows.size(); ++i) {
      if (left[i] > 0 && (next == flows.size() || ends[i] < ends[next])) next = i;
    }
    if (next == flows.size()) break;
    const model::Route& route = cluster.route(flows[next].from, flows[next].to);
    const std::size_t bytes =
        std::min(left[next], LedgerTransport::piece_bytes(cluster, route, 1.0));
    ends[next] = ledger.reserve(route.hops, bytes, ends[next]);
    left[next] -= bytes;
  }
  for (std::size_t i = 0; i < flows.size(); ++i) {
    CAPTURE(i);
    CHECK(std::chrono::duration<double>(ends[i] - start).count() ==
          doctest::Approx(expected[i]).epsilon(0.02));
  }
}

TEST_CASE("ledger/transport: cancelling ends the sleep, a message due too late is an error") {
  const model::Cluster cluster = star(2, model::Seconds{1}, model::BytesPerSecond{25});
  Emulated home(cluster, {{.from = 0, .to = 1}});
  const Clock::time_point start = Clock::now();
  auto sending = std::async(std::launch::async, [&] {
    const std::vector<std::byte> payload(1500);  // a minute
    return error_of([&] { home.devices[0]->send(1, tag(0), payload); });
  });
  std::vector<std::byte> got(1500);
  CHECK(contains(error_of([&] {
                   home.devices[1]->receive(0, tag(0), got, Clock::now() + milliseconds(2000),
                                            false);
                 }),
                 "still on the emulated link"));
  home.devices[0]->cancel("worker 3 is gone");
  CHECK(contains(sending.get(), "worker 3 is gone"));
  CHECK(seconds_since(start) < 30.0);
}

}  // namespace tandem::exec::ledger_test
