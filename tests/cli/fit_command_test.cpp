// `tandem plan --fit` and shares of devices, as a user meets them.

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::fit_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

const Words kGpt2{"plan", "--model", "gpt2-l", "--platform", "home4", "--strategy", "auto"};
const Words kEdge{"plan", "--platform", "edge.xml", "--strategy", "auto"};

// Three hosts of 300 MB behind a switch; `of_a` are further properties of the first.
std::string edge(const std::string& of_a = "", const std::string& memory = "300MB") {
  std::string text =
      "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
      "\"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n"
      "<zone id=\"edge\" routing=\"Floyd\">\n";
  for (const std::string name : {"a", "b", "c"}) {
    text += "<host id=\"" + name +
            "\" speed=\"4Gf\" core=\"4\"><prop id=\"tandem:memory\" value=\"" + memory +
            "\"/><prop id=\"tandem:memory_bandwidth\" value=\"8GBps\"/>" +
            (name == "a" ? of_a : "") + "</host>\n";
  }
  text += "<router id=\"s\"/>\n";
  for (const std::string name : {"a", "b", "c"})
    text += "<link id=\"l" + name + "\" bandwidth=\"1Gbps\" latency=\"100us\"/>\n";
  for (const std::string name : {"a", "b", "c"})
    text += "<route src=\"" + name + "\" dst=\"s\"><link_ctn id=\"l" + name + "\"/></route>\n";
  return text + "</zone>\n</platform>\n";
}

std::string share(const std::string& value) {
  return "<prop id=\"tandem:share\" value=\"" + value + "\"/>";
}

}  // namespace

TEST_CASE("cli/fit: the longest context is planned, and one token more has no plan") {
  const Kitchen bench;
  bench.write("edge.xml", edge());
  const Words gpt2 = joined(kEdge, {"--model", "gpt2", "--window", "all"});
  const Json found = Json::parse(bench.good(
      joined(kEdge, {"--model", "gpt2", "--fit", "context", "--json", "--out", "plan.json"})));
  const auto context = found.at("fit").at("context").get<std::int64_t>();
  CHECK(found.at("fit").at("complete") == true);
  const Json plan = Json::parse(bench.read("plan.json"));
  CHECK(plan.at("workload").at("prompt_tokens").get<std::int64_t>() +
            plan.at("workload").at("new_tokens").get<std::int64_t>() ==
        context);
  const auto lengths = [&](std::int64_t tokens) {
    return joined(gpt2, {"--prompt-tokens", std::to_string(tokens - 128), "--new-tokens", "128"});
  };
  CHECK(bench.run(lengths(context)).code == 0);
  if (context < 1024) {
    CHECK(bench.run(lengths(context + 1)).code == 3);
    CHECK(contains(found.at("fit").at("beyond").get<std::string>(), "lack"));
  } else {
    CHECK(found.at("fit").at("beyond").is_null());
  }
  const std::string text = bench.good(joined(kEdge, {"--model", "gpt2", "--fit", "context"}));
  CHECK(text.starts_with("The longest context of gpt2 in f32 on edge is " +
                         std::to_string(context) + " tokens: "));
  CHECK(contains(text, "Memory is scarcest on "));
  CHECK(contains(text, "First token after "));
}

TEST_CASE("cli/fit: a context that tandem bounds below the model's own is not called the model's") {
  const Kitchen bench;
  const std::string text = bench.good(
      {"plan", "--model", "llama-4-scout", "--dtype", "q4_k", "--platform", "a100-8x8", "--devices",
       "gpu0-0,gpu0-1", "--fit", "context", "--strategy", "pipeline", "--evaluations", "400"});
  CHECK(contains(text,
                 "is 8192 tokens: 8064 prompt and 128 new tokens.\n"
                 "That is tandem's maximum for the model, whose file states 10485760 tokens"));
  CHECK(contains(bench.good({"model", "list"}), "8192 of 10485760"));
  CHECK(contains(bench.good({"model", "inspect", "llama-4-scout"}), "context 8192 of 10485760"));
}

TEST_CASE("cli/fit: never beyond the model's own context, and says so") {
  const Kitchen bench;
  const std::string text = bench.good(joined(kGpt2, {"--fit", "context", "--evaluations", "40"}));
  CHECK(contains(text,
                 "is 1024 tokens: 896 prompt and 128 new tokens.\n"
                 "That is the model's own maximum.\n"));
  const std::string new_tokens = bench.good(
      joined(kGpt2, {"--fit", "context", "--prompt-tokens", "1000", "--evaluations", "40"}));
  CHECK(contains(new_tokens, "1000 prompt and 24 new tokens"));
}

