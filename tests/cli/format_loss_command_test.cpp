// `plan --max-loss` with strategies that drop nothing: types of messages and cache by what they
// lose.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/base/digest.hpp"
#include "tests/cli/cli_program.hpp"
#include "tests/cli/sparse_loss.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::test::format_loss_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

// A model with invented losses of types.
class Priced : public Kitchen {
 public:
  Priced() {
    Json config = Json::parse(read("tiny.json"));
    config["num_hidden_layers"] = 4;
    config["head_dim"] = 32;
    write("wide.json", config.dump());
    must({"model", "random", "--config", "wide.json", "--out", "wide", "--quiet"});
    must({"plan", "--model", "wide", "--platform", "shelf4", "--strategy", "tensor", "--out",
          "plan.json", "--quiet"});
    const std::string weights = read("wide/model.safetensors");
    const auto price = [](double loss) {
      return Json{{"loss", loss}, {"mean", 0.0}, {"strategy", "tensor"}};
    };
    loss_ = {{"schema", "tandem.format_loss/1"},
             {"unit", "bits per byte more than with messages and cache in f32"},
             {"model", Json::parse(read("plan.json"))["model"]},
             {"weights",
              {{{"file", "model.safetensors"},
                {"bytes", weights.size()},
                {"tail_sha256", tandem::model::sha256_hex(weights)}}}},
             {"platform", "shelf4"},
             {"devices", 4},
             {"strategies", {"tensor", "pipeline", "galaxy", "csps"}},
             {"messages", {{"bf16", price(0.25)}, {"q8_0", price(0.5)}}},
             {"cache", {{"f16", price(1.0)}, {"q8_0", price(2.0)}}},
             {"both",
              {{"messages", "q8_0"},
               {"cache", "q8_0"},
               {"loss", 2.5},
               {"mean", 0.0},
               {"strategy", "tensor"}}},
             {"measured",
              {{"documents", 2},
               {"parts", 2},
               {"bytes", 100},
               {"f32_bits_per_byte", 0.5},
               {"text_sha256", "0"}}}};
    loss_["model"].erase("formats");
    std::filesystem::create_directories(folder() / "wide" / "eval");
    write("wide/eval/format_loss.json", loss_.dump());
  }
  [[nodiscard]] static Words words(const std::string& strategy, const Words& more) {
    Words all{"plan",  "--model",      "wide", "--platform", "shelf4", "--prompt-tokens",
              "17",    "--new-tokens", "3",    "--seconds",  "0",      "--strategy",
              strategy};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  [[nodiscard]] const Json& loss() const { return loss_; }

 private:
  Json loss_;
};

}  // namespace

TEST_CASE("cli/format loss: a plan's loss is the sum of the file's, within the bound") {
  const Priced bench;
  for (const char* const strategy : {"tensor", "pipeline", "auto"}) {
    for (const char* const most : {"0", "0.5", "1.2", "64"}) {
      CAPTURE(strategy);
      CAPTURE(most);
      const Json answer = Json::parse(bench.good(
          Priced::words(strategy, {"--max-loss", most, "--out", "plan.json", "--json"})));
      const Json plan = Json::parse(bench.read("plan.json"));
      const Json& loss = plan["loss"];
      const std::string wire = plan.value("wire", "f32");
      const std::string cache = answer["cache_type"];
      const bool sends = plan["devices"].size() > 1 && plan["strategy"] != "local";
      const auto price = [&](const char* of, const std::string& type) {
        return type == "f32" ? 0.0 : bench.loss()[of][type]["loss"].get<double>();
      };
      CHECK(loss["messages"] == (sends ? price("messages", wire) : 0.0));
      CHECK(loss["cache"] == price("cache", cache));
      CHECK(loss["dropping"] == 0.0);
      CHECK(loss["total"] == loss["messages"].get<double>() + loss["cache"].get<double>());
      CHECK(loss["total"] <= std::stod(most));
      CHECK(loss["most"] == std::stod(most));
      CHECK(answer["loss"]["total"] == loss["total"]);
      // What each type saves and costs.
      std::size_t selected = 0;
      for (const Json& option : answer["loss"]["types"]) selected += option["selected"] ? 1U : 0U;
      CHECK(selected == (sends ? 2 : 1));
      bench.must(
          {"simulate", "plan.json", "--evaluator", "analytic", "--out", "p.json", "--quiet"});
    }
  }
  const std::string table = bench.good(Priced::words("tensor", {"--max-loss", "64"}));
  CHECK(table.find("bits per byte, of at most 64: messages 0.5, cache ") != std::string::npos);
  CHECK(table.find("within the bound") != std::string::npos);
}

