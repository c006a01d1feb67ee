#include "serve/api_service.hpp"

#include <boost/asio/post.hpp>
#include <utility>

#include "model/base/plain_text.hpp"
#include "serve/access.hpp"
#include "serve/api_answer.hpp"
#include "serve/completion_endpoint.hpp"
#include "serve/embedding_endpoint.hpp"
#include "serve/lowest_priority.hpp"
#include "serve/page_files.hpp"

namespace tandem::serve {

namespace asio = boost::asio;

namespace {

constexpr std::string_view kModels = "/v1/models";
constexpr std::string_view kHealth = "/health";
constexpr std::string_view kMetrics = "/metrics";
constexpr std::string_view kCluster = "/v1/cluster";
constexpr std::string_view kPlan = "/v1/plan";
constexpr std::string_view kAll = "*";

bool is_post(std::string_view path) {
  return path == kChatPath || path == kTextPath || path == kPlan || path == kEmbeddingsPath;
}
// What needs no token, as it reveals nothing.
bool is_open(std::string_view path) { return path == kHealth || find_page_file(path) != nullptr; }
bool is_get(std::string_view path) {
  return is_open(path) || path == kModels || path == kMetrics || path == kCluster ||
         path.starts_with(std::string(kModels) + "/");
}

// The methods of a path, or of the server as a whole; empty: unknown.
std::string methods_of(std::string_view path) {
  if (path == kAll) return "GET, HEAD, POST, OPTIONS";
  if (is_post(path)) return "POST, OPTIONS";
  return is_get(path) ? "GET, HEAD, OPTIONS" : "";
}

}  // namespace

ApiService::ApiService(ApiOptions options, const exec::Tokenizer& tokenizer,
                       exec::RequestDesk& desk, ClusterBoard& board)
    : options_(std::move(options)),
      desk_(&desk),
      board_(&board),
      started_(unix_time_s()),
      endpoint_(
          std::make_unique<CompletionEndpoint>(CompletionOptions{.model = options_.model,
                                                                 .chat = options_.chat,
                                                                 .vocabulary = options_.vocabulary,
                                                                 .prompts = options_.prompts},
                                               tokenizer, desk, board)) {}

ApiService::ApiService(ApiOptions options, const exec::Tokenizer& tokenizer, exec::TextDesk& desk,
                       ClusterBoard& board)
    : options_(std::move(options)),
      desk_(&desk),
      board_(&board),
      started_(unix_time_s()),
      embeds_(true),
      endpoint_(
          std::make_unique<EmbeddingEndpoint>(EmbeddingOptions{.model = options_.model,
                                                               .vocabulary = options_.vocabulary,
                                                               .prompts = options_.prompts},
                                              tokenizer, desk, board)) {}

void ApiService::end() {
  if (options_.planner.interrupt) options_.planner.interrupt();
  planning_.stop();
  endpoint_->end();
  planning_.join();
}

void ApiService::set_ready() {
  server_->post([this] { ready_ = true; });
}

HttpAnswer ApiService::protocol_error(unsigned status, const std::string& reason) {
  return error_answer(ApiError(status, reason));
}

bool ApiService::refuses(const HttpHead& head, HttpAnswer& refusal) {
  const auto refused = [&](const ApiError& error) {
    refusal = error_answer(error);
    return true;
  };
  static constexpr const char* kOwn =
      "', expected localhost, the address that is listened on or a name that '--allow-host' has";
  if (!is_own_host(head.host, options_.hosts))
    return refused(ApiError(403, "Host '" + model::printable(head.host, 100) + kOwn));
  if (!head.origin.empty() && !is_own_origin(head.origin, options_.hosts))
    return refused(ApiError(403, "Origin '" + model::printable(head.origin, 100) + kOwn +
                                     "; pages of other sites may not use this server"));
  const std::string path = model::printable(head.path, 100);
  const bool asks_methods = head.method == "OPTIONS";
  const std::string methods = methods_of(head.path);
  if (methods.empty() || (head.path == kAll && !asks_methods))
    return refused(ApiError(404, "path '" + path + "', expected " + std::string(kChatPath) + ", " +
                                     std::string(kTextPath) + ", " + std::string(kEmbeddingsPath) +
                                     ", " + std::string(kModels) + ", " + std::string(kCluster) +
                                     ", " + std::string(kPlan) + ", " + std::string(kMetrics) +
                                     ", " + std::string(kHealth) + " or / (the page)"));
  if (asks_methods) return false;
  if (!is_open(head.path) && !options_.token.empty() && !bears(head.authorization, options_.token))
    return refused(ApiError(
        401, "expected the header 'Authorization: Bearer TOKEN' with the token of this server", "",
        "invalid_api_key"));
  const bool get = head.method == "GET" || head.method == "HEAD";
  if (is_post(head.path) ? head.method != "POST" : !get) {
    refused(ApiError(405, "method " + model::printable(head.method, 20) + " of " + path +
                              ", expected " + (is_post(head.path) ? "POST" : "GET")));
    refusal.headers = "Allow: " + methods + "\r\n";
    return true;
  }
  if (is_post(head.path) && !is_json(head.content_type))
    return refused(ApiError(415, "Content-Type '" + model::printable(head.content_type, 100) +
                                     "', expected application/json"));
  return false;
}

void ApiService::refuse(HttpReply& reply, const ApiError& error) {
  reply.send(error_answer(error));
}

void ApiService::handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  if (request.method == "OPTIONS")
    return reply->send(
        {.status = 204, .body = {}, .headers = "Allow: " + methods_of(request.path) + "\r\n"});
  if (request.path == kPlan) return plan(request, std::move(reply));
  if (is_post(request.path)) return ask_model(std::move(request), reply);
  if (request.path == kHealth) {
    return reply->send({.status = ready_ ? 200U : 503U,
                        .body = ready_ ? R"({"status":"ok"})" : R"({"status":"loading"})"});
  }
  if (request.path == kMetrics)
    return reply->send({.body = metrics(), .content_type = "text/plain; version=0.0.4"});
  if (const PageFile* const file = find_page_file(request.path))
    return reply->send({.body = std::string(file->text),
                        .content_type = std::string(file->content_type),
                        .headers = std::string(kPageHeaders)});
  if (request.path == kCluster) return reply->send({.body = cluster()});
  if (request.path == kModels) return reply->send({.body = models_json(options_.model, started_)});
  if (request.path == std::string(kModels) + "/" + options_.model)
    return reply->send({.body = model_json(options_.model, started_)});
  refuse(*reply, ApiError(404, "the model does not exist, expected '" + options_.model + "'",
                          "model", "model_not_found"));
}

