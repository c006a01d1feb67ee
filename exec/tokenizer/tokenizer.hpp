#pragma once

// Text to token ids and back, for the tokenizer files of Hugging Face model folders; what is read
// and what is not: docs/reference/tokenizers.md.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/transformer/transformer.hpp"

namespace tandem::exec {

// What a special token that is written out in a text ("</s>") means.
enum class WrittenTokens {
  tokens,  // its id
  text     // its characters, like any others: a text that somebody else wrote must not command
};

// Thread-compatible: const functions may be called by several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Ids of `text`, between the tokens that the model wants around every text (mostly one in front,
  // beginning-of-sequence). Special tokens that are written out in `text` are what `written` says;
  // other added tokens become their ids either way, as Hugging Face's split_special_tokens has it.
  // A byte that is no UTF-8 counts as U+FFFD, except by byte_tokenizer. Throws Error if the
  // tokenizer's file sends it into an endless search.
  [[nodiscard]] virtual std::vector<std::int32_t> encode(std::string_view text,
                                                         WrittenTokens written) const = 0;
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const {
    return encode(text, WrittenTokens::tokens);
  }
  // Bytes that one id stands for within a text (not necessarily whole UTF-8 characters): nothing
  // for special tokens, "<id>" for those without text. Throws Error for ids outside the vocabulary.
  [[nodiscard]] virtual std::string piece(std::int32_t id) const = 0;
  // The piece of `id` where the text begins, as some tokenizers drop the space of its first word.
  // `at_start` is true before the first token; it stays true while nothing has been said.
  [[nodiscard]] virtual std::string first_piece(std::int32_t id, bool& at_start) const;
  // Ids are below this: the model's vocabulary, which may be larger than the tokenizer's.
  [[nodiscard]] virtual std::int64_t vocab() const = 0;
  // The beginning-of-sequence token that encode puts in front; -1: none.
  [[nodiscard]] virtual std::int64_t bos_token() const = 0;
  // How many tokens encode puts in front.
  [[nodiscard]] virtual std::ptrdiff_t tokens_in_front() const { return bos_token() >= 0 ? 1 : 0; }
  // Tokens that end a text according to the tokenizer's files, ascending; the model's config.json
  // may name more (model::Transformer::eos_tokens).
  [[nodiscard]] virtual std::span<const std::int64_t> eos_tokens() const = 0;
  // For people: kind and number of tokens that have text ("SentencePiece BPE, 32000 tokens").
  [[nodiscard]] virtual std::string description() const = 0;
};

// Ids 0 to 255 are the bytes; ids above have no text and print as "<id>". `bos_token` precedes
// every text unless it is negative. Throws Error if `vocab` is below 256 or `bos_token` not in it.
[[nodiscard]] std::unique_ptr<Tokenizer> byte_tokenizer(std::int64_t vocab,
                                                        std::int64_t bos_token = -1);

// Every id prints as "<id>"; encode throws Error. For vocabularies that cannot be read.
[[nodiscard]] std::unique_ptr<Tokenizer> number_tokenizer(std::int64_t vocab);

// The tokenizer of a GGUF file (docs/reference/gguf.md), or of a Hugging Face folder:
// `tokenizer.model` (SentencePiece; one of tiktoken's is passed over), else `vocab.txt`
// (WordPiece), else `tokenizer.json` or `vocab.json` and `merges.txt` (byte-level BPE), else
// byte_tokenizer. Throws Error (file, remedy) for a file that is damaged, of
// another kind, or has ids beyond the transformer's vocabulary.
[[nodiscard]] std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& folder,
                                                        const model::Transformer& transformer);

// The text of `ids`, byte for byte: encode's inverse where the tokenizer has one. Throws Error for
// ids outside the vocabulary.
[[nodiscard]] std::string decode(const Tokenizer& tokenizer, std::span<const std::int32_t> ids);

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
  bool at_start_ = true;
};

}  // namespace tandem::exec
