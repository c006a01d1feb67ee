#pragma once

// The file `tokenizer.model` of SentencePiece, checked before the library sees it: the library
// trusts its tables. Fields as in sentencepiece_model.proto (Kudo & Richardson, EMNLP 2018).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::exec {

struct SentencePieceModel {
  enum class Algorithm { unigram = 1, bpe = 2, word = 3, character = 4 };
  enum class Kind { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  struct Piece {
    std::string text;
    float score = 0.0F;
    Kind kind = Kind::normal;
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

  // Id of a control piece; -1: none.
  [[nodiscard]] std::int64_t control(std::string_view text) const;
};

// Throws Error (source, remedy) unless `bytes` is such a file with at least one piece, pieces that
// differ and are UTF-8, finite scores, and rules that stay within their own tables.
[[nodiscard]] SentencePieceModel parse_sentencepiece(std::string_view bytes,
                                                     const std::string& source);

// The byte of a piece "<0x41>"; -1 for another text.
[[nodiscard]] int byte_of(std::string_view piece);

// The file of `model`, without what encoding does not need.
[[nodiscard]] std::string to_bytes(const SentencePieceModel& model);

// Returns whether `text` begins as tiktoken's format of a tokenizer.model, which the first folders
// of Llama 3 have: on each line a token in base64, a space and its rank.
[[nodiscard]] bool is_tiktoken(std::string_view text);

}  // namespace tandem::exec
