#include "exec/evaluation/questions.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/base/error.hpp"
#include "model/base/json_value.hpp"

namespace tandem::exec {
namespace {

using Json = nlohmann::json;

std::string place(std::string_view source, std::int64_t line) {
  return std::string(source) + ":" + std::to_string(line);
}

// Calls use(object, line) for every line that is not blank.
template <class Use>
void for_lines(std::string_view text, std::string_view source, const char* example,
               const Use& use) {
  std::int64_t line = 0;
  std::int64_t objects = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view words = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line;
    if (words.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    use(model::parse_json(words, place(source, line),
                          "write " + std::string(example) + " on a line of its own",
                          {.bytes = words.size()}),
        line);
    ++objects;
  }
  if (objects == 0) {
    throw Error(std::string(source) + ": empty, expected lines of " + example);
  }
}

std::string words_of(const Json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string() ||
      found->get_ref<const std::string&>().empty()) {
    throw Error(where + ": " + key + ": " + (found == object.end() ? "missing" : "no text") +
                ", expected a text of at least one character");
  }
  return found->get<std::string>();
}

std::int64_t distance_of(const Json& object, const std::string& where) {
  const auto found = object.find("distance");
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (found != object.end() && found->is_number_unsigned() &&
      found->get<std::uint64_t>() <= static_cast<std::uint64_t>(kMost)) {
    return found->get<std::int64_t>();
  }
  // Only plain values are written out: nesting is walked recursively.
  throw Error(where + ": distance: " +
              (found == object.end() ? "missing"
               : found->is_primitive()
                   ? found->dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 40)
                   : found->type_name()) +
              ", expected a whole number of tokens from 0");
}

// Without an end-of-sequence token, as nothing is to end.
std::vector<std::int32_t> open_ended(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::int32_t> ids = tokenizer.encode(text);
  const auto ends = tokenizer.eos_tokens();
  while (!ids.empty() && std::ranges::find(ends, ids.back()) != ends.end()) ids.pop_back();
  return ids;
}

void check_length(std::size_t tokens, std::int64_t context, const std::string& where) {
  if (tokens < 2) {
    throw Error(where + ": " + std::to_string(tokens) +
                " tokens, expected at least 2, one to expect and one before it; lengthen the text");
  }
  if (tokens > static_cast<std::size_t>(context)) {
    throw Error(where + ": " + std::to_string(tokens) + " tokens, expected at most the model's " +
                std::to_string(context) + "; shorten the text, or take another model");
  }
}

}  // namespace

std::vector<Document> parse_documents(std::string_view text, std::string_view source) {
  std::vector<Document> documents;
  for_lines(text, source, R"({"text": "..."})", [&](const Json& object, std::int64_t line) {
    documents.push_back({words_of(object, "text", place(source, line)), line});
  });
  return documents;
}

std::vector<Question> parse_questions(std::string_view text, std::string_view source) {
  std::vector<Question> questions;
  const char* example = R"({"distance": 64, "prompt": "...", "answer": "..."})";
  for_lines(text, source, example, [&](const Json& object, std::int64_t line) {
    const std::string where = place(source, line);
    questions.push_back({distance_of(object, where), words_of(object, "prompt", where),
                         words_of(object, "answer", where), line});
  });
  return questions;
}

DocumentPassage passage_of(const Document& document, const Tokenizer& tokenizer,
                           std::int64_t context, std::string_view source) {
  DocumentPassage result;
  result.passage.tokens = open_ended(tokenizer, document.text);
  check_length(result.passage.tokens.size(), context, place(source, document.line));
  result.passage.scored = static_cast<std::int32_t>(result.passage.tokens.size()) - 1;
  result.bytes = static_cast<std::int64_t>(document.text.size());
  if (tokenizer.bos_token() < 0) {
    bool at_start = true;
    result.bytes -= static_cast<std::int64_t>(
        tokenizer.first_piece(result.passage.tokens.front(), at_start).size());
  }
  return result;
}

Passage passage_of(const Question& question, const Tokenizer& tokenizer, std::int64_t context,
                   std::string_view source) {
  const std::string where = place(source, question.line);
  const std::vector<std::int32_t> prompt = open_ended(tokenizer, question.prompt);
  Passage passage{.tokens = open_ended(tokenizer, question.prompt + question.answer)};
  check_length(passage.tokens.size(), context, where);
  const auto [unlike, in_prompt] = std::ranges::mismatch(passage.tokens, prompt);
  passage.scored = static_cast<std::int32_t>(passage.tokens.end() - unlike);
  if (passage.scored == 0 || unlike == passage.tokens.begin()) {
    throw Error(where + ": the answer adds no token to the prompt; lengthen the answer");
  }
  return passage;
}

}  // namespace tandem::exec
