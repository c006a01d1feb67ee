#include "exec/tokenizer/token_table.hpp"

#include <utility>

#include "exec/tokenizer/token_settings.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {

void check_token(std::int32_t id, std::int64_t vocab) {
  if (id >= 0 && id < vocab) return;
  throw Error("token " + std::to_string(id) + ": outside the vocabulary, expected 0 to " +
              std::to_string(vocab - 1) + "; check that plan and weights are of one model");
}

std::string without_text(std::int32_t id) { return "<" + std::to_string(id) + ">"; }

TokenTable::TokenTable(std::int64_t vocab, std::string source)
    : vocab_(vocab), source_(std::move(source)) {}

void TokenTable::set(std::int64_t id, std::string bytes, std::string_view name) {
  if (id < 0 || id >= vocab_) {
    throw Error(source_ + ": token " + shown_token(name) + " has id " + std::to_string(id) +
                ", expected less than the vocabulary of the model, " + std::to_string(vocab_) +
                "; check that tokenizer and config.json are of one model");
  }
  const auto index = static_cast<std::size_t>(id);
  if (index >= entries_.size()) entries_.resize(index + 1);
  if (!entries_[index].known) ++count_;
  entries_[index] = {.known = true, .bytes = std::move(bytes)};
}

std::string TokenTable::bytes(std::int32_t id) const {
  check_token(id, vocab_);
  const auto index = static_cast<std::size_t>(id);
  if (index >= entries_.size() || !entries_[index].known) return without_text(id);
  return entries_[index].bytes;
}

}  // namespace tandem::exec
