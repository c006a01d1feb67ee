#include "exec/tokenizer/table_tokenizer.hpp"

#include "exec/tokenizer/utf8.hpp"

namespace tandem::exec {

TableTokenizer::Ids TableTokenizer::encode(std::string_view text, WrittenTokens written) const {
  const std::string valid = valid_utf8(text);
  Ids ids = front_;
  Before before = Before::nothing;
  for (const Fragment& fragment : tokens_.split(valid, written != WrittenTokens::text)) {
    if (fragment.id >= 0) {
      ids.push_back(static_cast<std::int32_t>(fragment.id));
    } else {
      append(fragment.text, before, written, ids);
    }
    before = fragment.id >= 0 ? Before::token : Before::text;
  }
  ids.insert(ids.end(), back_.begin(), back_.end());
  return ids;
}

}  // namespace tandem::exec
