#pragma once

// The whole service in one process: HTTP, desk and session, with the small model that comes with
// tandem.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exec/serve/live_session.hpp"
#include "exec/weights/model_folder.hpp"
#include "exec/weights/source/weight_source.hpp"
#include "planner/search/local_plan.hpp"
#include "planner/serving/local_service.hpp"
#include "serve/api_service.hpp"
#include "serve/http_server.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/serve/http_client.hpp"
#include "tests/serve/live_serving.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::testing {

using nlohmann::json;

inline constexpr const char* kChat = "/v1/chat/completions";
inline constexpr const char* kText = "/v1/completions";

inline model::Transformer tiny_model(const std::filesystem::path& weights) {
  model::Transformer transformer = exec::read_geometry(weights);
  transformer.formats =
      exec::stored_formats(*exec::open_weights(weights, transformer), transformer);
  return transformer;
}

// A copy of tandem-tiny with a chat template.
struct Home {
  Home() {
    std::filesystem::copy(in_sources("scenarios/models/tandem-tiny"), weights(),
                          std::filesystem::copy_options::recursive);
    std::ofstream(weights() / "chat_template.jinja")
        << "<s>{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}Answer:";
    model = tiny_model(weights());
    tokenizer = exec::load_tokenizer(weights(), model);
  }
  [[nodiscard]] std::filesystem::path weights() const { return folder.path() / "tiny"; }
  // The tokens of a run alone.
  [[nodiscard]] std::vector<std::int32_t> alone(std::vector<std::int32_t> prompt,
                                                std::int64_t tokens,
                                                const exec::SamplingOptions& sampling = {}) const {
    const auto plan = std::get<planner::Plan>(planner::plan_here(
        model, {.prompt_tokens = std::ssize(prompt), .new_tokens = tokens}, model::Bytes{4e9}));
    exec::ExecuteOptions options;
    options.weights = weights();
    options.cache_dir = folder.path() / "cache";
    options.prompt = std::move(prompt);
    options.new_tokens = tokens;
    options.sampling = sampling;
    return exec::execute(plan, options).tokens;
  }
  // The text of an answer that a run alone gives to a prompt.
  [[nodiscard]] std::string text_alone(const std::vector<std::int32_t>& prompt, std::int64_t tokens,
                                       const exec::SamplingOptions& sampling = {}) const {
    exec::AnswerText text(*tokenizer, prompt, {});
    std::string all;
    for (const std::int32_t token : alone(prompt, tokens, sampling)) all += text.push(token);
    return all + text.finish();
  }
  TemporaryFolder folder;
  model::Transformer model;
  std::unique_ptr<exec::Tokenizer> tokenizer;
};

struct Serving {
  explicit Serving(const Home& home, std::size_t queue = 64, const std::string& token = {},
                   const serve::HttpLimits& http = {}, const serve::Prediction& prediction = {},
                   std::size_t waiting_bodies = 1024, std::size_t waiting_bytes = 1U << 20U,
                   bool shares_prefixes = false, const serve::PlannerAccess& planner = {})
      : service(
            std::get<planner::LiveService>(planner::service_here(home.model, model::Bytes{4e9}))),
        desk(*home.tokenizer, home.model, exec::stop_tokens(service.plan, *home.tokenizer),
             {.capacity = service.capacity, .chunk = service.chunk, .queue = queue}),
        board(service.plan,
              {.model = "tiny",
               .chats = true,
               .policy = "continuous",
               .together = 4,
               .devices = "this machine"},
              prediction),
        api({.model = "tiny",
             .hosts = {.listening = "127.0.0.1"},
             .token = token,
             .chat = exec::read_model_chat(home.weights()),
             .vocabulary = home.model.vocab,
             .prompts = {.bodies = waiting_bodies, .bytes = waiting_bytes},
             .planner = planner},
            *home.tokenizer, desk, board),
        server({.host = "127.0.0.1", .port = 0}, api, http) {
    api.use(server);
    thread = std::thread([this] { server.run(); });
    exec::ExecuteOptions options;
    options.weights = home.weights();
    options.cache_dir = home.folder.path() / "cache";
    options.tokenizer = home.tokenizer.get();
    options.serve = exec::ServeOptions{.requests = {},
                                       .policy = service.policy,
                                       .chunk = service.chunk,
                                       .shares_prefixes = shares_prefixes,
                                       .on_token = {}};
    begin_session(session, service.plan, options, desk, api, port());
  }
  ~Serving() { end(); }
  void end() {
    session.reset();
    if (!thread.joinable()) return;
    server.stop();
    thread.join();
    api.end();
  }
  [[nodiscard]] std::uint16_t port() const { return server.endpoint().port; }
  bool soon(const std::function<bool()>& done) const {
    for (int i = 0; i < 2000 && !done(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return done();
  }
  planner::LiveService service;
  exec::RequestDesk desk;
  serve::ClusterBoard board;
  serve::ApiService api;
  serve::HttpServer server;
  std::thread thread;
  std::optional<exec::LiveSession> session;
};

inline json completion(const std::string& prompt, int tokens) {
  return {{"prompt", prompt}, {"max_tokens", tokens}, {"temperature", 0}};
}

// The text of a stream, and what its last parts state.
struct Streamed {
  std::string text;
  std::string reason;
  json usage;
  bool done = false;
};

inline Streamed streamed(const HttpReplyText& reply, int index = 0) {
  Streamed all;
  for (const std::string& event : reply.events()) {
    if (event == "[DONE]") {
      all.done = true;
      continue;
    }
    const json part = json::parse(event);
    if (part.contains("usage") && !part["usage"].is_null()) all.usage = part["usage"];
    if (part["choices"].empty()) continue;
    const json& choice = part["choices"][0];
    if (choice["index"] != index) continue;
    all.text += choice.contains("text") ? choice["text"].get<std::string>()
                                        : choice["delta"].value("content", "");
    if (!choice["finish_reason"].is_null()) all.reason = choice["finish_reason"];
  }
  return all;
}

inline const std::string kPrompt =
    "Question: where is the red lamp? The red lamp is in the attic. Answer:";

}  // namespace tandem::testing
