#include "exec/gguf/conversion/folder_files.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "exec/weights/files/read_file.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

using Json = nlohmann::ordered_json;

Json added_json(const AddedToken& token) {
  return {{"id", token.id},          {"content", token.text},  {"single_word", token.single_word},
          {"lstrip", token.lstrip},  {"rstrip", token.rstrip}, {"normalized", token.normalized},
          {"special", token.special}};
}

std::string tokenizer_json(const TokenizerJson& json) {
  std::vector<std::string_view> texts;
  const auto name = [&](std::int32_t id, std::string_view text) {
    if (static_cast<std::size_t>(id) >= texts.size())
      texts.resize(static_cast<std::size_t>(id) + 1);
    texts[static_cast<std::size_t>(id)] = text;
  };
  for (const auto* list : {&json.vocab, &json.silent}) {
    for (const auto& [text, id] : *list) name(id, text);
  }
  for (const AddedToken& token : json.added) name(static_cast<std::int32_t>(token.id), token.text);
  Json vocab = Json::object();
  for (std::size_t id = 0; id < texts.size(); ++id) {
    const std::string text(texts[id]);
    if (json.vocab.contains(text) || json.silent.contains(text)) vocab[text] = id;
  }
  Json merges = Json::array();
  for (const TokenizerJson::Merge& merge : json.merges)
    merges.push_back(std::string(texts[static_cast<std::size_t>(merge.left)]) + " " +
                     std::string(texts[static_cast<std::size_t>(merge.right)]));
  Json added = Json::array();
  for (const AddedToken& token : json.added) {
    added.push_back(added_json(token));
    // A merge may lead to such a token.
    vocab[token.text] = token.id;
  }
  Json steps = Json::array();
  bool prefix = false;
  for (const TokenizerJson::Step& step : json.steps) {
    prefix = prefix || step.add_prefix_space;
    if (!step.pattern) continue;
    steps.push_back(
        {{"type", "Split"},
         {"pattern", {{step.pattern->is_literal() ? "String" : "Regex", step.pattern->text()}}},
         {"behavior", "Isolated"},
         {"invert", false}});
  }
  const Json bytes{{"type", "ByteLevel"},
                   {"add_prefix_space", prefix},
                   {"trim_offsets", true},
                   {"use_regex", false}};
  steps.push_back(bytes);
  // A space in front of a text is in front of its first word.
  if (prefix) {
    Json first = bytes;
    steps = Json::array({first});
    steps.front()["use_regex"] = true;
  }
  return Json{{"version", "1.0"},
              {"truncation", nullptr},
              {"padding", nullptr},
              {"added_tokens", added},
              {"normalizer", nullptr},
              {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps}}},
              {"post_processor", nullptr},
              {"decoder", bytes},
              {"model",
               {{"type", "BPE"},
                {"ignore_merges", json.ignore_merges},
                {"byte_fallback", false},
                {"vocab", vocab},
                {"merges", merges}}}}
             .dump(1) +
         "\n";
}

