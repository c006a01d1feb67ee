#pragma once

// OpenAI's API in front of a request desk, and the page.

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "exec/serve/request_desk.hpp"
#include "exec/serve/text_desk.hpp"
#include "exec/session/device_watch.hpp"
#include "exec/tokenizer/chat/model_chat.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "serve/access.hpp"
#include "serve/api_error.hpp"
#include "serve/cluster_board.hpp"
#include "serve/http_exchange.hpp"
#include "serve/http_server.hpp"
#include "serve/model_endpoint.hpp"
#include "serve/plan_question.hpp"
#include "serve/prompt_thread.hpp"

namespace tandem::serve {

struct ApiOptions {
  std::string model{};  // its name in the API
  OwnHosts hosts{};     // by which it may be asked
  std::string token{};  // which clients must bear; empty: none
  exec::ModelChat chat{};
  std::int64_t vocabulary = 0;  // ids below this are tokens
  PromptLimits prompts{};
  PlannerAccess planner{};
  exec::DeviceWatch* watch = nullptr;  // of the devices that serve; outlives it; null: none
};

// Checks and routes requests: to the model, the planner, or what is known here.
class ApiService final : public HttpHandler {
 public:
  // `tokenizer`, `desk` and `board` outlive it; `board` is used on the server's thread.
  ApiService(ApiOptions options, const exec::Tokenizer& tokenizer, exec::RequestDesk& desk,
             ClusterBoard& board);
  // Of an encoder.
  ApiService(ApiOptions options, const exec::Tokenizer& tokenizer, exec::TextDesk& desk,
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
  void ask_model(HttpRequest request, const std::shared_ptr<HttpReply>& reply);
  // Answers one question to the planner at a time, on a thread of the lowest priority.
  void plan(const HttpRequest& request, std::shared_ptr<HttpReply> reply);
  static void refuse(HttpReply& reply, const ApiError& error);
  [[nodiscard]] std::string metrics() const;
  [[nodiscard]] std::string cluster() const;

  ApiOptions options_;
  exec::ServiceDesk* desk_;
  ClusterBoard* board_;
  HttpServer* server_ = nullptr;
  std::int64_t started_;  // seconds since 1970
  bool ready_ = false;    // of the server's thread
  bool embeds_ = false;   // whether the model is an encoder
  std::unique_ptr<ModelEndpoint> endpoint_;
  std::atomic<bool> plans_ = false;  // a question to the planner is being answered
  boost::asio::thread_pool planning_{1};
};

}  // namespace tandem::serve
