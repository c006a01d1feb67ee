// Pairing by a fingerprint over loopback: persons who agree, refuse, wait, or are not there.

#include <doctest/doctest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include "exec/pairing/code_agreement.hpp"
#include "exec/pairing/pairing.hpp"
#include "tests/exec/pairing/pairing_peers.hpp"

namespace tandem::test::fingerprint_test {

using namespace pairing_peers;

TEST_CASE("pairing: by fingerprint, persons on both devices see the same and agree") {
  std::string there;
  Host host({.code = "", .confirm = [&](const FingerprintQuestion& shown) {
               there = shown.fingerprint;
               return true;
             }});
  std::string here;
  const Guest guest(host.endpoint(), {.code = "", .confirm = [&](const FingerprintQuestion& shown) {
                                        here = shown.fingerprint;
                                        return true;
                                      }});
  CHECK(host.end().empty());
  CHECK(guest.error.empty());
  CHECK(guest.key == host.key);
  CHECK(here == there);
  CHECK(here.size() == 39);
}

TEST_CASE("pairing: a fingerprint that one person rejects gives no key, and the host goes on") {
  for (const bool at_host : {false, true}) {
    CAPTURE(at_host);
    int asked = 0;
    Host host({.code = "", .confirm = [&](const FingerprintQuestion& question) {
                 CHECK(contains(question.peer, "127.0.0.1:"));
                 return ++asked > 1 || !at_host;
               }});
    const Guest guest(host.endpoint(),
                      {.code = "", .confirm = [&](const FingerprintQuestion&) { return at_host; }});
    CHECK(contains(guest.error, "fingerprints differ"));
    CHECK_FALSE(guest.key.has_value());
    CHECK(Guest(host.endpoint(), kAgrees).key == host.key);
    CHECK(host.end().empty());
    REQUIRE(host.rejected().size() == 1);
    CHECK(contains(host.rejected()[0], "fingerprints differ"));
  }
}

TEST_CASE("pairing: strangers that leave, say no or wait do not end a host that asks its person") {
  // Compares until something happens or time is up, and agrees to the last guest only.
  std::atomic<bool> agrees = false;
  const PairingProof proof{
      .code = "", .confirm = [&](const FingerprintQuestion& question) {
        if (agrees) return true;
        for (;;) {
          const auto left = std::chrono::ceil<milliseconds>(question.deadline - Clock::now());
          if (left.count() <= 0) throw Error("nothing was typed");
          pollfd peer{.fd = question.descriptor, .events = POLLIN, .revents = 0};
          if (::poll(&peer, 1, static_cast<int>(left.count())) > 0) question.watch();
        }
      }};
  Host host(proof, {.conversation = milliseconds(5000), .person = milliseconds(3000)});
  const auto greeted = [&] {
    Raw raw(host.endpoint());
    raw.send(bytes_of("tandem pair 1 f\n"));
    static_cast<void>(raw.receive(16));
    return raw;
  };
  { const Raw leaves = greeted(); }
  {
    Raw refuses = greeted();
    refuses.send({std::byte{'n'}});
    CHECK(refuses.is_closed());
  }
  {
    // One TLS record has the greeting and the answer: no poll tells that there is more.
    Raw hurries(host.endpoint());
    hurries.send(bytes_of("tandem pair 1 f\nn"));
    static_cast<void>(hurries.receive(16));
    CHECK(hurries.is_closed());
  }
  {
    Raw waits = greeted();
    waits.send({std::byte{'y'}});
    CHECK(waits.is_closed());
  }
  agrees = true;
  CHECK(Guest(host.endpoint(), kAgrees).key == host.key);
  CHECK(host.end().empty());
  REQUIRE(host.rejected().size() == 4);
  CHECK(contains(host.rejected()[0], "closed the connection"));
  CHECK(contains(host.rejected()[1], "fingerprints differ"));
  CHECK(contains(host.rejected()[2], "fingerprints differ"));
  CHECK(contains(host.rejected()[3], "nothing was typed"));
  CHECK(host.guesses() == 0);
}

TEST_CASE("pairing: a host without a person ends") {
  Host host({.code = "", .confirm = [](const FingerprintQuestion&) -> bool {
               throw Error("standard input: ended");
             }});
  CHECK_FALSE(Guest(host.endpoint(), kAgrees).key.has_value());
  CHECK(host.end() == "standard input: ended");
}

TEST_CASE("pairing: somebody in between changes the fingerprints") {
  std::vector<std::string> seen;
  std::mutex mutex;
  const PairingProof proof{.code = "", .confirm = [&](const FingerprintQuestion& shown) {
                             const std::lock_guard lock(mutex);
                             seen.push_back(shown.fingerprint);
                             return false;
                           }};
  Host host(proof);
  const ListenSocket socket({.host = "127.0.0.1"}, true);
  auto guest = std::async(std::launch::async, [&] { return Guest(socket.endpoint(), proof); });
  {
    Raw near = accept_raw(socket);
    Raw far(host.endpoint());
    far.send(near.receive(16));
    near.send(far.receive(16));
    static_cast<void>(near.receive(1));
    far.send({std::byte{'y'}});
    static_cast<void>(far.receive(1));
  }
  CHECK_FALSE(guest.get().key.has_value());
  host.stop();
  CHECK(host.end() == "the test ends");
  REQUIRE(seen.size() == 2);
  CHECK(seen[0] != seen[1]);
}

TEST_CASE("pairing: devices that prove in different ways say so") {
  if (!has_code_agreement()) return;
  Host host(code(kCode));
  const Guest guest(host.endpoint(), kAgrees);
  CHECK(contains(guest.error, "start both with --fingerprint"));
  CHECK_FALSE(guest.key.has_value());
}

}  // namespace tandem::test::fingerprint_test
