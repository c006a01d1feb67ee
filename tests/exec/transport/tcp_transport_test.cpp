#include <doctest/doctest.h>
#include <sys/socket.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "exec/transport/measure.hpp"
#include "tests/exec/transport/transport_pair.hpp"

namespace tandem::exec::tcp_transport_test {

using namespace tandem::exec::test;

namespace {

const std::vector<ChannelId> both_ways{{.from = 0, .to = 1}, {.from = 1, .to = 0}};

std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 131 + seed);
  return bytes;
}

MessageTag tag(int task) { return {.step = 1, .task = task}; }

Clock::time_point soon(int ms = 5000) { return Clock::now() + milliseconds(ms); }

}  // namespace

TEST_CASE("transport/tcp: payloads of any size arrive, in order, bit by bit") {
  for (const bool secure : {false, true}) {
    for (const bool spin : {false, true}) {
      Mesh mesh = open_mesh(2, both_ways, secure ? std::optional(random_key()) : std::nullopt);
      const std::vector<std::size_t> sizes{0,     1,     3,     17,     8192,
                                           16368, 16369, 65536, 100003, std::size_t{3} << 20};
      auto sending = std::async(std::launch::async, [&] {
        for (std::size_t i = 0; i < sizes.size(); ++i) {
          mesh.devices[1]->send(0, tag(static_cast<int>(i)),
                                pattern(sizes[i], static_cast<unsigned>(i)));
        }
      });
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        CAPTURE(sizes[i]);
        std::vector<std::byte> got(sizes[i]);
        const Clock::time_point before = Clock::now();
        const MessageTimes times =
            mesh.devices[0]->receive(1, tag(static_cast<int>(i)), got, soon(), spin);
        CHECK(got == pattern(sizes[i], static_cast<unsigned>(i)));
        CHECK(times.arrived >= before);
        CHECK(times.arrived <= Clock::now());
        CHECK(times.sent <= times.arrived);
      }
      sending.get();
    }
  }
}

TEST_CASE("transport/tcp: another tag or size than expected names both") {
  const auto attempt = [](MessageTag sent, std::size_t bytes) {
    Mesh mesh = open_mesh(2, both_ways, random_key());
    mesh.devices[0]->send(1, sent, pattern(bytes, 0));
    std::vector<std::byte> payload(16);
    return error_of(
        [&] { mesh.devices[1]->receive(0, {.step = 3, .task = 40}, payload, soon(), true); });
  };
  CHECK(attempt({.step = 3, .task = 40}, 16).empty());
  for (const std::string& text :
       {attempt({.step = 3, .task = 41}, 16), attempt({.step = 2, .task = 40}, 16),
        attempt({.step = 3, .task = 40}, 17)}) {
    CHECK(contains(text, "device 0: sent step "));
    CHECK(contains(text, "expected step 3 task 40 of 16 bytes"));
    CHECK(contains(text, "same plan"));
  }
}

TEST_CASE("transport/tcp: a message cut at any byte is an error at once") {
  const std::vector<std::byte> payload = pattern(40, 1);
  std::vector<std::byte> frame(kDataHeaderBytes);
  encode_data_header({.tag = tag(0), .bytes = payload.size()},
                     std::span(frame).first<kDataHeaderBytes>());
  frame.insert(frame.end(), payload.begin(), payload.end());
  Hello hello = control_hello();
  hello.purpose = Purpose::channel;
  for (std::size_t size = 0; size < frame.size(); ++size) {
    CAPTURE(size);
    Connected pair = connect_pair(std::nullopt, hello);
    pair.client.write_all(std::span(frame).first(size), within(milliseconds(1000)));
    std::vector<ChannelEnd> ends;
    ends.push_back({.peer = 0, .sends = false, .connection = std::move(pair.server)});
    TcpTransport transport(1, std::move(ends), std::make_shared<Cancellation>());
    { const Connection closing = std::move(pair.client); }
    std::vector<std::byte> got(payload.size());
    const std::string text =
        error_of([&] { transport.receive(0, tag(0), got, soon(3000), size % 2 == 0); });
    CHECK(contains(text, "device 0: closed the connection"));
  }
}