void ApiService::plan(const HttpRequest& request, std::shared_ptr<HttpReply> reply) {
  const PlannerAccess& planner = options_.planner;
  if (!planner.ask) return refuse(*reply, ApiError(501, "no planner: " + planner.reason));
  std::shared_ptr<const PlanQuestion> question;
  try {
    question = std::make_shared<const PlanQuestion>(parse_plan_question(request.body));
  } catch (const ApiError& error) {
    return refuse(*reply, error);
  }
  if (plans_.exchange(true))
    return refuse(*reply, ApiError(429, "the planner answers another question; try again later"));
  reply->when_gone([interrupt = planner.interrupt] { interrupt(); });
  asio::post(planning_, [this, question, reply = std::move(reply)]() mutable {
    lower_priority();
    HttpAnswer answer;
    try {
      answer.body = plan_json(*question, options_.planner.ask(*question)).dump();
    } catch (const std::exception& error) {
      answer = error_answer(ApiError(400, error.what()));
    }
    plans_ = false;
    server_->post([reply = std::move(reply), answer = std::move(answer)] { reply->send(answer); });
  });
}

void ApiService::ask_model(HttpRequest request, const std::shared_ptr<HttpReply>& reply) {
  if ((request.path == kEmbeddingsPath) != embeds_)
    return refuse(*reply,
                  ApiError(400,
                           "model '" + options_.model +
                               (embeds_ ? "' is an encoder, expected one that continues texts; ask "
                                          "it for embeddings at " +
                                              std::string(kEmbeddingsPath)
                                        : std::string("' continues texts, expected an encoder for "
                                                      "embeddings; serve one")),
                           "model"));
  if (!ready_) return refuse(*reply, ApiError(503, "the model is being loaded; try again later"));
  try {
    endpoint_->answer(*server_, std::move(request), reply);
  } catch (const ApiError& error) {
    refuse(*reply, error);
  }
}

std::string ApiService::cluster() const {
  const exec::DeviceStates states =
      options_.watch != nullptr ? options_.watch->read() : exec::DeviceStates();
  return board_->json(desk_->counts(), ClusterBoard::Clock::now(), states);
}

// In the text format of Prometheus, by the names of vLLM where it has the same.
std::string ApiService::metrics() const {
  const exec::ServiceDesk::Counts counts = desk_->counts();
  std::string text;
  const auto add = [&](const std::string& name, const char* type, const char* help,
                       std::uint64_t value) {
    text += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n" + name + " " +
            std::to_string(value) + "\n";
  };
  add("vllm:prompt_tokens_total", "counter", "Prompt tokens of accepted requests.",
      counts.prompt_tokens);
  add("vllm:generation_tokens_total", "counter", "Generated tokens.", counts.tokens);
  add("vllm:prefix_cache_queries_total", "counter", "Prompt tokens that were looked up.",
      counts.begun_tokens);
  add("vllm:prefix_cache_hits_total", "counter", "Of these, tokens that were not read again.",
      counts.cached_tokens);
  add("vllm:request_success_total", "counter", "Requests that were answered whole.",
      counts.finished);
  add("tandem:requests_under_way", "gauge", "Requests that are served or wait.", counts.under_way);
  add("tandem:requests_cancelled_total", "counter", "Requests whose clients went.",
      counts.cancelled);
  add("tandem:requests_refused_total", "counter", "Requests beyond the queue.", counts.refused);
  add("tandem:connections", "gauge", "Open connections.", server_->connections());
  return text;
}

}  // namespace tandem::serve
