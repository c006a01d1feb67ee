#include "exec/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <boost/locale/utf.hpp>
#include <iterator>
#include <string>
#include <system_error>

#include "model/error.hpp"

namespace tandem::exec {
namespace {

constexpr std::int64_t kBytes = 256;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer(std::int64_t vocab, std::int64_t bos) : vocab_(vocab), bos_(bos) {}

  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> ids;
    ids.reserve(text.size() + 1);
    if (bos_ >= 0) ids.push_back(static_cast<std::int32_t>(bos_));
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }

  [[nodiscard]] std::string piece(std::int32_t id) const override {
    if (id < 0 || id >= vocab_) {
      throw Error("token " + std::to_string(id) + ": outside the vocabulary, expected 0 to " +
                  std::to_string(vocab_ - 1) + "; check that plan and weights are of one model");
    }
    if (id < kBytes) return {static_cast<char>(id)};
    return "<" + std::to_string(id) + ">";
  }

  [[nodiscard]] std::int64_t vocab() const override { return vocab_; }

 private:
  std::int64_t vocab_;
  std::int64_t bos_;
};

bool is_printable(boost::locale::utf::code_point c) {
  if (c == '\n' || c == '\t') return true;
  return c >= 0x20 && (c < 0x7f || c > 0x9f);  // neither C0, DEL nor C1
}

// Moves what is complete from `pending` to the result; `last`: the unfinished is invalid then.
std::string drain(std::string& pending, bool last) {
  namespace utf = boost::locale::utf;
  std::string out;
  auto at = pending.cbegin();
  while (at != pending.cend()) {
    auto next = at;
    const utf::code_point c = utf::utf_traits<char>::decode(next, pending.cend());
    if (c == utf::incomplete && !last) break;
    if (c == utf::incomplete || c == utf::illegal) {
      // Resume after the first byte: a character may begin within the bad sequence.
      out += kReplacement;
      ++at;
      continue;
    }
    if (is_printable(c)) {
      out.append(at, next);
    } else {
      out += kReplacement;
    }
    at = next;
  }
  pending.erase(pending.cbegin(), at);
  return out;
}

}  // namespace

std::unique_ptr<Tokenizer> byte_tokenizer(std::int64_t vocab, std::int64_t bos_token) {
  if (vocab < kBytes) {
    throw Error("vocabulary: " + std::to_string(vocab) +
                " tokens, expected at least 256 for text as bytes; give token ids with "
                "--prompt-ids");
  }
  if (bos_token >= vocab) {
    throw Error("bos_token_id: " + std::to_string(bos_token) +
                ", expected below the vocabulary's " + std::to_string(vocab) +
                "; check config.json");
  }
  return std::make_unique<ByteTokenizer>(vocab, bos_token);
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& folder,
                                          const model::Transformer& transformer) {
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    std::error_code ignored;
    if (!std::filesystem::exists(folder / name, ignored)) continue;
    throw Error((folder / name).string() +
                ": this version reads and writes text for byte-level vocabularies only, expected "
                "a folder without a tokenizer file; give token ids with --prompt-ids");
  }
  return byte_tokenizer(transformer.vocab, transformer.bos_token);
}

std::string StreamingDecoder::push(std::int32_t id) {
  pending_ += tokenizer_->piece(id);
  return drain(pending_, false);
}

std::string StreamingDecoder::finish() { return drain(pending_, true); }

}  // namespace tandem::exec
