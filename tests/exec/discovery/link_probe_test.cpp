// Probes over loopback: what they return, and that they end.

#include "exec/discovery/link_probe.hpp"

#include <doctest/doctest.h>

#include <future>
#include <thread>

#include "tests/exec/transport/transport_pair.hpp"

namespace tandem::test::link_probe_test {

using namespace tandem::exec;
using tandem::exec::test::Mesh;
using tandem::exec::test::open_mesh;

TEST_CASE("discovery/link probe: round trips leave out what the peer spends between") {
  Mesh mesh = open_mesh(2, {{.from = 0, .to = 1}, {.from = 1, .to = 0}}, random_key());
  auto other = std::async(std::launch::async,
                          [&] { answer_round_trips(*mesh.devices[1], 0, model::Bytes{1 << 20}); });
  const model::Seconds half =
      ask_round_trips(*mesh.devices[0], 1, model::Bytes{1 << 20}, std::chrono::milliseconds(50));
  other.get();
  // The peer sleeps 400 microseconds and reads 1 MiB between two messages.
  CHECK(half.value() > 1e-6);
  CHECK(half.value() < 2e-2);
}

TEST_CASE(
    "discovery/link probe: a stream ends by itself, and its rate is its bytes over its time") {
  Mesh mesh = open_mesh(2, {{.from = 0, .to = 1}}, random_key());
  const Clock::time_point start = Clock::now();
  auto rate = std::async(std::launch::async, [&] {
    return receive_stream(*mesh.devices[1], 0, std::chrono::milliseconds(200));
  });
  send_stream(*mesh.devices[0], 1, std::chrono::milliseconds(200));
  CHECK(rate.get().value() > 1e6);
  CHECK(std::chrono::duration<double>(Clock::now() - start).count() < tandem::exec::test::kAtOnce);
}

TEST_CASE("discovery/link probe: cancelled, both ends of a probe fail with the reason") {
  Mesh mesh = open_mesh(2, {{.from = 0, .to = 1}, {.from = 1, .to = 0}}, random_key());
  auto receiver = std::async(std::launch::async, [&] {
    return tandem::exec::test::error_of([&] {
      static_cast<void>(receive_stream(*mesh.devices[1], 0, std::chrono::milliseconds(100)));
    });
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  mesh.cancellations[1]->cancel("the user has had enough");
  CHECK(receiver.get().find("the user has had enough") != std::string::npos);
}

}  // namespace tandem::test::link_probe_test
