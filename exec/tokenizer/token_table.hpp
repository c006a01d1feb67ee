#pragma once

// What the tokenizers share: the bytes of every id.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::exec {

// Throws Error unless `id` is from 0 to `vocab` - 1.
void check_token(std::int32_t id, std::int64_t vocab);

// What is printed for a token that has no text.
[[nodiscard]] std::string without_text(std::int32_t id);

// Bytes by id; ids may have gaps.
class TokenTable {
 public:
  // `vocab`: of the model, ids are below it. `source` begins errors.
  TokenTable(std::int64_t vocab, std::string source);

  // Gives `id` its text; one that has a text already takes the new one. Throws Error if `id` is
  // outside the model's vocabulary.
  void set(std::int64_t id, std::string bytes, std::string_view name);

  // Throws Error if `id` is outside the vocabulary; "<id>" if it has no text.
  [[nodiscard]] std::string bytes(std::int32_t id) const;
  [[nodiscard]] std::int64_t vocab() const { return vocab_; }
  [[nodiscard]] std::int64_t count() const { return count_; }  // of ids that have a text

 private:
  struct Entry {
    bool known = false;
    std::string bytes;
  };
  std::int64_t vocab_;
  std::int64_t count_ = 0;
  std::string source_;
  std::vector<Entry> entries_;  // by id
};

}  // namespace tandem::exec
