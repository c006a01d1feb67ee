#define PCRE2_CODE_UNIT_WIDTH 8
#include "exec/tokenizer/split_pattern.hpp"

#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>
#include <utility>

#include "exec/tokenizer/token_settings.hpp"
#include "exec/tokenizer/utf8.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

// Step limit of one match, and for long texts a limit per byte: reasonable patterns pass over a run
// of white space once forwards and once back.
constexpr std::uint32_t kMaxMatchSteps = 1'000'000;
constexpr std::size_t kStepsPerByte = 16;
constexpr std::uint32_t kMaxHeapKiB = 64U << 10U;
constexpr std::size_t kFirstStack = 32U << 10U;
constexpr std::size_t kMaxStack = 8U << 20U;
constexpr std::size_t kMaxPattern = 16U << 10U;

template <auto Function>
struct Call {
  template <class T>
  void operator()(T* object) const {
    Function(object);
  }
};
using CompileContext = std::unique_ptr<pcre2_compile_context, Call<pcre2_compile_context_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Call<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Call<pcre2_match_data_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Call<pcre2_jit_stack_free>>;

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// PCRE2's \s has U+180E too, which lost the property White_Space in Unicode 6.3. Within a class
// \S cannot be written out, so it stays.
std::string with_white_space(std::string_view pattern) {
  constexpr std::string_view kSpace = R"(\t-\r\x20\x{85}\p{Z})";
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's' && in_class) {
        out += kSpace;
      } else if (escaped == 's' || (escaped == 'S' && !in_class)) {
        out.append(escaped == 's' ? "[" : "[^").append(kSpace).append("]");
      } else {
        out.append({'\\', escaped});
      }
      continue;
    }
    if (pattern[i] == '[' && !in_class) {
      in_class = true;
    } else if (pattern[i] == ']') {
      in_class = false;
    }
    out += pattern[i];
  }
  return out;
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

void SplitPattern::Free::operator()(void* code) const {
  pcre2_code_free(static_cast<pcre2_code*>(code));
}

SplitPattern::SplitPattern(const std::string& pattern, bool literal, Gaps gaps, std::string source)
    : text_(pattern), literal_(literal), source_(std::move(source)), gaps_(gaps) {
  const std::string expression = literal ? pattern : with_white_space(pattern);
  const CompileContext context(pcre2_compile_context_create(nullptr));
  if (context == nullptr) throw std::bad_alloc();
  pcre2_set_max_pattern_length(context.get(), kMaxPattern);
  const std::uint32_t options =
      PCRE2_UTF | (literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C);
  int error = 0;
  std::size_t where = 0;
  code_.reset(
      pcre2_compile(units(expression), expression.size(), options, &error, &where, context.get()));
  if (code_ == nullptr) {
    throw Error(source_ + ": pattern " + shown_token(pattern) + " is refused (" +
                message_of(error) + "), expected a regular expression; check the file");
  }
  // Without a compiler for this processor PCRE2 interprets the pattern, to the same result.
  pcre2_jit_compile(static_cast<pcre2_code*>(code_.get()), PCRE2_JIT_COMPLETE);
}

// The state that PCRE2 needs to run a pattern.
class SplitPattern::Search {
 public:
  explicit Search(const SplitPattern& pattern)
      : pattern_(pattern),
        code_(static_cast<const pcre2_code*>(pattern.code_.get())),
        context_(pcre2_match_context_create(nullptr)),
        match_(pcre2_match_data_create_from_pattern(code_, nullptr)),
        stack_(pcre2_jit_stack_create(kFirstStack, kMaxStack, nullptr)) {
    if (context_ == nullptr || match_ == nullptr || stack_ == nullptr) throw std::bad_alloc();
    pcre2_set_heap_limit(context_.get(), kMaxHeapKiB);
    pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
  }

  void split(std::string_view text, std::vector<std::string_view>& parts) {
    std::size_t done = 0;  // of the text, in parts
    const auto keep = [&](std::size_t begin, std::size_t end) {
      if (end > begin) parts.push_back(text.substr(begin, end - begin));
    };
    const std::size_t most = std::min<std::size_t>(text.size(), UINT32_MAX / kStepsPerByte);
    pcre2_set_match_limit(
        context_.get(), std::max(kMaxMatchSteps, static_cast<std::uint32_t>(most * kStepsPerByte)));
    std::size_t from = 0;
    while (from < text.size()) {
      const int found = pcre2_match(code_, units(text), text.size(), from, PCRE2_NO_UTF_CHECK,
                                    match_.get(), context_.get());
      if (found == PCRE2_ERROR_NOMATCH) break;
      const std::size_t* const range = pcre2_get_ovector_pointer(match_.get());
      if (found < 0 || range[0] > range[1] || range[0] < done) {
        throw Error(pattern_.source_ + ": its pattern fails on this text (" +
                    (found < 0 ? message_of(found) : "it moves backwards") +
                    "), expected one that cuts it into words; check the file");
      }
      if (pattern_.gaps_ == Gaps::keep) keep(done, range[0]);
      keep(range[0], range[1]);
      done = range[1];
      from = done;
      if (range[0] == range[1]) from += std::max<std::size_t>(1, character_at(text, from).bytes);
    }
    if (pattern_.gaps_ == Gaps::keep) keep(done, text.size());
  }

 private:
  const SplitPattern& pattern_;
  const pcre2_code* code_;
  MatchContext context_;
  MatchData match_;
  JitStack stack_;
};

std::vector<std::string_view> SplitPattern::split(std::span<const std::string_view> texts) const {
  std::vector<std::string_view> parts;
  Search search(*this);
  for (const std::string_view text : texts) search.split(text, parts);
  return parts;
}

}  // namespace tandem::exec
