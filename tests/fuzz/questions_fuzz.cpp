// Files of held-out text and recall questions: any bytes are some of them, or one Error; what
// fits a tokenizer becomes passages. The first byte picks the parser.

#include <cstdlib>

#include "exec/evaluation/questions.hpp"
#include "model/base/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem::exec;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr std::int64_t kContext = 64;
  const auto tokenizer = byte_tokenizer(258, data[0] % 4 < 2 ? 257 : -1);
  const auto check = [&](const Passage& passage) {
    if (passage.scored < 1 || static_cast<std::size_t>(passage.scored) >= passage.tokens.size() ||
        passage.tokens.size() > kContext) {
      std::abort();
    }
  };
  try {
    if (data[0] % 2 == 0) {
      for (const Document& document : parse_documents(text, "fuzz")) {
        check(passage_of(document, *tokenizer, kContext, "fuzz").passage);
      }
    } else {
      for (const Question& question : parse_questions(text, "fuzz")) {
        check(passage_of(question, *tokenizer, kContext, "fuzz"));
      }
    }
  } catch (const tandem::Error&) {
    return 0;
  }
  return 0;
}
