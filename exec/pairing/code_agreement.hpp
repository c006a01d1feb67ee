#pragma once

// Two devices agree on a secret if both know one short code: SRP-6a (RFC 2945, RFC 5054) by Botan,
// in the group of 3072 bits with SHA-256. Who does not know the code learns nothing that would let
// them try codes elsewhere: each guess costs a conversation. A program that was built without Botan
// has code_agreement_none.cpp, where every call but has_code_agreement() throws Error.

#include <array>
#include <cstddef>
#include <memory>
#include <string>

namespace tandem::exec {

[[nodiscard]] bool has_code_agreement();

using AgreedSecret = std::array<std::byte, 32>;      // SHA-256 of SRP's S
using AgreementSalt = std::array<std::byte, 16>;     // of the verifier
using AgreementPublic = std::array<std::byte, 384>;  // SRP's A or B, big-endian

// The device that shows the code, in one conversation.
class CodeKeeper {
 public:
  // Draws the salt and SRP's b. Throws Error if Botan refuses.
  explicit CodeKeeper(const std::string& code);
  ~CodeKeeper();
  CodeKeeper(const CodeKeeper&) = delete;
  CodeKeeper& operator=(const CodeKeeper&) = delete;

  [[nodiscard]] const AgreementSalt& salt() const;
  [[nodiscard]] const AgreementPublic& public_value() const;  // B
  // Returns the secret, once. Throws Error for A out of (0, N), A = 0 mod N included.
  [[nodiscard]] AgreedSecret agree(const AgreementPublic& other);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The device on which the code is typed.
struct CodeAnswer {
  AgreementPublic public_value{};  // A
  AgreedSecret secret{};
};
// Throws Error for B out of (0, N).
[[nodiscard]] CodeAnswer answer_code(const std::string& code, const AgreementSalt& salt,
                                     const AgreementPublic& other);

}  // namespace tandem::exec
