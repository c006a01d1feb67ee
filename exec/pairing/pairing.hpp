#pragma once

// Gives the key of a group of devices to another device. The host has the key and listens; the
// guest joins. Over TLS with certificates made for the connection each proves to the other, before
// the key is sent, that there is no other device in between: by a code that a person carries from
// the host to the guest, or by a fingerprint that a person compares.
//
// Messages have fixed sizes. G: guest, H: host, K: the secret of exec/pairing/code_agreement.hpp.
//   G<->H  greeting: protocol, version, way of proof
//   code:  H->G salt, B        G->H A, HMAC-SHA256(K, "guest", salt, A, B, channel binding)
//          H->G verdict, HMAC-SHA256(K, "host", ...)                       G->H accepted
//   fingerprint:  G->H verdict of its person                              H->G verdict of its
//   person H->G  key               G->H stored

#include <chrono>
#include <functional>
#include <string>

#include "exec/transport/connection.hpp"
#include "exec/transport/listener.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {

inline constexpr int kPairingTries = 3;  // wrong answers until a code is void

// A person is to say whether the device at `peer` shows the same fingerprint.
struct FingerprintQuestion {
  std::string fingerprint;
  std::string peer;            // its address
  Clock::time_point deadline;  // of the answer
  int descriptor;              // becomes readable when the peer sends something or leaves
  // To be called when `descriptor` is readable. Throws Error if no answer is needed any more: the
  // peer has left or its person said no.
  std::function<void()> watch;
};
// Returns the answer. Passes on what `watch` throws, and throws Error at the deadline and if there
// is no person.
using ConfirmFingerprint = std::function<bool(const FingerprintQuestion& question)>;

// The way of proof: by `code` if it is not empty, else by `confirm`.
struct PairingProof {
  std::string code{};  // as random_pairing_code() writes it
  ConfirmFingerprint confirm{};
};

struct PairingTimes {
  std::chrono::milliseconds conversation{10'000};  // all of one, without persons
  std::chrono::milliseconds person{180'000};       // for the answers of both persons to `confirm`
  // A guest's wait until a host that is busy with others greets it; by fingerprint `person`, if
  // that is longer.
  std::chrono::milliseconds greeting{60'000};
};

// The guest's code was not the host's. Either it was mistyped, or somebody is in between.
class WrongCode : public Error {
 public:
  WrongCode(const std::string& text, int left) : Error(text), tries_left(left) {}
  int tries_left;  // that the peer grants
};

// A guest that was turned away. `is_guess`: by a wrong proof, which used one of the tries.
using OnRejected = std::function<void(const std::string& line, bool is_guess)>;

// Serves guests one after another until one has stored `key`; returns its address. A guest that
// fails, that a person rejects, or that is not confirmed in time costs a call of `on_rejected` and
// nothing else. Throws Error after kPairingTries wrong proofs, if `confirm` finds no person, if a
// guest was sent the key and did not say that it stored it, and when patience ends. Nothing but the
// guest that proved itself is sent the key.
[[nodiscard]] std::string offer_key(const ListenSocket& socket, const Key& key,
                                    const PairingProof& proof, const Patience& patience,
                                    const OnRejected& on_rejected, const PairingTimes& times = {});

// Joins the host at `endpoint`: one try. `store` takes the key of a host that proved itself, and
// has kept it when it returns. Throws WrongCode, and Error (address, reason, remedy) for all else.
void fetch_key(const Endpoint& endpoint, const PairingProof& proof,
               const std::function<void(const Key&)>& store, const PairingTimes& times = {});

}  // namespace tandem::exec
