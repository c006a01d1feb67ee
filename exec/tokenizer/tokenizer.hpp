#pragma once

// Text to token ids and back, by the tokenizer files of Hugging Face model folders. Supported
// files: docs/reference/tokenizers.md.

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

// The meaning of a special token that appears in a text ("</s>").
enum class WrittenTokens {
  tokens,  // its id
  text,    // its characters, like any others: an untrusted text must not contain commands
  // Its id, except in the parts of the text that Tokenizer::guarded() returned: a template around
  // untrusted texts.
  guarded
};

// Thread-compatible: const functions may be called by several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Returns the ids of `text`, between the tokens that the model expects around every text (mostly
  // one in front, beginning-of-sequence). `written` decides about special tokens in `text`; other
  // added tokens always become their ids, as with Hugging Face's split_special_tokens. Bytes that
  // are not UTF-8 count as U+FFFD, except in byte_tokenizer. Throws Error if the tokenizer's file
  // leads to an endless search.
  [[nodiscard]] virtual std::vector<std::int32_t> encode(std::string_view text,
                                                         WrittenTokens written) const = 0;
  // Returns an untrusted text as part of one that is encoded with WrittenTokens::guarded, which
  // takes special tokens in it for text.
  [[nodiscard]] virtual std::string guarded(std::string_view text) const {
    return std::string(text);
  }
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const {
    return encode(text, WrittenTokens::tokens);
  }
  // Returns the bytes of one id within a text (not necessarily whole UTF-8 characters): empty for
  // special tokens, "<id>" for those without text. Throws Error for ids outside the vocabulary.
  [[nodiscard]] virtual std::string piece(std::int32_t id) const = 0;
  // Returns the piece of `id` at the beginning of a text, where some tokenizers drop the space of
  // the first word. `at_start` is true before the first token, and stays true while the text is
  // empty.
  [[nodiscard]] virtual std::string first_piece(std::int32_t id, bool& at_start) const;
  // Returns the limit of ids: the model's vocabulary, which may be larger than the tokenizer's.
  [[nodiscard]] virtual std::int64_t vocab() const = 0;
  // Returns the beginning-of-sequence token that encode puts in front; -1: none.
  [[nodiscard]] virtual std::int64_t bos_token() const = 0;
  // Returns the number of tokens that encode puts in front.
  [[nodiscard]] virtual std::ptrdiff_t tokens_in_front() const { return bos_token() >= 0 ? 1 : 0; }
  // Returns the tokens that end a text according to the tokenizer's files, ascending; the model's
  // config.json may name more (model::Transformer::eos_tokens).
  [[nodiscard]] virtual std::span<const std::int64_t> eos_tokens() const = 0;
  // Returns kind and number of tokens with text, for display ("SentencePiece BPE, 32000 tokens").
  [[nodiscard]] virtual std::string description() const = 0;
};

// Ids 0 to 255 are the bytes; ids above have no text and print as "<id>". `bos_token` precedes
// every text unless it is negative. Throws Error if `vocab` is below 256 or `bos_token` not in it.
[[nodiscard]] std::unique_ptr<Tokenizer> byte_tokenizer(std::int64_t vocab,
                                                        std::int64_t bos_token = -1);

// Every id prints as "<id>"; encode throws Error. For vocabularies that cannot be read.
[[nodiscard]] std::unique_ptr<Tokenizer> number_tokenizer(std::int64_t vocab);

// Loads the tokenizer of a GGUF file (docs/reference/gguf.md) or of a Hugging Face folder:
// `tokenizer.model` (SentencePiece; one of tiktoken's is ignored), else `vocab.txt` (WordPiece),
// else `tokenizer.json` or `vocab.json` and `merges.txt` (byte-level BPE), else byte_tokenizer.
// Throws Error (file, remedy) for a file that is damaged, of another kind, or has ids beyond the
// transformer's vocabulary.
[[nodiscard]] std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& folder,
                                                        const model::Transformer& transformer);

// Returns the text of `ids`, byte for byte: the inverse of encode if the tokenizer has one. Throws
// Error for ids outside the vocabulary.
[[nodiscard]] std::string decode(const Tokenizer& tokenizer, std::span<const std::int32_t> ids);

// Turns a stream of pieces into printable UTF-8 without splitting characters: bytes of an
// unfinished character wait for the next piece. Bytes that are not UTF-8, and control characters
// other than newline and tab, become U+FFFD (a model must not control the user's terminal).
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
