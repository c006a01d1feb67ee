#include "exec/tokenizer/token_settings.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "exec/weights/files/read_file.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

using model::JsonDocument;
using model::JsonValue;

constexpr std::size_t kMaxStops = 256;
constexpr const char* kSettingsRemedy = "the file is damaged, copy or download it again";
constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{1} << 20U;

// The fields of tokenizer_config.json that are read below.
constexpr std::string_view kRead[] = {"add_bos_token",
                                      "add_eos_token",
                                      "legacy",
                                      "add_prefix_space",
                                      "do_lower_case",
                                      "strip_accents",
                                      "do_basic_tokenize",
                                      "tokenize_chinese_chars",
                                      "added_tokens_decoder",
                                      "additional_special_tokens",
                                      "extra_special_tokens",
                                      "split_special_tokens",
                                      "sp_model_kwargs",
                                      "never_split",
                                      "tokenizer_class"};
// Fields that change no token of a text: names and files, conversations, batches and their padding,
// how Hugging Face's library prints tokens.
constexpr std::string_view kHarmless[] = {"name_or_path",
                                          "_name_or_path",
                                          "special_tokens_map_file",
                                          "tokenizer_file",
                                          "vocab_file",
                                          "merges_file",
                                          "auto_map",
                                          "processor_class",
                                          "transformers_version",
                                          "trust_remote_code",
                                          "use_fast",
                                          "from_slow",
                                          "is_local",
                                          "init_inputs",
                                          "backend",
                                          "chat_template",
                                          "use_default_system_prompt",
                                          "response_schema",
                                          "model_input_names",
                                          "model_max_length",
                                          "max_len",
                                          "max_length",
                                          "stride",
                                          "padding",
                                          "padding_side",
                                          "pad_to_multiple_of",
                                          "pad_token_type_id",
                                          "truncation",
                                          "truncation_side",
                                          "truncation_strategy",
                                          "return_token_type_ids",
                                          "clean_up_tokenization_spaces",
                                          "spaces_between_special_tokens",
                                          "errors",
                                          "trim_offsets"};

bool setting_flag(const JsonValue& object, std::string_view key, bool absent) {
  const auto field = object.find(key);
  return field ? field->boolean() : absent;
}

// A token that is given by its text alone, or as an object with it.
std::string token_text(const JsonValue& value) {
  return value.is_object() ? value.at("content").text(kMaxTokenBytes) : value.text(kMaxTokenBytes);
}

class SettingsReader {
 public:
  TokenSettings read(std::span<const SettingsFile> files) {
    with(files, "tokenizer_config.json", [this](const JsonValue& root) { tokenizer_config(root); });
    for (const char* name : {"tokenizer_config.json", "config.json"})
      with(files, name, [&](const JsonValue& root) { tokenizer_class(root, name); });
    with(files, "special_tokens_map.json", [this](const JsonValue& root) { roles(root); });
    with(files, "added_tokens.json", [this](const JsonValue& root) { added_tokens(root); });
    with(files, "generation_config.json",
         [this](const JsonValue& root) { generation_config(root); });
    const std::set<std::string> special(settings_.named.begin(), settings_.named.end());
    for (AddedToken& token : settings_.tokens) {
      if (special.contains(token.text)) token.special = true;
    }
    return std::move(settings_);
  }

 private:
  template <class Use>
  static void with(std::span<const SettingsFile> files, std::string_view name, Use use) {
    for (const SettingsFile& file : files) {
      if (std::filesystem::path(file.path).filename() != name) continue;
      const JsonDocument document(file.text, file.path, kSettingsRemedy, {.bytes = kMaxFileBytes});
      use(document.root());
    }
  }

  void tokenizer_config(const JsonValue& root) {
    if (const auto field = root.find("add_bos_token")) settings_.add_bos = field->boolean();
    if (const auto field = root.find("add_eos_token")) settings_.add_eos = field->boolean();
    settings_.legacy = setting_flag(root, "legacy", false);
    if (const auto field = root.find("add_prefix_space")) settings_.prefix_space = field->boolean();
    if (const auto field = root.find("do_lower_case")) settings_.lower_case = field->boolean();
    if (const auto field = root.find("strip_accents")) settings_.strip_accents = field->boolean();
    check_known(root);
    settings_.chinese_alone = setting_flag(root, "tokenize_chinese_chars", true);
    if (const auto tokens = root.find("added_tokens_decoder")) {
      if (!tokens->is_object() || tokens->json().size() > kMaxAddedTokens) {
        tokens->fail("an object of at most " + std::to_string(kMaxAddedTokens) + " tokens");
      }
      for (const auto& [key, ignored] : tokens->json().items()) {
        std::int64_t id = -1;
        const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
        if (error != std::errc() || end != key.data() + key.size() || id < 0 || id > kMaxTokenId) {
          tokens->fail("an object whose keys are token ids, not " + shown_token(key));
        }
        add(parse_added_token(tokens->at(key), id), *tokens);
      }
    }
    roles(root);
  }

