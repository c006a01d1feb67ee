#pragma once

// The parts of a tokenizer as read from files.

#include <filesystem>
#include <memory>
#include <string>
#include <variant>

#include "exec/tokenizer/scored_pieces.hpp"
#include "exec/tokenizer/sentencepiece_model.hpp"
#include "exec/tokenizer/token_settings.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "exec/tokenizer/tokenizer_json.hpp"

namespace tandem::exec {

// WordPiece, as in a vocab.txt: one token a line, "##" before tokens that continue a word.
struct WordPieces {
  std::string lines;
};

struct Vocabulary {
  // Bytes, a folder's tokenizer.model, a GGUF file's, byte-level BPE, and a GGUF file's WordPiece.
  std::variant<std::monostate, SentencePieceModel, ScoredPieces, TokenizerJson, WordPieces> kind{};
  TokenSettings settings{};
  std::string source{};  // the file, for messages
};

// Returns the vocabulary of a Hugging Face folder, except WordPiece. Throws Error as
// load_tokenizer.
[[nodiscard]] Vocabulary folder_vocabulary(const std::filesystem::path& folder);

// Throws Error for ids beyond the model's vocabulary, and for what SentencePiece rejects.
[[nodiscard]] std::unique_ptr<Tokenizer> make_tokenizer(Vocabulary vocabulary,
                                                        const model::Transformer& transformer);

}  // namespace tandem::exec
