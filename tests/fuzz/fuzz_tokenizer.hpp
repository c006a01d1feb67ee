#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "exec/tokenizer/tokenizer.hpp"
#include "exec/tokenizer/utf8.hpp"
#include "model/base/error.hpp"

namespace tandem::fuzz {

inline constexpr std::int64_t kVocabulary = 4096;

// The law of every tokenizer's file. The input is the file, behind its last line the text.
template <class Load>
int check_tokenizer(const std::uint8_t* data, std::size_t size, Load load) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = input.rfind('\n');
  const std::string_view text = end == std::string_view::npos ? "a b" : input.substr(end + 1);
  try {
    const auto tokenizer = load(input.substr(0, end));
    const auto ids = tokenizer->encode(text);
    exec::StreamingDecoder decoder(*tokenizer);
    std::string streamed;
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= kVocabulary) std::abort();
      streamed += decoder.push(id);
    }
    streamed += decoder.finish();
    if (exec::valid_utf8(streamed) != streamed) std::abort();
    std::string whole = exec::decode(*tokenizer, ids);
    if (exec::take_printable(whole, true) != streamed) std::abort();
  } catch (const Error&) {
  }
  return 0;
}

}  // namespace tandem::fuzz
