#pragma once

// OpenAI's API in front of a request desk, and the page.

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "exec/grammar/token_grammars.hpp"
#include "exec/serve/request_desk.hpp"
#include "exec/tokenizer/chat/model_chat.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "serve/access.hpp"
#include "serve/api_request.hpp"
#include "serve/cluster_board.hpp"
#include "serve/http_exchange.hpp"
#include "serve/http_server.hpp"
#include "serve/plan_question.hpp"

namespace tandem::serve {

struct ApiOptions {
  std::string model{};  // its name in the API
  OwnHosts hosts{};     // by which it may be asked
  std::string token{};  // which clients must bear; empty: none
  exec::ModelChat chat{};
  std::int64_t vocabulary = 0;  // ids below this are tokens
  // Requests whose prompts wait to be read; more are refused.
  std::size_t waiting_bodies = 1024;
  std::size_t waiting_bytes = std::size_t{64} << 20U;
  PlannerAccess planner{};
};

// Routes requests to the desk. Prompts are rendered and tokenized on a thread of their own, as a
// long one takes a while.
class ApiService final : public HttpHandler {
 public:
  // `tokenizer`, `desk` and `board` outlive it; `board` is used on the server's thread.
  ApiService(ApiOptions options, const exec::Tokenizer& tokenizer, exec::RequestDesk& desk,
             ClusterBoard& board);
  ~ApiService() override { end(); }
  ApiService(const ApiService&) = delete;
  ApiService& operator=(const ApiService&) = delete;

  // The server that calls it, before that runs.
  void use(HttpServer& server) { server_ = &server; }
  // To be called when the server has stopped, before it is destroyed.
  void end();
  // Any thread: the session is ready; before that requests are refused as 503.
  void set_ready();

  bool refuses(const HttpHead& head, HttpAnswer& refusal) override;
  void handle(HttpRequest request, std::shared_ptr<HttpReply> reply) override;
  HttpAnswer protocol_error(unsigned status, const std::string& reason) override;

 private:
  struct Exchange;
  void complete(HttpRequest request, std::shared_ptr<HttpReply> reply);
  // Answers one question to the planner at a time, on a thread of the lowest priority.
  void plan(const HttpRequest& request, std::shared_ptr<HttpReply> reply);
  // On the thread of prompts: reads the request and hands it to the server's thread.
  void prepare(const HttpRequest& request, const std::weak_ptr<Exchange>& weak);
  // On the thread of prompts: the request that the desk serves. Throws ApiError.
  [[nodiscard]] exec::LiveRequest prepared(const ApiRequest& asked);
  // The same thread: the grammar of a schema. Throws ApiError.
  [[nodiscard]] std::shared_ptr<const exec::TokenGrammar> grammar_of(const std::string& schema);
  void submit(const std::shared_ptr<Exchange>& exchange, const ApiRequest& asked,
              const exec::LiveRequest& request);
  void measure(Exchange& exchange, std::size_t choice, const exec::AnswerPart& part);
  static void refuse(HttpReply& reply, const ApiError& error);
  [[nodiscard]] std::string metrics() const;

  ApiOptions options_;
  const exec::Tokenizer* tokenizer_;
  exec::RequestDesk* desk_;
  ClusterBoard* board_;
  HttpServer* server_ = nullptr;
  std::int64_t started_;          // seconds since 1970
  bool ready_ = false;            // of the server's thread
  exec::TokenGrammars grammars_;  // of the thread of prompts
  std::mt19937_64 random_;        // of the thread of prompts
  std::uint64_t answers_ = 0;
  std::atomic<std::size_t> waiting_bodies_ = 0;
  std::atomic<std::size_t> waiting_bytes_ = 0;
  boost::asio::thread_pool prompts_{1};
  std::atomic<bool> plans_ = false;  // a question to the planner is being answered
  boost::asio::thread_pool planning_{1};
};

}  // namespace tandem::serve
