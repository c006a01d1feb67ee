#include "exec/tokenizer/tokenizer_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "exec/tokenizer/byte_alphabet.hpp"
#include "exec/tokenizer/token_settings.hpp"
#include "exec/tokenizer/utf8.hpp"
#include "exec/weights/files/read_file.hpp"
#include "model/base/error.hpp"
#include "model/base/json_value.hpp"

namespace tandem::exec {
namespace {

using model::JsonDocument;
using model::JsonValue;
using nlohmann::json;

constexpr std::size_t kMaxWordSteps = 64;
constexpr std::size_t kMaxTemplate = 256;
constexpr const char* kJsonRemedy = "the file is damaged, copy or download it again";

// Cuts of GPT-2 (Radford et al., 2019), which the format calls ByteLevel's own.
constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

bool flag(const JsonValue& object, std::string_view key, bool absent) {
  const auto field = object.find(key);
  return field ? field->boolean() : absent;
}

// Returns the elements of `part`: for a Sequence those in its list `key`, else itself; none if
// absent.
std::vector<JsonValue> elements(const std::optional<JsonValue>& part, std::string_view key) {
  if (!part) return {};
  if (part->at("type").text() != "Sequence") return {*part};
  std::vector<JsonValue> all;
  const JsonValue list = part->at(key);
  const std::size_t count = list.size(kMaxWordSteps);
  for (std::size_t i = 0; i < count; ++i) all.push_back(list.at(i));
  return all;
}

class TokenizerJsonParser {
 public:
  TokenizerJsonParser(std::string_view text, const std::string& source)
      : source_(source), document_(text, source, kJsonRemedy, {.bytes = kMaxFileBytes}) {}

  TokenizerJson parse() {
    const JsonValue root = document_.root();
    const JsonValue model = root.at("model");
    check_kind(model);
    read_steps(root.find("pre_tokenizer"));
    read_forms(root.find("normalizer"));
    check_decoder(root.find("decoder"));
    read_vocab(model.at("vocab"));
    read_merges(model.at("merges"));
    result_.ignore_merges = flag(model, "ignore_merges", false);
    read_added(root.find("added_tokens"));
    check_bytes(model.find("unk_token"), flag(model, "fuse_unk", false));
    for (const JsonValue& step : elements(root.find("post_processor"), "processors")) {
      read_post_processor(step);
    }
    return std::move(result_);
  }

  // The document is a vocabulary alone; `merges` as tokenizer.json has them.
  TokenizerJson parse_vocabulary(const json& merges, const std::string& merges_source,
                                 bool prefix_space) {
    read_vocab(document_.root());
    const std::string text = json{{"merges", merges}}.dump();
    const JsonDocument list(text, merges_source, kJsonRemedy, {.bytes = kMaxFileBytes});
    read_merges(list.root().at("merges"));
    check_bytes({}, false);
    result_.steps.push_back({.add_prefix_space = prefix_space});
    result_.steps.back().pattern.emplace(kGpt2Pattern, false, SplitPattern::Gaps::keep, source_);
    return std::move(result_);
  }

 private:
  [[noreturn]] void unsupported(const std::string& part, const std::string& found,
                                const std::string& expected) const {
    throw Error(source_ + ": " + part + " " + shown_token(found) + ", expected " + expected +
                " (byte-level BPE, as of GPT-2, Llama 3 and Qwen); put the model's tokenizer.model "
                "beside it, or give token ids with --prompt-ids");
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(source_ + ": " + what + "; " + kJsonRemedy);
  }

  void check_kind(const JsonValue& model) const {
    // Older files omit it for BPE.
    const auto type = model.find("type");
    const std::string kind = type ? type->text() : model.find("merges") ? "BPE" : "of no type";
    if (kind != "BPE") unsupported("model", kind, "BPE");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const auto field = model.find(key);
      if (field && !field->text().empty()) unsupported(key, field->text(), "none");
    }
    if (flag(model, "byte_fallback", false)) unsupported("BPE with", "byte_fallback", "none");
    if (const auto dropout = model.find("dropout"); dropout && dropout->number(0.0, 1.0) > 0.0) {
      unsupported("BPE with", "dropout", "none");
    }
  }

  void read_forms(const std::optional<JsonValue>& normalizer) {
    for (const JsonValue& step : elements(normalizer, "normalizers")) {
      const std::string type = step.at("type").text();
      const auto form = unicode_form_of(type);
      if (!form) unsupported("normalizer", type, "none, NFC, NFD, NFKC or NFKD");
      result_.forms.push_back(*form);
    }
  }

