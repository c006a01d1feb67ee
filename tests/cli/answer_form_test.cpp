// Answers that conform to a JSON schema, through the program.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"
#include "tests/cli/flat3_plan.hpp"

namespace tandem::test::answer_form_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

constexpr const char* kSchema =
    R"({"type": "object", "properties": {"room": {"enum": ["hall", "attic"]},
        "lit": {"type": "boolean"}}, "required": ["room", "lit"]})";

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("cli/answer form: one device, several and samples answer with JSON of the schema") {
  const Kitchen bench;
  bench.write("schema.json", kSchema);
  const std::string prompt = "Once upon";
  const Words form{"--weights",     "tandem-tiny", "--prompt", prompt,
                   "--json-schema", "schema.json", "--quiet"};
  const Words plan{"plan",      "--model",         "tandem-tiny", "--platform",
                   "flat3",     "--strategy",      "tensor",      "--partition",
                   "equal",     "--new-tokens",    "40",          "--out",
                   "plan.json", "--prompt-tokens", "5",           "--quiet"};
  const Words emulated{"run", "plan.json", "--emulate", "--pace", "nominal"};
  const std::string alone = bench.good(with(with({"run"}, form), {"--out", "run.json"}));
  REQUIRE(alone.starts_with(prompt));
  const Json answer = Json::parse(alone.substr(prompt.size()));
  CHECK(answer.size() == 2);
  CHECK(answer["room"].is_string());
  CHECK(answer["lit"].is_boolean());
  CHECK(Json::parse(bench.read("run.json"))["environment"].contains("answer"));
  for (const char* const head : {"master", "split"}) {
    bench.must(with(plan, {"--head", head}));
    CHECK(bench.good(with(emulated, form)) == alone);
  }
  bench.must(with(plan, {"--samples", "3"}));
  const std::string samples = bench.good(with(with(emulated, form), {"--temperature", "2"}));
  std::size_t objects = 0;
  for (std::size_t at = 0; (at = samples.find('{', at)) != std::string::npos; ++objects) {
    const std::size_t end = samples.find('}', at);
    CHECK(Json::parse(samples.substr(at, end + 1 - at)).size() == 2);
    at = end;
  }
  CHECK(objects == 3);
}

TEST_CASE("cli/answer form: what cannot have a form is refused") {
  const Kitchen bench;
  bench.write("schema.json", R"({"type": "string", "pattern": "a"})");
  const Words run{"run", "--weights", "tandem-tiny", "--prompt", "a"};
  const auto refused = [&](const Words& words, int code, const std::string& text) {
    CAPTURE(text);
    check_refused(bench, words, code, text);
  };
  refused(with(run, {"--json-schema", "schema.json"}), 1, "schema.json.pattern: not supported");
  refused(with(run, {"--json-schema", "none.json"}), 1, "none.json");
  refused(with(run, {"--json", "--json-schema", "schema.json"}), 2, "--json");
  refused(with(run, {"--json", "--ignore-eos"}), 2, "--ignore-eos");
  bench.must(flat3_plan("tensor", {"--partition", "equal", "--head", "split", "--candidates", "8",
                                   "--prompt-tokens", "5"}));
  refused({"run", "plan.json", "--weights", "tandem-tiny", "--emulate", "--prompt", "Once upon",
           "--json"},
          1, "the form of an answer needs all logits; plan with '--candidates none'");
}

}  // namespace tandem::test::answer_form_test
