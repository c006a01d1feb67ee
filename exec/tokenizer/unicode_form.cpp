#include "exec/tokenizer/unicode_form.hpp"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>

#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 30U;  // ICU counts in 32 bits

const icu::Normalizer2* normalizer_of(UnicodeForm form, UErrorCode& status) {
  switch (form) {
    case UnicodeForm::nfc:
      return icu::Normalizer2::getNFCInstance(status);
    case UnicodeForm::nfd:
      return icu::Normalizer2::getNFDInstance(status);
    case UnicodeForm::nfkc:
      return icu::Normalizer2::getNFKCInstance(status);
    case UnicodeForm::nfkd:
      return icu::Normalizer2::getNFKDInstance(status);
  }
  return nullptr;
}

}  // namespace

std::optional<UnicodeForm> unicode_form_of(std::string_view name) {
  if (name == "NFC") return UnicodeForm::nfc;
  if (name == "NFD") return UnicodeForm::nfd;
  if (name == "NFKC") return UnicodeForm::nfkc;
  if (name == "NFKD") return UnicodeForm::nfkd;
  return std::nullopt;
}

std::string normalized(std::string_view text, UnicodeForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* const normalizer = normalizer_of(form, status);
  std::string out;
  if (text.size() > kMaxBytes) status = U_BUFFER_OVERFLOW_ERROR;
  if (U_SUCCESS(status) && normalizer != nullptr) {
    icu::StringByteSink<std::string> sink(&out, static_cast<std::int32_t>(text.size()));
    normalizer->normalizeUTF8(0,
                              icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())),
                              sink, nullptr, status);
  }
  if (U_SUCCESS(status)) return out;
  throw Error(std::string("text: ICU cannot normalise it (") + u_errorName(status) +
              "), expected Unicode; give token ids with --prompt-ids");
}

}  // namespace tandem::exec
