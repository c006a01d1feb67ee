#pragma once

// SentencePiece's file `tokenizer.model`, validated before the library reads it, as the library
// trusts its tables. Fields as in sentencepiece_model.proto (Kudo & Richardson, EMNLP 2018).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::exec {

// U+2581, a space within pieces.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

struct SentencePieceModel {
  enum class Algorithm { unigram = 1, bpe = 2, word = 3, character = 4 };
  enum class Kind { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  struct Piece {
    std::string text;
    float score = 0.0F;
    Kind kind = Kind::normal;
    [[nodiscard]] bool is_text() const {
      return kind == Kind::normal || kind == Kind::user_defined || kind == Kind::unused;
    }
  };

  std::vector<Piece> pieces;  // by id
  Algorithm algorithm = Algorithm::unigram;
  bool byte_fallback = false;
  bool space_as_suffix = false;
  std::string unk_surface = " \xE2\x81\x87 ";
  std::string unk_piece = "<unk>";
  std::string bos_piece = "<s>";
  std::string eos_piece = "</s>";
  std::string charsmap;  // rules of normalisation, compiled by SentencePiece
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;

  // Returns the id of a control piece; -1: none.
  [[nodiscard]] std::int64_t control(std::string_view text) const;
  // Returns the text that a piece stands for.
  [[nodiscard]] std::string meaning(const Piece& piece) const;
};

// Parses the file. Throws Error (source, remedy) unless it has at least one piece, different pieces
// in UTF-8, finite scores, and rules that stay within their own tables.
[[nodiscard]] SentencePieceModel parse_sentencepiece(std::string_view bytes,
                                                     const std::string& source);

// Returns the byte of a piece "<0x41>"; -1 for another text.
[[nodiscard]] int byte_of(std::string_view piece);

// Returns the file of `model`, without fields that encoding does not need.
[[nodiscard]] std::string to_bytes(const SentencePieceModel& model);

// Returns whether `text` begins as tiktoken's format of a tokenizer.model, as in the first folders
// of Llama 3: on each line a token in base64, a space and its rank.
[[nodiscard]] bool is_tiktoken(std::string_view text);

}  // namespace tandem::exec
