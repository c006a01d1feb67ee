#include <string>

#include "exec/tokenizer/token_table.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr std::int64_t kByteCount = 256;

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer(std::int64_t vocab, std::int64_t bos) : vocab_(vocab), bos_(bos) {}

  // No token has a name that could be written.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text,
                                                 WrittenTokens /*written*/) const override {
    std::vector<std::int32_t> ids;
    ids.reserve(text.size() + 1);
    if (bos_ >= 0) ids.push_back(static_cast<std::int32_t>(bos_));
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }

  [[nodiscard]] std::string piece(std::int32_t id) const override {
    check_token(id, vocab_);
    if (id < kByteCount) return {static_cast<char>(id)};
    return without_text(id);
  }

  [[nodiscard]] std::int64_t vocab() const override { return vocab_; }
  [[nodiscard]] std::int64_t bos_token() const override { return bos_; }
  [[nodiscard]] std::span<const std::int64_t> eos_tokens() const override { return {}; }
  [[nodiscard]] std::string description() const override { return "bytes, 256 tokens"; }

 private:
  std::int64_t vocab_;
  std::int64_t bos_;
};

class NumberTokenizer final : public Tokenizer {
 public:
  explicit NumberTokenizer(std::int64_t vocab) : vocab_(vocab) {}

  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view /*text*/,
                                                 WrittenTokens /*written*/) const override {
    throw Error("text: this vocabulary has no text, expected token ids; give --prompt-ids");
  }
  [[nodiscard]] std::string piece(std::int32_t id) const override {
    check_token(id, vocab_);
    return without_text(id);
  }
  [[nodiscard]] std::int64_t vocab() const override { return vocab_; }
  [[nodiscard]] std::int64_t bos_token() const override { return -1; }
  [[nodiscard]] std::span<const std::int64_t> eos_tokens() const override { return {}; }
  [[nodiscard]] std::string description() const override { return "token ids without text"; }

 private:
  std::int64_t vocab_;
};

}  // namespace

std::unique_ptr<Tokenizer> byte_tokenizer(std::int64_t vocab, std::int64_t bos_token) {
  if (vocab < kByteCount) {
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

std::unique_ptr<Tokenizer> number_tokenizer(std::int64_t vocab) {
  return std::make_unique<NumberTokenizer>(vocab);
}

}  // namespace tandem::exec