TEST_CASE("transport/tcp: nothing by the deadline is an error then, and not before") {
  for (const bool spin : {false, true}) {
    Mesh mesh = open_mesh(2, both_ways, random_key());
    std::vector<std::byte> payload(16);
    const Clock::time_point start = Clock::now();
    CHECK(contains(error_of([&] { mesh.devices[1]->receive(0, tag(0), payload, soon(100), spin); }),
                   "device 0: sent nothing in time"));
    CHECK(seconds_since(start) >= 0.1);
    CHECK(seconds_since(start) < kAtOnce);
  }
}

TEST_CASE("transport/tcp: cancelling wakes senders and receivers, and stays") {
  Mesh mesh = open_mesh(2, both_ways, random_key());
  const std::vector<std::byte> large(std::size_t{64} << 20);
  const Clock::time_point start = Clock::now();
  auto sending = std::async(std::launch::async, [&] {
    return error_of([&] { mesh.devices[0]->send(1, tag(0), large); });  // nobody reads
  });
  auto receiving = std::async(std::launch::async, [&] {
    std::vector<std::byte> payload(16);
    return error_of([&] { mesh.devices[0]->receive(1, tag(0), payload, soon(60000), false); });
  });
  std::this_thread::sleep_for(milliseconds(100));
  mesh.devices[0]->cancel("worker 3 is gone");
  mesh.devices[0]->cancel("second reason");
  CHECK(contains(sending.get(), "worker 3 is gone"));
  CHECK(contains(receiving.get(), "worker 3 is gone"));
  CHECK(seconds_since(start) < kAtOnce);
  std::vector<std::byte> payload(16);
  CHECK(contains(error_of([&] { mesh.devices[0]->send(1, tag(1), payload); }), "worker 3"));
  CHECK(contains(error_of([&] { mesh.devices[0]->receive(1, tag(1), payload, soon(), true); }),
                 "worker 3"));
}

TEST_CASE("transport/tcp: a receiver that computes for long is waited for, by both ends") {
  Mesh mesh = open_mesh(2, both_ways, random_key());
  const std::vector<std::byte> large = pattern(std::size_t{16} << 20, 5);
  auto sending = std::async(std::launch::async, [&] { mesh.devices[0]->send(1, tag(0), large); });
  CHECK(sending.wait_for(milliseconds(500)) == std::future_status::timeout);
  std::vector<std::byte> got(large.size());
  mesh.devices[1]->receive(0, tag(0), got, Clock::time_point::max(), false);
  sending.get();
  CHECK(got == large);
}

TEST_CASE("transport/tcp: small messages go at once until too many are unread, and never block") {
  Mesh mesh = open_mesh(2, both_ways, random_key());
  TcpTransport& sender = *mesh.devices[0];
  CHECK(sender.receives_inline(1, 8192));
  CHECK_FALSE(sender.receives_inline(1, std::size_t{1} << 20));
  CHECK_FALSE(sender.try_send(1, tag(0), pattern(std::size_t{1} << 20, 3)));
  const std::vector<std::byte> payload = pattern(8192, 3);
  int sent = 0;
  double worst = 0;
  for (bool went = true; went && sent < 100000; sent += went ? 1 : 0) {
    const Clock::time_point start = Clock::now();
    went = sender.try_send(1, tag(sent), payload).has_value();
    worst = std::max(worst, seconds_since(start));
  }
  CHECK(sent >= 8);
  CHECK(sent < 100000);
  CHECK(worst < 1.0);
  // The rest of the message that did not fit goes when there is room.
  auto rest = std::async(std::launch::async, [&] { sender.send(1, tag(sent), payload); });
  std::vector<std::byte> got(payload.size());
  for (int i = 0; i <= sent; ++i) {
    got.assign(got.size(), std::byte{0});
    mesh.devices[1]->receive(0, tag(i), got, soon(), false);
    if (got != payload) CHECK(i == -1);
  }
  rest.get();
  CHECK(sender.try_send(1, tag(sent + 1), payload));
}

