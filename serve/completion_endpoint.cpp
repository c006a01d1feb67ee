#include "serve/completion_endpoint.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "exec/grammar/json_schema.hpp"
#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"
#include "serve/answer_writer.hpp"
#include "serve/api_answer.hpp"

namespace tandem::serve {
namespace {

// More than the longest tokens of common vocabularies, which are runs of 128 spaces.
constexpr std::uint64_t kMostTokenBytes = 256;

// The bytes of a request's texts; 0 if it gives token ids.
std::uint64_t text_bytes(const ApiRequest& asked) {
  std::uint64_t bytes = 0;
  for (const exec::ChatMessage& message : asked.messages)
    bytes += message.content.size() + message.fields.size();
  bytes += asked.tools.list.size();
  if (const auto* const text = std::get_if<std::string>(&asked.prompt)) bytes += text->size();
  return bytes;
}

// The opening of `form` where the tokenizer has a special token for it.
exec::ShownToken shown_token(const ToolForm* form, const exec::Tokenizer& tokenizer) {
  if (form == nullptr || form->opening.empty()) return {};
  for (const std::int32_t id : tokenizer.encode(form->opening)) {
    // Others in the result are written around every text.
    if (tokenizer.piece(id).empty() && id != tokenizer.bos_token() &&
        std::ranges::find(tokenizer.eos_tokens(), id) == tokenizer.eos_tokens().end())
      return {.id = id, .text = std::string(form->opening)};
  }
  return {};
}

}  // namespace

// A request with its answer. Used on the server's thread only.
struct CompletionEndpoint::Exchange {
  HttpServer* server = nullptr;
  std::shared_ptr<HttpReply> reply;
  std::vector<std::size_t> numbers;  // of its choices, at the desk
  std::optional<AnswerWriter> writer;
  ClusterBoard::Clock::time_point arrival = ClusterBoard::Clock::now();
  std::vector<ClusterBoard::Clock::time_point> first_tokens;  // of its choices
  exec::RequestDesk::Counts at_arrival;
};

CompletionEndpoint::CompletionEndpoint(CompletionOptions options, const exec::Tokenizer& tokenizer,
                                       exec::RequestDesk& desk, ClusterBoard& board)
    : options_(std::move(options)),
      tokenizer_(&tokenizer),
      desk_(&desk),
      board_(&board),
      started_(unix_time_s()),
      form_(tool_form_of(options_.chat)),
      shown_(shown_token(form_, tokenizer)),
      grammars_(tokenizer, desk.stop_tokens(), options_.vocabulary),
      random_(std::random_device{}()),
      prompts_(options_.prompts) {}

// An exchange belongs to its connection, which lets it go when the answer is complete or the client
// has gone, on the server's thread.
void CompletionEndpoint::answer(HttpServer& server, HttpRequest request,
                                std::shared_ptr<HttpReply> reply) {
  auto exchange = std::make_shared<Exchange>();
  exchange->server = &server;
  exchange->reply = std::move(reply);
  prompts_.prepare(
      std::move(request), exchange,
      [this](const HttpRequest& waiting) {
        ApiRequest asked = waiting.path == kChatPath ? parse_chat_request(waiting.body)
                                                     : parse_completion_request(waiting.body);
        exec::LiveRequest live = prepared(asked);
        return std::pair(std::move(asked), std::move(live));
      },
      [this](const std::shared_ptr<Exchange>& own, const auto& made) {
        submit(own, made.first, made.second);
      });
  exchange->reply->when_gone([this, exchange] {
    for (const std::size_t number : exchange->numbers) desk_->cancel(number);
  });
}

std::shared_ptr<const exec::TokenGrammar> CompletionEndpoint::schema_grammar(
    const std::string& schema, const std::string& place, const std::string& param) {
  try {
    return grammars_.of_schema(schema, place);
  } catch (const exec::SchemaError& error) {
    throw ApiError(400, "'" + error.place + "': " + error.problem, error.place);
  } catch (const Error& error) {
    throw ApiError(400, error.what(), param);
  }
}

std::shared_ptr<const exec::TokenGrammar> CompletionEndpoint::grammar_of(const ApiRequest& asked) {
  if (asked.schema)
    return schema_grammar(*asked.schema, "response_format.json_schema.schema", "response_format");
  if (!asked.tools.is_required) return nullptr;
  if (form_ == nullptr)
    throw ApiError(400,
                   "'tool_choice': the model's template writes calls in no form that is known here "
                   "(" +
                       tool_form_names() +
                       "), expected \"auto\", with calls in the text, or \"none\"",
                   "tool_choice");
  // Each schema alone first, for errors that name its place in the request.
  for (const ToolSchema& one : tool_schemas(asked.tools)) {
    try {
      static_cast<void>(exec::json_schema_grammar(std::string_view(one.schema), one.place));
    } catch (const exec::SchemaError& error) {
      throw ApiError(400, "'" + error.place + "': " + error.problem, error.place);
    }
  }
  return schema_grammar(call_schema(asked.tools, *form_), "tools", "tool_choice");
}

void CompletionEndpoint::check_model(const ApiRequest& asked) const {
  if (asked.model.empty() || asked.model == options_.model) return;
  throw unknown_model(asked.model, options_.model);
}

// So long a text has more tokens than fit; to make them would take long.
void CompletionEndpoint::check_length(const ApiRequest& asked) const {
  const std::uint64_t most_bytes =
      static_cast<std::uint64_t>(desk_->most_positions()) * kMostTokenBytes;
  const std::uint64_t bytes = text_bytes(asked);
  if (bytes <= most_bytes) return;
  const std::string subject = asked.is_chat ? "messages" : "prompt";
  throw ApiError(400,
                 "'" + subject + "': " + std::to_string(bytes) +
                     " bytes of text, expected at most " + std::to_string(most_bytes) +
                     ", as a request has at most " + std::to_string(desk_->most_positions()) +
                     " tokens here; shorten it",
                 subject, "context_length_exceeded");
}

std::vector<std::int32_t> CompletionEndpoint::prompt_of(const ApiRequest& asked) const {
  if (asked.is_chat) {
    try {
      return exec::encode_chat(options_.chat, *tokenizer_, asked.messages, asked.tools.list,
                               asked.tools.is_required ? form_->required : std::string_view());
    } catch (const Error& error) {
      throw ApiError(400, error.what(), "messages");
    }
  }
  if (const auto* text = std::get_if<std::string>(&asked.prompt))
    return tokenizer_->encode(*text, exec::WrittenTokens::text);
  return std::get<std::vector<std::int32_t>>(asked.prompt);
}

void CompletionEndpoint::check(const ApiRequest& asked, const exec::LiveRequest& live) const {
  const std::string subject = asked.is_chat ? "messages" : "prompt";
  try {
    desk_->check(live);
  } catch (const Error& error) {
    const bool too_long = live.request.limit() > desk_->most_tokens(live.request.prompt_tokens);
    throw ApiError(400, error.what(), too_long ? subject : "",
                   too_long ? "context_length_exceeded" : "");
  }
  if (static_cast<std::size_t>(asked.choices) > desk_->most_requests())
    throw ApiError(400,
                   "'n': " + std::to_string(asked.choices) + ", expected at most " +
                       std::to_string(desk_->most_requests()) +
                       ", the requests that this server takes at once",
                   "n");
  check_tokens(live.request.prompt_ids, options_.vocabulary, "prompt");
}

exec::LiveRequest CompletionEndpoint::prepared(const ApiRequest& asked) {
  check_model(asked);
  check_length(asked);
  exec::LiveRequest live{.request = {.id = "request"}, .logprobs = asked.logprobs};
  planner::InferenceRequest& request = live.request;
  live.grammar = grammar_of(asked);
  request.prompt_ids = prompt_of(asked);
  if (request.prompt_ids.empty())
    throw ApiError(400, "'prompt': no tokens, expected some",
                   asked.is_chat ? "messages" : "prompt");
  request.prompt_tokens = std::ssize(request.prompt_ids);
  request.new_tokens = asked.max_tokens.value_or(
      std::max<std::int64_t>(1, desk_->usual_tokens(request.prompt_tokens)));
  request.sampling = asked.sampling;
  if (asked.sampling.temperature > 0.0) request.sampling.seed = asked.seed.value_or(random_());
  check(asked, live);
  return live;
}

void CompletionEndpoint::submit(const std::shared_ptr<Exchange>& exchange, const ApiRequest& asked,
                                const exec::LiveRequest& request) {
  const auto choices = static_cast<std::size_t>(asked.choices);
  AnswerWriter::Form form{
      .prompt_tokens = request.request.prompt_tokens, .choices = choices, .streams = asked.streams};
  form.head = {.id = (asked.is_chat ? "chatcmpl-" : "cmpl-") + std::to_string(started_) + "-" +
                     std::to_string(++answers_),
               .created = unix_time_s(),
               .model = options_.model,
               .is_chat = asked.is_chat,
               .includes_usage = asked.includes_usage};
  const bool finds_calls = form_ != nullptr && !asked.tools.list.empty();
  if (finds_calls)
    form.tools = {.form = form_,
                  .tools = asked.tools.names,
                  .is_required = asked.tools.is_required,
                  .seed = (std::uint64_t{std::random_device{}()} << 32U) + answers_};
  exchange->writer.emplace(std::move(form), *tokenizer_, exchange->reply);
  exchange->first_tokens.resize(choices);
  const auto take = [this, weak = std::weak_ptr(exchange),
                     server = exchange->server](std::size_t choice) {
    return [this, weak, server, choice](const exec::AnswerPart& part) {
      server->post([this, weak, choice, part] {
        const auto own = weak.lock();
        if (!own) return;
        measure(*own, choice, part);
        own->writer->take(choice, part);
      });
    };
  };
  const auto refuse_all = [&](const ApiError& error) {
    for (const std::size_t number : exchange->numbers) desk_->cancel(number);
    exchange->reply->send(error_answer(error));
  };
  try {
    desk_->expect_room(choices);
    // Their seeds are those of samples: seed, seed + 1, ...
    for (planner::InferenceRequest& one : planner::samples_of(request.request, asked.choices))
      exchange->numbers.push_back(desk_->submit(
          {.request = std::move(one), .logprobs = request.logprobs, .grammar = request.grammar},
          asked.stops, take(exchange->numbers.size()), finds_calls ? shown_ : exec::ShownToken()));
    exchange->at_arrival = desk_->counts();
  } catch (const exec::DeskFull& full) {
    return refuse_all(ApiError(429, full.what(), "", "server_overloaded"));
  } catch (const exec::DeskClosed& closed) {
    return refuse_all(ApiError(503, closed.what()));
  }
  exchange->writer->begin();
}

void CompletionEndpoint::measure(Exchange& exchange, std::size_t choice,
                                 const exec::AnswerPart& part) {
  const bool failed = part.is_last && part.finish == exec::Finish::failed;
  if (failed || part.tokens == 0) return;
  const ClusterBoard::Clock::time_point now = ClusterBoard::Clock::now();
  board_->add_tokens(1, now);
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

}  // namespace tandem::serve
