// Any bytes are a merges.txt beside a vocabulary of all letters and some of their pairs, or an
// Error; under a tokenizer any bytes are ids within the vocabulary, and their streamed text is
// UTF-8.

#include <nlohmann/json.hpp>

#include "exec/tokenizer/byte_alphabet.hpp"
#include "exec/tokenizer/byte_level_tokenizer.hpp"
#include "exec/tokenizer/tokenizer_json.hpp"
#include "tests/fuzz/fuzz_tokenizer.hpp"

namespace {

std::string letters_and_pairs() {
  nlohmann::ordered_json vocabulary;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char32_t letter = tandem::exec::letter_of(static_cast<unsigned char>(byte));
    vocabulary[tandem::exec::to_utf8(letter)] = byte;
  }
  for (const char* more : {"aa", "ab", "ba", "aab", "aaa", "the", "th", "he"}) {
    vocabulary[more] = vocabulary.size();
  }
  return vocabulary.dump();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string vocabulary = letters_and_pairs();
  return tandem::fuzz::check_tokenizer(data, size, [](std::string_view file) {
    return tandem::exec::byte_level_tokenizer(
        tandem::exec::parse_vocabulary_and_merges(vocabulary, "fuzz", file, "fuzz", false), "fuzz",
        {}, tandem::fuzz::kVocabulary);
  });
}
