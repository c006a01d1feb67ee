// Pairing by a code over loopback: the protocol, and peers that do not keep to it.

#include "exec/pairing/pairing.hpp"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exec/pairing/code_agreement.hpp"
#include "exec/pairing/pairing_code.hpp"
#include "tests/exec/pairing/pairing_peers.hpp"

namespace tandem::test::pairing_test {

using namespace pairing_peers;

namespace {

// A host of the test's own making, and what a guest of it ends with.
template <class Behaviour>
Guest guest_of(Behaviour&& behave, const PairingTimes& times = kTimes) {
  const ListenSocket socket({.host = "127.0.0.1"}, true);
  auto guest =
      std::async(std::launch::async, [&] { return Guest(socket.endpoint(), code(kCode), times); });
  {
    Raw raw = accept_raw(socket);
    static_cast<void>(error_of([&] { behave(raw); }));
  }
  return guest.get();
}

// Somebody who ends both TLS connections and passes on what is said, by turns as the protocol goes.
void pass_on(Raw& guest, Raw& host) {
  const auto over = [](Raw& from, Raw& to, std::size_t size) { to.send(from.receive(size)); };
  over(guest, host, 16);
  over(host, guest, 16 + kChallengeBytes);
  over(guest, host, kResponseBytes);
  over(host, guest, kVerdictBytes);
  over(guest, host, 1);
  over(host, guest, 32);
  over(guest, host, 1);
}

}  // namespace

TEST_CASE("pairing: codes are eight digits, uniform, and typed with or without the hyphen") {
  std::set<std::string> drawn;
  std::array<int, 10> first{};
  for (int i = 0; i < 2000; ++i) {
    const std::string one = random_pairing_code();
    REQUIRE(one.size() == 9);
    CHECK(parse_pairing_code(one) == one);
    ++first.at(static_cast<std::size_t>(one[0] - '0'));
    drawn.insert(one);
  }
  CHECK(drawn.size() > 1990);
  for (const int count : first) CHECK(count > 120);  // 200 expected
  for (const char* same : {"48219370", "4821 9370", " 48-21-93-70 \r", "4821-9370"})
    CHECK(parse_pairing_code(same) == kCode);
  for (const char* bad : {"", "4821-937", "4821-93701", "4821-937o", "x"})
    CHECK(contains(error_of([&] { static_cast<void>(parse_pairing_code(bad)); }),
                   "such as 4821-9370"));
}

TEST_CASE("pairing: a guest waits for its greeting until the host is done with a silent one") {
  if (!has_code_agreement()) return;
  Host host(code(kCode), {.conversation = milliseconds(1000)});
  std::vector<Raw> silent;
  silent.emplace_back(host.endpoint());
  const PairingTimes times{.conversation = milliseconds(400)};
  const Guest guest(host.endpoint(), code(kCode), times);
  CHECK(guest.error.empty());
  CHECK(guest.key == host.key);
  CHECK(host.end().empty());
}

TEST_CASE("pairing: the code gives the key, also after two wrong ones and guests that go away") {
  if (!has_code_agreement()) return;
  Host host(code(kCode));
  CHECK(Guest(host.endpoint(), code("4821-9371")).tries_left == 2);
  CHECK(Guest(host.endpoint(), code("0000-0000")).tries_left == 1);
  Raw(host.endpoint()).greet();  // learns nothing, and costs no try
  const Guest guest(host.endpoint(), code(kCode));
  CHECK(guest.error.empty());
  CHECK(guest.key == host.key);
  CHECK(host.end().empty());
  CHECK(host.guesses() == 2);
  REQUIRE(host.rejected().size() == 3);
  CHECK(contains(host.rejected()[1], "a wrong code, 1 try is left"));
  CHECK(contains(host.rejected()[2], "closed the connection"));
}

TEST_CASE("pairing: three wrong codes void it, and the right one comes too late") {
  if (!has_code_agreement()) return;
  Host host(code(kCode));
  for (const int left : {2, 1, 0}) {
    const Guest guest(host.endpoint(), code("1111-1111"));
    CHECK(guest.tries_left == left);
    CHECK_FALSE(guest.key.has_value());
  }
  CHECK(contains(host.end(), "a wrong code, the third, so the code is void"));
  const PairingTimes soon{.conversation = milliseconds(300),
                          .person = milliseconds(300),
                          .greeting = milliseconds(300)};
  CHECK_FALSE(Guest(host.endpoint(), code(kCode), soon).key.has_value());
}

TEST_CASE("pairing: public values out of range are a wrong proof") {
  if (!has_code_agreement()) return;
  for (const std::byte filler : {std::byte{0}, std::byte{0xff}}) {  // 0, and more than N
    CAPTURE(std::to_integer<int>(filler));
    Host host(code(kCode));
    for (int i = 0; i < kPairingTries; ++i) {
      Raw raw(host.endpoint());
      raw.greet();
      raw.send(std::vector<std::byte>(kResponseBytes, filler));
      CHECK(raw.receive(kVerdictBytes).front() == std::byte{'n'});
      CHECK(raw.is_closed());
    }
    CHECK(contains(host.end(), "SRP-6a failed"));
    const Guest guest = guest_of([&](Raw& raw) {
      raw.send(bytes_of(kByCode));
      raw.send(std::vector<std::byte>(kChallengeBytes, filler));
      static_cast<void>(raw.receive(16 + kResponseBytes));
    });
    CHECK(contains(guest.error, "SRP-6a failed"));
    CHECK_FALSE(guest.key.has_value());
  }
}

TEST_CASE("pairing: somebody in between who passes everything on has a wrong proof") {
  if (!has_code_agreement()) return;
  Host host(code(kCode));
  const ListenSocket socket({.host = "127.0.0.1"}, true);
  auto guest =
      std::async(std::launch::async, [&] { return Guest(socket.endpoint(), code(kCode)); });
  {
    Raw near = accept_raw(socket);
    Raw far(host.endpoint());
    static_cast<void>(error_of([&] { pass_on(near, far); }));
  }
  const Guest got = guest.get();
  CHECK(got.tries_left == 2);
  CHECK_FALSE(got.key.has_value());
  CHECK(Guest(host.endpoint(), code(kCode)).key == host.key);
  CHECK(host.end().empty());
  REQUIRE(host.rejected().size() == 1);
  CHECK(contains(host.rejected()[0], "a wrong code"));
}

TEST_CASE("pairing: a host that accepts without knowing the code gives no key to the guest") {
  if (!has_code_agreement()) return;
  CodeKeeper other("0000-0000");
  const Guest guest = guest_of([&](Raw& raw) {
    raw.send(bytes_of(kByCode));
    raw.send({other.salt().begin(), other.salt().end()});
    raw.send({other.public_value().begin(), other.public_value().end()});
    static_cast<void>(raw.receive(16 + kResponseBytes));
    std::vector<std::byte> verdict(kVerdictBytes, std::byte{7});
    verdict.front() = std::byte{'y'};
    raw.send(verdict);
    raw.send(std::vector<std::byte>(sizeof(Key), std::byte{1}));
    static_cast<void>(raw.receive(1));
  });
  CHECK(contains(guest.error, "is not the device that shows it; no key was taken"));
  CHECK_FALSE(guest.key.has_value());
}

TEST_CASE("pairing: a host that has the proof and gives no verdict may have tried the code") {
  if (!has_code_agreement()) return;
  const PairingTimes soon{.conversation = milliseconds(1000), .person = milliseconds(1000)};
  CodeKeeper other("0000-0000");
  for (const char* ending : {"closes", "half a verdict", "no verdict", "is silent"}) {
    CAPTURE(ending);
    const std::string name = ending;
    const Guest guest = guest_of(
        [&](Raw& raw) {
          raw.send(bytes_of(kByCode));
          raw.send({other.salt().begin(), other.salt().end()});
          raw.send({other.public_value().begin(), other.public_value().end()});
          static_cast<void>(raw.receive(16 + kResponseBytes));
          if (name == "half a verdict") raw.send(std::vector<std::byte>(kVerdictBytes / 2));
          if (name == "no verdict") raw.send(std::vector<std::byte>(kVerdictBytes, std::byte{7}));
          if (name == "is silent") static_cast<void>(raw.receive(1));
        },
        soon);
    CHECK(contains(guest.error,
                   "the code may have been tried by somebody in between; start "
                   "`tandem pair --listen` again for a new code"));
    CHECK(guest.tries_left == -1);
    CHECK_FALSE(guest.key.has_value());
  }
}

TEST_CASE("pairing: a host that says nothing, says garbage or leaves is one error") {
  if (!has_code_agreement()) return;
  const PairingTimes soon{.conversation = milliseconds(200),
                          .person = milliseconds(200),
                          .greeting = milliseconds(400)};
  const Guest silent = guest_of([](Raw& raw) { static_cast<void>(raw.receive(100)); }, soon);
  CHECK((contains(silent.error, "in time") || contains(silent.error, "closed")));
  const Guest garbled =
      guest_of([](Raw& raw) { raw.send(bytes_of("HTTP/1.1 400 Bad Request\r\n")); });
  CHECK(contains(garbled.error, "greets as no `tandem pair`"));
  const Guest truncated = guest_of([](Raw& raw) {
    raw.send(bytes_of(kByCode));
    raw.send(std::vector<std::byte>(kChallengeBytes / 2));
  });
  CHECK(contains(truncated.error, "closed the connection"));
  for (const Guest* guest : {&silent, &garbled, &truncated}) CHECK_FALSE(guest->key.has_value());
}

TEST_CASE("pairing: guests that say nothing, garbage or too much cost a line, and no try") {
  if (!has_code_agreement()) return;
  Host host(code(kCode), {.conversation = milliseconds(400), .person = milliseconds(400)});
  std::vector<Raw> kept;  // says nothing more, and does not leave
  kept.emplace_back(host.endpoint());
  {
    Raw raw(host.endpoint());
    raw.send(bytes_of("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    CHECK_FALSE(error_of([&] { static_cast<void>(raw.receive(1000)); }).empty());
  }
  {
    Raw raw(host.endpoint());
    raw.greet();
    raw.send(std::vector<std::byte>(kResponseBytes / 2));  // the rest never comes
  }
  {
    // A master that takes it for a worker.
    const std::string fault = error_of([&] {
      static_cast<void>(connect_to(host.endpoint(), random_key(), exec::test::control_hello(),
                                   within(milliseconds(5000))));
    });
    CHECK_FALSE(fault.empty());
  }
  const Guest guest(host.endpoint(), code(kCode));
  CHECK(guest.error.empty());
  CHECK(guest.key == host.key);
  CHECK(host.end().empty());
  CHECK(host.rejected().size() == 4);
  for (const std::string& line : host.rejected()) {
    CAPTURE(line);
    CHECK_FALSE(contains(line, "wrong code"));
  }
}

TEST_CASE("pairing: a megabyte instead of a proof is one wrong proof") {
  if (!has_code_agreement()) return;
  Host host(code(kCode));
  {
    Raw raw(host.endpoint());
    raw.greet();
    static_cast<void>(
        error_of([&] { raw.send(std::vector<std::byte>(std::size_t{1} << 20, std::byte{5})); }));
  }
  CHECK(Guest(host.endpoint(), code(kCode)).key == host.key);
  CHECK(host.end().empty());
  REQUIRE(host.rejected().size() == 1);
  CHECK(contains(host.rejected()[0], "2 tries are left"));
}

TEST_CASE("pairing: a guest that cannot store the key is the host's error, too") {
  if (!has_code_agreement()) return;
  Host host(code(kCode));
  const std::string fault = error_of([&] {
    fetch_key(
        host.endpoint(), code(kCode), [](const Key&) { throw Error("disk full"); }, kTimes);
  });
  CHECK(fault == "disk full");
  CHECK(contains(host.end(), "did not say that it stored it"));
}

TEST_CASE("pairing: without a guest the host ends in time") {
  Host host(code(kCode), kTimes, milliseconds(50));
  CHECK(contains(host.end(), "no device has joined in time, and the code is void"));
}

}  // namespace tandem::test::pairing_test
