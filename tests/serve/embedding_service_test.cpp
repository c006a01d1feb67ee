// Embeddings through the whole service: those of a run alone, pooled.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exec/serve/live_session.hpp"
#include "exec/serve/text_desk.hpp"
#include "exec/weights/random_weights.hpp"
#include "planner/search/local_plan.hpp"
#include "planner/serving/local_service.hpp"
#include "serve/api_service.hpp"
#include "serve/http_server.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/serve/http_client.hpp"
#include "tests/serve/live_serving.hpp"

namespace tandem::test::embedding_service_test {
namespace {

using nlohmann::json;
using testing::ask;
using testing::get_text;
using testing::HttpClient;
using testing::HttpReplyText;
using testing::post_text;

constexpr const char* kPath = "/v1/embeddings";
using Ids = std::vector<std::int32_t>;

model::Transformer small_encoder(model::Family family) {
  model::Transformer t;
  t.name = "encoder";
  t.family = family;
  t.layers = 2;
  t.hidden = 24;
  t.heads = t.kv_heads = 3;
  t.head_dim = 8;
  t.intermediate = 50;
  t.vocab = 300;
  t.max_context = 64;
  t.activation = model::Activation::gelu;
  t.token_types = family == model::Family::bert ? 2 : 0;
  t.norm_epsilon = 1e-12;
  t.tied_embeddings = true;
  return t;
}

struct Encoder {
  explicit Encoder(model::Family family = model::Family::bert) : model(small_encoder(family)) {
    exec::write_random_weights(model, 17, model::DType::f32, folder.path() / "model");
    tokenizer = exec::load_tokenizer(folder.path() / "model", model);
  }
  // The hidden states of a run alone.
  [[nodiscard]] std::vector<float> hidden(const Ids& text) const {
    const auto plan = std::get<planner::Plan>(planner::plan_here(
        model, {.prompt_tokens = std::ssize(text), .new_tokens = 0}, model::Bytes{4e9}));
    exec::ExecuteOptions options = run_options();
    options.prompt = text;
    return exec::execute(plan, options).hidden;
  }
  [[nodiscard]] exec::ExecuteOptions run_options() const {
    exec::ExecuteOptions options;
    options.weights = folder.path() / "model";
    options.cache_dir = folder.path() / "cache";
    options.tokenizer = tokenizer.get();
    return options;
  }
  testing::TemporaryFolder folder;
  model::Transformer model;
  std::unique_ptr<exec::Tokenizer> tokenizer;
};

struct EncoderServing {
  explicit EncoderServing(const Encoder& encoder, const char* pooling = "mean",
                          std::size_t queue = 64)
      : service(std::get<planner::LiveService>(
            planner::service_here(encoder.model, model::Bytes{4e9}))),
        desk({.tokens = planner::longest_text(service),
              .width = static_cast<std::size_t>(encoder.model.hidden),
              .pooling = exec::find_pooling(pooling),
              .queue = queue}),
        board(service.plan, {.model = "tiny", .embeds = true, .policy = "sequential"}, {}),
        api({.model = "tiny", .hosts = {.listening = "127.0.0.1"}, .vocabulary = 300},
            *encoder.tokenizer, desk, board),
        server({.host = "127.0.0.1", .port = 0}, api) {
    api.use(server);
    thread = std::thread([this] { server.run(); });
    testing::begin_session(session, service.plan, encoder.run_options(), desk, api, port());
  }
  ~EncoderServing() {
    session.reset();
    server.stop();
    thread.join();
    api.end();
  }
  [[nodiscard]] std::uint16_t port() const { return server.endpoint().port; }
  [[nodiscard]] HttpReplyText post(const json& body) const {
    return ask(port(), post_text(kPath, body.dump()));
  }
  planner::LiveService service;
  exec::TextDesk desk;
  serve::ClusterBoard board;
  serve::ApiService api;
  serve::HttpServer server;
  std::thread thread;
  std::optional<exec::LiveSession> session;
};

// By the definitions, in double precision.
std::vector<double> pooled(const std::vector<float>& states, std::size_t width,
                           const std::string& mode) {
  std::vector<double> vector(width);
  const std::size_t tokens = states.size() / width;
  for (std::size_t c = 0; c < width; ++c) {
    std::vector<double> column;
    for (std::size_t t = 0; t < tokens; ++t) column.push_back(states[t * width + c]);
    vector[c] = mode == "cls"   ? column.front()
                : mode == "max" ? *std::ranges::max_element(column)
                                : std::accumulate(column.begin(), column.end(), 0.0) /
                                      static_cast<double>(tokens);
  }
  const double length =
      std::sqrt(std::inner_product(vector.begin(), vector.end(), vector.begin(), 0.0));
  for (double& x : vector) x /= length;
  return vector;
}

void check_equal(const json& given, const std::vector<double>& expected) {
  REQUIRE(given.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(std::abs(given[i].get<double>() - expected[i]) <= 2e-6);
}

TEST_CASE("serve/embeddings: are the pooled states of a run alone, of texts of any length") {
  for (const model::Family family : {model::Family::bert, model::Family::distilbert}) {
    const Encoder encoder(family);
    for (const char* const mode : {"mean", "cls", "max"}) {
      CAPTURE(mode);
      const EncoderServing serving(encoder, mode);
      CHECK(serving.desk.limits().tokens == 64);
      std::vector<std::string> texts{"a", "where is the red lamp?", std::string(64, 'x'), "a"};
      const json answer = serving.post({{"input", texts}, {"model", "tiny"}}).json();
      REQUIRE(answer.contains("data"));
      REQUIRE(answer["data"].size() == texts.size());
      std::size_t tokens = 0;
      for (std::size_t i = 0; i < texts.size(); ++i) {
        const Ids ids = encoder.tokenizer->encode(texts[i]);
        tokens += ids.size();
        CHECK(answer["data"][i]["index"] == i);
        check_equal(answer["data"][i]["embedding"], pooled(encoder.hidden(ids), 24, mode));
      }
      CHECK(answer["usage"]["prompt_tokens"] == tokens);
      CHECK(answer["data"][0]["embedding"] == answer["data"][3]["embedding"]);
      // Token ids, and one input that is no list.
      const Ids ids = encoder.tokenizer->encode(texts[1]);
      CHECK(serving.post({{"input", ids}}).json()["data"][0]["embedding"] ==
            answer["data"][1]["embedding"]);
      CHECK(serving.post({{"input", {ids, ids}}}).json()["data"][1]["embedding"] ==
            answer["data"][1]["embedding"]);
      CHECK(serving.post({{"input", texts[1]}, {"dimensions", 24}}).json()["data"][0] ==
            json{{"object", "embedding"},
                 {"index", 0},
                 {"embedding", answer["data"][1]["embedding"]}});
    }
  }
}

TEST_CASE("serve/embeddings: errors are those of the other paths") {
  const Encoder encoder;
  const EncoderServing serving(encoder);
  const auto refused = [&](const json& body, int status, const std::string& param) {
    const HttpReplyText reply = serving.post(body);
    CAPTURE(reply.body);
    CHECK(reply.status == status);
    CHECK(reply.json()["error"]["param"] == param);
    return reply.json()["error"]["message"].get<std::string>();
  };
  CHECK(refused({{"input", "a"}, {"dimensions", 8}}, 400, "dimensions").find("expected 24") !=
        std::string::npos);
  refused({{"input", "a"}, {"model", "other"}}, 404, "model");
  CHECK(refused({{"input", {"a", std::string(65, 'a')}}}, 400, "input")
            .find("'input[1]': 65 tokens, expected at most 64") != std::string::npos);
  refused({{"input", std::string(100'000, 'a')}}, 400, "input");
  refused({{"input", {1, 300}}}, 400, "input");
  const HttpReplyText chat =
      ask(serving.port(),
          post_text("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "a"}]})"));
  CHECK(chat.status == 400);
  CHECK(chat.json()["error"]["message"].get<std::string>().find("is an encoder") !=
        std::string::npos);
  const json cluster = ask(serving.port(), get_text("/v1/cluster")).json();
  CHECK(cluster["embeds"] == true);
}

TEST_CASE("serve/embeddings: several clients, of whom some go, each get their own") {
  const Encoder encoder;
  const EncoderServing serving(encoder, "mean", /*queue=*/100);
  std::vector<std::thread> threads;
  std::vector<json> answers(12);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    threads.emplace_back([&, i] {
      std::vector<std::string> texts;
      for (std::size_t k = 0; k < 20; ++k)
        texts.push_back("text " + std::to_string(i * 100 + k) + std::string(k, '.'));
      HttpClient client(serving.port());
      client.send(post_text(kPath, json{{"input", texts}}.dump()));
      if (i % 3 != 2) answers[i] = client.reply().json();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (i % 3 == 2) continue;
    REQUIRE(answers[i]["data"].size() == 20);
    const std::string text = "text " + std::to_string(i * 100 + 19) + std::string(19, '.');
    check_equal(answers[i]["data"][19]["embedding"],
                pooled(encoder.hidden(encoder.tokenizer->encode(text)), 24, "mean"));
  }
  for (int i = 0; i < 2000 && serving.desk.counts().under_way > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const auto counts = serving.desk.counts();
  CHECK(counts.under_way == 0);
  CHECK(counts.finished + counts.cancelled == counts.submitted);
  CHECK(counts.finished >= 8);
}

TEST_CASE("serve/embeddings: a full desk refuses, a closed one ends what waits") {
  exec::TextDesk desk({.tokens = 4, .width = 1, .pooling = exec::find_pooling("mean"), .queue = 1});
  std::vector<std::string> failures;
  const auto take = [&](const exec::TextEmbedding& embedding) {
    failures.push_back(embedding.failure);
  };
  const std::size_t first = desk.submit({{1}, {2}}, take);
  static_cast<void>(desk.submit({{3}}, take));
  CHECK_THROWS_AS(static_cast<void>(desk.submit({{4}}, take)), exec::DeskFull);
  CHECK(desk.counts().refused == 1);
  // The text that is being read is not wanted any more; the next request's turn comes.
  CHECK(desk.next_text() == exec::TextDesk::Text{1});
  desk.cancel(first);
  const std::vector<float> state{2.0F};
  desk.on_hidden(state);
  CHECK(failures.empty());
  CHECK(desk.next_text() == exec::TextDesk::Text{3});
  desk.close("gone");
  CHECK(failures == std::vector<std::string>{"gone"});
  desk.on_hidden(state);
  CHECK(desk.is_closed());
  CHECK_THROWS_AS(static_cast<void>(desk.submit({{4}}, take)), exec::DeskClosed);
}

}  // namespace
}  // namespace tandem::test::embedding_service_test
