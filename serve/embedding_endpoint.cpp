#include "serve/embedding_endpoint.hpp"

#include <optional>
#include <utility>
#include <variant>

#include "model/base/error.hpp"
#include "serve/api_answer.hpp"

namespace tandem::serve {
namespace {

// More than the longest tokens of common vocabularies, and the white space between them.
constexpr std::size_t kMostBytesPerToken = 256;

}  // namespace

// A request with its answer. Used on the server's thread only.
struct EmbeddingEndpoint::Exchange {
  HttpServer* server = nullptr;
  std::shared_ptr<HttpReply> reply;
  std::optional<std::size_t> number;  // at the desk
  std::vector<std::int64_t> lengths;  // of its texts, in tokens
  std::vector<std::string> data;      // so far
};

EmbeddingEndpoint::EmbeddingEndpoint(EmbeddingOptions options, const exec::Tokenizer& tokenizer,
                                     exec::TextDesk& desk, ClusterBoard& board)
    : options_(std::move(options)),
      tokenizer_(&tokenizer),
      desk_(&desk),
      board_(&board),
      prompts_(options_.prompts) {}

// An exchange belongs to its connection, which lets it go when the answer is complete or the client
// has gone, on the server's thread.
void EmbeddingEndpoint::answer(HttpServer& server, HttpRequest request,
                               std::shared_ptr<HttpReply> reply) {
  auto exchange = std::make_shared<Exchange>();
  exchange->server = &server;
  exchange->reply = std::move(reply);
  prompts_.prepare(
      std::move(request), exchange,
      [this](const HttpRequest& waiting) {
        const EmbeddingRequest asked = parse_embedding_request(waiting.body);
        return std::pair(asked.encoding, texts_of(asked));
      },
      [this](const std::shared_ptr<Exchange>& own, auto& made) {
        submit(own, made.first, std::move(made.second));
      });
  exchange->reply->when_gone([this, exchange] {
    if (exchange->number) desk_->cancel(*exchange->number);
  });
}

EmbeddingEndpoint::Texts EmbeddingEndpoint::texts_of(const EmbeddingRequest& asked) const {
  if (!asked.model.empty() && asked.model != options_.model)
    throw unknown_model(asked.model, options_.model);
  const auto& limits = desk_->limits();
  if (asked.dimensions && *asked.dimensions != static_cast<std::int64_t>(limits.width))
    throw ApiError(400,
                   "'dimensions': " + std::to_string(*asked.dimensions) + ", expected " +
                       std::to_string(limits.width) + ", the model's own; leave it out",
                   "dimensions");
  Texts texts;
  texts.reserve(asked.inputs.size());
  for (const EmbeddingRequest::Input& input : asked.inputs) {
    const std::string where =
        asked.is_list ? "input[" + std::to_string(texts.size()) + "]" : "input";
    const auto too_long = [&](const std::string& length) {
      std::string text = "'";
      text.append(where).append("': ").append(length).append(", expected at most ");
      text.append(std::to_string(limits.tokens));
      text.append(" tokens, which is what this server reads at once; split it");
      throw ApiError(400, text, "input", "context_length_exceeded");
    };
    const auto* const text = std::get_if<std::string>(&input);
    // To make tokens of it would take long.
    if (text != nullptr &&
        text->size() > static_cast<std::size_t>(limits.tokens) * kMostBytesPerToken)
      too_long(std::to_string(text->size()) + " bytes");
    texts.push_back(text != nullptr ? tokenizer_->encode(*text, exec::WrittenTokens::text)
                                    : std::get<exec::TextDesk::Text>(input));
    if (std::ssize(texts.back()) > limits.tokens)
      too_long(std::to_string(texts.back().size()) + " tokens");
    if (texts.back().empty())
      throw ApiError(400, "'" + where + "': no tokens, expected some", "input");
    check_tokens(texts.back(), options_.vocabulary, where);
  }
  return texts;
}

void EmbeddingEndpoint::submit(const std::shared_ptr<Exchange>& exchange, VectorEncoding encoding,
                               Texts texts) {
  for (const exec::TextDesk::Text& text : texts) exchange->lengths.push_back(std::ssize(text));
  // Written on the thread that computes, so that many numbers do not hold up the server's.
  const auto on_embedding = [this, weak = std::weak_ptr(exchange), server = exchange->server,
                             encoding](const exec::TextEmbedding& embedding) {
    const bool failed = !embedding.failure.empty();
    std::string text =
        failed ? embedding.failure : embedding_json(embedding.text, embedding.vector, encoding);
    server->post([this, weak, failed, number = embedding.text, text = std::move(text)] {
      const auto own = weak.lock();
      if (!own) return;
      if (failed) return own->reply->send(error_answer(ApiError(503, text)));
      take(*own, number, text);
    });
  };
  try {
    exchange->number = desk_->submit(std::move(texts), on_embedding);
  } catch (const exec::DeskFull& full) {
    exchange->reply->send(error_answer(ApiError(429, full.what(), "", "server_overloaded")));
  } catch (const exec::DeskClosed& closed) {
    exchange->reply->send(error_answer(ApiError(503, closed.what())));
  }
}

void EmbeddingEndpoint::take(Exchange& exchange, std::size_t text, const std::string& json) {
  board_->add_tokens(exchange.lengths.at(text), ClusterBoard::Clock::now());
  exchange.data.push_back(json);
  if (exchange.data.size() < exchange.lengths.size()) return;
  std::int64_t tokens = 0;
  for (const std::int64_t length : exchange.lengths) tokens += length;
  exchange.reply->send({.body = embeddings_json(options_.model, exchange.data, tokens)});
}

}  // namespace tandem::serve
