#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exec/tokenizer/added_tokens.hpp"
#include "exec/tokenizer/sentencepiece_model.hpp"
#include "exec/tokenizer/token_settings.hpp"
#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec {

// SentencePiece's BPE in llama.cpp's form: a list of pieces and their scores.
struct ScoredPieces {
  std::vector<SentencePieceModel::Piece> pieces;  // by id; with different texts
  std::vector<AddedToken> tokens;                 // searched in a text before anything else
  std::int32_t unknown = 0;                       // the piece for characters without one
  bool space_prefix = true;  // before a text, and before text behind one of `tokens`
};

// Text between `tokens` (TokenSearch::longest) has U+2581 for its spaces. Repeatedly merges the
// neighbours that form the piece, of any kind, with the highest score, the leftmost of several. A
// character without a piece becomes the pieces "<0x00>" to "<0xFF>" of its bytes, or the unknown
// piece if one of these is missing, where llama.cpp fails. Of `settings` the ends are used;
// `vocab`: of the model. Throws Error (`source`) as load_tokenizer does.
[[nodiscard]] std::unique_ptr<Tokenizer> scored_pieces_tokenizer(ScoredPieces pieces,
                                                                 const std::string& source,
                                                                 const TokenSettings& settings,
                                                                 std::int64_t vocab);

// Returns the pieces with `unknown` as the only one of its kind: others of that kind, with which
// some files pad their vocabulary, become control pieces. A piece with text is unchanged.
[[nodiscard]] std::vector<SentencePieceModel::Piece> with_one_unknown(const ScoredPieces& pieces);

// Returns, by id, whether two other pieces or characters together have the piece's text, so that
// merges may produce it from a text. The others are never produced.
[[nodiscard]] std::vector<bool> mergeable(const std::vector<SentencePieceModel::Piece>& pieces);

}  // namespace tandem::exec
