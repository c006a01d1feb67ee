// The whole service in one process: HTTP, desk and session, with the small model that comes with
// tandem. What it answers is what a run alone generates.

#include "serve/api_service.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/serve/held_tokenizer.hpp"
#include "tests/serve/http_client.hpp"
#include "tests/serve/service_bench.hpp"

namespace tandem::test::api_service_test {
namespace {

using nlohmann::json;
using testing::ask;
using testing::completion;
using testing::get_text;
using testing::Home;
using testing::HttpClient;
using testing::kChat;
using testing::kPrompt;
using testing::kText;
using testing::post_text;
using testing::Serving;
using testing::Streamed;
using testing::streamed;

TEST_CASE("serve/api: answers are what a run alone generates, whole and streamed") {
  const Home home;
  const Serving serving(home);
  const auto ids = home.tokenizer->encode(kPrompt, exec::WrittenTokens::text);
  const auto tokens = home.alone(ids, 12);
  const std::string expected = home.text_alone(ids, 12);
  const auto reply = ask(serving.port(), post_text(kText, completion(kPrompt, 12).dump()));
  REQUIRE(reply.status == 200);
  const json answer = reply.json();
  CHECK(answer["object"] == "text_completion");
  CHECK(answer["model"] == "tiny");
  CHECK(answer["choices"][0]["text"] == expected);
  CHECK(answer["usage"]["prompt_tokens"] == ids.size());
  CHECK(answer["usage"]["completion_tokens"] == tokens.size());
  json stream = completion(kPrompt, 12);
  stream["stream"] = true;
  stream["stream_options"] = {{"include_usage", true}};
  const Streamed all = streamed(ask(serving.port(), post_text(kText, stream.dump())));
  CHECK(all.text == expected);
  CHECK(all.reason == answer["choices"][0]["finish_reason"]);
  CHECK(all.usage == answer["usage"]);
  CHECK(all.done);
  // Token ids as the prompt; random sampling by a seed.
  json given{{"prompt", ids}, {"max_tokens", 9}, {"temperature", 0.8}, {"top_p", 0.9}, {"seed", 5}};
  CHECK(ask(serving.port(), post_text(kText, given.dump())).json()["choices"][0]["text"] ==
        home.text_alone(ids, 9, {.temperature = 0.8, .top_p = 0.9, .seed = 5}));
  // All samplers; and penalties of greedy sampling.
  for (const double temperature : {0.0, 0.9}) {
    const exec::SamplingOptions sampling{.temperature = temperature,
                                         .seed = 5,
                                         .min_p = 0.05,
                                         .repetition_penalty = 1.25,
                                         .presence_penalty = 0.5,
                                         .frequency_penalty = 0.25};
    given = {{"prompt", ids},
             {"max_tokens", 24},
             {"temperature", temperature},
             {"seed", 5},
             {"min_p", 0.05},
             {"repetition_penalty", 1.25},
             {"presence_penalty", 0.5},
             {"frequency_penalty", 0.25}};
    CHECK(ask(serving.port(), post_text(kText, given.dump())).json()["choices"][0]["text"] ==
          home.text_alone(ids, 24, sampling));
  }
  // A stop text.
  const std::string stop = expected.substr(expected.size() / 2, 3);
  json stopping = completion(kPrompt, 12);
  stopping["stop"] = stop;
  const json stopped = ask(serving.port(), post_text(kText, stopping.dump())).json();
  CHECK(stopped["choices"][0]["text"] == expected.substr(0, expected.find(stop)));
  CHECK(stopped["choices"][0]["finish_reason"] == "stop");
}

TEST_CASE("serve/api: a chat is rendered by the model's template, users' special tokens are text") {
  const Home home;
  const Serving serving(home);
  const json messages = json::array({{{"role", "system"}, {"content", "be brief"}},
                                     {{"role", "user"}, {"content", "where is </s> the lamp?"}}});
  const auto ids = exec::encode_chat(exec::read_model_chat(home.weights()), *home.tokenizer,
                                     {{"system", "be brief"}, {"user", "where is </s> the lamp?"}});
  CHECK(std::ranges::count(ids, 1) == 1);  // <s>, which the template writes
  CHECK(std::ranges::count(ids, 2) == 0);  // </s>
  json body{
      {"messages", messages}, {"max_completion_tokens", 8}, {"temperature", 0}, {"model", "tiny"}};
  const std::string expected = home.text_alone(ids, 8);
  const json answer = ask(serving.port(), post_text(kChat, body.dump())).json();
  CHECK(answer["object"] == "chat.completion");
  CHECK(answer["choices"][0]["message"] == json{{"role", "assistant"}, {"content", expected}});
  CHECK(answer["usage"]["prompt_tokens"] == ids.size());
  body["stream"] = true;
  const auto reply = ask(serving.port(), post_text(kChat, body.dump()));
  CHECK(json::parse(reply.events().front())["choices"][0]["delta"]["role"] == "assistant");
  CHECK(json::parse(reply.events().front())["object"] == "chat.completion.chunk");
  CHECK(streamed(reply).text == expected);
  CHECK(streamed(reply).usage.is_null());
}

TEST_CASE("serve/api: several at once, some of whose clients go, each get their own tokens") {
  const Home home;
  const Serving serving(home);
  constexpr int kClients = 12;
  std::vector<std::string> prompts;
  std::vector<std::string> expected;
  for (int i = 0; i < kClients; ++i) {
    prompts.push_back("Item " + std::to_string(i * 7) + " is in room " + std::to_string(i) +
                      ". Question: where is it? Answer:");
    expected.push_back(
        home.text_alone(home.tokenizer->encode(prompts.back(), exec::WrittenTokens::text), 20));
  }
  std::vector<std::string> answers(kClients);
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      json body = completion(prompts[static_cast<std::size_t>(i)], i % 3 == 2 ? 400 : 20);
      body["stream"] = i % 2 == 0;
      HttpClient client(serving.port());
      client.send(post_text(kText, body.dump()));
      if (i % 3 == 2) {  // gone in the middle, or before the first token
        if (i % 2 == 0) client.read_some();
        return;
      }
      const auto reply = client.reply();
      answers[static_cast<std::size_t>(i)] =
          i % 2 == 0 ? streamed(reply).text : reply.json()["choices"][0]["text"].get<std::string>();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < kClients; ++i) {
    if (i % 3 != 2) CHECK(answers[i] == expected[i]);
  }
  CHECK(serving.soon([&] { return serving.desk.counts().under_way == 0; }));
  const auto counts = serving.desk.counts();
  CHECK(counts.finished + counts.cancelled == counts.submitted);
}

TEST_CASE("serve/api: what is refused, with the status and the error of the API") {
  const Home home;
  const Serving serving(home);
  const auto refused = [&](const std::string& text, int status, const std::string& part) {
    const auto reply = ask(serving.port(), text);
    CAPTURE(text);
    CHECK(reply.status == status);
    REQUIRE(!reply.body.empty());
    const json error = reply.json()["error"];
    CHECK(error["message"].get<std::string>().find(part) != std::string::npos);
    CHECK(error.contains("type"));
    return error;
  };
  const std::string good = completion(kPrompt, 4).dump();
  CHECK(refused(post_text(kText, R"({"prompt": "a", "best_of": 3})"), 400, "'best_of'")["param"] ==
        "best_of");
  refused(post_text(kText, "{"), 400, "expected a JSON object");
  CHECK(refused(post_text(kText, R"({"prompt": "a", "model": "gpt-4"})"), 404,
                "expected 'tiny'")["code"] == "model_not_found");
  CHECK(refused(post_text(kText, completion(kPrompt, 5000).dump()), 400,
                "expected 1 to 1023 prompt tokens, and at most 1024 together")["code"] ==
        "context_length_exceeded");
  refused(post_text(kText, R"({"prompt": [1536]})"), 400, "expected less than 1536");
  // Too long whatever the tokens are, which are not looked at.
  const std::string longest(std::size_t{1024} * 256 + 1, 'x');
  const std::string message = "262145 bytes of text, expected at most 262144";
  CHECK(refused(post_text(kText, completion(longest, 1).dump()), 400, message)["code"] ==
        "context_length_exceeded");
  const json said = json::array({{{"role", "user"}, {"content", longest}}});
  CHECK(refused(post_text(kChat, json{{"messages", said}}.dump()), 400, message)["param"] ==
        "messages");
  const json ids{{"prompt", std::vector<int>(1024, 1536)}};
  CHECK(refused(post_text(kText, ids.dump()), 400, "1024 prompt")["code"] ==
        "context_length_exceeded");
  refused(post_text("/v1/audio/speech", good), 404, "/v1/audio/speech");
  refused(post_text("/v1/embeddings", good), 400, "continues texts, expected an encoder");
  refused("GET /v1/completions HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "expected POST");
  // An absolute URI names the host itself.
  refused("GET http://evil.example/v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", 403,
          "Host 'evil.example'");
  CHECK(
      ask(serving.port(), "GET http://localhost:1/v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n")
          .status == 200);
  refused("GET localhost HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "request target");
  refused("GET * HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, "path '*'");
  CHECK(
      ask(serving.port(), "PUT /health HTTP/1.1\r\nHost: localhost\r\n\r\n").headers.at("allow") ==
      "GET, HEAD, OPTIONS");
  for (const auto& [path, methods] :
       std::vector<std::pair<std::string, std::string>>{{"*", "GET, HEAD, POST, OPTIONS"},
                                                        {kText, "POST, OPTIONS"},
                                                        {"/", "GET, HEAD, OPTIONS"}}) {
    HttpClient client(serving.port());
    client.send("OPTIONS " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const auto reply = client.reply(/*has_body=*/false);
    CHECK(reply.status == 204);
    CHECK(reply.headers.at("allow") == methods);
    CHECK_FALSE(reply.headers.contains("content-length"));
    client.send(get_text("/health"));  // the connection goes on
    CHECK(client.reply().status == 200);
  }
  refused("OPTIONS /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, "/nothing");
  refused(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
      "Content-Length: 2\r\n\r\n{}",
      415, "expected application/json");
  refused("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, "Host 'evil.example'");
  refused(get_text("/v1/models", "Origin: https://evil.example\r\n"), 403, "Origin");
  refused(post_text(kChat, R"({"messages": [{"role": "robot", "content": "a"}]})"), 400,
          "messages[0].role");
  const json models = ask(serving.port(), get_text("/v1/models")).json();
  CHECK(models["data"][0]["id"] == "tiny");
  CHECK(ask(serving.port(), get_text("/v1/models/tiny")).json()["id"] == "tiny");
  CHECK(ask(serving.port(), get_text("/metrics")).body.find("vllm:generation_tokens_total 0") !=
        std::string::npos);
}

TEST_CASE("serve/api: the second turn of a chat reads what is new, and usage and metrics show it") {
  const Home home;
  const Serving serving(home, 64, {}, {}, {}, 1024, 1U << 20U, /*shares_prefixes=*/true);
  json messages = json::array({{{"role", "user"}, {"content", "Where is the red lamp?"}}});
  std::vector<std::int32_t> known;  // prompts and answers so far
  std::int64_t prompts = 0;
  std::int64_t hits = 0;
  for (int turn = 0; turn < 3; ++turn) {
    CAPTURE(turn);
    std::vector<exec::ChatMessage> said;
    for (const json& message : messages)
      said.push_back({message["role"].get<std::string>(), message["content"].get<std::string>()});
    const std::vector<std::int32_t> ids =
        exec::encode_chat(exec::read_model_chat(home.weights()), *home.tokenizer, said);
    const json body{{"messages", messages}, {"max_tokens", 6}, {"temperature", 0}};
    const json answer = ask(serving.port(), post_text(kChat, body.dump())).json();
    const std::string text = answer["choices"][0]["message"]["content"];
    CHECK(text == home.text_alone(ids, 6));
    const std::int64_t cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"];
    const auto common = std::ranges::mismatch(ids, known).in1 - ids.begin();
    CHECK(cached == common);
    CHECK((cached > 0) == (turn > 0));
    prompts += std::ssize(ids);
    hits += cached;
    // The last token of an answer is not fed back, so no cache has it.
    known = ids;
    const std::vector<std::int32_t> tokens = home.alone(ids, 6);
    known.insert(known.end(), tokens.begin(), tokens.end() - 1);
    messages.push_back({{"role", "assistant"}, {"content", text}});
    messages.push_back({{"role", "user"}, {"content", "And the blue one?"}});
  }
  const std::string metrics = ask(serving.port(), get_text("/metrics")).body;
  CHECK(metrics.find("\nvllm:prefix_cache_queries_total " + std::to_string(prompts) + "\n") !=
        std::string::npos);
  CHECK(metrics.find("\nvllm:prefix_cache_hits_total " + std::to_string(hits) + "\n") !=
        std::string::npos);
}

TEST_CASE("serve/api: a token is asked for, and a full queue refuses") {
  const Home home;
  const Serving serving(home, /*queue=*/0, "0123456789abcdef");
  CHECK(ask(serving.port(), get_text("/health")).status == 200);
  CHECK(ask(serving.port(), get_text("/v1/models")).status == 401);
  const std::string bearer = "Authorization: Bearer 0123456789abcdef\r\n";
  CHECK(ask(serving.port(), get_text("/v1/models", bearer)).status == 200);
  CHECK(ask(serving.port(), post_text(kText, "{}")).status == 401);
  // As many as are served together, and one more.
  std::vector<std::unique_ptr<HttpClient>> clients;
  json body = completion(kPrompt, 900);
  body["stream"] = true;
  body["temperature"] = 1;
  for (std::int64_t i = 0; i < serving.service.capacity.sequences; ++i) {
    clients.push_back(std::make_unique<HttpClient>(serving.port()));
    clients.back()->send(post_text(kText, body.dump(), bearer));
    CHECK(clients.back()->read_some());
  }
  if (serving.desk.counts().under_way == clients.size()) {  // none has ended yet
    const auto full = ask(serving.port(), post_text(kText, body.dump(), bearer));
    if (full.status != 200) {
      CHECK(full.status == 429);
      CHECK(full.headers.at("retry-after") == "1");
    }
  }
}

TEST_CASE("serve/api: prompts that wait to be read are bounded, and those of the gone not read") {
  Home home;
  auto held = std::make_unique<HeldTokenizer>(std::move(home.tokenizer));
  const HeldTokenizer& tokenizer = *held;
  home.tokenizer = std::move(held);
  const Serving serving(home, /*queue=*/64, {}, {}, {}, /*waiting_bodies=*/3,
                        /*waiting_bytes=*/2000);
  const std::string request = post_text(kText, completion("a", 1).dump());
  HttpClient first(serving.port());
  first.send(request);
  REQUIRE(serving.soon([&] { return tokenizer.texts == 1; }));
  {
    HttpClient gone(serving.port());
    gone.send(request);
    // It has been taken, as an answer on another connection comes later.
    CHECK(ask(serving.port(), post_text(kText, completion(std::string(2000, 'x'), 1).dump()))
              .status == 429);
  }
  HttpClient third(serving.port());
  third.send(request);
  for (int i = 0; i < 2; ++i) CHECK(ask(serving.port(), get_text("/health")).status == 200);
  const auto full = ask(serving.port(), request);
  CHECK(full.status == 429);
  CHECK(full.json()["error"]["code"] == "server_overloaded");
  tokenizer.let_go();
  CHECK(first.reply().status == 200);
  CHECK(third.reply().status == 200);
  CHECK(tokenizer.texts == 2);
  CHECK(ask(serving.port(), request).status == 200);
}

TEST_CASE("serve/api: the page is open and reveals nothing, the cluster needs the token") {
  const Home home;
  const std::string token = "0123456789abcdef";
  const Serving serving(home, /*queue=*/4, token);
  for (const char* const path : {"/", "/page.css", "/chat.js", "/icon.svg"}) {
    CAPTURE(path);
    const auto reply = ask(serving.port(), get_text(path));
    CHECK(reply.status == 200);
    const std::string policy = reply.headers.at("content-security-policy");
    CHECK(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'; "));
    CHECK(policy.find("unsafe") == std::string::npos);
    CHECK(reply.headers.at("x-content-type-options") == "nosniff");
    CHECK(reply.body.find(token) == std::string::npos);
    CHECK(reply.body.find(serving.service.plan.cluster.name()) == std::string::npos);
  }
  const auto type = [&](const char* path) {
    return ask(serving.port(), get_text(path)).headers.at("content-type");
  };
  CHECK(type("/") == "text/html; charset=utf-8");
  CHECK(type("/page.css") == "text/css; charset=utf-8");
  CHECK(type("/server.js") == "text/javascript; charset=utf-8");
  CHECK(ask(serving.port(), get_text("/index.html")).status == 404);
  CHECK(ask(serving.port(), get_text("/page.css/../embed.cmake")).status == 404);
  CHECK(ask(serving.port(), post_text("/", "{}")).status == 405);
  CHECK(ask(serving.port(), "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n").status == 403);
  CHECK(ask(serving.port(), get_text("/v1/cluster")).status == 401);
  CHECK(ask(serving.port(), get_text("/v1/cluster", "Authorization: Bearer " + token + "\r\n"))
            .json()["model"] == "tiny");
}

TEST_CASE("serve/api: requests are measured, alone and with others") {
  const Home home;
  const Serving serving(home);
  const auto cluster = [&] { return ask(serving.port(), get_text("/v1/cluster")).json(); };
  CHECK(cluster()["requests"].empty());
  json body = completion(kPrompt, 12);
  const json usage = ask(serving.port(), post_text(kText, body.dump())).json()["usage"];
  json all = cluster();
  REQUIRE(all["requests"].size() == 1);
  const json measured = all["requests"][0]["measured"];
  CHECK(measured["prompt_tokens"] == usage["prompt_tokens"]);
  CHECK(measured["new_tokens"] == usage["completion_tokens"]);
  CHECK(measured["ttft_s"] > 0.0);
  CHECK(measured["token_latency_s"] > 0.0);
  CHECK(measured["shared"] == false);
  CHECK(all["live"]["open"] == 0);
  CHECK(all["live"]["waiting"] == 0);
  CHECK(all["live"]["finished"] == 1);
  CHECK(all["live"]["tokens_per_s"] > 0.0);
  // One within the time of another: neither had the devices to itself.
  HttpClient longer(serving.port());
  body["max_tokens"] = 900;
  body["temperature"] = 2;
  body["stream"] = true;
  longer.send(post_text(kText, body.dump()));
  REQUIRE(longer.read_some());
  const bool runs = cluster()["live"]["open"] == 1;
  CHECK(ask(serving.port(), post_text(kText, completion(kPrompt, 2).dump())).status == 200);
  if (runs) CHECK(cluster()["requests"][1]["measured"]["shared"] == true);
  longer.close();
  CHECK(serving.soon([&] { return cluster()["live"]["open"] == 0; }));
  CHECK(cluster()["live"]["waiting"] == 0);
}

TEST_CASE("serve/api: at the end of serving streams get an error, later requests a 503") {
  const Home home;
  Serving serving(home);
  HttpClient client(serving.port());
  json body = completion(kPrompt, 900);
  body["stream"] = true;
  body["temperature"] = 2;
  client.send(post_text(kText, body.dump()));
  REQUIRE(client.read_some());
  serving.desk.close("the server is shutting down");
  const auto late = ask(serving.port(), post_text(kText, completion(kPrompt, 4).dump()));
  CHECK(late.status == 503);
  const auto reply = client.reply();
  const bool ended =
      !reply.whole && reply.events().back().find("shutting down") != std::string::npos;
  CHECK((ended || streamed(reply).done));  // unless it was faster
  serving.end();
}

}  // namespace
}  // namespace tandem::test::api_service_test
