#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/transformer.hpp"

namespace tandem::exec {

// Text to token ids and back.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Ids of `text`, with the beginning-of-sequence token first if the model has one.
  [[nodiscard]] virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  // Bytes that one id stands for (not necessarily whole UTF-8 characters). Throws Error for ids
  // outside the vocabulary.
  [[nodiscard]] virtual std::string piece(std::int32_t id) const = 0;
  [[nodiscard]] virtual std::int64_t vocab() const = 0;
};

// Ids 0 to 255 are the bytes; ids above have no text and print as "<id>". `bos_token` precedes
// every text unless it is negative. Throws Error if `vocab` is below 256 or `bos_token` not in it.
[[nodiscard]] std::unique_ptr<Tokenizer> byte_tokenizer(std::int64_t vocab,
                                                        std::int64_t bos_token = -1);

// The tokenizer of a Hugging Face folder: byte_tokenizer unless the folder has a tokenizer file,
// which this version cannot read. Throws Error (file, remedy) then, and as byte_tokenizer does.
[[nodiscard]] std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& folder,
                                                        const model::Transformer& transformer);

// Turns pieces into printable UTF-8 as they come, never splitting a character: bytes of an
// unfinished character wait for the next piece, bytes that are no UTF-8 come out as U+FFFD, control
// characters other than newline and tab as U+FFFD too (a model must not drive the user's terminal).
class StreamingDecoder {
 public:
  explicit StreamingDecoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  [[nodiscard]] std::string push(std::int32_t id);
  [[nodiscard]] std::string finish();

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;
};

}  // namespace tandem::exec
