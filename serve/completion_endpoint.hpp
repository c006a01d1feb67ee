#pragma once

// /v1/chat/completions and /v1/completions, in front of a request desk.

#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "exec/grammar/token_grammars.hpp"
#include "exec/serve/request_desk.hpp"
#include "exec/tokenizer/chat/model_chat.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "serve/api_request.hpp"
#include "serve/cluster_board.hpp"
#include "serve/model_endpoint.hpp"
#include "serve/prompt_thread.hpp"
#include "serve/tool_forms.hpp"

namespace tandem::serve {

struct CompletionOptions {
  std::string model{};  // its name in the API
  exec::ModelChat chat{};
  std::int64_t vocabulary = 0;  // ids below this are tokens
  PromptLimits prompts{};
};

class CompletionEndpoint final : public ModelEndpoint {
 public:
  // `tokenizer`, `desk` and `board` outlive it.
  CompletionEndpoint(CompletionOptions options, const exec::Tokenizer& tokenizer,
                     exec::RequestDesk& desk, ClusterBoard& board);

  void answer(HttpServer& server, HttpRequest request, std::shared_ptr<HttpReply> reply) override;
  void end() override { prompts_.end(); }

 private:
  struct Exchange;
  // On the thread of prompts: the request that the desk serves. Throws ApiError.
  [[nodiscard]] exec::LiveRequest prepared(const ApiRequest& asked);
  void check_model(const ApiRequest& asked) const;
  void check_length(const ApiRequest& asked) const;
  [[nodiscard]] std::vector<std::int32_t> prompt_of(const ApiRequest& asked) const;
  void check(const ApiRequest& asked, const exec::LiveRequest& live) const;
  // The same thread: the grammar of an answer; null: any text. Throws ApiError.
  [[nodiscard]] std::shared_ptr<const exec::TokenGrammar> grammar_of(const ApiRequest& asked);
  [[nodiscard]] std::shared_ptr<const exec::TokenGrammar> schema_grammar(const std::string& schema,
                                                                         const std::string& place,
                                                                         const std::string& param);
  void submit(const std::shared_ptr<Exchange>& exchange, const ApiRequest& asked,
              const exec::LiveRequest& request);
  void measure(Exchange& exchange, std::size_t choice, const exec::AnswerPart& part);

  CompletionOptions options_;
  const exec::Tokenizer* tokenizer_;
  exec::RequestDesk* desk_;
  ClusterBoard* board_;
  std::int64_t started_;          // seconds since 1970
  const ToolForm* form_;          // of the model's calls; null: none that is known
  exec::ShownToken shown_;        // the form's opening, if it is a special token
  exec::TokenGrammars grammars_;  // of the thread of prompts
  std::mt19937_64 random_;        // of the thread of prompts
  std::uint64_t answers_ = 0;
  PromptThread prompts_;  // last, as it uses the others
};

}  // namespace tandem::serve