TEST_CASE("cli/fit: fewest devices, dtype and model agree with plans") {
  const Kitchen bench;
  bench.write("edge.xml", edge());
  const Words quick{"--prompt-tokens", "16", "--new-tokens", "4"};
  SUBCASE("devices") {
    const Json found = Json::parse(bench.good(joined(
        kEdge, joined(quick, {"--model", "gpt2", "--fit", "devices", "--json", "--out", "p"}))));
    const Json& names = found.at("fit").at("devices");
    // 498 MB of weights on hosts of 300 MB with 46 MB of program each.
    CHECK(names.size() >= 2);
    CHECK(Json::parse(bench.read("p")).at("cluster").at("devices").size() == names.size());
  }
  SUBCASE("dtype") {
    const Words whole = joined(quick, {"--cache-type", "f32"});
    const Json found = Json::parse(
        bench.good(joined(kEdge, joined(whole, {"--model", "gpt2", "--devices", "a", "--fit",
                                                "dtype", "--json", "--out", "p"}))));
    CHECK(found.at("fit").at("dtype") == "q8_0");
    const auto with = [&](const std::string& dtype) {
      return bench
          .run(joined(kEdge, joined(whole, {"--model", "gpt2", "--devices", "a", "--window", "all",
                                            "--dtype", dtype})))
          .code;
    };
    CHECK(with("q8_0") == 0);
    CHECK(with("f16") == 3);
    CHECK(with("bf16") == 3);
  }
  SUBCASE("model") {
    const Words asked = joined(kEdge, joined(quick, {"--fit", "model", "--json", "--out", "p"}));
    const Json found = Json::parse(bench.good(asked));
    const std::string name = found.at("fit").at("model");
    const Json models = Json::parse(bench.good({"model", "list", "--json"}));
    std::int64_t parameters = 0;
    for (const Json& one : models) {
      if (one.at("name") == name ||
          Json::parse(bench.read("p")).at("model").at("name") == one.at("name"))
        parameters = std::max(parameters, one.at("parameters").get<std::int64_t>());
    }
    REQUIRE(parameters > 0);
    // The next larger one that generates does not fit.
    const std::string beyond = found.at("fit").at("beyond");
    const std::string next = beyond.substr(0, beyond.find(':'));
    CHECK(bench.run(joined(kEdge, joined(quick, {"--model", next, "--window", "all"}))).code == 3);
  }
}

