// Log-probabilities of answers, and several answers to one prompt.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "tests/serve/service_bench.hpp"

namespace tandem::test::api_choices_test {
namespace {

using nlohmann::json;
using testing::ask;
using testing::completion;
using testing::Home;
using testing::HttpClient;
using testing::kChat;
using testing::kPrompt;
using testing::kText;
using testing::post_text;
using testing::Serving;
using testing::Streamed;
using testing::streamed;

// The logits of each token of a greedy run alone.
std::vector<std::vector<float>> logits_alone(const Home& home,
                                             const std::vector<std::int32_t>& prompt,
                                             std::int64_t tokens) {
  const auto plan = std::get<planner::Plan>(planner::plan_here(
      home.model, {.prompt_tokens = std::ssize(prompt), .new_tokens = tokens}, model::Bytes{4e9}));
  std::vector<std::vector<float>> all;
  exec::ExecuteOptions options;
  options.weights = home.weights();
  options.cache_dir = home.folder.path() / "cache";
  options.prompt = prompt;
  options.new_tokens = tokens;
  options.on_logits = [&](std::span<const float> logits) {
    all.emplace_back(logits.begin(), logits.end());
  };
  static_cast<void>(exec::execute(plan, options));
  return all;
}

TEST_CASE("serve/api: log-probabilities are those of a run alone's logits, whole and streamed") {
  const Home home;
  const Serving serving(home);
  const auto ids = home.tokenizer->encode(kPrompt, exec::WrittenTokens::text);
  const auto logits = logits_alone(home, ids, 8);
  json body = completion(kPrompt, 8);
  CHECK(ask(serving.port(), post_text(kText, body.dump()))
            .json()["choices"][0]["logprobs"]
            .is_null());
  body["logprobs"] = 3;
  const json answer = ask(serving.port(), post_text(kText, body.dump())).json();
  const json all = answer["choices"][0]["logprobs"];
  REQUIRE(all["tokens"].size() == logits.size());
  CHECK(answer["usage"]["completion_tokens"] == logits.size());
  std::string joined;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    long double sum = 0.0L;
    for (const float x : logits[i]) sum += std::exp(static_cast<long double>(x));
    const double best = *std::ranges::max_element(logits[i]) - static_cast<double>(std::log(sum));
    // Prompts are read in chunks here, whose sums are in another order.
    CHECK(all["token_logprobs"][i].get<double>() == doctest::Approx(best).epsilon(1e-4));
    CHECK(all["top_logprobs"][i].size() == 3);
    const std::string token = all["tokens"][i];
    CHECK(all["top_logprobs"][i][token] == all["token_logprobs"][i]);
    CHECK(all["text_offset"][i] == joined.size());
    if (!token.starts_with("token_id:")) joined += token;
  }
  CHECK(answer["choices"][0]["text"] == joined);
  // The temperature changes the choice, not the distribution that is reported: the same first one.
  json warm = body;
  warm["temperature"] = 1.5;
  warm["presence_penalty"] = 1;
  const json warm_all =
      ask(serving.port(), post_text(kText, warm.dump())).json()["choices"][0]["logprobs"];
  for (const auto& [token, logprob] : all["top_logprobs"][0].items())
    CHECK(warm_all["top_logprobs"][0][token] == logprob);

  body["stream"] = true;
  json tokens = json::array();
  json offsets = json::array();
  for (const std::string& event : ask(serving.port(), post_text(kText, body.dump())).events()) {
    if (event == "[DONE]") continue;
    const json logprobs = json::parse(event)["choices"][0]["logprobs"];
    if (logprobs.is_null()) continue;
    tokens.insert(tokens.end(), logprobs["tokens"].begin(), logprobs["tokens"].end());
    offsets.insert(offsets.end(), logprobs["text_offset"].begin(), logprobs["text_offset"].end());
  }
  CHECK(tokens == all["tokens"]);
  CHECK(offsets == all["text_offset"]);

  json chat{{"messages", json::array({{{"role", "user"}, {"content", "a"}}})},
            {"max_tokens", 4},
            {"temperature", 0},
            {"logprobs", true},
            {"top_logprobs", 2}};
  const json said = ask(serving.port(), post_text(kChat, chat.dump())).json();
  const json content = said["choices"][0]["logprobs"]["content"];
  CHECK(content.size() == said["usage"]["completion_tokens"]);
  for (const json& token : content) {
    REQUIRE(token["top_logprobs"].size() == 2);
    CHECK(token["top_logprobs"][0]["token"] == token["token"]);
    CHECK(token["top_logprobs"][0]["logprob"] == token["logprob"]);
    CHECK(token["top_logprobs"][1]["logprob"] <= token["logprob"]);
  }
}

TEST_CASE("serve/api: several answers to one prompt, of the seeds that follow one another") {
  const Home home;
  const Serving serving(home, /*queue=*/2);
  const auto ids = home.tokenizer->encode(kPrompt, exec::WrittenTokens::text);
  json body = completion(kPrompt, 12);
  body.update({{"n", 4}, {"temperature", 1.2}, {"seed", 30}, {"logprobs", 0}});
  const json answer = ask(serving.port(), post_text(kText, body.dump())).json();
  REQUIRE(answer["choices"].size() == 4);
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const json& choice = answer["choices"][i];
    CHECK(choice["index"] == i);
    CHECK(choice["text"] == home.text_alone(ids, 12, {.temperature = 1.2, .seed = 30 + i}));
    tokens += choice["logprobs"]["tokens"].size();
  }
  CHECK(answer["choices"][0]["text"] != answer["choices"][1]["text"]);
  CHECK(answer["usage"]["prompt_tokens"] == ids.size());
  CHECK(answer["usage"]["completion_tokens"] == tokens);
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  const auto reply = ask(serving.port(), post_text(kText, body.dump()));
  for (int i = 0; i < 4; ++i) {
    CAPTURE(i);
    const Streamed all = streamed(reply, i);
    CHECK(all.text == answer["choices"][static_cast<std::size_t>(i)]["text"]);
    CHECK(all.reason == answer["choices"][static_cast<std::size_t>(i)]["finish_reason"]);
    CHECK(all.usage == answer["usage"]);
  }
  // More than can ever be open; and all end when the client goes.
  const auto most = static_cast<int>(serving.desk.most_requests());
  body["n"] = most + 1;
  CHECK(ask(serving.port(), post_text(kText, body.dump())).json()["error"]["param"] == "n");
  body["n"] = most;
  body["max_tokens"] = 900;
  {
    HttpClient client(serving.port());
    client.send(post_text(kText, body.dump()));
    CHECK(client.read_some());
    // All or none: those that are taken end with the one that is refused.
    const auto full = ask(serving.port(), post_text(kText, body.dump()));
    CHECK((full.status == 429 || full.status == 200));  // unless some have ended
  }
  CHECK(serving.soon([&] { return serving.desk.counts().under_way == 0; }));
}

}  // namespace
}  // namespace tandem::test::api_choices_test