TEST_CASE("cli/format loss: the sum has what sparse attention drops and types lose") {
  const Priced bench;
  const Json sparse =
      sparse_loss_of(bench.loss().at("model"), bench.loss().at("weights"), {0.0, 0.1, 0.4});
  bench.write("wide/eval/sparse_loss.json", sparse.dump());
  double before = 1e300;
  for (const char* const most : {"0", "0.3", "0.6", "64"}) {
    CAPTURE(most);
    const Outcome found =
        bench.run({"plan", "--model", "wide", "--platform", "shelf4", "--prompt-tokens", "17",
                   "--new-tokens", "3", "--strategy", "csps", "--partition", "equal", "--max-loss",
                   most, "--out", "plan.json", "--json"});
    REQUIRE(found.code == 0);
    const Json answer = Json::parse(found.out);
    const Json loss = Json::parse(bench.read("plan.json"))["loss"];
    CHECK(loss["dropping"] == answer["sparse"]["loss_bits_per_byte"]);
    CHECK(loss["total"] ==
          doctest::Approx(loss["messages"].get<double>() + loss["cache"].get<double>() +
                          loss["dropping"].get<double>()));
    CHECK(loss["total"] <= std::stod(most) + 1e-9);
    CHECK(answer["sparse"]["ttft_s"] <= before);
    before = answer["sparse"]["ttft_s"];
  }
}

TEST_CASE("cli/format loss: what fits is within the bound") {
  const Priced bench;
  for (const char* const fit : {"context", "devices", "dtype"}) {
    CAPTURE(fit);
    const Json answer = Json::parse(
        bench.good({"plan", "--model", "wide", "--platform", "shelf4", "--strategy", "tensor",
                    "--seconds", "0", "--fit", fit, "--max-loss", "0.6", "--format-loss",
                    "wide/eval/format_loss.json", "--out", "plan.json", "--json"}));
    CHECK(answer.at("fit").at("goal") == fit);
    const Json loss = Json::parse(bench.read("plan.json"))["loss"];
    CHECK(loss["total"] <= 0.6);
    CHECK(answer.at("loss").at("total") == loss["total"]);
  }
  check_refused(bench, {"plan", "--platform", "shelf4", "--fit", "model", "--max-loss", "1"}, 2,
                "whose losses are not known beforehand");
}

TEST_CASE("cli/format loss: each replica is within the bound") {
  const Priced bench;
  for (const char* const most : {"0", "0.5", "64"}) {
    CAPTURE(most);
    const Words words{"plan", "--model",       "wide", "--platform",      "shelf4", "--strategy",
                      "auto", "--replicas",    "2",    "--samples",       "4",      "--max-loss",
                      most,   "--out",         "both", "--prompt-tokens", "17",     "--new-tokens",
                      "3",    "--evaluations", "60"};
    Words as_json = words;
    as_json.push_back("--json");
    const Json answer = Json::parse(bench.good(as_json));
    REQUIRE(answer.at("replicas").size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      const Json file =
          Json::parse(bench.read("both/replica-" + std::to_string(i + 1) + ".json")).at("loss");
      CHECK(file["total"] <= std::stod(most));
      CHECK(file["most"] == std::stod(most));
      CHECK(answer["replicas"][i]["loss"] == file);
    }
    if (std::stod(most) < 64.0) continue;
    CHECK(bench.good(words).find("each may lose 64 bits per byte of text") != std::string::npos);
    bench.must({"simulate", "both", "--evaluator", "analytic", "--quiet", "--out", "p.json"});
  }
}

