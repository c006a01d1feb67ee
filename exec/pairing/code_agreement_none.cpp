// Built without Botan.

#include "exec/pairing/code_agreement.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

[[noreturn]] void refuse_code() {
  throw Error(
      "pairing: this tandem was built without Botan, which a code needs; install libbotan-2-dev "
      "and "
      "build it again, or pair with --fingerprint on both devices");
}

}  // namespace

bool has_code_agreement() { return false; }

struct CodeKeeper::State {};

CodeKeeper::CodeKeeper(const std::string& /*code*/) { refuse_code(); }
CodeKeeper::~CodeKeeper() = default;
const AgreementSalt& CodeKeeper::salt() const { refuse_code(); }
const AgreementPublic& CodeKeeper::public_value() const { refuse_code(); }
AgreedSecret CodeKeeper::agree(const AgreementPublic& /*other*/) { refuse_code(); }

CodeAnswer answer_code(const std::string& /*code*/, const AgreementSalt& /*salt*/,
                       const AgreementPublic& /*other*/) {
  refuse_code();
}

}  // namespace tandem::exec
