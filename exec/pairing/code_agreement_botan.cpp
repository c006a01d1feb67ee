#include <botan/auto_rng.h>
#include <botan/bigint.h>
#include <botan/exceptn.h>
#include <botan/hash.h>
#include <botan/srp6.h>

#include <cstdint>
#include <vector>

#include "exec/pairing/code_agreement.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr const char* kIdentity = "tandem pair";
constexpr const char* kGroup = "modp/srp/3072";  // RFC 5054, appendix A
constexpr const char* kHash = "SHA-256";

const std::uint8_t* octets(const std::byte* bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes);
}
std::uint8_t* octets(std::byte* bytes) { return reinterpret_cast<std::uint8_t*>(bytes); }

Botan::BigInt number_of(const AgreementPublic& bytes) {
  return {octets(bytes.data()), bytes.size()};
}

AgreementPublic bytes_of(const Botan::BigInt& number) {
  AgreementPublic bytes{};
  Botan::BigInt::encode_1363(octets(bytes.data()), bytes.size(), number);
  return bytes;
}

std::vector<std::uint8_t> salt_octets(const AgreementSalt& salt) {
  return {octets(salt.data()), octets(salt.data()) + salt.size()};
}

AgreedSecret digest_of(const Botan::SymmetricKey& key) {
  const auto hash = Botan::HashFunction::create_or_throw(kHash);
  hash->update(key.bits_of());
  AgreedSecret secret{};
  hash->final(octets(secret.data()));
  return secret;
}

// Runs `step`; what Botan throws becomes an Error.
template <class Step>
auto guard(Step&& step) {
  try {
    return step();
  } catch (const Botan::Exception& fault) {
    throw Error(std::string("pairing: SRP-6a failed: ") + fault.what());
  }
}

}  // namespace

bool has_code_agreement() { return true; }

struct CodeKeeper::State {
  Botan::AutoSeeded_RNG random;
  Botan::SRP6_Server_Session session;
  AgreementSalt salt{};
  AgreementPublic public_value{};
};

CodeKeeper::CodeKeeper(const std::string& code) {
  guard([&] {
    state_ = std::make_unique<State>();
    state_->random.randomize(octets(state_->salt.data()), state_->salt.size());
    const Botan::BigInt verifier =
        Botan::generate_srp6_verifier(kIdentity, code, salt_octets(state_->salt), kGroup, kHash);
    state_->public_value = bytes_of(state_->session.step1(verifier, kGroup, kHash, state_->random));
  });
}
CodeKeeper::~CodeKeeper() = default;

const AgreementSalt& CodeKeeper::salt() const { return state_->salt; }
const AgreementPublic& CodeKeeper::public_value() const { return state_->public_value; }

AgreedSecret CodeKeeper::agree(const AgreementPublic& other) {
  return guard([&] { return digest_of(state_->session.step2(number_of(other))); });
}

CodeAnswer answer_code(const std::string& code, const AgreementSalt& salt,
                       const AgreementPublic& other) {
  return guard([&] {
    Botan::AutoSeeded_RNG random;
    const auto [value, key] = Botan::srp6_client_agree(kIdentity, code, kGroup, kHash,
                                                       salt_octets(salt), number_of(other), random);
    return CodeAnswer{.public_value = bytes_of(value), .secret = digest_of(key)};
  });
}

}  // namespace tandem::exec
