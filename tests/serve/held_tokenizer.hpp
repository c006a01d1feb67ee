#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::test {

// Makes tokens when it is let go, and counts the texts.
class HeldTokenizer final : public exec::Tokenizer {
 public:
  explicit HeldTokenizer(std::unique_ptr<exec::Tokenizer> own) : own_(std::move(own)) {}
  using exec::Tokenizer::encode;
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text,
                                                 exec::WrittenTokens written) const override {
    ++texts;
    go.wait(false);
    return own_->encode(text, written);
  }
  [[nodiscard]] std::string piece(std::int32_t id) const override { return own_->piece(id); }
  [[nodiscard]] std::int64_t vocab() const override { return own_->vocab(); }
  [[nodiscard]] std::int64_t bos_token() const override { return own_->bos_token(); }
  [[nodiscard]] std::span<const std::int64_t> eos_tokens() const override {
    return own_->eos_tokens();
  }
  [[nodiscard]] std::string description() const override { return own_->description(); }
  void let_go() const {
    go = true;
    go.notify_all();
  }
  mutable std::atomic<int> texts = 0;
  mutable std::atomic<bool> go = false;

 private:
  std::unique_ptr<exec::Tokenizer> own_;
};

}  // namespace tandem::test
