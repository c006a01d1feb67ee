#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/exec/transport/transport_pair.hpp"

namespace tandem::exec::connection_test {

using namespace tandem::exec::test;

namespace {

// A client that is no tandem: a plain socket.
class Stranger {
 public:
  explicit Stranger(const Endpoint& endpoint) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(endpoint.port);
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    REQUIRE(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  ~Stranger() { ::close(socket_); }
  void say(std::span<const std::byte> bytes) const {
    ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void say(std::string_view text) const { say(std::as_bytes(std::span(text.data(), text.size()))); }
  // The first 8 bytes that come, or fewer at the end.
  [[nodiscard]] std::size_t hear() const {
    std::array<char, 8> bytes{};
    const ssize_t got = ::recv(socket_, bytes.data(), bytes.size(), MSG_WAITALL);
    return got < 0 ? 0 : static_cast<std::size_t>(got);
  }

 private:
  int socket_;
};

struct Rejections {
  std::mutex mutex;
  std::vector<std::string> reasons;
  [[nodiscard]] ListenerOptions options(milliseconds handshake = milliseconds(2000)) {
    ListenerOptions made;
    made.handshake = handshake;
    made.on_rejected = [this](const std::string& reason) {
      const std::lock_guard lock(mutex);
      reasons.push_back(reason);
    };
    return made;
  }
  [[nodiscard]] bool any(const std::string& part) {
    const std::lock_guard lock(mutex);
    return std::ranges::any_of(reasons, [&](const auto& r) { return contains(r, part); });
  }
};

// While it lives, this process may open `more` descriptors beside those that are open, at most.
class FewDescriptors {
 public:
  explicit FewDescriptors(int more) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    rlimit few = before_;
    for (few.rlim_cur = 0; more >= 0; ++few.rlim_cur) {
      if (::fcntl(static_cast<int>(few.rlim_cur), F_GETFD) < 0 && more-- == 0) break;
    }
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// Accepts with `server_key` while `client` connects; what the client says.
template <class Client>
std::string refused(const std::optional<Key>& server_key, Rejections& rejections, Client client) {
  Listener listener = local_listener(server_key, rejections.options());
  std::atomic<bool> done = false;
  std::string text;
  std::thread thread([&] {
    text = error_of([&] { client(listener.endpoint()); });
    done = true;
  });
  bool came = false;
  while (!done) came |= listener.accept(within(milliseconds(20))).has_value();
  // What the client left behind.
  came |= listener.accept(within(milliseconds(20))).has_value();
  thread.join();
  CHECK_FALSE(came);
  return text;
}

}  // namespace

TEST_CASE("transport/connection: bytes go both ways, encrypted or plain") {
  for (const bool secure : {false, true}) {
    CAPTURE(secure);
    const std::optional<Key> key = secure ? std::optional(random_key()) : std::nullopt;
    Connected pair = connect_pair(key);
    CHECK(pair.client.encrypted() == secure);
    CHECK(pair.server.encrypted() == secure);
    for (const std::size_t size : std::initializer_list<std::size_t>{1, 7, 16384, 16385, 3 << 20}) {
      CAPTURE(size);
      std::vector<std::byte> sent(size);
      for (std::size_t i = 0; i < size; ++i) sent[i] = static_cast<std::byte>(i * 31 + size);
      auto writing = std::async(std::launch::async,
                                [&] { pair.client.write_all(sent, within(milliseconds(60'000))); });
      std::vector<std::byte> got(size);
      pair.server.read_all(got, within(milliseconds(60'000)));
      writing.get();
      CHECK(got == sent);
    }
    pair.server.write_message(Abort{.reason = "enough"}, within(milliseconds(60'000)));
    const Message message = pair.client.read_message(within(milliseconds(60'000)));
    CHECK(std::get<Abort>(message).reason == "enough");
  }
}

TEST_CASE("transport/connection: what goes over an encrypted one cannot be read beside it") {
  // A stranger as server sees the client's bytes: no Hello in them.
  const ListenSocket socket({.host = "127.0.0.1"}, true);
  auto client = std::async(std::launch::async, [&] {
    return error_of([&] {
      static_cast<void>(
          connect_to(socket.endpoint(), random_key(), control_hello(), within(milliseconds(2000))));
    });
  });
  const int peer = ::accept(socket.descriptor(), nullptr, nullptr);
  std::string seen(2000, '\0');
  const ssize_t size = ::recv(peer, seen.data(), seen.size(), 0);
  REQUIRE(size > 0);
  seen.resize(static_cast<std::size_t>(size));
  CHECK(seen.starts_with("\x16\x03"));        // a TLS handshake record
  CHECK_FALSE(contains(seen, "tandem\r\n"));  // Hello's first word
  CHECK(contains(client.get(), "in time"));
  ::close(peer);
}

TEST_CASE("transport/connection: another key is one clear error on both sides, at once") {
  Rejections rejections;
  const Clock::time_point start = Clock::now();
  const std::string text = refused(random_key(), rejections, [](const Endpoint& endpoint) {
    static_cast<void>(
        connect_to(endpoint, random_key(), control_hello(), within(milliseconds(60'000))));
  });
  CHECK(contains(text, "its key is another one"));
  CHECK(contains(text, "copy one key file to every device"));
  CHECK_FALSE(contains(text, "sslv3"));
  CHECK(rejections.any("handshake failed (its key is another one)"));
  CHECK(seconds_since(start) < kAtOnce);
}

TEST_CASE("transport/connection: a key on one side only is refused, and both sides say so") {
  const auto text_of = [](const std::optional<Key>& server, const std::optional<Key>& client,
                          Rejections& rejections) {
    return refused(server, rejections, [&](const Endpoint& endpoint) {
      static_cast<void>(
          connect_to(endpoint, client, control_hello(), within(milliseconds(60'000))));
    });
  };
  Rejections with_key;
  CHECK(
      contains(text_of(random_key(), std::nullopt, with_key), "it uses a key and this side none"));
  CHECK(with_key.any("it uses no key; start it with --key FILE"));
  Rejections without;
  CHECK(contains(text_of(std::nullopt, random_key(), without), "it uses no key; start it with"));
  CHECK(without.any("it uses a key and this side none; start both with the same --key FILE"));
}

TEST_CASE("transport/connection: the key proves the role, a Hello that says another is refused") {
  // A worker's identity cannot open a control connection.
  Rejections rejections;
  const Key key = random_key();
  Hello hello = control_hello(1);
  hello.role = Role::worker;
  hello.device = 2;
  const std::string text = refused(key, rejections, [&](const Endpoint& endpoint) {
    static_cast<void>(connect_to(endpoint, key, hello, within(milliseconds(60'000))));
  });
  CHECK_FALSE(text.empty());
  CHECK(rejections.any("for what it may not"));
}

TEST_CASE("transport/connection: a Hello of another version names both versions to both") {
  Rejections rejections;
  const Key key = random_key();
  Hello hello = control_hello();
  hello.version = kWireVersion + 1;
  const std::string text = refused(key, rejections, [&](const Endpoint& endpoint) {
    static_cast<void>(connect_to(endpoint, key, hello, within(milliseconds(60'000))));
  });
  CHECK_FALSE(text.empty());
  CHECK(rejections.any("version " + std::to_string(kWireVersion + 1)));
  CHECK(rejections.any("expected " + std::to_string(kWireVersion)));
}

TEST_CASE("transport/connection: a worker of another version is no matter of keys") {
  // As the Hello of this version, but for the number after the first word.
  const std::vector<std::byte> hello = encode(control_hello());
  std::vector<std::byte> other = hello;
  other.at(kFrameHeaderBytes + 8) = std::byte{kWireVersion + 1};
  const ListenSocket socket({.host = "127.0.0.1"}, false);
  std::thread worker([&] {
    const int client = ::accept(socket.descriptor(), nullptr, nullptr);
    std::vector<std::byte> heard(hello.size());
    static_cast<void>(::recv(client, heard.data(), heard.size(), MSG_WAITALL));
    ::send(client, other.data(), other.size(), MSG_NOSIGNAL);
    ::close(client);
  });
  const std::string text = error_of([&] {
    static_cast<void>(
        connect_to(socket.endpoint(), std::nullopt, control_hello(), within(milliseconds(60'000))));
  });
  worker.join();
  CHECK(contains(text, ": speaks version " + std::to_string(kWireVersion + 1) +
                           " of tandem's protocol, expected " + std::to_string(kWireVersion) +
                           "; install the same tandem on every device"));
  CHECK_FALSE(contains(text, "--key"));
}

TEST_CASE("transport/connection: a lack of descriptors is named on either side") {
  const Key key = random_key();
  Listener listener = local_listener(key);
  {
    const FewDescriptors none(0);
    const std::string text = error_of([&] {
      static_cast<void>(
          connect_to(listener.endpoint(), key, control_hello(), within(milliseconds(60'000))));
    });
    CHECK(contains(text, "Too many open files"));
    CHECK(contains(text, "raise `ulimit -n`"));
    CHECK_FALSE(contains(text, "check the address"));
  }
  int refusals = 0;
  for (int more = 0; more < 8; ++more) {
    CAPTURE(more);
    const FewDescriptors few(more);
    const std::string text = error_of([&] { static_cast<void>(local_listener(key)); });
    if (text.empty()) break;
    ++refusals;
    CHECK(contains(text, "raise `ulimit -n`"));
  }
  CHECK(refusals > 2);
  // A client for whom there is none waits, and the reason is given.
  Rejections rejections;
  Listener full = local_listener(std::nullopt, rejections.options());
  const Stranger client(full.endpoint());
  {
    const FewDescriptors none(0);
    CHECK_FALSE(full.accept(within(milliseconds(200))).has_value());
  }
  CHECK(rejections.any("a client: not accepted: Too many open files; this process may open"));
}

TEST_CASE("transport/connection: a device cannot connect to itself") {
  Rejections rejections;
  Hello hello = control_hello(0);
  CHECK_FALSE(refused(std::nullopt, rejections, [&](const Endpoint& endpoint) {
                static_cast<void>(
                    connect_to(endpoint, std::nullopt, hello, within(milliseconds(60'000))));
              }).empty());
}

TEST_CASE("transport/connection: without a key only loopback is bound or called") {
  for (const std::string host : {"0.0.0.0", "::", "192.0.2.1"}) {
    CAPTURE(host);
    const std::string text = error_of([&] { const ListenSocket socket({.host = host}, false); });
    CHECK(contains(text, "not a loopback address"));
    CHECK(contains(text, "--key FILE"));
  }
  const std::string text = error_of([] {
    static_cast<void>(connect_to({.host = "192.0.2.1", .port = 7700}, std::nullopt, control_hello(),
                                 within(milliseconds(60'000))));
  });
  CHECK(contains(text, "not a loopback address"));
  CHECK_NOTHROW(ListenSocket({.host = "0.0.0.0"}, true));
}

TEST_CASE("transport/connection: nobody there, a taken port and a bad name are clear errors") {
  Endpoint endpoint;
  {
    const ListenSocket socket({.host = "127.0.0.1"}, true);
    endpoint = socket.endpoint();
    CHECK(contains(error_of([&] { const ListenSocket other(endpoint, true); }), "free port"));
  }
  CHECK(contains(error_of([&] {
                   static_cast<void>(connect_to(endpoint, random_key(), control_hello(),
                                                within(milliseconds(60'000))));
                 }),
                 "cannot connect"));
  CHECK(contains(error_of([] { const ListenSocket socket({.host = "192.0.2.1"}, true); }),
                 "listen 192.0.2.1:0"));
}

TEST_CASE("transport/connection: a listener that never answers costs the deadline") {
  const ListenSocket socket({.host = "127.0.0.1"}, true);
  const Clock::time_point start = Clock::now();
  CHECK(contains(error_of([&] {
                   static_cast<void>(connect_to(socket.endpoint(), random_key(), control_hello(),
                                                within(milliseconds(200))));
                 }),
                 "in time"));
  CHECK(seconds_since(start) >= 0.2);
  CHECK(seconds_since(start) < kAtOnce);
}

TEST_CASE("transport/connection: a frame cut off in its header is no TLS record under a key") {
  for (const std::byte low : {std::byte{0x14}, std::byte{0x17}}) {  // 788 and 791 bytes
    Connected pair = connect_pair(random_key());
    pair.client.write_all(std::array{low, std::byte{3}}, within(milliseconds(5000)));
    static_cast<void>(Connection(std::move(pair.client)));  // closes
    CHECK(contains(
        error_of([&] { static_cast<void>(pair.server.read_message(within(milliseconds(5000)))); }),
        "closed the connection"));
  }
}

TEST_CASE("transport/connection: cancelling ends connecting, accepting, reading at once") {
  const ListenSocket silent({.host = "127.0.0.1"}, true);
  Listener listener = local_listener(std::nullopt);
  Connected pair = connect_pair(std::nullopt);
  Cancellation cancellation;
  const Patience patience = within(milliseconds(60'000), &cancellation);
  const Clock::time_point start = Clock::now();
  std::vector<std::future<std::string>> waiting;
  waiting.push_back(std::async(std::launch::async, [&] {
    return error_of([&] {
      static_cast<void>(connect_to(silent.endpoint(), random_key(), control_hello(), patience));
    });
  }));
  waiting.push_back(std::async(std::launch::async, [&] {
    return error_of([&] { static_cast<void>(listener.accept(patience)); });
  }));
  waiting.push_back(std::async(std::launch::async, [&] {
    return error_of([&] { static_cast<void>(pair.client.read_message(patience)); });
  }));
  std::this_thread::sleep_for(milliseconds(50));
  cancellation.cancel("worker 3 is gone");
  cancellation.cancel("too late to matter");
  for (auto& text : waiting) CHECK(contains(text.get(), "worker 3 is gone"));
  CHECK(seconds_since(start) < kAtOnce);
}

TEST_CASE("transport/listener: garbage, silence and floods cost their own connections only") {
  for (const bool secure : {false, true}) {
    CAPTURE(secure);
    const std::optional<Key> key = secure ? std::optional(random_key()) : std::nullopt;
    Rejections rejections;
    // As long as the good one may take on a busy machine; how soon a silent one is dropped is
    // below.
    ListenerOptions options = rejections.options(milliseconds(10'000));
    options.pending = 8;
    Listener listener = local_listener(key, options);
    const Endpoint endpoint = listener.endpoint();
    std::vector<std::unique_ptr<Stranger>> strangers;
    for (int i = 0; i < 40; ++i) {
      strangers.push_back(std::make_unique<Stranger>(endpoint));
      switch (i % 4) {
        case 0:
          break;  // says nothing
        case 1:
          strangers.back()->say("GET / HTTP/1.1\r\n\r\n");
          break;
        case 2:
          strangers.back()->say(encode(Goodbye{}));
          break;
        case 3:
          strangers.back()->say(encode(control_hello()));
          strangers.back()->say(std::string(4000, '\xff'));
          if (!secure) strangers.pop_back();  // would be a guest
          break;
      }
    }
    auto client = std::async(std::launch::async, [&] {
      return connect_to(endpoint, key, control_hello(5), within(milliseconds(60'000)));
    });
    std::optional<Incoming> incoming;
    for (int turn = 0; turn < 200 && (!incoming || incoming->hello.peer != 5); ++turn) {
      incoming = listener.accept(within(milliseconds(50)));
    }
    REQUIRE(incoming.has_value());
    CHECK(incoming->hello.peer == 5);
    incoming->welcome();
    CHECK_NOTHROW(client.get());
    CHECK(listener.accept(within(milliseconds(200))) == std::nullopt);
    CHECK(rejections.any("too many handshakes"));
    CHECK(strangers.front()->hear() == 0);  // closed
  }
}

TEST_CASE("transport/listener: who says nothing is dropped in time") {
  for (const bool secure : {false, true}) {
    CAPTURE(secure);
    Rejections rejections;
    Listener listener = local_listener(secure ? std::optional(random_key()) : std::nullopt,
                                       rejections.options(milliseconds(300)));
    const Stranger stranger(listener.endpoint());
    const Clock::time_point start = Clock::now();
    while (!rejections.any("slow handshake") && seconds_since(start) < kAtOnce) {
      CHECK(listener.accept(within(milliseconds(50))) == std::nullopt);
    }
    CHECK(seconds_since(start) >= 0.3);
    CHECK(rejections.any("slow handshake"));
    CHECK(stranger.hear() == 0);  // closed
  }
}

TEST_CASE("transport/listener: a client that fails in a way unheard of shuts the door on nobody") {
  bool fail = true;
  Listener listener = local_listener(std::nullopt, {.on_rejected = [&fail](const std::string&) {
                                       if (std::exchange(fail, false)) throw std::bad_alloc();
                                     }});
  const Stranger stranger(listener.endpoint());
  stranger.say(std::string(100, '\xff'));
  CHECK_THROWS_AS(static_cast<void>(listener.accept(within(milliseconds(60'000)))), std::bad_alloc);
  auto client = std::async(std::launch::async, [&] {
    return connect_to(listener.endpoint(), std::nullopt, control_hello(5),
                      within(milliseconds(60'000)));
  });
  std::optional<Incoming> incoming = listener.accept(within(milliseconds(60'000)));
  REQUIRE(incoming.has_value());
  incoming->welcome();
  CHECK_NOTHROW(client.get());
}

TEST_CASE("transport/listener: a Hello cut at any byte is refused at its end") {
  const std::vector<std::byte> frame = encode(control_hello());
  Rejections rejections;
  Listener listener = local_listener(std::nullopt, rejections.options());
  for (std::size_t size = 0; size < frame.size(); ++size) {
    const Stranger stranger(listener.endpoint());
    stranger.say(std::span(frame).first(size));
  }
  std::size_t turns = 0;
  while (rejections.reasons.size() < frame.size() && ++turns < 200) {
    CHECK_FALSE(listener.accept(within(milliseconds(10))).has_value());
  }
  CHECK(rejections.reasons.size() == frame.size());
}

TEST_CASE("transport/connection: bytes altered on the way break an encrypted connection") {
  // A middleman that flips one bit after the handshake.
  const Key key = random_key();
  Listener listener = local_listener(key);
  const ListenSocket middle({.host = "127.0.0.1"}, true);
  std::atomic<bool> flip = false;
  std::atomic<bool> stop = false;
  std::thread middleman([&] {
    const int client = ::accept(middle.descriptor(), nullptr, nullptr);
    const int server = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(listener.endpoint().port);
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    if (::connect(server, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) stop = true;
    std::array<char, 4096> bytes{};
    while (!stop) {
      for (const auto& [from, to] : {std::pair{client, server}, std::pair{server, client}}) {
        const ssize_t got = ::recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (got <= 0) continue;
        if (flip) bytes[static_cast<std::size_t>(got) / 2] ^= 1;
        ::send(to, bytes.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL);
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
    ::close(client);
    ::close(server);
  });
  auto dialing = std::async(std::launch::async, [&] {
    return connect_to(middle.endpoint(), key, control_hello(), within(milliseconds(60'000)));
  });
  std::optional<Incoming> incoming = listener.accept(within(milliseconds(60'000)));
  REQUIRE(incoming.has_value());
  incoming->welcome();
  Connection client = dialing.get();
  client.write_message(Ready{}, within(milliseconds(60'000)));
  CHECK_NOTHROW(static_cast<void>(incoming->connection.read_message(within(milliseconds(60'000)))));
  flip = true;
  client.write_message(Ready{}, within(milliseconds(60'000)));
  CHECK(contains(error_of([&] {
                   static_cast<void>(
                       incoming->connection.read_message(within(milliseconds(60'000))));
                 }),
                 "connection broken"));
  stop = true;
  middleman.join();
}

}  // namespace tandem::exec::connection_test