TEST_CASE("cli/fit: combinations without a meaning get one clear line") {
  const Kitchen bench;
  const auto refusal = [&](const Words& words) {
    const Outcome outcome = bench.run(words);
    CHECK(outcome.code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
    return outcome.err;
  };
  CHECK(contains(refusal(joined(kGpt2, {"--fit", "model"})), "'--model' has no effect"));
  CHECK(contains(refusal(joined(kGpt2, {"--fit", "dtype", "--dtype", "q8_0"})), "'--dtype'"));
  CHECK(contains(refusal(joined(kGpt2, {"--fit", "devices", "--dtype", "q8_0,q4_0"})),
                 "several formats"));
  CHECK(contains(refusal(joined(kGpt2, {"--fit", "context", "--samples", "3"})), "'--samples'"));
  CHECK(contains(refusal(joined(kGpt2, {"--fit", "context", "--devices", "fewest"})),
                 "'--fit devices'"));
  CHECK(contains(
      refusal(joined(kGpt2, {"--fit", "context", "--prompt-tokens", "4", "--new-tokens", "4"})),
      "nothing to find"));
  CHECK(contains(refusal(joined(kGpt2, {"--fit", "context", "--new-tokens", "1024"})), "no room"));
  CHECK(contains(refusal({"plan", "--platform", "home4", "--model", "bert-l", "--fit", "context"}),
                 "encoder"));
  CHECK(contains(refusal({"plan", "--platform", "home4", "--model", "gpt2-l", "--strategy", "local",
                          "--fit", "devices"}),
                 "local"));
  CHECK(contains(bench.run(joined(kGpt2, {"--fit", "speed"})).err, "context, model, devices"));
}

TEST_CASE("cli/fit: nothing fits: exit code 3, and what lacks") {
  const Kitchen bench;
  bench.write("edge.xml", edge("", "60MB"));
  for (const std::string goal : {"context", "devices", "dtype"}) {
    CAPTURE(goal);
    const Outcome outcome =
        bench.run(joined(kEdge, {"--model", "llama-3.1-8b", "--fit", goal, "--new-tokens", "4"}));
    CHECK(outcome.code == 3);
    CHECK(contains(outcome.out, "lack"));
    CHECK(contains(outcome.out, "--window auto"));
  }
}

TEST_CASE("cli/share: 1 changes no byte of the plan, and less is recorded, slower and said") {
  const Kitchen bench;
  const Words quick{"--model",      "gpt2", "--prompt-tokens", "16",
                    "--new-tokens", "4",    "--window",        "all"};
  bench.write("edge.xml", edge("", "900MB"));
  bench.must(joined(kEdge, joined(quick, {"--quiet", "--out", "whole.json"})));
  bench.must(joined(kEdge, joined(quick, {"--quiet", "--share", "a=1", "--out", "one.json"})));
  CHECK(bench.read("whole.json") == bench.read("one.json"));
  bench.write("edge.xml", edge(share("1"), "900MB"));
  bench.must(joined(kEdge, joined(quick, {"--quiet", "--out", "one.json"})));
  CHECK(bench.read("whole.json") == bench.read("one.json"));
  CHECK_FALSE(Json::parse(bench.read("whole.json")).contains("shares"));

  bench.write("edge.xml", edge(share("0.5"), "900MB"));
  const Words local{"--strategy", "local"};
  const Words on_a{"plan", "--platform", "edge.xml", "--strategy", "local"};
  double before = INFINITY;
  for (const std::string part : {"0.65", "0.8", "1"}) {
    CAPTURE(part);
    const Json found = Json::parse(bench.good(
        joined(on_a, joined(quick, {"--share", "a=" + part, "--json", "--out", "plan.json"}))));
    const Json predicted = found.at("predicted");
    const double now = predicted.at("request_s").is_number()
                           ? predicted.at("request_s").get<double>()
                           : predicted.at("ttft_s").get<double>();
    CHECK(now <= before);
    before = now;
    if (part == "1") continue;
    CHECK(found.at("caps").at("seconds").get<double>() >
          found.at("caps").at("uncapped_s").get<double>());
    const Json shares = Json::parse(bench.read("plan.json")).at("shares");
    CHECK(shares.at("a").at("cores") == 4);
    CHECK(shares.at("a").at("share").get<double>() == std::stod(part));
    bench.must({"simulate", "plan.json"});
  }
  const std::string text = bench.good(joined(on_a, joined(quick, {"--share", "a=0.8"})));
  CHECK(contains(text, "The cap on a costs 33%: "));  // 4 cores / 3 cores
  CHECK(contains(text, "a may use 80% of its memory and 3 of 4 cores."));
  // Its own share of the file is too small for the model.
  const Outcome none = bench.run(joined(on_a, quick));
  CHECK(none.code == 3);
  CHECK(contains(none.out, "capped: a to 50% of its memory and cores"));
}

TEST_CASE("cli/share: shares that are none, and of no host, are refused by name") {
  const Kitchen bench;
  bench.write("edge.xml", edge());
  const auto refusal = [&](const std::string& text) {
    const Outcome outcome = bench.run(joined(kEdge, {"--model", "gpt2", "--share", text}));
    CHECK(outcome.code != 0);
    CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
    return outcome.err;
  };
  CHECK(contains(refusal("a=0"), "'0'"));
  CHECK(contains(refusal("a=1.5"), "'1.5'"));
  CHECK(contains(refusal("a"), "HOST=SHARE"));
  CHECK(contains(refusal("z=0.5"), "'z'"));
  bench.write("edge.xml", edge(share("2")));
  CHECK(contains(bench.run(joined(kEdge, {"--model", "gpt2"})).err, "host a: '2'"));
  Json odd;
  bench.write("edge.xml", edge(share("0.5"), "900MB"));
  bench.must(joined(kEdge, {"--model", "gpt2", "--prompt-tokens", "8", "--new-tokens", "2",
                            "--quiet", "--out", "plan.json"}));
  odd = Json::parse(bench.read("plan.json"));
  if (odd.contains("shares")) {
    odd["shares"]["a"]["share"] = 1.5;
    bench.write("odd.json", odd.dump());
    CHECK(contains(bench.run({"simulate", "odd.json"}).err, "share"));
  }
}

}  // namespace tandem::test::fit_command_test