  static void check_known(const JsonValue& root) {
    // BERT's words without cutting at punctuation.
    if (const auto field = root.find("do_basic_tokenize"); field && !field->boolean())
      field->fail("true");
    // Special tokens that are written out in a text become their ids.
    if (const auto field = root.find("split_special_tokens"); field && field->boolean())
      field->fail("false: --raw-prompt takes them as text");
    // SentencePiece's sampling, and words that BERT's normaliser leaves alone.
    for (const char* key : {"sp_model_kwargs", "never_split"}) {
      const auto field = root.find(key);
      if (field && !field->json().empty()) field->fail("none");
    }
    const auto among = [](std::span<const std::string_view> keys, const std::string& key) {
      return std::find(keys.begin(), keys.end(), key) != keys.end();
    };
    for (const auto& [key, value] : root.json().items()) {
      if (value.is_null() || among(kRead, key) || among(kHarmless, key)) continue;
      if (key.ends_with("_token")) continue;  // a role
      root.fail_key(key,
                    "only fields that tandem knows, as it may change the tokens of a text (if it "
                    "does not, remove it from the file; token ids can be given with --prompt-ids)");
    }
  }

  // If both files state it, the first takes precedence.
  void tokenizer_class(const JsonValue& root, std::string_view source) {
    const auto field = root.find("tokenizer_class");
    if (!field || !settings_.tokenizer_class.empty()) return;
    settings_.tokenizer_class = field->text();
    settings_.class_source = source;
  }

  // The names of further special tokens, in a list or by role.
  void more_names(const JsonValue& root, std::string_view key) {
    const auto more = root.find(key);
    if (!more) return;
    if (more->is_object()) {
      for (const auto& [role, ignored] : more->json().items())
        settings_.named.push_back(token_text(more->at(role)));
      return;
    }
    const std::size_t count = more->size(kMaxAddedTokens);
    for (std::size_t i = 0; i < count; ++i) settings_.named.push_back(token_text(more->at(i)));
  }

  void roles(const JsonValue& root) {
    const auto first = [&](std::string_view role, std::string& text) {
      if (const auto token = root.find(role); token && text.empty()) text = token_text(*token);
    };
    first("bos_token", settings_.bos);
    first("eos_token", settings_.eos);
    first("unk_token", settings_.unknown);
    first("cls_token", settings_.front);
    first("sep_token", settings_.back);
    for (const char* role : {"bos_token", "eos_token", "unk_token", "pad_token", "cls_token",
                             "sep_token", "mask_token"}) {
      if (const auto token = root.find(role)) settings_.named.push_back(token_text(*token));
    }
    more_names(root, "additional_special_tokens");
    more_names(root, "extra_special_tokens");
  }

  void added_tokens(const JsonValue& root) {
    for (const auto& [text, ignored] : root.json().items()) {
      add({.text = text, .id = root.at(text).integer(0, kMaxTokenId), .special = false}, root);
    }
  }

  void generation_config(const JsonValue& root) {
    const auto eos = root.find("eos_token_id");
    if (!eos) return;
    if (!eos->is_array()) {
      settings_.stops.push_back(eos->integer(0, kMaxTokenId));
      return;
    }
    const std::size_t count = eos->size(kMaxStops);
    for (std::size_t i = 0; i < count; ++i) {
      settings_.stops.push_back(eos->at(i).integer(0, kMaxTokenId));
    }
  }

  void add(AddedToken token, const JsonValue& where) {
    const auto [same, is_new] = ids_.emplace(token.text, token.id);
    if (!is_new && same->second != token.id) {
      where.fail("one id for token " + shown_token(token.text) + ", not " +
                 std::to_string(same->second) + " and " + std::to_string(token.id));
    }
    if (is_new) settings_.tokens.push_back(std::move(token));
  }

  TokenSettings settings_;
  std::map<std::string, std::int64_t> ids_;  // of settings_.tokens
};

}  // namespace

std::vector<std::int64_t> TokenSettings::end_tokens(std::int64_t end) const {
  std::set<std::int64_t> all(stops.begin(), stops.end());
  if (end >= 0) all.insert(end);
  return {all.begin(), all.end()};
}

void TokenSettings::expect_class(std::span<const std::string_view> known,
                                 std::string_view file) const {
  if (tokenizer_class.empty()) return;
  constexpr std::string_view kFast = "Fast";
  std::string_view name = tokenizer_class;
  if (name.ends_with(kFast)) name.remove_suffix(kFast.size());
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  std::string expected;
  for (const std::string_view one : known) {
    expected += expected.empty() ? "" : ", ";
    expected += one;
  }
  throw Error(class_source + ": tokenizer_class is " + shown_token(tokenizer_class) +
              ", which may read " + std::string(file) + " in another way, expected one of " +
              expected + "; give token ids with --prompt-ids");
}

AddedToken parse_added_token(const JsonValue& value, std::int64_t id) {
  return {.text = value.at("content").text(kMaxTokenBytes),
          .id = id,
          .single_word = setting_flag(value, "single_word", false),
          .lstrip = setting_flag(value, "lstrip", false),
          .rstrip = setting_flag(value, "rstrip", false),
          .normalized = setting_flag(value, "normalized", false),
          .special = setting_flag(value, "special", false)};
}

std::string shown_token(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::string out = nlohmann::json(text.substr(0, kShown))
                        .dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kShown) out += "...";
  return out;
}

TokenSettings parse_token_settings(std::span<const SettingsFile> files) {
  return SettingsReader().read(files);
}

TokenSettings read_token_settings(const std::filesystem::path& folder) {
  std::vector<SettingsFile> files;
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                           "generation_config.json"}) {
    const std::filesystem::path path = folder / name;
    if (!is_present(path)) continue;
    files.push_back({.path = path.string(), .text = read_text(path, kMaxFileBytes)});
  }
  const std::filesystem::path config = folder / "config.json";
  if (is_present(config))
    files.push_back({.path = config.string(), .text = read_text(config, kMaxConfigBytes)});
  return parse_token_settings(files);
}

}  // namespace tandem::exec