// Returns the folder's tokenizer with the same tokens. SentencePiece splits texts at user-defined
// pieces and splits unused ones up again; here the former are added tokens, and both merge.
Vocabulary as_folder(const ScoredPieces& scored, const Vocabulary& from) {
  using Kind = SentencePieceModel::Kind;
  SentencePieceModel model;
  model.algorithm = SentencePieceModel::Algorithm::bpe;
  model.add_dummy_prefix = scored.space_prefix;
  model.remove_extra_whitespaces = false;
  model.pieces = with_one_unknown(scored);
  constexpr std::ptrdiff_t kBytes = 256;
  const auto is_byte = [](const auto& piece) { return byte_of(piece.text) >= 0; };
  model.byte_fallback = std::ranges::count_if(model.pieces, is_byte) == kBytes;
  const std::vector<bool> merges = mergeable(scored.pieces);
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    SentencePieceModel::Piece& piece = model.pieces[id];
    if (piece.kind == Kind::unknown) model.unk_piece = piece.text;
    if (model.byte_fallback && is_byte(piece)) piece.kind = Kind::byte;
    if (piece.kind == Kind::user_defined || (piece.kind == Kind::unused && merges[id]))
      piece.kind = Kind::normal;
  }
  Vocabulary result{.kind = std::monostate(), .settings = from.settings, .source = from.source};
  // Text behind a special token begins a new word.
  result.settings.legacy = true;
  result.settings.tokens = scored.tokens;
  if (!result.settings.bos.empty()) model.bos_piece = result.settings.bos;
  if (!result.settings.eos.empty()) model.eos_piece = result.settings.eos;
  result.kind = std::move(model);
  return result;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> tokenizer_files(const Vocabulary& vocabulary,
                                                                 const std::string& chat_template) {
  if (std::holds_alternative<std::monostate>(vocabulary.kind)) {
    if (chat_template.empty()) return {};
    return {{"chat_template.jinja", chat_template}};
  }
  if (const auto* scored = std::get_if<ScoredPieces>(&vocabulary.kind))
    return tokenizer_files(as_folder(*scored, vocabulary), chat_template);
  std::vector<std::pair<std::string, std::string>> files;
  const TokenSettings& settings = vocabulary.settings;
  Json config = Json::object();
  if (const auto* pieces = std::get_if<SentencePieceModel>(&vocabulary.kind)) {
    files.emplace_back("tokenizer.model", to_bytes(*pieces));
    config["tokenizer_class"] = "LlamaTokenizer";
    config["legacy"] = settings.legacy;
    if (settings.prefix_space) config["add_prefix_space"] = *settings.prefix_space;
  } else if (const auto* words = std::get_if<WordPieces>(&vocabulary.kind)) {
    files.emplace_back("vocab.txt", words->lines);
    config["tokenizer_class"] = "BertTokenizer";
    config["do_lower_case"] = settings.lower_case.value_or(true);
    config["strip_accents"] = settings.strip_accents.value_or(true);
    if (!settings.unknown.empty()) config["unk_token"] = settings.unknown;
    if (!settings.front.empty()) config["cls_token"] = settings.front;
    if (!settings.back.empty()) config["sep_token"] = settings.back;
  } else {
    files.emplace_back("tokenizer.json", tokenizer_json(std::get<TokenizerJson>(vocabulary.kind)));
    config["tokenizer_class"] = "PreTrainedTokenizerFast";
  }
  if (settings.add_bos) config["add_bos_token"] = *settings.add_bos;
  if (settings.add_eos) config["add_eos_token"] = *settings.add_eos;
  if (!settings.bos.empty()) config["bos_token"] = settings.bos;
  if (!settings.eos.empty()) config["eos_token"] = settings.eos;
  for (const AddedToken& token : settings.tokens) {
    Json entry = added_json(token);
    entry.erase("id");
    config["added_tokens_decoder"][std::to_string(token.id)] = entry;
  }
  if (!chat_template.empty()) config["chat_template"] = chat_template;
  files.emplace_back("tokenizer_config.json", config.dump(1) + "\n");
  if (!settings.stops.empty())
    files.emplace_back("generation_config.json",
                       Json{{"eos_token_id", settings.stops}}.dump(1) + "\n");
  return files;
}

std::string folder_chat_template(const std::filesystem::path& folder) {
  if (const auto path = folder / "chat_template.jinja"; is_present(path))
    return read_text(path, kMaxFileBytes);
  const auto path = folder / "tokenizer_config.json";
  if (!is_present(path)) return "";
  const Json config = Json::parse(read_text(path, kMaxFileBytes), nullptr, false);
  const auto found = config.is_object() ? config.find("chat_template") : config.end();
  if (!config.is_object() || found == config.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  // Of several templates by name, the default.
  for (const Json& one : *found) {
    if (one.is_object() && one.value("name", Json()) == "default" &&
        one.value("template", Json()).is_string())
      return one["template"].get<std::string>();
  }
  return "";
}

}  // namespace tandem::exec
