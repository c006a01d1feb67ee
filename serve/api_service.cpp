#include "serve/api_service.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <optional>
#include <utility>
#include <variant>

#include "exec/grammar/json_schema.hpp"
#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"
#include "serve/access.hpp"
#include "serve/answer_writer.hpp"
#include "serve/api_answer.hpp"
#include "serve/lowest_priority.hpp"
#include "serve/page_files.hpp"

namespace tandem::serve {

namespace asio = boost::asio;

namespace {

constexpr std::string_view kChat = "/v1/chat/completions";
constexpr std::string_view kText = "/v1/completions";
constexpr std::string_view kEmbeddings = "/v1/embeddings";
constexpr std::string_view kModels = "/v1/models";
constexpr std::string_view kHealth = "/health";
constexpr std::string_view kMetrics = "/metrics";
constexpr std::string_view kCluster = "/v1/cluster";
constexpr std::string_view kPlan = "/v1/plan";
constexpr std::string_view kAll = "*";

bool is_post(std::string_view path) {
  return path == kChat || path == kText || path == kPlan || path == kEmbeddings;
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

std::int64_t now_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// More than the longest tokens of common vocabularies, which are runs of 128 spaces.
constexpr std::uint64_t kMostTokenBytes = 256;

// The bytes of a request's texts; 0 if it gives token ids.
std::uint64_t text_bytes(const ApiRequest& asked) {
  std::uint64_t bytes = 0;
  for (const exec::ChatMessage& message : asked.messages)
    bytes += message.content.size() + message.fields.size();
  bytes += asked.tools.size();
  if (const auto* const text = std::get_if<std::string>(&asked.prompt)) bytes += text->size();
  return bytes;
}

HttpAnswer error_answer(const ApiError& error) {
  HttpAnswer answer{.status = error.status,
                    .body = error_json(error.status, error.what(), error.param, error.code)};
  if (error.status == 401) answer.headers = "WWW-Authenticate: Bearer\r\n";
  if (error.status == 429 || error.status == 503) answer.headers = "Retry-After: 1\r\n";
  return answer;
}

}  // namespace

// A request with its answer. Used on the server's thread only.
struct ApiService::Exchange {
  std::shared_ptr<HttpReply> reply;
  std::vector<std::size_t> numbers;  // of its choices, at the desk
  std::optional<AnswerWriter> writer;
  ClusterBoard::Clock::time_point arrival = ClusterBoard::Clock::now();
  std::vector<ClusterBoard::Clock::time_point> first_tokens;  // of its choices
  exec::RequestDesk::Counts at_arrival;
};

ApiService::ApiService(ApiOptions options, const exec::Tokenizer& tokenizer,
                       exec::RequestDesk& desk, ClusterBoard& board)
    : options_(std::move(options)),
      tokenizer_(&tokenizer),
      desk_(&desk),
      board_(&board),
      started_(now_s()),
      grammars_(tokenizer, desk.stop_tokens(), options_.vocabulary),
      random_(std::random_device{}()) {}

void ApiService::end() {
  prompts_.stop();
  if (options_.planner.interrupt) options_.planner.interrupt();
  planning_.stop();
  prompts_.join();
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
    return refused(ApiError(404, "path '" + path + "', expected " + std::string(kChat) + ", " +
                                     std::string(kText) + ", " + std::string(kModels) + ", " +
                                     std::string(kCluster) + ", " + std::string(kPlan) + ", " +
                                     std::string(kMetrics) + ", " + std::string(kHealth) +
                                     " or / (the page)"));
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
  if (request.path == kEmbeddings)
    return refuse(*reply, ApiError(400,
                                   "model '" + options_.model +
                                       "' continues texts, expected an encoder for embeddings; "
                                       "'tandem run --hidden' writes the hidden states of one",
                                   "model"));
  if (is_post(request.path)) return complete(std::move(request), std::move(reply));
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
  if (request.path == kCluster)
    return reply->send({.body = board_->json(desk_->counts(), ClusterBoard::Clock::now())});
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

// An exchange belongs to its connection, which lets it go when the answer is complete or the client
// has gone, on the server's thread.
void ApiService::complete(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  if (!ready_) return refuse(*reply, ApiError(503, "the model is being loaded; try again later"));
  // Of the bodies that wait for the thread of prompts; this thread alone adds to them.
  const std::size_t bytes = request.body.size();
  const bool fits = waiting_bodies_ < options_.waiting_bodies &&
                    (waiting_bodies_ == 0 || waiting_bytes_ + bytes <= options_.waiting_bytes);
  if (!fits)
    return refuse(*reply, ApiError(429, "too many prompts wait to be read; try again later", "",
                                   "server_overloaded"));
  ++waiting_bodies_;
  waiting_bytes_ += bytes;
  auto exchange = std::make_shared<Exchange>();
  exchange->reply = std::move(reply);
  exchange->reply->when_gone([this, exchange] {
    for (const std::size_t number : exchange->numbers) desk_->cancel(number);
  });
  asio::post(prompts_, [this, request = std::move(request), weak = std::weak_ptr(exchange)] {
    prepare(request, weak);
    waiting_bytes_ -= request.body.size();
    --waiting_bodies_;
  });
}

void ApiService::prepare(const HttpRequest& request, const std::weak_ptr<Exchange>& weak) {
  if (weak.expired()) return;  // the client has gone
  try {
    auto asked = std::make_shared<ApiRequest>(request.path == kChat
                                                  ? parse_chat_request(request.body)
                                                  : parse_completion_request(request.body));
    if (weak.expired()) return;
    auto prepared_request = std::make_shared<exec::LiveRequest>(prepared(*asked));
    server_->post([this, weak, asked, prepared_request] {
      if (const auto own = weak.lock()) submit(own, *asked, *prepared_request);
    });
  } catch (const std::exception& fault) {
    const auto* const known = dynamic_cast<const ApiError*>(&fault);
    const ApiError error = known != nullptr ? *known : ApiError(400, fault.what());
    server_->post([weak, error] {
      if (const auto own = weak.lock()) refuse(*own->reply, error);
    });
  }
}

std::shared_ptr<const exec::TokenGrammar> ApiService::grammar_of(const std::string& schema) {
  try {
    return grammars_.of_schema(schema, "response_format.json_schema.schema");
  } catch (const exec::SchemaError& error) {
    throw ApiError(400, "'" + error.place + "': " + error.problem, error.place);
  } catch (const Error& error) {
    throw ApiError(400, error.what(), "response_format");
  }
}

exec::LiveRequest ApiService::prepared(const ApiRequest& asked) {
  if (!asked.model.empty() && asked.model != options_.model)
    throw ApiError(404,
                   "the model '" + model::one_line(asked.model, 100) +
                       "' does not exist, expected '" + options_.model +
                       "'; name it, or leave 'model' out",
                   "model", "model_not_found");
  exec::LiveRequest live{.request = {.id = "request"}, .logprobs = asked.logprobs};
  planner::InferenceRequest& request = live.request;
  const std::string subject = asked.is_chat ? "messages" : "prompt";
  // So long a text has more tokens than fit; to make them would take long.
  const std::uint64_t most_bytes =
      static_cast<std::uint64_t>(desk_->most_positions()) * kMostTokenBytes;
  if (const std::uint64_t bytes = text_bytes(asked); bytes > most_bytes)
    throw ApiError(400,
                   "'" + subject + "': " + std::to_string(bytes) +
                       " bytes of text, expected at most " + std::to_string(most_bytes) +
                       ", as a request has at most " + std::to_string(desk_->most_positions()) +
                       " tokens here; shorten it",
                   subject, "context_length_exceeded");
  if (asked.is_chat) {
    try {
      request.prompt_ids =
          exec::encode_chat(options_.chat, *tokenizer_, asked.messages, asked.tools);
    } catch (const Error& error) {
      throw ApiError(400, error.what(), subject);
    }
  } else if (const auto* text = std::get_if<std::string>(&asked.prompt)) {
    request.prompt_ids = tokenizer_->encode(*text, exec::WrittenTokens::text);
  } else {
    request.prompt_ids = std::get<std::vector<std::int32_t>>(asked.prompt);
  }
  if (request.prompt_ids.empty())
    throw ApiError(400, "'prompt': no tokens, expected some", subject);
  request.prompt_tokens = std::ssize(request.prompt_ids);
  if (asked.schema) live.grammar = grammar_of(*asked.schema);
  request.new_tokens = asked.max_tokens.value_or(
      std::max<std::int64_t>(1, desk_->usual_tokens(request.prompt_tokens)));
  request.sampling = asked.sampling;
  if (asked.sampling.temperature > 0.0) request.sampling.seed = asked.seed.value_or(random_());
  try {
    desk_->check(live);
  } catch (const Error& error) {
    const bool too_long = request.limit() > desk_->most_tokens(request.prompt_tokens);
    throw ApiError(400, error.what(), too_long ? subject : "",
                   too_long ? "context_length_exceeded" : "");
  }
  if (static_cast<std::size_t>(asked.choices) > desk_->most_requests())
    throw ApiError(400,
                   "'n': " + std::to_string(asked.choices) + ", expected at most " +
                       std::to_string(desk_->most_requests()) +
                       ", the requests that this server takes at once",
                   "n");
  for (const std::int32_t id : request.prompt_ids) {
    if (id >= options_.vocabulary)
      throw ApiError(400,
                     "'prompt': token " + std::to_string(id) + ", expected less than " +
                         std::to_string(options_.vocabulary),
                     subject);
  }
  return live;
}

void ApiService::submit(const std::shared_ptr<Exchange>& exchange, const ApiRequest& asked,
                        const exec::LiveRequest& request) {
  const auto choices = static_cast<std::size_t>(asked.choices);
  AnswerWriter::Form form{
      .prompt_tokens = request.request.prompt_tokens, .choices = choices, .streams = asked.streams};
  form.head = {.id = (asked.is_chat ? "chatcmpl-" : "cmpl-") + std::to_string(started_) + "-" +
                     std::to_string(++answers_),
               .created = now_s(),
               .model = options_.model,
               .is_chat = asked.is_chat,
               .includes_usage = asked.includes_usage};
  exchange->writer.emplace(std::move(form), *tokenizer_, exchange->reply);
  exchange->first_tokens.resize(choices);
  const auto take = [this, weak = std::weak_ptr(exchange)](std::size_t choice) {
    return [this, weak, choice](const exec::AnswerPart& part) {
      server_->post([this, weak, choice, part] {
        const auto own = weak.lock();
        if (!own) return;
        measure(*own, choice, part);
        own->writer->take(choice, part);
      });
    };
  };
  const auto refuse_all = [&](const ApiError& error) {
    for (const std::size_t number : exchange->numbers) desk_->cancel(number);
    refuse(*exchange->reply, error);
  };
  try {
    desk_->expect_room(choices);
    // Their seeds are those of samples: seed, seed + 1, ...
    for (planner::InferenceRequest& one : planner::samples_of(request.request, asked.choices))
      exchange->numbers.push_back(desk_->submit(
          {.request = std::move(one), .logprobs = request.logprobs, .grammar = request.grammar},
          asked.stops, take(exchange->numbers.size())));
    exchange->at_arrival = desk_->counts();
  } catch (const exec::DeskFull& full) {
    return refuse_all(ApiError(429, full.what(), "", "server_overloaded"));
  } catch (const exec::DeskClosed& closed) {
    return refuse_all(ApiError(503, closed.what()));
  }
  exchange->writer->begin();
}

void ApiService::measure(Exchange& exchange, std::size_t choice, const exec::AnswerPart& part) {
  const bool failed = part.is_last && part.finish == exec::Finish::failed;
  if (failed || part.tokens == 0) return;
  const ClusterBoard::Clock::time_point now = ClusterBoard::Clock::now();
  board_->add_token(now);
  ClusterBoard::Clock::time_point& first_token = exchange.first_tokens[choice];
  if (part.tokens == 1) first_token = now;
  if (!part.is_last) return;
  const auto seconds = [](ClusterBoard::Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  };
  const auto& before = exchange.at_arrival;
  RequestTimes times{
      .prompt_tokens = exchange.writer->prompt_tokens(),
      .new_tokens = part.tokens,
      .cached_tokens = part.cached,
      .ttft_s = seconds(first_token - exchange.arrival),
      .shared = before.under_way > 1 || desk_->counts().submitted > before.submitted};
  if (part.tokens > 1)
    times.token_latency_s = seconds(now - first_token) / static_cast<double>(part.tokens - 1);
  board_->add_request(times);
}

// In the text format of Prometheus, by the names of vLLM where it has the same.
std::string ApiService::metrics() const {
  const exec::RequestDesk::Counts counts = desk_->counts();
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
