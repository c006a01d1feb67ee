#include "exec/pairing/pairing.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "exec/pairing/code_agreement.hpp"
#include "exec/pairing/pairing_code.hpp"
#include "exec/transport/unauthenticated.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

using Greeting = std::array<char, 16>;
constexpr Greeting kByCode{'t', 'a', 'n', 'd', 'e', 'm', ' ', 'p',
                           'a', 'i', 'r', ' ', '1', ' ', 'c', '\n'};
constexpr Greeting kByFingerprint{'t', 'a', 'n', 'd', 'e', 'm', ' ', 'p',
                                  'a', 'i', 'r', ' ', '1', ' ', 'f', '\n'};
constexpr std::byte kNo{'n'};
constexpr std::byte kYes{'y'};
constexpr std::byte kStored{'s'};

using Proof = std::array<std::byte, 32>;

struct CodeChallenge {
  AgreementSalt salt{};
  AgreementPublic keeper{};  // B
};
struct CodeResponse {
  AgreementPublic guest{};  // A
  Proof proof{};
};
struct CodeVerdict {
  std::byte accepted{};
  std::byte tries_left{};
  Proof proof{};
};

template <class Message>
void send(Connection& peer, const Message& message, const Patience& patience) {
  peer.write_all(std::as_bytes(std::span(&message, 1)), patience);
}
template <class Message>
Message receive(Connection& peer, const Patience& patience) {
  static_assert(std::has_unique_object_representations_v<Message>);
  Message message{};
  peer.read_all(std::as_writable_bytes(std::span(&message, 1)), patience);
  return message;
}

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

// The HMAC by which `role` proves the secret, bound to the conversation and its connection.
Proof proof_of(std::string_view role, const AgreedSecret& secret, const CodeChallenge& challenge,
               const AgreementPublic& guest, const ChannelBinding& binding) {
  std::vector<std::byte> text;
  const auto add = [&](std::span<const std::byte> part) {
    text.insert(text.end(), part.begin(), part.end());
  };
  add(std::as_bytes(std::span("tandem pair 1 ")));
  add(std::as_bytes(std::span(role)));
  text.push_back(std::byte{0});
  add(challenge.salt);
  add(guest);
  add(challenge.keeper);
  add(binding);
  Proof proof{};
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(),
           reinterpret_cast<unsigned char*>(proof.data()), &size) == nullptr ||
      size != proof.size())
    throw Error("pairing: HMAC-SHA256 failed; OpenSSL 3 is needed");
  return proof;
}

Patience within(std::chrono::milliseconds time, const Patience& whole) {
  return {.deadline = std::min(whole.deadline, Clock::now() + time),
          .cancellation = whole.cancellation};
}

void exchange_greetings(Connection& peer, const PairingProof& proof, const Patience& patience) {
  const Greeting& own = proof.code.empty() ? kByFingerprint : kByCode;
  send(peer, own, patience);
  const auto other = receive<Greeting>(peer, patience);
  if (other == own) return;
  if (other == kByCode)
    throw Error(peer.peer() +
                ": pairs by a code, this device by a fingerprint; start both with --fingerprint");
  if (other == kByFingerprint)
    throw Error(peer.peer() +
                ": pairs by a fingerprint, this device by a code; start both with --fingerprint");
  throw Error(peer.peer() +
              ": greets as no `tandem pair` of this version; install the same tandem on both");
}

// A proof was wrong: one of the code's tries is used.
class WrongProof : public Error {
 public:
  using Error::Error;
};

// No person can answer, or the key is gone without an answer: no other guest is served.
class PairingOver : public Error {
 public:
  using Error::Error;
};

