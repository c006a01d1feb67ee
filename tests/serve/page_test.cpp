// The page's files, and the figures that it shows.

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "exec/weights/model_folder.hpp"
#include "planner/search/local_plan.hpp"
#include "serve/cluster_board.hpp"
#include "serve/page_files.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::test::page_test {
namespace {

using nlohmann::json;
using serve::ClusterBoard;
using serve::RequestTimes;
using Clock = ClusterBoard::Clock;

std::string text_at(const std::string& path) {
  const serve::PageFile* const file = serve::find_page_file(path);
  REQUIRE_MESSAGE(file != nullptr, path);
  return std::string(file->text);
}

// All first groups of `pattern` in `text`.
std::vector<std::string> found(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> all;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), regex);
       it != std::sregex_iterator(); ++it)
    all.push_back((*it)[1]);
  return all;
}

TEST_CASE("serve/page: files name files of the page only, and the policy allows all of it") {
  const std::string html = text_at("/");
  const auto named = found(html, R"re((?:src|href)="([^"]*)")re");
  CHECK(named.size() == 4);
  for (const std::string& name : named) static_cast<void>(text_at("/" + name));
  // What the policy would forbid.
  CHECK(found(html, R"((<script(?![^>]*src=)))").empty());
  CHECK(found(html, R"(((?:<style| style=| on[a-z]+=|javascript:)))").empty());
  CHECK(serve::find_page_file("/index.html") == nullptr);
  CHECK(serve::find_page_file("/../api_service.cpp") == nullptr);
  for (const char* const path :
       {"/chat.js", "/cluster.js", "/planner.js", "/topology.js", "/table.js", "/server.js"}) {
    const std::string script = text_at(path);
    for (const std::string& name : found(script, R"(from '\./([^']*)')"))
      static_cast<void>(text_at("/" + name));
    // What a model writes is text.
    CHECK(found(script, R"(((?:inner|outer)HTML|insertAdjacentHTML|document\.write|eval\())")
              .empty());
    // Each element that a script looks up is in the page.
    for (const std::string& id : found(script, R"(find\('([^']*)'\))"))
      CHECK_MESSAGE(html.find("id=\"" + id + "\"") != std::string::npos, id);
    const auto hosts = found(script + html, R"((https?://[^'"]*))");
    for (const std::string& host : hosts) CHECK(host == "http://www.w3.org/2000/svg");
  }
}

planner::Plan tiny_plan() {
  const auto model = exec::read_geometry(testing::in_sources("scenarios/models/tandem-tiny"));
  return std::get<planner::Plan>(
      planner::plan_here(model, {.prompt_tokens = 8, .new_tokens = 4}, model::Bytes{4e9}));
}

const serve::ClusterFacts kFacts{
    .model = "tiny", .chats = true, .policy = "fcfs", .together = 2, .devices = "emulated"};

TEST_CASE("serve/page: what is served and held") {
  const planner::Plan plan = tiny_plan();
  ClusterBoard board(plan, kFacts, {.reason = "no simulator"});
  const json all = json::parse(board.json({.under_way = 3, .waiting = 1}, Clock::now()));
  CHECK(all["model"] == "tiny");
  CHECK(all["chats"] == true);
  CHECK(all["strategy"] == "local");
  CHECK(all["live"]["open"] == 3);
  CHECK(all["live"]["waiting"] == 1);
  REQUIRE(all["devices"].size() == 1);
  const json& device = all["devices"][0];
  CHECK(device["is_master"] == true);
  CHECK(device["layers"] == json::parse("[[0, " + std::to_string(plan.model.layers - 1) + "]]"));
  CHECK(device["weights_share"] == 1.0);
  CHECK(device["budget_bytes"] == 4e9);
  CHECK(device["memory_bytes"]["total"] == plan.devices[0].memory.total());
  CHECK(all["prediction"]["available"] == false);
  CHECK(all["prediction"]["reason"] == "no simulator");
  CHECK(all["requests"].empty());
}

