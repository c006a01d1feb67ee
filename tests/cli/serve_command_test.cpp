// tandem serve and tandem chat, as a user starts and ends them.

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/cli/cli_program.hpp"
#include "tests/serve/http_client.hpp"
#include "tests/serve/self_signed.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::test::serve_command_test {
namespace {

using nlohmann::json;
using testing::ask;
using testing::get_text;
using testing::HttpClient;
using testing::post_text;

// `tandem serve` in the bench's folder, until end().
class Server {
 public:
  Server(const Workbench& bench, const std::string& words, const std::string& host = "127.0.0.1")
      : bench_(bench) {
    thread_ = std::thread([this, words, host] {
      outcome_ = bench_.shell("\"$TANDEM\" serve --listen " + host + ":0 " + words +
                              " >serve.out 2>serve.err & echo $! >pid; wait $!; echo $?");
    });
    for (int i = 0; i < 1500 && port_ == 0 && !has_ended(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const std::string out = bench_.has("serve.out") ? bench_.read("serve.out") : "";
      const std::size_t at = out.find("://" + host + ":");
      if (out.ends_with('\n') && at != std::string::npos)
        port_ = static_cast<std::uint16_t>(std::stoi(out.substr(at + host.size() + 4)));
    }
    REQUIRE(port_ != 0);
  }
  ~Server() { end(); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] pid_t pid() const { return static_cast<pid_t>(std::stoi(bench_.read("pid"))); }
  // Returns the exit code after SIGTERM.
  std::string end() {
    if (thread_.joinable()) {
      ::kill(pid(), SIGTERM);
      thread_.join();
    }
    return outcome_.out;
  }

 private:
  [[nodiscard]] bool has_ended() const {
    return bench_.has("pid") && !bench_.read("pid").empty() && ::kill(pid(), 0) != 0;
  }
  const Workbench& bench_;
  std::thread thread_;
  Outcome outcome_;
  std::uint16_t port_ = 0;
};

// The new text that `tandem run` prints for a prompt.
std::string run_text(const Workbench& bench, const std::string& words, const std::string& prompt) {
  const Outcome run =
      bench.shell("\"$TANDEM\" run " + words + " --quiet --out run.json --prompt '" + prompt + "'");
  REQUIRE(run.code == 0);
  std::string text = run.out.substr(prompt.size());
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

const std::string kPrompt =
    "The red lamp is in the attic. Question: Where is the red lamp? Answer:";

TEST_CASE("cli/serve: answers what a run prints, and ends streams at a signal") {
  const Workbench bench;
  const std::string expected =
      run_text(bench, "--weights tandem-tiny --raw-prompt --new-tokens 6 --cache cache", kPrompt);
  Server server(bench, "--weights tandem-tiny --cache cache");
  json body{{"prompt", kPrompt}, {"max_tokens", 6}, {"temperature", 0}};
  const json answer = ask(server.port(), post_text("/v1/completions", body.dump())).json();
  CHECK(answer["choices"][0]["text"] == expected);
  CHECK(answer["model"] == "tandem-tiny");
  // There is no chat template.
  const auto chat =
      ask(server.port(),
          post_text("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "a"}]})"));
  CHECK(chat.status == 400);
  CHECK(chat.body.find("no chat template") != std::string::npos);
  HttpClient stream(server.port());
  stream.send(post_text("/v1/completions",
                        R"({"prompt": "a", "max_tokens": 900, "temperature": 2, "stream": true})"));
  CHECK(stream.read_some());
  CHECK(server.end() == "0\n");
  const auto reply = stream.reply();
  REQUIRE_FALSE(reply.events().empty());
  const bool whole = reply.events().back() == "[DONE]";
  CHECK((whole || reply.events().back().find("the server is shutting down") != std::string::npos));
  CHECK(bench.read("serve.err").empty());
}

TEST_CASE("cli/serve: emulated devices serve several requests, and end with the server") {
  const Workbench bench;
  bench.write("requests.jsonl",
              "{\"id\": \"a\", \"arrival_s\": 0, \"prompt_tokens\": 60, \"new_tokens\": 40}\n"
              "{\"id\": \"b\", \"arrival_s\": 0, \"prompt_tokens\": 60, \"new_tokens\": 40}\n");
  const Outcome plan = bench.shell(
      "\"$TANDEM\" plan --platform home4 --devices desktop,laptop --model tandem-tiny --strategy "
      "tensor --workload requests.jsonl --chunk 32 --out plan.json --quiet");
  REQUIRE(plan.code == 0);
  const std::string expected =
      run_text(bench, "--weights tandem-tiny --raw-prompt --new-tokens 6 --cache cache", kPrompt);
  Server server(bench, "plan.json --weights tandem-tiny --emulate --cache cache");
  CHECK(bench.read("serve.out").find("up to 2 requests at once, each of up to") !=
        std::string::npos);
  json body{{"prompt", kPrompt}, {"max_tokens", 6}, {"temperature", 0}};
  HttpClient first(server.port());
  HttpClient second(server.port());
  first.send(post_text("/v1/completions", body.dump()));
  second.send(post_text("/v1/completions", body.dump()));
  CHECK(first.reply().json()["choices"][0]["text"] == expected);
  CHECK(second.reply().json()["choices"][0]["text"] == expected);
  CHECK(server.end() == "0\n");
}

TEST_CASE("cli/serve: the cluster is that of the plan, its times those of simulate") {
  const Workbench bench;
  const Outcome plan = bench.shell(
      "\"$TANDEM\" plan --platform home4 --devices desktop,laptop --model tandem-tiny --strategy "
      "pipeline --prompt-tokens 40 --new-tokens 10 --out plan.json --quiet");
  REQUIRE(plan.code == 0);
  const Outcome simulated = bench.shell("\"$TANDEM\" simulate plan.json --json");
  REQUIRE(simulated.code == 0);
  Server server(bench, "plan.json --weights tandem-tiny --emulate --cache cache");
  json all;
  for (int i = 0; i < 500; ++i) {
    all = ask(server.port(), get_text("/v1/cluster")).json();
    if (!all["prediction"]["plan"].is_null()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  CHECK(all["strategy"] == "pipeline");
  CHECK(all["platform"] == "home4");
  CHECK(all["devices_are"] == "emulated");
  CHECK(all["devices"].size() == 2);
  CHECK(all["devices"][0]["name"] == "desktop");
  CHECK(all["devices"][0]["is_master"] == true);
  double share = 0.0;
  for (const json& device : all["devices"]) share += device["weights_share"].get<double>();
  CHECK(share == doctest::Approx(1.0));
  REQUIRE(all["prediction"]["available"] == true);
  const json metrics = json::parse(simulated.out)["metrics"];
  CHECK(all["prediction"]["plan"]["ttft_s"].get<double>() ==
        doctest::Approx(metrics["ttft_s"].get<double>()).epsilon(1e-6));
  CHECK(all["prediction"]["plan"]["token_latency_s"].get<double>() ==
        doctest::Approx(metrics["token_latency_s"]["mean"].get<double>()).epsilon(1e-6));
  // Each device's share of computing, predicted, and as the request is served.
  const json result = json::parse(simulated.out);
  const json& busy = all["prediction"]["plan"]["busy"];
  REQUIRE(busy.size() == 2);
  for (std::size_t d = 0; d < 2; ++d)
    CHECK(busy[d].get<double>() ==
          doctest::Approx(result["devices"][d]["busy_s"]["cpu"].get<double>() /
                          result["requests"][0]["end_s"].get<double>())
              .epsilon(1e-6));
  const json body{{"prompt", kPrompt}, {"max_tokens", 10}, {"temperature", 0}};
  const auto works = [](const json& device) {
    return device.is_object() && device["busy"].is_number() && device["busy"] > 0.0 &&
           device["tokens_per_s"] > 0.0;
  };
  for (int i = 0; i < 500; ++i) {
    CHECK(ask(server.port(), post_text("/v1/completions", body.dump())).status == 200);
    all = ask(server.port(), get_text("/v1/cluster")).json();
    if (works(all["live"]["devices"][0]) && works(all["live"]["devices"][1])) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  REQUIRE(all["live"]["devices"].size() == 2);
  for (const json& device : all["live"]["devices"]) {
    CAPTURE(device.dump());
    CHECK(works(device));
    CHECK((device["state"] == "computes" || device["state"] == "waits"));
    CHECK(device["memory_bytes"] > 1000000);
    CHECK(device["busy"] <= 1.0);
  }
}

TEST_CASE("cli/serve: the planner answers as tandem plan does on the devices that are left") {
  const Workbench bench;
  const Outcome plan = bench.shell(
      "\"$TANDEM\" plan --platform home4 --devices desktop,laptop --model tandem-tiny --strategy "
      "pipeline --prompt-tokens 40 --new-tokens 10 --out plan.json --quiet && \"$TANDEM\" plan "
      "--platform home4 --devices laptop --model tandem-tiny --prompt-tokens 30 --new-tokens 5 "
      "--wire-type f32 --cache-type f32 --out alone.json --quiet && \"$TANDEM\" simulate "
      "alone.json --json");
  CAPTURE(plan.err);
  REQUIRE(plan.code == 0);
  const json alone = json::parse(plan.out);
  Server server(bench, "plan.json --weights tandem-tiny --emulate --cache cache");
  const auto question = [&](const json& body) {
    return ask(server.port(), post_text("/v1/plan", body.dump()));
  };
  json body{{"prompt_tokens", 30}, {"new_tokens", 5}, {"without", {"desktop"}}};
  const json answer = question(body).json();
  CAPTURE(answer.dump());
  REQUIRE(answer["plan"].is_object());
  CHECK(answer["plan"]["devices"].size() == 1);
  CHECK(answer["plan"]["devices"][0]["name"] == "laptop");
  const json& predicted = alone["requests"][0];
  CHECK(answer["plan"]["times"]["ttft_s"].get<double>() ==
        doctest::Approx(predicted["ttft_s"].get<double>()).epsilon(1e-6));
  CHECK(answer["plan"]["times"]["request_s"].get<double>() ==
        doctest::Approx(predicted["end_s"].get<double>()).epsilon(1e-6));
  CHECK(answer["present"]["ttft_s"].get<double>() > 0.0);
  body["without"] = {"desktop", "laptop"};
  CHECK(question(body).json()["error"]["message"].get<std::string>().find("at least one") !=
        std::string::npos);
  body["without"] = {"fridge"};
  CHECK(question(body).body.find("fridge") != std::string::npos);
  body = {{"prompt_tokens", 30}, {"new_tokens", 5}, {"format", "q3"}};
  CHECK(question(body).body.find("q4_0") != std::string::npos);
  CHECK(server.end() == "0\n");
}

TEST_CASE("cli/serve: an encoder answers with embeddings, pooled as its files or the flag state") {
  const Workbench bench;
  bench.write("encoder.json",
              R"({"model_type": "bert", "architectures": ["BertModel"], "hidden_act": "gelu",
    "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 20, "vocab_size": 256,
    "max_position_embeddings": 64, "type_vocab_size": 2, "layer_norm_eps": 1e-12})");
  REQUIRE(
      bench.shell("\"$TANDEM\" model random --config encoder.json --out encoder --quiet").code ==
      0);
  const auto refused = [&](const std::string& words) {
    return bench
        .shell("timeout 60 \"$TANDEM\" serve --listen 127.0.0.1:0 --cache cache " + words + " 2>&1")
        .out;
  };
  CHECK(refused("--weights tandem-tiny --pooling cls").find("which is no encoder") !=
        std::string::npos);
  CHECK(refused("--weights encoder --prefix-cache on").find("which has no cache") !=
        std::string::npos);
  CHECK(refused("--weights encoder --pooling min").find("mean, cls, max") != std::string::npos);
  CHECK(bench.shell("\"$TANDEM\" chat --weights encoder </dev/null 2>&1")
            .out.find("an encoder, expected") != std::string::npos);
  const json body{{"input", {"red lamp", "attic"}}};
  json by_flag;
  {
    Server server(bench, "--weights encoder --cache cache --pooling cls");
    CHECK(bench.read("serve.out").find("of texts of up to 64 tokens") != std::string::npos);
    by_flag = ask(server.port(), post_text("/v1/embeddings", body.dump())).json()["data"];
    CHECK(ask(server.port(), get_text("/v1/cluster")).json()["embeds"] == true);
    CHECK(server.end() == "0\n");
  }
  REQUIRE(bench.shell("mkdir encoder/1_Pooling; rm serve.out pid").code == 0);
  bench.write("encoder/1_Pooling/config.json", R"({"pooling_mode_cls_token": true})");
  bench.write("encoder/sentence_bert_config.json", R"({"max_seq_length": 20})");
  CHECK(refused("--weights encoder --pooling mean").find("has 'cls'; leave the flag out") !=
        std::string::npos);
  // Over emulated devices.
  REQUIRE(bench
              .shell("\"$TANDEM\" plan --platform home4 --devices desktop,laptop --model encoder "
                     "--strategy galaxy --prompt-tokens 32 --out plan.json --quiet")
              .code == 0);
  Server server(bench, "plan.json --weights encoder --emulate --cache cache");
  CHECK(bench.read("serve.out").find("of texts of up to 20 tokens") != std::string::npos);
  const json by_file = ask(server.port(), post_text("/v1/embeddings", body.dump())).json()["data"];
  REQUIRE(by_file.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t c = 0; c < 16; ++c)
      CHECK(by_file[i]["embedding"][c].get<double>() ==
            doctest::Approx(by_flag[i]["embedding"][c].get<double>()).epsilon(1e-4));
  }
  CHECK(server.end() == "0\n");
}

TEST_CASE("cli/serve: other machines need TLS, the token and a name that is allowed") {
  const Workbench bench;
  const testing::SelfSigned identity;
  bench.write("server.pem", identity.certificate);
  bench.write("server.key", identity.key);
  bench.write("token", "0123456789abcdef\n");
  const Server server(bench,
                      "--weights tandem-tiny --cache cache --token token --tls-cert server.pem "
                      "--tls-key server.key --allow-host box.lan",
                      "0.0.0.0");
  CHECK(bench.read("serve.out").find("on https://0.0.0.0:") != std::string::npos);
  const auto status = [&](const std::string& host, const std::string& token) {
    HttpClient client(server.port(), 0, identity.client.get());
    client.send("GET /v1/models HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer " + token +
                "\r\n\r\n");
    return client.reply().status;
  };
  CHECK(status("127.0.0.1", "0123456789abcdef") == 200);
  CHECK(status("10.0.0.7:8080", "0123456789abcdef") == 200);
  CHECK(status("box.lan", "0123456789abcdef") == 200);
  CHECK(status("evil.example", "0123456789abcdef") == 403);
  CHECK(status("127.0.0.1", "fedcba9876543210") == 401);
  CHECK(ask(server.port(), get_text("/health")).status == 400);  // without TLS
}

TEST_CASE("cli/serve: what cannot be served is one clear error") {
  const Kitchen bench;
  bench.must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
  check_refused(bench, {"serve", "--weights", "tiny", "--listen", "0.0.0.0:8080"}, 1,
                "expected also '--token FILE' and '--tls-cert FILE'");
  bench.write("token", "0123456789abcdef");
  check_refused(bench,
                {"serve", "--weights", "tiny", "--listen", "0.0.0.0:8080", "--token", "token"}, 1,
                "expected also '--token FILE' and '--tls-cert FILE'");
  check_refused(bench, {"serve", "--weights", "tiny", "--tls-key", "k"}, 2, "'--tls-key'");
  check_refused(bench, {"serve", "--weights", "tiny", "--tls-cert", "c"}, 2, "'--tls-key'");
  check_refused(bench, {"serve", "--weights", "tiny", "--tls-cert", "absent", "--tls-key", "token"},
                1, "absent");
  check_refused(bench, {"serve", "--weights", "tiny", "--tls-cert", "token", "--tls-key", "token"},
                1, "token: no certificate");
  for (const char* const bad : {"https://box", "box:8080", "", "a b"})
    check_refused(bench, {"serve", "--weights", "tiny", "--allow-host", bad}, 1 + int{*bad == 0},
                  "'--allow-host'");
  check_refused(bench, {"serve", "--weights", "tiny", "--hosts", "h"}, 2, "without a plan");
  bench.write("token", "short");
  check_refused(bench, {"serve", "--weights", "tiny", "--token", "token"}, 1,
                "expected one line of 16 to 512 printable characters");
  check_refused(bench, {"serve"}, 2, "--weights");
  const Outcome small = bench.run({"serve", "--weights", "tiny", "--memory-limit", "1MB"});
  CHECK(small.code == 3);
  CHECK_FALSE(small.out.empty());
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny.json", "--strategy", "spread",
              "--prompt-tokens", "5", "--new-tokens", "4", "--out", "spread.json", "--quiet"});
  check_refused(bench, {"serve", "spread.json", "--weights", "tiny", "--emulate"}, 1,
                "many requests, a server or a chat");
}

TEST_CASE("cli/chat: turns, commands and the end of the input") {
  const Workbench bench;
  std::filesystem::copy(testing::in_sources("scenarios/models/tandem-tiny"),
                        bench.folder() / "tiny", std::filesystem::copy_options::recursive);
  bench.write("tiny/chat_template.jinja",
              "<s>{% for m in messages %}{{ m.content }} {% endfor %}Answer:");
  const Outcome chat = bench.shell(
      "printf 'The red lamp is in the attic. Question: Where is the red "
      "lamp?\\n/stats\\n/nonsense\\n"
      "\\n/system be brief\\n/reset\\n/stats\\n/exit\\nnever\\n' | "
      "\"$TANDEM\" chat --weights tiny --cache cache --new-tokens 6");
  CHECK(chat.code == 0);
  CHECK(chat.err.empty());
  CAPTURE(chat.out);
  CHECK(chat.out.find("(1 turn; the last answer: ") != std::string::npos);
  CHECK(chat.out.find("unknown command /nonsense") != std::string::npos);
  CHECK(chat.out.find("(system text set)\n(a new conversation)\n(0 turns") != std::string::npos);
  // The first line is what a run prints.
  const std::string expected =
      run_text(bench, "--weights tiny --chat --new-tokens 6 --cache cache",
               "The red lamp is in the attic. Question: Where is the red lamp?");
  const std::string answer = chat.out.substr(0, chat.out.find('\n'));
  CHECK(expected.ends_with(answer));
  // Without a template there is no chat.
  check_refused(bench, {"chat", "--weights", "tandem-tiny"}, 1, "no chat template");
}

TEST_CASE("cli/chat: Ctrl-D leaves while a device is still waited for") {
  const Workbench bench;
  std::filesystem::copy(testing::in_sources("scenarios/models/tandem-tiny"),
                        bench.folder() / "tiny", std::filesystem::copy_options::recursive);
  bench.write("tiny/chat_template.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
  REQUIRE(bench
              .shell("\"$TANDEM\" plan --platform home4 --devices desktop,laptop --model tiny "
                     "--strategy pipeline --prompt-tokens 40 --new-tokens 10 --out plan.json "
                     "--quiet")
              .code == 0);
  // A worker that takes connections and never answers.
  const int worker = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(::bind(worker, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(worker, 4) == 0);
  REQUIRE(::getsockname(worker, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  bench.write("hosts", "laptop 127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "\n");
  // A terminal with Ctrl-D typed ahead.
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE((::grantpt(terminal) == 0 && ::unlockpt(terminal) == 0));
  const std::string name = ::ptsname(terminal);
  const int user = ::open(name.c_str(), O_RDWR | O_NOCTTY);
  REQUIRE(::write(terminal, "\x04", 1) == 1);
  const Outcome chat =
      bench.shell("\"$TANDEM\" chat plan.json --weights tiny --cache cache --hosts hosts <" + name);
  CHECK(chat.code == 0);
  CHECK(chat.out.empty());
  CHECK(chat.err.empty());
  for (const int descriptor : {user, terminal, worker}) ::close(descriptor);
}

}  // namespace
}  // namespace tandem::test::serve_command_test
