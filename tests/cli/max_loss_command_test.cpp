// Levels and ratios of sparse attention by objective, through the program.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/base/digest.hpp"
#include "tests/cli/cli_program.hpp"
#include "tests/cli/sparse_loss.hpp"

namespace tandem::test::max_loss_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

// A model of which one layer may drop, and a loss of it that nobody measured: none up to a half,
// then up to 0.04.
class Lossy : public Kitchen {
 public:
  Lossy() {
    Json config = Json::parse(read("tiny.json"));
    config["num_hidden_layers"] = 4;
    write("deeper.json", config.dump());
    must({"model", "random", "--config", "deeper.json", "--out", "deeper", "--quiet"});
    must(words("plan", {"--levels", "2", "--out", "plan.json", "--quiet"}));
    const std::string weights = read("deeper/model.safetensors");
    loss_ = sparse_loss_of(Json::parse(read("plan.json"))["model"],
                           Json::array({{{"file", "model.safetensors"},
                                         {"bytes", weights.size()},
                                         {"tail_sha256", tandem::model::sha256_hex(weights)}}}),
                           {0.0, 0.0, 0.04});
    std::filesystem::create_directories(folder() / "deeper" / "eval");
    write("deeper/eval/sparse_loss.json", loss_.dump());
    write("prompt.txt", "5 6 7 8 9 10 11 12 13 14 15 16 17 5 9 8 7");
  }
  [[nodiscard]] static Words words(const std::string& command, const Words& more) {
    Words all{command, "--model",         "deeper", "--platform",   "shelf4", "--strategy",
              "csps",  "--prompt-tokens", "17",     "--new-tokens", "3",      "--partition",
              "equal", "--wire-type",     "f32",    "--cache-type", "f32"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  [[nodiscard]] Json plan(const Words& more) const {
    Words all = words("plan", {"--out", "plan.json", "--json"});
    all.insert(all.end(), more.begin(), more.end());
    return Json::parse(good(all))["sparse"];
  }
  [[nodiscard]] const Json& loss() const { return loss_; }

 private:
  Json loss_;
};

}  // namespace

TEST_CASE("cli/max loss: the plan that is chosen simulates and runs as it says") {
  const Lossy bench;
  const Json found = bench.plan({"--max-loss", "0.02", "--levels", "2"});
  CHECK(found["objective"] == "max-loss");
  CHECK(found["levels"] == 2);
  CHECK(found["loss_bits_per_byte"].get<double>() <= 0.02);
  CHECK(found["evaluated"].get<int>() >= 2);
  const Json attention = Json::parse(bench.read("plan.json"))["sparse_attention"];
  CHECK(attention["drop"][2] == found["bands"][0]["drop"]);
  CHECK(attention["drop"][1] == Json({0.0}));
  bench.must(
      {"simulate", "plan.json", "--evaluator", "analytic", "--out", "predicted.json", "--quiet"});
  const Json predicted = Json::parse(bench.read("predicted.json"));
  CHECK(predicted["metrics"]["ttft_s"].get<double>() ==
        doctest::Approx(found["analytic_ttft_s"].get<double>()));
  bench.must({"simulate", "plan.json", "--out", "replayed.json", "--quiet"});
  CHECK(Json::parse(bench.read("replayed.json"))["metrics"]["ttft_s"].get<double>() ==
        doctest::Approx(found["ttft_s"].get<double>()));
  bench.must({"run", "plan.json", "--weights", "deeper", "--cache", "cache", "--out", "run.json",
              "--prompt-ids", "prompt.txt", "--ignore-eos", "--quiet", "--emulate", "--pace",
              "nominal"});
  const Json run = Json::parse(bench.read("run.json"));
  for (std::size_t d = 0; d < 4; ++d)
    CHECK(run["devices"][d]["bytes_sent"] == predicted["devices"][d]["bytes_sent"]);
}

TEST_CASE("cli/max loss: a time is kept, or the least there is is told") {
  const Lossy bench;
  const double least = bench.plan({"--max-loss", "1", "--levels", "2"})["ttft_s"].get<double>();
  const double dense =
      bench.plan({"--max-loss", "0", "--levels", "2"})["dense"]["ttft_s"].get<double>();
  const Json within = bench.plan({"--max-ttft", std::to_string(dense * 1e3 + 1.0) + "ms"});
  CHECK(within["loss_bits_per_byte"] == 0.0);
  const Outcome none = bench.run(
      Lossy::words("plan", {"--max-ttft", std::to_string(least * 0.5 * 1e3) + "ms", "--quiet"}));
  CHECK(none.code == 3);
  CHECK(none.out.find("the least time to the first token is") != std::string::npos);
  // What it says it takes to a reader, too.
  const std::string table = bench.good(Lossy::words("plan", {"--max-loss", "0"}));
  CHECK(table.find("least time to the first token within a loss of 0 bits per byte") !=
        std::string::npos);
  CHECK(table.find("9 settings measured on shelf4") != std::string::npos);
}

TEST_CASE("cli/max loss: other lengths are told of, and flags that nothing obeys are refused") {
  const Lossy bench;
  Words longer = Lossy::words("plan", {"--max-loss", "0", "--json", "--out", "plan.json"});
  longer[8] = "30";
  CHECK(bench.run(longer).err.find("prompts of 10 to 20 tokens; of 30") != std::string::npos);
  const auto refused = [&](const Words& more, int code, const char* reason) {
    check_refused(bench, Lossy::words("plan", more), code, reason);
  };
  refused({"--max-loss", "0.1", "--max-ttft", "1s"}, 2, "expected one");
  refused({"--max-loss", "0.1", "--drop", "0.5"}, 2, "which chooses the ratios");
  refused({"--max-loss", "0.1", "--levels-overlap"}, 2, "levels that do not overlap");
  refused({"--max-loss", "0.1", "--objective", "ttft"}, 2, "which says what is to be short");
  refused({"--max-loss", "0.1", "--tiles", "2"}, 2, "travel at once");
  refused({"--max-loss", "0.1", "--samples", "3"}, 2, "expected one request");
  refused({"--max-loss", "0.1", "--sp", "tp"}, 2, "expected ntp");
  refused({"--max-loss", "-1"}, 1, "--max-loss: '-1' is not");
  refused({"--max-ttft", "0s"}, 1, "more than 0");
  refused({"--max-ttft", "2"}, 1, "'--max-ttft'");
  refused({"--loss-model", "deeper/eval/sparse_loss.json"}, 2, "without '--max-loss'");
  refused({"--max-loss", "0.1", "--levels", "3"}, 1, "measured with up to 2 levels");
  refused({"--max-loss", "0.1", "--loss-model", "tiny.json"}, 1, "tandem.sparse_loss/1");
  refused({"--max-loss", "0.1", "--loss-model", "nowhere.json"}, 1, "nowhere.json");
  const auto of = [&](const Words& more, int code, const char* reason) {
    Words all{"plan", "--platform", "shelf4"};
    all.insert(all.end(), more.begin(), more.end());
    check_refused(bench, all, code, reason);
  };
  of({"--model", "deeper", "--strategy", "tensor", "--max-ttft", "1s"}, 2,
     "expected strategy 'csps'");
  of({"--model", "deeper", "--strategy", "auto", "--max-ttft", "1s"}, 2, "name strategy 'csps'");
  of({"--model", "tiny.json", "--strategy", "csps", "--max-loss", "0"}, 1, "sparse_loss.py");
  of({"--model", "tiny.json", "--strategy", "csps", "--max-loss", "0", "--loss-model",
      "deeper/eval/sparse_loss.json", "--wire-type", "f32", "--cache-type", "f32"},
     1, "another model");
  Json other = bench.loss();
  other["weights"][0]["tail_sha256"] = std::string(64, '0');
  bench.write("other.json", other.dump());
  refused({"--max-loss", "0.1", "--loss-model", "other.json"}, 1, "other weights");
}

}  // namespace tandem::test::max_loss_command_test
