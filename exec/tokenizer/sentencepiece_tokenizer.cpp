// Encoding by the SentencePiece library; decoding by our own table, piece by piece.

#include "exec/tokenizer/sentencepiece_tokenizer.hpp"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <map>
#include <utility>

#include "exec/tokenizer/added_tokens.hpp"
#include "exec/tokenizer/sentencepiece_model.hpp"
#include "exec/tokenizer/table_tokenizer.hpp"
#include "exec/tokenizer/utf8.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

using Kind = SentencePieceModel::Kind;
using Processor = sentencepiece::SentencePieceProcessor;

std::string_view name_of_algorithm(SentencePieceModel::Algorithm algorithm) {
  switch (algorithm) {
    case SentencePieceModel::Algorithm::unigram:
      return "unigram";
    case SentencePieceModel::Algorithm::bpe:
      return "BPE";
    case SentencePieceModel::Algorithm::word:
      return "words";
    case SentencePieceModel::Algorithm::character:
      return "characters";
  }
  return "";
}

std::unique_ptr<const Processor> processor_of(const SentencePieceModel& model,
                                              const std::string& source) {
  auto processor = std::make_unique<Processor>();
  std::string reason;
  try {
    const auto status = processor->LoadFromSerializedProto(to_bytes(model));
    if (status.ok()) return processor;
    reason = status.message();
  } catch (const std::exception& error) {
    reason = error.what();
  }
  std::ranges::replace(reason, '\n', ' ');
  throw Error(source + ": SentencePiece refuses it (" + reason +
              "), expected a vocabulary that it can search; copy or download the file again");
}

class SentencePieceTokenizer final : public TableTokenizer {
 public:
  SentencePieceTokenizer(SentencePieceModel model, const std::string& source,
                         const TokenSettings& settings, std::int64_t vocab)
      : TableTokenizer(vocab, source),
        algorithm_(model.algorithm),
        drops_space_(model.add_dummy_prefix || model.remove_extra_whitespaces),
        drops_spaces_(model.remove_extra_whitespaces),
        legacy_(settings.legacy) {
    if (model.space_as_suffix) {
      throw Error(source +
                  ": marks the ends of words, expected a model that marks their beginnings; give "
                  "token ids with --prompt-ids");
    }
    fill_table(model);
    add_tokens(model, settings, source);
    // LlamaTokenizer's own: its old behaviour knows no such setting.
    if (!legacy_ && !settings.prefix_space.value_or(true)) {
      model.add_dummy_prefix = false;
      drops_space_ = drops_spaces_;
    }
    first_ = processor_of(model, source);
    model.add_dummy_prefix = false;
    behind_ = processor_of(model, source);
    choose_ends(model, settings, source);
  }

  // As the library decodes: without the space of the first word.
  [[nodiscard]] std::string first_piece(std::int32_t id, bool& at_start) const override {
    std::string text = table_.bytes(id);
    if (drops_space_ && is_word_begin(id)) {
      text.erase(0, 1);
      if (!drops_spaces_) at_start = false;
    }
    if (!text.empty()) at_start = false;
    return text;
  }

  [[nodiscard]] std::string description() const override {
    return "SentencePiece " + std::string(name_of_algorithm(algorithm_)) + ", " +
           std::to_string(table_.count()) + " tokens";
  }

 private:
  void append(std::string_view part, Before before, WrittenTokens written,
              Ids& ids) const override {
    const Processor& processor = before == Before::nothing || legacy_ ? *first_ : *behind_;
    std::vector<int> found;
    const auto status = processor.Encode(unguarded(part, written), &found);
    if (!status.ok()) {
      throw Error("tokenizer.model: SentencePiece cannot encode this text (" +
                  std::string(status.message()) + "), expected tokens; give --prompt-ids");
    }
    ids.insert(ids.end(), found.begin(), found.end());
  }

  void fill_table(const SentencePieceModel& model) {
    begins_word_.resize(model.pieces.size());
    for (std::size_t id = 0; id < model.pieces.size(); ++id) {
      const SentencePieceModel::Piece& piece = model.pieces[id];
      table_.set(static_cast<std::int64_t>(id), model.meaning(piece), piece.text);
      begins_word_[id] = piece.is_text() && piece.text.starts_with(kSpaceMark);
    }
  }

