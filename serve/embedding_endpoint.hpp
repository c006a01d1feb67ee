#pragma once

// /v1/embeddings, in front of a text desk.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/serve/text_desk.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "serve/cluster_board.hpp"
#include "serve/embedding_request.hpp"
#include "serve/model_endpoint.hpp"
#include "serve/prompt_thread.hpp"

namespace tandem::serve {

struct EmbeddingOptions {
  std::string model{};          // its name in the API
  std::int64_t vocabulary = 0;  // ids below this are tokens
  PromptLimits prompts{};
};

class EmbeddingEndpoint final : public ModelEndpoint {
 public:
  // `tokenizer`, `desk` and `board` outlive it.
  EmbeddingEndpoint(EmbeddingOptions options, const exec::Tokenizer& tokenizer,
                    exec::TextDesk& desk, ClusterBoard& board);

  void answer(HttpServer& server, HttpRequest request, std::shared_ptr<HttpReply> reply) override;
  void end() override { prompts_.end(); }

 private:
  struct Exchange;
  using Texts = std::vector<exec::TextDesk::Text>;
  // On the thread of prompts: the tokens of each input. Throws ApiError.
  [[nodiscard]] Texts texts_of(const EmbeddingRequest& asked) const;
  void submit(const std::shared_ptr<Exchange>& exchange, VectorEncoding encoding, Texts texts);
  void take(Exchange& exchange, std::size_t text, const std::string& json);

  EmbeddingOptions options_;
  const exec::Tokenizer* tokenizer_;
  exec::TextDesk* desk_;
  ClusterBoard* board_;
  PromptThread prompts_;  // last, as it uses the others
};

}  // namespace tandem::serve
