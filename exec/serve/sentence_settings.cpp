// The files that sentence-transformers keeps beside an encoder's weights.

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "exec/serve/pooling.hpp"
#include "exec/weights/files/read_file.hpp"
#include "model/base/error.hpp"
#include "model/base/json_value.hpp"

namespace tandem::exec {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kMostSentenceBytes = std::uint64_t{1} << 20U;
constexpr std::int64_t kMostTextTokens = std::int64_t{1} << 30U;
constexpr const char* kSentenceRemedy = "copy or download the model again, or use another one";

// Every module that the text passes. The list is an array, which parse_json does not take.
void check_modules(const fs::path& path) {
  constexpr std::string_view kKnown[] = {"Transformer", "Pooling", "Normalize"};
  const model::JsonDocument modules("{\"modules\": " + read_text(path, kMostSentenceBytes) + "}",
                                    path.string(), kSentenceRemedy);
  const model::JsonValue list = modules.root().at("modules");
  constexpr std::size_t kMostModules = 64;
  const std::size_t count = list.size(kMostModules);
  for (std::size_t i = 0; i < count; ++i) {
    const model::JsonValue type = list.at(i).at("type");
    const std::string name = type.line();
    const std::string last = name.substr(name.rfind('.') + 1);
    if (std::ranges::find(kKnown, last) == std::end(kKnown))
      type.fail("a module of type Transformer, Pooling or Normalize");
  }
}

const Pooling* pooling_of(const fs::path& path) {
  constexpr std::string_view kPrefix = "pooling_mode_";
  const model::JsonDocument document(read_text(path, kMostSentenceBytes), path.string(),
                                     kSentenceRemedy);
  const model::JsonValue root = document.root();
  std::string expected = "one of";
  for (const Pooling& one : poolings()) expected += " " + std::string(one.key);
  expected += ", and no other mode";
  const Pooling* found = nullptr;
  for (const auto& [key, value] : root.json().items()) {
    if (!key.starts_with(kPrefix) || !root.at(key).boolean()) continue;
    const auto known = std::ranges::find(poolings(), key, &Pooling::key);
    if (known == poolings().end() || found != nullptr) root.at(key).fail(expected);
    found = &*known;
  }
  if (found == nullptr)
    throw Error(path.string() + ": no mode of pooling is true, expected " + expected + "; " +
                kSentenceRemedy);
  return found;
}

}  // namespace

SentenceSettings read_sentence_settings(const fs::path& folder) {
  SentenceSettings settings;
  if (const fs::path path = folder / "modules.json"; is_present(path)) check_modules(path);
  if (const fs::path path = folder / "1_Pooling" / "config.json"; is_present(path))
    settings.pooling = pooling_of(path);
  const fs::path path = folder / "sentence_bert_config.json";
  if (!is_present(path)) return settings;
  const model::JsonDocument document(read_text(path, kMostSentenceBytes), path.string(),
                                     kSentenceRemedy);
  const model::JsonValue root = document.root();
  if (const auto most = root.find("max_seq_length"))
    settings.most_tokens = most->integer(1, kMostTextTokens);
  if (const auto lower = root.find("do_lower_case"); lower && lower->boolean())
    lower->fail("false, as texts are tokenized as they are");
  return settings;
}

}  // namespace tandem::exec