  // Sets the tokens searched in a text: the model's control and unknown pieces, and the folder's.
  void add_tokens(const SentencePieceModel& model, const TokenSettings& settings,
                  const std::string& source) {
    std::map<std::string, AddedToken, std::less<>> found;
    std::map<std::string_view, std::int64_t> pieces;
    for (std::size_t i = 0; i < model.pieces.size(); ++i) {
      const SentencePieceModel::Piece& piece = model.pieces[i];
      const auto id = static_cast<std::int64_t>(i);
      pieces.emplace(piece.text, id);
      if (piece.kind != Kind::control && piece.kind != Kind::unknown) continue;
      found[piece.text] = {.text = piece.text, .id = id};
    }
    for (const std::string& name : settings.named) {
      const auto piece = pieces.find(name);
      if (piece != pieces.end()) found[name] = {.text = name, .id = piece->second};
    }
    for (const AddedToken& token : settings.tokens) {
      found[token.text] = token;
      const auto index = static_cast<std::size_t>(token.id);
      if (index >= model.pieces.size()) {
        table_.set(token.id, token.special ? "" : token.text, token.text);
      } else if (model.pieces[index].text != token.text) {
        throw Error(source + ": token " + std::to_string(index) + " is " +
                    shown_token(model.pieces[index].text) + ", expected " +
                    shown_token(token.text) +
                    " as tokenizer_config.json says; take both files from one model");
      }
    }
    std::vector<AddedToken> tokens;
    for (auto& [text, token] : found) {
      ids_.emplace(text, token.id);
      tokens.push_back(std::move(token));
    }
    tokens_ = AddedTokens(std::move(tokens));
  }

  // The folder's token of that role if it has an id, else the model's own.
  [[nodiscard]] std::int64_t role(const std::string& text, const SentencePieceModel& model,
                                  const std::string& piece) const {
    if (text.empty()) return model.control(piece);
    const auto found = ids_.find(text);
    return found == ids_.end() ? -1 : found->second;
  }

  void choose_ends(const SentencePieceModel& model, const TokenSettings& settings,
                   const std::string& source) {
    const std::int64_t bos = role(settings.bos, model, model.bos_piece);
    if (bos < 0 && settings.add_bos.value_or(false)) {
      throw Error(source + ": has no token " +
                  shown_token(settings.bos.empty() ? model.bos_piece : settings.bos) +
                  ", expected one as tokenizer_config.json adds it to texts; check bos_token");
    }
    if (bos >= 0 && settings.add_bos.value_or(true))
      front_.push_back(static_cast<std::int32_t>(bos));
    const std::int64_t eos = role(settings.eos, model, model.eos_piece);
    if (eos >= 0 && settings.add_eos.value_or(false))
      back_.push_back(static_cast<std::int32_t>(eos));
    eos_ = settings.end_tokens(eos);
  }

  [[nodiscard]] bool is_word_begin(std::int32_t id) const {
    const auto index = static_cast<std::size_t>(id);
    return index < begins_word_.size() && begins_word_[index];
  }

  std::vector<bool> begins_word_;  // by id
  SentencePieceModel::Algorithm algorithm_;
  bool drops_space_;   // of the first word
  bool drops_spaces_;  // all that come before it
  bool legacy_;
  std::map<std::string, std::int64_t, std::less<>> ids_;  // of special tokens
  std::unique_ptr<const Processor> first_;                // for a text's beginning
  std::unique_ptr<const Processor> behind_;               // for text behind a special token
};

}  // namespace

std::unique_ptr<Tokenizer> sentencepiece_tokenizer(SentencePieceModel model,
                                                   const std::string& source,
                                                   const TokenSettings& settings,
                                                   std::int64_t vocab) {
  return std::make_unique<SentencePieceTokenizer>(std::move(model), source, settings, vocab);
}

std::unique_ptr<Tokenizer> sentencepiece_tokenizer(std::string_view bytes,
                                                   const std::string& source,
                                                   const TokenSettings& settings,
                                                   std::int64_t vocab) {
  return sentencepiece_tokenizer(parse_sentencepiece(bytes, source), source, settings, vocab);
}

}  // namespace tandem::exec
