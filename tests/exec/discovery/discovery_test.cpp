// Workers in processes of their own, asked about their machine and their links.

#include "exec/discovery/discovery.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

#include "exec/transport/control.hpp"
#include "model/base/error.hpp"
#include "tests/exec/session/session_processes.hpp"
#include "tests/exec/transport/transport_pair.hpp"
#include "tests/exec/weights/weights_support.hpp"

namespace tandem::test::discovery_test {

using namespace tandem::exec;
using exec::test::contains;
using exec::test::error_of;
using exec::test::within;
using testing::TemporaryFolder;
using testing::Workers;

namespace {

DiscoveryOptions options_of(const Workers& workers, const Key& key) {
  DiscoveryOptions options;
  options.key = key;
  for (std::size_t w = 1; w < workers.endpoints().size(); ++w)
    options.hosts.push_back({.name = "", .endpoint = workers.endpoints()[w], .local = false});
  options.profile.model = to_config_json(testing::small_llama());
  options.profile.milliseconds = 100;
  options.walked = model::Bytes{64.0 * 1024};
  options.stream = std::chrono::milliseconds(40);
  return options;
}

Endpoint closed_port() {
  const ListenSocket socket({.host = "127.0.0.1"}, true);
  return socket.endpoint();
}

// A master's connection with a worker that `first` is said to.
struct Master {
  Master(const Endpoint& endpoint, const Key& key, model::DeviceIndex worker)
      : index(worker), connection(connect(endpoint, key, worker)) {
    std::vector<ControlPeer> peers;
    peers.push_back({.device = worker, .connection = std::move(connection)});
    control = std::make_unique<Control>(std::move(peers), ControlOptions{});
  }
  static Connection connect(const Endpoint& endpoint, const Key& key, model::DeviceIndex worker) {
    return connect_to(endpoint, key,
                      {.role = Role::master,
                       .purpose = Purpose::control,
                       .session = random_session(),
                       .device = 90,
                       .peer = worker},
                      within(std::chrono::milliseconds(5000)));
  }
  template <class Answer>
  Answer ask(const Message& message) const {
    control->send(index, message);
    return control->expect<Answer>(index, Clock::now() + std::chrono::seconds(20));
  }
  model::DeviceIndex index;
  Connection connection;
  std::unique_ptr<Control> control;
};

}  // namespace

TEST_CASE("discovery: three workers of one machine are profiled, named apart and measured") {
  const TemporaryFolder folder;
  const Key key = random_key();
  const Workers workers(folder.path(), 3, key);
  std::size_t profiles = 0;
  DiscoveryOptions options = options_of(workers, key);
  options.hosts[1].name = "board";
  options.on_profile = [&](const DiscoveredDevice&) { ++profiles; };
  Discoverer discoverer(options);
  const Discovery found = discoverer.run();
  CHECK(found.faults.empty());
  REQUIRE(found.devices.size() == 3);
  CHECK(profiles == 3);
  CHECK(found.devices[0].local);  // the first on this machine
  CHECK_FALSE(found.devices[1].local);
  CHECK(found.devices[1].name == "board");
  CHECK(found.devices[2].name == found.devices[0].name + "-2");
  for (const DiscoveredDevice& device : found.devices) {
    CHECK(device.about.memory_bytes > 0);
    CHECK(device.about.disk_bytes > 0);
    CHECK(device.profile.threads == 1);
  }
  CHECK(found.network.latencies.size() == 3);
  CHECK(found.network.trials.size() == trials_of(3).size());
  for (const Trial& trial : found.network.trials) {
    for (const Flow& flow : trial) CHECK(flow.rate > 0.0);
  }
  const NetworkSegments network = infer_network(found.network);
  CHECK(network.segments.size() >= 3);
  // Kept by the workers, and the same now.
  const Discovery again = Discoverer(options_of(workers, key)).run();
  REQUIRE(again.devices.size() == 3);
  for (std::size_t d = 0; d < 3; ++d) CHECK(again.devices[d].profile == found.devices[d].profile);
}

TEST_CASE("discovery: what does not answer is one line each, and the rest is kept") {
  const TemporaryFolder folder;
  const Key key = random_key();
  const Workers workers(folder.path() / "a", 2, key);
  const Workers strangers(folder.path() / "b", 1, random_key());
  std::filesystem::create_directories(folder.path() / "a");
  DiscoveryOptions options = options_of(workers, key);
  options.hosts.push_back({.name = "stranger", .endpoint = strangers.endpoints()[1]});
  options.hosts.push_back({.name = "gone", .endpoint = closed_port()});
  // The first worker under another name.
  options.hosts.push_back(
      {.name = "twice", .endpoint = {.host = "localhost", .port = workers.endpoints()[1].port}});
  const Discovery found = Discoverer(options).run();
  CHECK(found.devices.size() == 2);
  REQUIRE(found.faults.size() == 3);
  const auto has = [&](const std::string& start, const std::string& part) {
    return std::ranges::any_of(found.faults, [&](const std::string& fault) {
      return fault.starts_with(start) && contains(fault, part);
    });
  };
  CHECK(has("stranger at 127.0.0.1:", "expected a tandem worker with the same key"));
  CHECK(has("gone at 127.0.0.1:", "cannot connect: Connection refused"));
  CHECK(std::ranges::any_of(found.faults, [&](const std::string& fault) {
    return contains(fault, "in this run already");
  }));
}

TEST_CASE("discovery: one worker by two addresses is a fault that names the other address") {
  const TemporaryFolder folder;
  const Key key = random_key();
  const Workers workers(folder.path(), 1, key);
  DiscoveryOptions options = options_of(workers, key);
  options.hosts.push_back(
      {.name = "", .endpoint = {.host = "localhost", .port = workers.endpoints()[1].port}});
  const Discovery found = Discoverer(options).run();
  CHECK(found.devices.size() == 1);
  REQUIRE(found.faults.size() == 1);
  CAPTURE(found.faults[0]);
  const std::string port = ":" + std::to_string(workers.endpoints()[1].port);
  CHECK((contains(found.faults[0], "the worker that serves localhost" + port) ||
         contains(found.faults[0], "the worker that serves 127.0.0.1" + port)));
}

TEST_CASE("discovery: a worker that stops while links are measured ends it, with its name") {
  const TemporaryFolder folder;
  const Key key = random_key();
  const Workers workers(folder.path(), 3, key);
  // After the first round trip; and when streams begin, which would wait for it without end.
  for (const std::size_t when : {std::size_t{1}, std::size_t{3}}) {
    CAPTURE(when);
    DiscoveryOptions options = options_of(workers, key);
    for (std::size_t h = 0; h < 3; ++h) options.hosts[h].name = "board" + std::to_string(h + 1);
    options.silence = std::chrono::milliseconds(1500);
    // Longer than what the sockets hold.
    options.stream = std::chrono::milliseconds(3000);
    options.progress = [&](DiscoveryStage stage, std::size_t done, std::size_t) {
      if (stage == DiscoveryStage::links && done == when) ::kill(workers.pid(3), SIGSTOP);
    };
    const Clock::time_point start = Clock::now();
    const std::string fault = error_of([&] { static_cast<void>(Discoverer(options).run()); });
    ::kill(workers.pid(3), SIGCONT);
    CAPTURE(fault);
    CHECK(contains(fault, "board3 at 127.0.0.1:"));
    CHECK(contains(fault, "silent for"));
    CHECK(exec::test::seconds_since(start) < exec::test::kAtOnce);
    CHECK(testing::eventually(
        [&] {
          return workers.count_in_log(3, "begins") ==
                 workers.count_in_log(3, "is done") + workers.count_in_log(3, "failed");
        },
        std::chrono::milliseconds(20'000)));
  }
}

TEST_CASE("discovery: a profile that this machine cannot keep ends it, and no device is blamed") {
  const TemporaryFolder folder;
  const Key key = random_key();
  const Workers workers(folder.path(), 2, key);
  DiscoveryOptions options = options_of(workers, key);
  options.on_profile = [kept = 0](const DiscoveredDevice&) mutable {
    if (++kept == 2) throw Error("home: disk full");
  };
  CHECK(error_of([&] { static_cast<void>(Discoverer(options).run()); }) == "home: disk full");
}

TEST_CASE("discovery: a worker in a session is busy, and if none is left that is the error") {
  const TemporaryFolder folder;
  const Key key = random_key();
  const Workers workers(folder.path(), 1, key);
  const Master master(workers.endpoints()[1], key, 1);
  const std::string fault =
      error_of([&] { static_cast<void>(Discoverer(options_of(workers, key)).run()); });
  CHECK(contains(fault, "no device is left"));
  CHECK(contains(fault, "busy with another run"));
}

TEST_CASE("discovery: a link that fails is a fault in its answer, and is not ordered twice") {
  const TemporaryFolder folder;
  const Key key = random_key();
  const Workers workers(folder.path(), 1, key);
  const Master master(workers.endpoints()[1], key, 1);
  CHECK(master.ask<About>(Inquiry{}).cores >= 1);
  const LinkOrder link{.peer = 2, .name = "phone", .address = to_text(closed_port())};
  CHECK(contains(master.ask<ProbeAnswer>(link).fault, "phone at 127.0.0.1:"));
  CHECK(contains(master.ask<ProbeAnswer>(link).fault, "expected another one, once"));
  const LinkOrder itself{.peer = 1, .name = "me", .address = to_text(closed_port())};
  CHECK(contains(master.ask<ProbeAnswer>(itself).fault, "expected another one, once"));
  ProbeOrder probe{.kind = ProbeKind::streams, .to = {7}, .milliseconds = 10};
  CHECK(contains(master.ask<ProbeAnswer>(probe).fault, "no link is open"));
  // A plan is not offered in such a session.
  const std::string fault =
      error_of([&] { static_cast<void>(master.ask<ProbeAnswer>(Message{Ready{}})); });
  CHECK(contains(fault, "sent Ready, expected ProfileOrder"));
}

TEST_CASE("discovery: cancelled while profiles are measured, it ends at once with the reason") {
  const TemporaryFolder folder;
  const Key key = random_key();
  const Workers workers(folder.path(), 1, key);
  DiscoveryOptions options = options_of(workers, key);
  options.profile.milliseconds = 60'000;
  Discoverer discoverer(options);
  std::jthread cancels([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    discoverer.cancel("the user has had enough");
  });
  const Clock::time_point start = Clock::now();
  CHECK(error_of([&] { static_cast<void>(discoverer.run()); }) == "the user has had enough");
  CHECK(exec::test::seconds_since(start) < exec::test::kAtOnce);
  // The worker serves the next one.
  CHECK(testing::eventually(
      [&] {
        const std::string fault =
            error_of([&] { static_cast<void>(Discoverer(options_of(workers, key)).run()); });
        CHECK((fault.empty() || contains(fault, "busy")));  // until the step under way is done
        return fault.empty();
      },
      std::chrono::milliseconds(60'000)));
}

}  // namespace tandem::test::discovery_test
