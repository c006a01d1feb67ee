// Any bytes are a tokenizer.json or an Error; under a tokenizer any bytes are ids within the
// vocabulary, and their streamed text is UTF-8.

#include "exec/tokenizer/byte_level_tokenizer.hpp"
#include "tests/fuzz/fuzz_tokenizer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return tandem::fuzz::check_tokenizer(data, size, [](std::string_view file) {
    return tandem::exec::byte_level_tokenizer(tandem::exec::parse_tokenizer_json(file, "fuzz"),
                                              "fuzz", {}, tandem::fuzz::kVocabulary);
  });
}
