#include "exec/gguf/gguf_vocabulary_size.hpp"

#include "model/base/error.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

std::int64_t gguf_vocabulary_size(const GgufFile& file, const std::string& architecture) {
  const auto embedding = file.tensors().find("token_embd.weight");
  if (embedding == file.tensors().end() || embedding->second.tensor.shape.size() != 2)
    throw Error(file.path().string() +
                ": no matrix token_embd.weight, expected one with a row for each token; give a "
                "file with all of the model's tensors");
  const std::int64_t rows = embedding->second.tensor.shape.front();
  const std::string size = architecture + ".vocab_size";
  if (file.integer(size, 1, model::kMaxSize).value_or(rows) != rows)
    file.fail(size, std::to_string(rows) + ", which token_embd.weight has rows for");
  const std::string tokens = "tokenizer.ggml.tokens";
  if (const auto* texts = file.texts(tokens); texts && std::ssize(*texts) != rows)
    file.fail(tokens, std::to_string(rows) +
                          " texts, one for each row of token_embd.weight; convert the model anew");
  return rows;
}

}  // namespace tandem::exec
