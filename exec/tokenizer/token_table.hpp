#pragma once

// The bytes of every id, shared by the tokenizers.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::exec {

// Throws Error unless `id` is from 0 to `vocab` - 1.
void check_token(std::int32_t id, std::int64_t vocab);

// Returns the text printed for a token without text.
[[nodiscard]] std::string without_text(std::int32_t id);

// Bytes by id; ids may have gaps.
class TokenTable {
 public:
  // `vocab`: of the model, ids are below it. `source` is the prefix of errors.
  TokenTable(std::int64_t vocab, std::string source);

  // Sets the text of `id`, replacing an earlier one. Throws Error if `id` is outside the model's
  // vocabulary.
  void set(std::int64_t id, std::string bytes, std::string_view name);

  // Returns the bytes; "<id>" without text. Throws Error if `id` is outside the vocabulary.
  [[nodiscard]] std::string bytes(std::int32_t id) const;
  [[nodiscard]] std::int64_t vocab() const { return vocab_; }
  [[nodiscard]] std::int64_t count() const { return count_; }  // of ids with text

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