  void read_steps(const std::optional<JsonValue>& pre_tokenizer) {
    bool byte_level = false;
    for (const JsonValue& step : elements(pre_tokenizer, "pretokenizers")) {
      const std::string type = step.at("type").text();
      if (byte_level) unsupported("after ByteLevel pre_tokenizer", type, "nothing");
      if (type == "ByteLevel") {
        byte_level = true;
        result_.steps.push_back({.add_prefix_space = flag(step, "add_prefix_space", true)});
        if (flag(step, "use_regex", true)) {
          result_.steps.back().pattern.emplace(kGpt2Pattern, false, SplitPattern::Gaps::keep,
                                               source_);
        }
      } else if (type == "Split") {
        read_split(step);
      } else if (type == "Digits") {
        const bool single = flag(step, "individual_digits", false);
        add_pattern(single ? R"(\p{N})" : R"(\p{N}+)", false, SplitPattern::Gaps::keep);
      } else {
        unsupported("pre_tokenizer", type, "Split, Digits and ByteLevel");
      }
    }
    if (!byte_level) unsupported("pre_tokenizer", "without ByteLevel", "one that ends with it");
  }

  void read_split(const JsonValue& step) {
    const JsonValue pattern = step.at("pattern");
    const bool literal = pattern.find("String").has_value();
    const std::string text = pattern.at(literal ? "String" : "Regex").text(kMaxTokenBytes);
    const std::string behavior = step.at("behavior").text();
    const bool invert = flag(step, "invert", false);
    if (behavior == "Isolated" && !invert) {
      add_pattern(text, literal, SplitPattern::Gaps::keep);
    } else if (behavior == "Removed" && invert) {
      add_pattern(text, literal, SplitPattern::Gaps::drop);
    } else {
      unsupported("Split with", behavior + (invert ? ", inverted" : ""),
                  "Isolated, or Removed and inverted");
    }
  }

  void add_pattern(const std::string& text, bool literal, SplitPattern::Gaps gaps) {
    result_.steps.emplace_back();
    result_.steps.back().pattern.emplace(text, literal, gaps, source_);
  }

  void check_decoder(const std::optional<JsonValue>& decoder) const {
    const std::vector<JsonValue> steps = elements(decoder, "decoders");
    if (steps.empty()) unsupported("decoder", "none", "ByteLevel");
    for (const JsonValue& step : steps) {
      const std::string type = step.at("type").text();
      if (type != "ByteLevel") unsupported("decoder", type, "ByteLevel");
    }
  }

  void read_vocab(const JsonValue& vocab) {
    if (!vocab.is_object() || vocab.json().empty()) vocab.fail("an object of tokens and their ids");
    texts_.reserve(vocab.json().size());
    result_.vocab.reserve(vocab.json().size());
    for (const auto& [token, value] : vocab.json().items()) {
      const auto id = static_cast<std::int32_t>(vocab.at(token).integer(0, kMaxTokenId));
      result_.vocab.emplace(token, id);
      name(token, id);
    }
  }

  void name(const std::string& token, std::int32_t id) {
    const auto [same, is_free] = texts_.emplace(id, token);
    if (is_free || same->second == token) return;
    fail("tokens " + shown_token(same->second) + " and " + shown_token(token) +
         " have the same id " + std::to_string(id) + ", expected different ones");
  }

  void read_merges(const JsonValue& merges) {
    const json& list = merges.json();
    if (!list.is_array() || list.size() > static_cast<std::size_t>(kMaxTokenId)) {
      merges.fail("an array of merges");
    }
    result_.merges.reserve(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto [left, right] = merge_texts(merges, i);
      const auto id_of = [&](const std::string& token) {
        const auto found = result_.vocab.find(token);
        if (found != result_.vocab.end()) return found->second;
        fail("merge " + std::to_string(i) + " names token " + shown_token(token) +
             ", expected one of the vocabulary");
      };
      result_.merges.push_back(
          {.left = id_of(left), .right = id_of(right), .merged = id_of(left + right)});
    }
  }

  // A merge is "left right" or ["left", "right"].
  static std::pair<std::string, std::string> merge_texts(const JsonValue& merges, std::size_t i) {
    const json& merge = merges.json()[i];
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    }
    if (merge.is_string()) {
      const auto& both = merge.get_ref<const std::string&>();
      const std::size_t space = both.find(' ');
      if (space != std::string::npos && space > 0 && space + 1 < both.size()) {
        return {both.substr(0, space), both.substr(space + 1)};
      }
    }
    merges.at(i).fail("two tokens, as one string with a space between or as an array");
  }