TEST_CASE("serve/page: the recent rate counts each token for the length of the window") {
  ClusterBoard board(tiny_plan(), kFacts, {});
  const Clock::time_point begin = Clock::now();
  constexpr std::chrono::milliseconds kGap{100};
  for (int i = 0; i < 200; ++i) board.add_tokens(1, begin + i * kGap);
  const Clock::time_point end = begin + 199 * kGap;
  CHECK(board.rate(end) == doctest::Approx(10.0));
  CHECK(board.rate(end + std::chrono::milliseconds(ClusterBoard::kWindow) / 2) ==
        doctest::Approx(5.0).epsilon(0.05));
  CHECK(board.rate(end + 2 * ClusterBoard::kWindow) == 0.0);
}

// Asks until `done` of the answer.
json asked_until(ClusterBoard& board, const std::function<bool(const json&)>& done) {
  json all;
  for (int i = 0; i < 2000; ++i) {
    all = json::parse(board.json({}, Clock::now()));
    if (done(all)) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  REQUIRE(done(all));
  return all;
}

TEST_CASE("serve/page: the last requests, each beside the prediction of its own lengths") {
  std::atomic<int> calls = 0;
  serve::Prediction prediction{.predict = [&](const RequestTimes& request) {
    ++calls;
    return RequestTimes{.prompt_tokens = request.prompt_tokens,
                        .new_tokens = request.new_tokens,
                        .cached_tokens = request.cached_tokens,
                        .ttft_s = static_cast<double>(request.prompt_tokens),
                        .token_latency_s = 1.0 / static_cast<double>(request.new_tokens)};
  }};
  ClusterBoard board(tiny_plan(), kFacts, prediction);
  constexpr int kMore = 5;
  for (int i = 1; i <= static_cast<int>(ClusterBoard::kRequests) + kMore; ++i)
    board.add_request({.prompt_tokens = i,
                       .new_tokens = 2 * i,
                       .cached_tokens = i / 2,
                       .ttft_s = 0.5,
                       .shared = i % 2 == 0});
  CHECK(calls == 0);  // nobody looks
  const json all = asked_until(board, [](const json& answer) {
    if (answer["prediction"]["plan"].is_null()) return false;
    for (const json& request : answer["requests"])
      if (request["predicted"].is_null()) return false;
    return true;
  });
  CHECK(all["prediction"]["available"] == true);
  CHECK(all["prediction"]["plan"]["ttft_s"] == 8.0);
  REQUIRE(all["requests"].size() == ClusterBoard::kRequests);
  for (std::size_t i = 0; i < ClusterBoard::kRequests; ++i) {
    const int number = static_cast<int>(i) + 1 + kMore;
    const json& request = all["requests"][i];
    CHECK(request["number"] == number);
    CHECK(request["measured"]["shared"] == (number % 2 == 0));
    CHECK(request["measured"]["token_latency_s"].is_null());
    CHECK(request["measured"]["cached_tokens"] == number / 2);
    CHECK(request["predicted"]["cached_tokens"] == number / 2);
    CHECK(request["predicted"]["ttft_s"] == number);
    CHECK(request["predicted"]["token_latency_s"] == 0.5 / number);
  }
  CHECK(calls == static_cast<int>(ClusterBoard::kRequests) + 1);  // each once
}

TEST_CASE("serve/page: emulated time that passes more slowly is taken out") {
  serve::ClusterFacts facts = kFacts;
  facts.dilation = 4.0;
  ClusterBoard board(tiny_plan(), facts, {});
  board.add_request({.prompt_tokens = 1, .new_tokens = 2, .ttft_s = 2.0, .token_latency_s = 0.5});
  const Clock::time_point now = Clock::now();
  board.add_tokens(1, now);
  const json all = json::parse(board.json({}, now));
  CHECK(all["dilation"] == 4.0);
  CHECK(all["requests"][0]["measured"]["ttft_s"] == 0.5);
  CHECK(all["requests"][0]["measured"]["token_latency_s"] == 0.125);
  CHECK(all["live"]["tokens_per_s"] == doctest::Approx(4.0 * 0.2));
}

TEST_CASE("serve/page: a prediction that fails gives its reason") {
  ClusterBoard board(tiny_plan(), kFacts, {.predict = [](const RequestTimes&) -> RequestTimes {
                       throw std::runtime_error("too long");
                     }});
  const json all = asked_until(
      board, [](const json& answer) { return answer["prediction"]["available"] == false; });
  CHECK(all["prediction"]["reason"] == "too long");
}

}  // namespace
}  // namespace tandem::test::page_test
