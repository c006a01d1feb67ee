// A worker's door: who is let in, who is told what.

#include "exec/transport/reception.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "tests/exec/transport/transport_pair.hpp"

namespace tandem::exec::reception_test {

using namespace tandem::exec::test;

namespace {

struct Door {
  explicit Door(ReceptionTimes times = {}) {
    Listener listener = local_listener(key);
    endpoint = listener.endpoint();
    reception = std::make_unique<Reception>(std::move(listener), times);
  }
  [[nodiscard]] static Hello hello_of(const SessionId& session, model::DeviceIndex worker = 1) {
    Hello hello = control_hello(worker);
    hello.session = session;
    return hello;
  }
  // What a client is told; "" if it is welcome.
  [[nodiscard]] std::future<std::string> call(const Hello& hello) const {
    return std::async(std::launch::async, [this, hello] {
      return error_of([&] {
        const Connection connection =
            connect_to(endpoint, key, hello, within(milliseconds(60'000)),
                       [](model::DeviceIndex d) { return d == 1 ? "laptop" : "phone"; });
      });
    });
  }
  Key key = random_key();
  Endpoint endpoint;
  std::unique_ptr<Reception> reception;
};

}  // namespace

TEST_CASE("transport/reception: a second master is told at once that the worker is busy") {
  Door door({.doubt = milliseconds(100)});
  auto first = door.call(Door::hello_of(random_session()));
  const auto served = door.reception->next_master(within(milliseconds(60'000)));
  REQUIRE(served.has_value());
  CHECK(first.get() == "");
  // Nobody asks for the next master: the worker computes.
  const Clock::time_point start = Clock::now();
  const std::string told = door.call(Door::hello_of(random_session())).get();
  CHECK(contains(told, "laptop at 127.0.0.1:"));
  CHECK(contains(told, "busy with another run (from 127.0.0.1, for "));
  CHECK(seconds_since(start) < kAtOnce);
  // And once that run is left, the next one is welcome.
  door.reception->leave();
  auto next = door.call(Door::hello_of(random_session()));
  CHECK(door.reception->next_master(within(milliseconds(60'000))).has_value());
  CHECK(next.get() == "");
}

TEST_CASE("transport/reception: a master that comes while a run ends waits for its end") {
  Door door({.doubt = milliseconds(50), .ending = milliseconds(4000)});
  auto first = door.call(Door::hello_of(random_session()));
  REQUIRE(door.reception->next_master(within(milliseconds(60'000))).has_value());
  CHECK(first.get() == "");
  door.reception->watch([] { return true; });
  auto second = door.call(Door::hello_of(random_session()));
  CHECK(second.wait_for(milliseconds(400)) == std::future_status::timeout);
  door.reception->leave();
  CHECK(door.reception->next_master(within(milliseconds(60'000))).has_value());
  CHECK(second.get() == "");
}

TEST_CASE("transport/reception: one worker for two devices of a run is refused by both names") {
  Door door;
  const SessionId session = random_session();
  auto first = door.call(Door::hello_of(session, 1));
  REQUIRE(door.reception->next_master(within(milliseconds(60'000))).has_value());
  CHECK(first.get() == "");
  const std::string told = door.call(Door::hello_of(session, 2)).get();
  CHECK(contains(told, "phone at 127.0.0.1:"));
  CHECK(contains(told, "the worker that serves laptop"));

  // Also if both came before either was served, as they do.
  door.reception->leave();
  auto one = door.call(Door::hello_of(session, 1));
  auto two = door.call(Door::hello_of(session, 2));
  std::this_thread::sleep_for(milliseconds(100));
  REQUIRE(door.reception->next_master(within(milliseconds(60'000))).has_value());
  const std::string both = one.get() + two.get();
  CHECK(contains(both, "the worker that serves "));
  CHECK_FALSE(contains(both, "busy"));
}

TEST_CASE("transport/reception: channels of the present run are let in, others refused") {
  Door door;
  const SessionId session = random_session();
  auto first = door.call(Door::hello_of(session));
  REQUIRE(door.reception->next_master(within(milliseconds(60'000))).has_value());
  CHECK(first.get() == "");
  Hello channel = Door::hello_of(session);
  channel.purpose = Purpose::channel;
  CHECK(door.call(channel).get() == "");
  CHECK(door.reception->next_channel(within(milliseconds(60'000))).has_value());
  channel.session = random_session();
  CHECK(contains(door.call(channel).get(), "expects no such connection"));
  channel.session = session;
  channel.peer = 2;
  CHECK(contains(door.call(channel).get(), "expects no such connection"));
  CHECK_FALSE(door.reception->next_channel(within(milliseconds(50))).has_value());
}

TEST_CASE("transport/connection: all are called at once, and all that fail are named") {
  Door near;
  const ListenSocket silent({.host = "127.0.0.1"}, true);  // answers nobody
  Endpoint nobody;
  {
    const ListenSocket taken({.host = "127.0.0.1"}, true);
    nobody = taken.endpoint();
  }
  const auto names = [](model::DeviceIndex d) { return "device-" + std::to_string(d); };
  const auto dial = [](const Endpoint& endpoint, int d) {
    return Dial{.endpoint = endpoint, .hello = control_hello(d)};
  };
  auto welcoming = std::async(std::launch::async, [&] {
    static_cast<void>(near.reception->next_master(within(milliseconds(60'000))));
  });
  std::atomic<int> open = 0;
  const Clock::time_point start = Clock::now();
  SUBCASE("those that nobody listens for end the others' waiting") {
    const std::string text = error_of([&] {
      connect_all(
          {dial(nobody, 1), dial(silent.endpoint(), 2), dial(near.endpoint, 3), dial(nobody, 4)},
          near.key, within(milliseconds(60'000)), names, [&](std::size_t, Connection) { ++open; });
    });
    CHECK(contains(text, "cannot connect"));
    CHECK(contains(text, "device-1 at"));
    CHECK(contains(text, "device-4 at"));
    CHECK_FALSE(contains(text, "device-2"));
    CHECK(seconds_since(start) < kAtOnce);
  }
  SUBCASE("a silent one costs its deadline, once") {
    const std::string text = error_of([&] {
      connect_all({dial(silent.endpoint(), 1), dial(silent.endpoint(), 2), dial(near.endpoint, 3)},
                  near.key, within(milliseconds(3000)), names,
                  [&](std::size_t, Connection) { ++open; });
    });
    CHECK(contains(text, "in time"));
    CHECK(contains(text, "the same goes for"));
    CHECK(open == 1);
    CHECK(seconds_since(start) < kAtOnce);
  }
  SUBCASE("cancelled by another thread") {
    Cancellation cancellation;
    std::jthread other([&] {
      std::this_thread::sleep_for(milliseconds(50));
      cancellation.cancel("interrupted");
    });
    CHECK(error_of([&] {
            connect_all({dial(silent.endpoint(), 1), dial(near.endpoint, 3)}, near.key,
                        within(milliseconds(60'000), &cancellation), names,
                        [&](std::size_t, Connection) { ++open; });
          }) == "interrupted");
    CHECK(seconds_since(start) < kAtOnce);
  }
  static_cast<void>(near.call(control_hello(3)).wait_for(milliseconds(10)));
}

TEST_CASE("transport/connection: a name that is not resolved is an error, not a wait") {
  const Clock::time_point start = Clock::now();
  const std::string text = error_of([] {
    static_cast<void>(connect_to({.host = "no-such-host.invalid", .port = 7700}, random_key(),
                                 control_hello(), within(milliseconds(1000))));
  });
  CHECK(contains(text, "its name"));
  CHECK(seconds_since(start) < kAtOnce);
}

}  // namespace tandem::exec::reception_test