  void read_added(const std::optional<JsonValue>& list) {
    if (!list) return;
    const std::size_t count = list->size(kMaxAddedTokens);
    for (std::size_t i = 0; i < count; ++i) {
      const JsonValue entry = list->at(i);
      AddedToken token = parse_added_token(entry, entry.at("id").integer(0, kMaxTokenId));
      const auto in_vocab = result_.vocab.find(token.text);
      if (in_vocab != result_.vocab.end() && in_vocab->second != token.id) {
        fail("added token " + shown_token(token.text) + " has id " + std::to_string(token.id) +
             ", expected the vocabulary's " + std::to_string(in_vocab->second));
      }
      name(token.text, static_cast<std::int32_t>(token.id));
      result_.added.push_back(std::move(token));
    }
  }

  // Every byte of written text needs a token; the few others are refused when a text has them.
  // `fuses`: one token of unknown bytes is for all that follow each other, where ours is for each.
  void check_bytes(const std::optional<JsonValue>& unknown, bool fuses) {
    if (unknown) {
      const auto found = result_.vocab.find(unknown->text(kMaxTokenBytes));
      if (found == result_.vocab.end()) unknown->fail("a token of the vocabulary");
      result_.unknown = found->second;
      if (!fuses) return;
    }
    for (unsigned byte = 0; byte < 256; ++byte) {
      const auto one = static_cast<unsigned char>(byte);
      const std::string letter = to_utf8(letter_of(one));
      if ((!unknown && may_lack_token(one)) || byte == 0xC0 || byte == 0xC1 || byte > 0xF4 ||
          result_.vocab.contains(letter))
        continue;
      if (unknown) unsupported("BPE with", "fuse_unk", "none where bytes have no token");
      fail("no token for byte " + std::to_string(byte) + " (" + shown_token(letter) +
           "), expected one for each byte of written text");
    }
  }

  void read_post_processor(const JsonValue& step) {
    const std::string type = step.at("type").text();
    if (type == "ByteLevel") return;  // about offsets only
    if (type != "TemplateProcessing") {
      unsupported("post_processor", type, "ByteLevel or TemplateProcessing");
    }
    const JsonValue parts = step.at("single");
    const std::size_t count = parts.size(kMaxTemplate);
    bool behind = false;
    for (std::size_t i = 0; i < count; ++i) {
      const JsonValue part = parts.at(i);
      if (part.find("Sequence")) {
        if (behind) part.fail("the text once");
        behind = true;
        continue;
      }
      const std::string name = part.at("SpecialToken").at("id").text(kMaxTokenBytes);
      const JsonValue ids = step.at("special_tokens").at(name).at("ids");
      const std::size_t ids_count = ids.size(kMaxTemplate);
      for (std::size_t k = 0; k < ids_count; ++k) {
        auto& side = behind ? result_.back : result_.front;
        side.push_back(static_cast<std::int32_t>(ids.at(k).integer(0, kMaxTokenId)));
      }
    }
    if (!behind) parts.fail("an array with the text, {\"Sequence\": ...}");
  }

  const std::string& source_;
  JsonDocument document_;
  TokenizerJson result_;
  std::unordered_map<std::int32_t, std::string> texts_;  // by id
};

}  // namespace

TokenizerJson parse_tokenizer_json(std::string_view text, const std::string& source) {
  return TokenizerJsonParser(text, source).parse();
}

TokenizerJson parse_vocabulary_and_merges(std::string_view vocabulary,
                                          const std::string& vocabulary_source,
                                          std::string_view merges, const std::string& merges_source,
                                          bool prefix_space) {
  // In the terms of tokenizer.json.
  json list = json::array();
  std::size_t line_number = 0;
  for (std::size_t at = 0; at < merges.size();) {
    const std::size_t end = std::min(merges.find('\n', at), merges.size());
    std::string_view line = merges.substr(at, end - at);
    at = end + 1;
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || space == 0 || space + 1 == line.size() ||
        line.size() > kMaxTokenBytes || valid_utf8(line) != line) {
      throw Error(merges_source + ": line " + std::to_string(line_number) + ": " +
                  shown_token(line) + ", expected two tokens with a space between; " + kJsonRemedy);
    }
    list.push_back(line);
  }
  return TokenizerJsonParser(vocabulary, vocabulary_source)
      .parse_vocabulary(list, merges_source, prefix_space);
}

}  // namespace tandem::exec
