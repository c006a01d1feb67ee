// Any five texts are the small files of a tokenizer's folder or an Error; with them a small
// vocabulary is a tokenizer or an Error.

#include <array>

#include "exec/tokenizer/byte_level_tokenizer.hpp"
#include "exec/tokenizer/token_settings.hpp"
#include "tests/fuzz/fuzz_tokenizer.hpp"

namespace {

constexpr std::string_view kFile = R"({"pre_tokenizer": {"type": "ByteLevel"},
  "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "unk_token": "a",
  "vocab": {"a": 0, "b": 1, "ab": 2, "<s>": 3}, "merges": ["a b"]}})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem::exec;
  return tandem::fuzz::check_tokenizer(data, size, [](std::string_view input) {
    std::array<SettingsFile, 5> files{{{.path = "tokenizer_config.json", .text = "{}"},
                                       {.path = "special_tokens_map.json", .text = "{}"},
                                       {.path = "added_tokens.json", .text = "{}"},
                                       {.path = "generation_config.json", .text = "{}"},
                                       {.path = "config.json", .text = "{}"}}};
    for (SettingsFile& file : files) {
      const std::size_t end = input.find('\n');
      file.text = input.substr(0, end);
      if (end == std::string_view::npos) break;
      input.remove_prefix(end + 1);
    }
    return byte_level_tokenizer(parse_tokenizer_json(kFile, "fuzz"), "fuzz",
                                parse_token_settings(files), tandem::fuzz::kVocabulary);
  });
}