// Returns if the guest has proved the code and accepted the host's proof.
void check_code(Connection& guest, const std::string& code, int tries_left,
                const Patience& patience) {
  CodeKeeper keeper(code);
  const CodeChallenge challenge{.salt = keeper.salt(), .keeper = keeper.public_value()};
  send(guest, challenge, patience);
  const auto response = receive<CodeResponse>(guest, patience);
  CodeVerdict verdict{.accepted = kNo, .tries_left = static_cast<std::byte>(tries_left)};
  const auto reject = [&](const std::string& why) {
    try {
      send(guest, verdict, patience);
    } catch (const Error&) {
      throw WrongProof(guest.peer() + ": " + why);  // that it is gone changes nothing
    }
    throw WrongProof(guest.peer() + ": " + why);
  };
  const ChannelBinding binding = channel_binding(guest);
  AgreedSecret secret{};
  try {
    secret = keeper.agree(response.guest);
  } catch (const Error& fault) {
    reject(fault.what());
  }
  if (!same_bytes(response.proof, proof_of("guest", secret, challenge, response.guest, binding)))
    reject("a wrong code");
  verdict.accepted = kYes;
  verdict.proof = proof_of("host", secret, challenge, response.guest, binding);
  send(guest, verdict, patience);
  if (receive<std::byte>(guest, patience) != kYes)
    throw Error(guest.peer() + ": did not accept this device's proof");
}

// Sends the guest's proof and returns the host's verdict. The proof lets the peer test one code, so
// the Error of any failure asks for a new one.
CodeVerdict verdict_of(Connection& host, const CodeResponse& response, const Patience& patience) {
  std::string fault;
  try {
    send(host, response, patience);
    const auto verdict = receive<CodeVerdict>(host, patience);
    if (verdict.accepted == kYes || verdict.accepted == kNo) return verdict;
    fault = host.peer() + ": answered the code with neither yes nor no";
  } catch (const Error& error) {
    fault = error.what();
  }
  throw Error(fault +
              "; the code may have been tried by somebody in between; start `tandem pair --listen` "
              "again for a new code");
}

void answer_host(Connection& host, const std::string& code, const Patience& patience) {
  const auto challenge = receive<CodeChallenge>(host, patience);
  const CodeAnswer answer = answer_code(code, challenge.salt, challenge.keeper);
  const ChannelBinding binding = channel_binding(host);
  const CodeResponse response{
      .guest = answer.public_value,
      .proof = proof_of("guest", answer.secret, challenge, answer.public_value, binding)};
  const CodeVerdict verdict = verdict_of(host, response, patience);
  if (verdict.accepted == kNo)
    throw WrongCode(host.peer() + ": the code is not the one of that device",
                    std::to_integer<int>(verdict.tries_left));
  if (!same_bytes(verdict.proof,
                  proof_of("host", answer.secret, challenge, answer.public_value, binding)))
    throw Error(
        host.peer() +
        ": took the code without proving that it has it, so it is not the device that shows "
        "it; no key was taken; check the address and start `tandem pair --listen` again for a new "
        "code");
  send(host, kYes, patience);
}

constexpr const char* kDiffer =
    ": the fingerprints differ, as they do if somebody is in between; no key was sent; pair again, "
    "over another network if it happens again";

// The persons at both devices compare; the guest's answer goes first. Throws PairingOver if this
// device has no person.
void compare_fingerprints(Connection& peer, const PairingProof& proof, bool is_host,
                          const PairingTimes& times, const Patience& whole) {
  const Patience persons = within(times.person, whole);
  std::byte theirs{};  // answer, once it is there
  bool is_over = false;
  const auto watch = [&] {
    std::byte answer{};
    try {
      if (peer.read_some(std::span(&answer, 1)) == 0) return;
    } catch (const Error&) {
      is_over = true;
      throw;
    }
    is_over = !is_host || theirs == kYes || answer != kYes;
    if (is_over) throw Error(peer.peer() + kDiffer);
    theirs = answer;
  };
  watch();  // the answer may have come with the greeting, which a poll would not tell
  bool same = false;
  try {
    same = proof.confirm({.fingerprint = fingerprint_of(channel_binding(peer)),
                          .peer = peer.peer(),
                          .deadline = persons.deadline,
                          .descriptor = peer.descriptor(),
                          .watch = watch});
  } catch (const Error& fault) {
    if (is_over || Clock::now() >= persons.deadline) throw;
    throw PairingOver(fault.what());
  }
  if (!is_host) send(peer, same ? kYes : kNo, within(times.conversation, whole));
  if (same && theirs != kYes)
    theirs = receive<std::byte>(peer, is_host ? persons : within(times.person, whole));
  const bool agreed = same && theirs == kYes;
  if (is_host) send(peer, agreed ? kYes : kNo, within(times.conversation, whole));
  if (!agreed) throw Error(peer.peer() + kDiffer);
}