TEST_CASE("cli/format loss: whatif keeps the bound of the plan, or one that is given") {
  const Priced bench;
  bench.must(Priced::words("tensor", {"--max-loss", "0.6", "--out", "plan.json", "--quiet"}));
  const auto obstacles = [&](const Words& more) {
    Words words{"whatif", "plan.json", "--json", "--evaluator", "analytic"};
    words.insert(words.end(), more.begin(), more.end());
    std::map<std::string, std::string> found;
    const Json answer = Json::parse(bench.good(words));
    for (const Json& change : answer.at("changes"))
      found[change.at("change")] =
          change.at("obstacle").is_null() ? "" : change.at("obstacle").get<std::string>();
    return found;
  };
  // Messages in q8_0 lose 0.5 of it already.
  std::map<std::string, std::string> own = obstacles({});
  CHECK(own.at("keys and values in f16") == "loses 1.5 bits per byte, of at most 0.6");
  CHECK(own.at("keys and values in q8_0") == "loses 2.5 bits per byte, of at most 0.6");
  own = obstacles({"--max-loss", "2"});
  CHECK(own.at("keys and values in f16").empty());
  CHECK(own.at("keys and values in q8_0") == "loses 2.5 bits per byte, of at most 2");
  bench.must(Priced::words("tensor", {"--out", "plan.json", "--quiet"}));
  CHECK(obstacles({}).at("messages in q8_0").empty());
  own = obstacles({"--max-loss", "0.3"});
  CHECK(own.at("messages in bf16").empty());
  CHECK(own.at("messages in q8_0") == "loses 0.5 bits per byte, of at most 0.3");
  std::filesystem::remove(bench.folder() / "wide/eval/format_loss.json");
  check_refused(bench, {"whatif", "plan.json", "--max-loss", "1"}, 1,
                "no measured losses of model 'wide'");
}

TEST_CASE("cli/format loss: refusals name the model, the type and the remedy") {
  const Priced bench;
  const auto refused = [&](const Words& words, int code, const char* reason) {
    check_refused(bench, words, code, reason);
  };
  refused(Priced::words("tensor", {"--max-loss", "0.3", "--wire-type", "q8_0"}), 1,
          "messages in q8_0: a loss of 0.5 bits per byte");
  refused(Priced::words("auto", {"--max-loss", "0.3", "--cache-type", "f16"}), 1,
          "a cache in f16: a loss of 1 bits per byte");
  refused(Priced::words("tensor", {"--max-loss", "9", "--wire-type", "f16"}), 1,
          "messages in f16: their loss was not measured");
  refused(Priced::words("tensor", {"--format-loss", "wide/eval/format_loss.json"}), 2,
          "without '--max-loss'");
  refused(Priced::words("tensor", {"--max-loss", "1", "--wire-type", "f32", "--cache-type", "f32"}),
          2, "which lose nothing");
  refused({"plan", "--model", "tiny.json", "--platform", "shelf4", "--max-loss", "1"}, 1,
          "format_loss.py");
  Json other = bench.loss();
  other["weights"][0]["bytes"] = 7;
  bench.write("other.json", other.dump());
  refused(Priced::words("tensor", {"--max-loss", "1", "--format-loss", "other.json"}), 1,
          "measured with other weights");
}

TEST_CASE("cli/format loss: free changes have the price that was measured") {
  const Priced bench;
  const Json answer =
      Json::parse(bench.good(Priced::words("tensor", {"--out", "plan.json", "--json"})));
  bool priced = false;
  for (const Json& change : answer["free_changes"]["changes"]) {
    if (change["flags"] == "--wire-type q8_0")
      priced = change["price_text"].get<std::string>().find("loses 0.5 bits per byte") !=
               std::string::npos;
  }
  CHECK(priced);
}

// The losses that come with tandem-tiny hold for the plan that they choose: of eight documents,
// within the loss that the plan states.
TEST_CASE("cli/format loss: tandem-tiny loses no more than its plan says") {
  const Workbench bench;
  const auto bits = [&](const Words& more) {
    Words words{"plan",   "--model",         "tandem-tiny", "--platform",   "home4", "--strategy",
                "tensor", "--prompt-tokens", "900",         "--new-tokens", "1",     "--chunk",
                "whole",  "--out",           "plan.json",   "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    REQUIRE(bench.run(words).code == 0);
    const std::string weights = testing::in_sources("scenarios/models/tandem-tiny").string();
    bench.write("recall.jsonl", R"({"distance": 64, "prompt": "a b c", "answer": "d"})"
                                "\n");
    const Outcome scored =
        bench.run({"eval", "--plan", "plan.json", "--emulate", "--weights", weights, "--recall",
                   "recall.jsonl", "--limit", "8", "--cache", "cache", "--json"});
    CAPTURE(scored.err);
    REQUIRE(scored.code == 0);
    return Json::parse(scored.out)["text"]["bits_per_byte"].get<double>();
  };
  const double whole = bits({"--wire-type", "f32", "--cache-type", "f32"});
  const double bounded = bits({"--max-loss", "1"});
  const Json plan = Json::parse(bench.read("plan.json"));
  CHECK(plan["wire"] == "q8_0");
  CHECK(plan["loss"]["total"].get<double>() > 0.0);
  CHECK(bounded - whole <= plan["loss"]["total"].get<double>());
}

}  // namespace tandem::test::format_loss_command_test