TEST_CASE("transport/tcp: five devices, every channel at once") {
  constexpr int kDevices = 5;
  constexpr int kMessages = 30;
  std::vector<ChannelId> all;
  for (int from = 0; from < kDevices; ++from) {
    for (int to = 0; to < kDevices; ++to) {
      if (from != to) all.push_back({.from = from, .to = to});
    }
  }
  Mesh mesh = open_mesh(kDevices, all, random_key());
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  std::atomic<int> right = 0;
  for (const ChannelId& channel : all) {
    threads.emplace_back([&, channel] {
      for (int i = 0; i < kMessages; ++i) {
        mesh.devices[static_cast<std::size_t>(channel.from)]->send(
            channel.to, tag(i), pattern(997, static_cast<unsigned>(channel.from * 8 + i)));
      }
    });
    threads.emplace_back([&, channel] {
      std::vector<std::byte> got(997);
      for (int i = 0; i < kMessages; ++i) {
        mesh.devices[static_cast<std::size_t>(channel.to)]->receive(channel.from, tag(i), got,
                                                                    soon(20000), i % 2 == 0);
        ++(got == pattern(997, static_cast<unsigned>(channel.from * 8 + i)) ? right : wrong);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(right == static_cast<int>(all.size()) * kMessages);
}

TEST_CASE("transport/tcp: channels that do not exist or exist twice are the caller's fault") {
  Mesh mesh = open_mesh(2, {{.from = 0, .to = 1}}, std::nullopt);
  std::vector<std::byte> payload(4);
  CHECK_THROWS_AS(mesh.devices[1]->send(0, tag(0), payload), std::logic_error);
  CHECK_THROWS_AS(mesh.devices[0]->send(2, tag(0), payload), std::logic_error);
  CHECK_THROWS_AS(mesh.devices[0]->send(-1, tag(0), payload), std::logic_error);
  CHECK_THROWS_AS(mesh.devices[0]->receive(1, tag(0), payload, soon(), false), std::logic_error);
  Connected first = connect_pair(std::nullopt);
  std::vector<ChannelEnd> ends;
  ends.push_back({.peer = 1, .sends = true, .connection = std::move(first.client)});
  ends.push_back({.peer = 1, .sends = true, .connection = std::move(first.server)});
  CHECK_THROWS_AS(TcpTransport(0, std::move(ends), std::make_shared<Cancellation>()),
                  std::logic_error);
}

TEST_CASE("transport/mesh: the channels of a device are those that it has room for, each once") {
  const std::vector<model::ChannelRoom> rooms{{.peer = 2, .bytes = 32},
                                              {.peer = 1, .outgoing = true, .bytes = 32}};
  CHECK(channels_of(rooms, 0) ==
        std::vector<ChannelId>{{.from = 0, .to = 1}, {.from = 2, .to = 0}});
  CHECK(channels_of({}, 3).empty());
}

TEST_CASE("transport/mesh: strangers of another session are dropped, missing channels are named") {
  const Key key = random_key();
  Listener listener = local_listener(key);
  MeshOptions options;
  options.self = 1;
  options.session = random_session();
  options.channels = both_ways;
  options.key = key;
  auto stranger = std::async(std::launch::async, [&] {
    Hello hello = control_hello();
    hello.purpose = Purpose::channel;
    hello.session = random_session();
    Connection connection = connect_to(listener.endpoint(), key, hello, within(milliseconds(2000)));
    return error_of(
        [&] { static_cast<void>(connection.read_message(within(milliseconds(2000)))); });
  });
  const std::string text = error_of([&] {
    static_cast<void>(open_channels(options, client_of(listener), within(milliseconds(300))));
  });
  CHECK(contains(text,
                 "channels device 0 -> device 1, device 1 -> device 0 were not opened in time"));
  CHECK(contains(stranger.get(), "closed the connection"));
}

TEST_CASE("transport/measure: a message costs something, and not less when it is longer") {
  const auto [rate, inlined] = measure_message_cost(model::Bytes{1e5});
  CHECK(rate.overhead_s > 1e-6);
  CHECK(rate.overhead_s < 0.1);
  REQUIRE(rate.points.size() == 1);
  CHECK(rate.points[0].intensity == 1.0);
  CHECK(rate.points[0].seconds_per_byte >= 0.0);
  CHECK(rate.points[0].seconds_per_byte < 1e-5);
  for (const model::KindRate* part : {&inlined.send, &inlined.receive}) {
    CHECK(part->overhead_s > 1e-7);
    CHECK(part->overhead_s < rate.overhead_s + 1e-3);
    CHECK(part->points.at(0).seconds_per_byte > 0.0);  // TLS touches every byte
  }
  // What computing threads do is not the channel's.
  CHECK(inlined.transfer.overhead_s < rate.overhead_s + 1e-3);
}

}  // namespace tandem::exec::tcp_transport_test
