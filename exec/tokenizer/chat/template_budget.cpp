#include "exec/tokenizer/chat/template_budget.hpp"

#include "model/base/error.hpp"

namespace tandem::exec::chat {
namespace {

// Work of a byte that is written, in bytes read: allocated, written, freed.
constexpr std::uint64_t kMade = 4;
constexpr std::size_t kLongestText = std::size_t{16} << 20U;

}  // namespace

void fail(const std::string& fault) { throw Error("chat template: " + fault); }

void Budget::make(std::size_t bytes) {
  charge(bytes > (std::uint64_t{1} << 60U) ? bytes : bytes * kMade);
}

void Budget::expect_text(std::size_t bytes) {
  if (bytes > kLongestText)
    fail("a text of more than 16 MiB, expected a shorter one; use another template");
}

void Budget::charge(std::uint64_t work) {
  if (work > left_) {
    left_ = 0;
    fail(
        "more work than 4 million steps, 4 GiB of text read or 1 GiB of values made, expected "
        "less; use another template or shorter messages");
  }
  left_ -= work;
}

Depth::Depth(int& depth, int most) : depth_(&depth) {
  if (depth >= most)
    fail("more than " + std::to_string(most) + " levels of nested evaluation, expected fewer");
  ++depth;
}

}  // namespace tandem::exec::chat