void send_key(Connection& guest, const Key& key, const Patience& patience) {
  try {
    send(guest, key, patience);
    if (receive<std::byte>(guest, patience) == kStored) return;
  } catch (const Error& fault) {
    throw PairingOver(
        std::string(fault.what()) +
        "; it was sent the key and did not say that it stored it: see its output, and "
        "pair again if it has none");
  }
  throw PairingOver(guest.peer() + ": answered the key with something else");
}

void serve_guest(Connection& guest, const Key& key, const PairingProof& proof, int tries_left,
                 const PairingTimes& times, const Patience& whole) {
  Patience patience = within(times.conversation, whole);
  shake_hands_unauthenticated(guest, patience);
  exchange_greetings(guest, proof, patience);
  if (proof.code.empty()) {
    compare_fingerprints(guest, proof, /*is_host=*/true, times, whole);
    patience = within(times.conversation, whole);
  } else {
    check_code(guest, proof.code, tries_left, patience);
  }
  send_key(guest, key, patience);
}

}  // namespace

std::string offer_key(const ListenSocket& socket, const Key& key, const PairingProof& proof,
                      const Patience& patience, const OnRejected& on_rejected,
                      const PairingTimes& times) {
  int tries_left = kPairingTries;
  for (;;) {
    std::optional<Connection> guest = accept_unauthenticated(socket, patience);
    if (!guest)
      throw Error("pairing: no device has joined in time" +
                  std::string(proof.code.empty() ? "" : ", and the code is void") +
                  "; start it again when the other device is ready");
    try {
      serve_guest(*guest, key, proof, tries_left - 1, times, patience);
      return guest->peer();
    } catch (const WrongProof& fault) {
      if (--tries_left == 0)
        throw Error(std::string(fault.what()) +
                    ", the third, so the code is void; start it again "
                    "for a new one");
      on_rejected(std::string(fault.what()) + ", " + std::to_string(tries_left) +
                      (tries_left == 1 ? " try is left" : " tries are left"),
                  /*is_guess=*/true);
    } catch (const PairingOver&) {
      throw;
    } catch (const std::exception& fault) {
      if (patience.cancellation != nullptr) patience.cancellation->check();
      on_rejected(model::describe(fault), /*is_guess=*/false);
    }
  }
}

void fetch_key(const Endpoint& endpoint, const PairingProof& proof,
               const std::function<void(const Key&)>& store, const PairingTimes& times) {
  const Patience whole{.deadline = Clock::time_point::max()};
  const bool by_code = !proof.code.empty();
  // The host may be busy with guests that say nothing, or with a person.
  Patience patience =
      within(by_code ? times.greeting : std::max(times.greeting, times.person), whole);
  Connection host = connect_unauthenticated(endpoint, patience);
  exchange_greetings(host, proof, patience);
  patience = within(times.conversation, whole);
  if (by_code) {
    answer_host(host, proof.code, patience);
  } else {
    compare_fingerprints(host, proof, /*is_host=*/false, times, whole);
    patience = within(times.conversation, whole);
  }
  store(receive<Key>(host, patience));
  send(host, kStored, within(times.conversation, whole));  // a slow disk does not count
}

}  // namespace tandem::exec
