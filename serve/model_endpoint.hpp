#pragma once

// What answers the requests to a model: it continues texts, or embeds them.

#include <memory>
#include <string_view>

#include "serve/http_exchange.hpp"
#include "serve/http_server.hpp"

namespace tandem::serve {

inline constexpr std::string_view kChatPath = "/v1/chat/completions";
inline constexpr std::string_view kTextPath = "/v1/completions";
inline constexpr std::string_view kEmbeddingsPath = "/v1/embeddings";

class ModelEndpoint {
 public:
  virtual ~ModelEndpoint() = default;
  // Called on the thread of `server`, which runs until end() has been called; must not block it.
  virtual void answer(HttpServer& server, HttpRequest request,
                      std::shared_ptr<HttpReply> reply) = 0;
  // Abandons what has not been handed to the model yet, and waits for its threads.
  virtual void end() = 0;
};

}  // namespace tandem::serve
