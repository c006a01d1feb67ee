// Small mistakes on the command line: what is meant is accepted where it is clear, and else named.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::clumsy_input_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

Words plan_words(const Words& more, const std::string& strategy = "tensor",
                 const std::string& platform = "pair.xml") {
  Words words{"plan",       "--platform", platform, "--model", "tiny.json",
              "--strategy", strategy,     "--out",  "out.json"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("cli/clumsy input: an unknown model or platform gets the nearest name, or the list") {
  const Kitchen bench;
  const auto run = [](const std::string& weights) {
    return Words{"run", "--weights", weights, "--prompt", "a"};
  };
  check_refused(bench, run("tandem-tny"), 1, "did you mean 'tandem-tiny'?");
  check_refused(bench, run("nothing-like-it"), 1, "models with weights: tandem-deep, tandem-tiny");
  check_refused(bench, run("/nonexist/x.gguf"), 1, "/nonexist/x.gguf: no such file, expected");
  check_refused(bench, run("Model.GGUF"), 1, "Model.GGUF: no such file, expected");
  check_refused(bench, run("no/folder"), 1, "no/folder: no such file or folder, expected");
  check_refused(bench, run("pair.xml"), 1, "pair.xml: neither a folder nor a GGUF file");
  check_refused(bench, {"model", "inspect", "llama-3.1-70B"}, 1, "did you mean 'llama-3.1-70b'?");
  check_refused(bench, {"model", "inspect", "llama3-70b"}, 1, "did you mean 'llama-3.1-70b'?");
  check_refused(bench, {"model", "inspect", "absent.json"}, 1, "absent.json: no such file");
  check_refused(bench, {"platform", "HOME4"}, 1, "did you mean 'home4'?");
  check_refused(bench, {"platform", "home4.xml"}, 1, "home4.xml: no such file, expected");
}

TEST_CASE("cli/clumsy input: choices match in any case of letters, formats by their bits") {
  const Kitchen bench;
  const auto made = [&](const Words& more, const std::string& strategy = "tensor") {
    bench.must(plan_words(more, strategy));
    return bench.read("out.json");
  };
  CHECK(made({"--dtype", "Q8_0"}) == made({"--dtype", "q8_0"}));
  CHECK(made({}, "Tensor") == made({}, "tensor"));
  CHECK(made({"--cache-type", "F16"}) == made({"--cache-type", "f16"}));
  check_refused(bench, plan_words({"--dtype", "4bit"}), 2,
                "; 4 bits: q4_0, q4_k, q4_k_m, mxfp4 or nvfp4\n");
  check_refused(bench, plan_words({"--dtype", "int8"}), 2, "; 8 bits: q8_0 or fp8\n");
  check_refused(bench, plan_words({"--dtype", "fp16"}), 2, "; 16 bits: f16 or bf16");
  check_refused(bench, plan_words({"--dtype", "7"}), 2, "nvfp4\n");
  check_refused(bench, plan_words({"--dtype", "F16, 8bit"}, "auto"), 2,
                "'8bit', expected one of f32, ");
  check_refused(bench, plan_words({}, "tensr"), 1, "did you mean 'tensor'?");
}

TEST_CASE("cli/clumsy input: a number that is none gets an example") {
  const Kitchen bench;
  check_refused(bench, plan_words({"--prompt-tokens", "many"}), 1, "for example ");
  check_refused(bench, plan_words({"--prompt-tokens", "16 tokens"}), 1, "for example 16\n");
  check_refused(bench, {"profile", "--model", "tiny.json", "--seconds", "6s"}, 1,
                "for example 6\n");
  check_refused(bench, {"profile", "--model", "tiny.json", "--seconds", "0"}, 1, "for example ");
}

TEST_CASE("cli/clumsy input: lists may have blanks") {
  const Kitchen bench;
  const auto made = [&](const Words& more, const std::string& strategy = "tensor") {
    bench.must(plan_words(more, strategy));
    return bench.read("out.json");
  };
  CHECK(made({"--devices", " desk , sofa"}) == made({"--devices", "desk,sofa"}));
  CHECK(made({"--allreduce", "star, ring"}) == made({"--allreduce", "star,ring"}));
  // Of a file that SimGrid flattens the list says which hosts are read.
  bench.write("rack.xml", source_file("tests/data/platforms/cluster.xml"));
  const auto planned = [&](const Words& more) {
    Words words{"plan",   "--platform", "rack.xml",        "--model", "tiny.json", "--strategy",
                "tensor", "--quiet",    "--prompt-tokens", "8",       "--out",     "out.json"};
    words.insert(words.end(), more.begin(), more.end());
    bench.must(words);
    return bench.read("out.json");
  };
  CHECK(planned({"--hosts", "node-0.lab , node-1.lab"}) ==
        planned({"--hosts", "node-0.lab,node-1.lab"}));
  CHECK(planned({"--devices", "node-0.lab, node-1.lab"}) ==
        planned({"--devices", "node-0.lab,node-1.lab"}));
  // The plan keeps the words of the flag.
  CHECK(replaced(made({"--partition", "1 : 3"}), "1 : 3", "1:3") == made({"--partition", "1:3"}));
  CHECK(made({"--groups", "desk / sofa"}, "pipeline") ==
        made({"--groups", "desk/sofa"}, "pipeline"));
  check_refused(bench, plan_words({"--allreduce", "star,ring,tree"}), 1, "star,ring,tree");
  bench.must({"sweep", "--platform", "pair.xml", "--model", "tiny.json", "--evaluator", "analytic",
              "--vary", "link.latency=1ms, 2ms", "--out", "s.csv", "--quiet"});
  CHECK(bench.read("s.csv").find("0.002") != std::string::npos);
}

TEST_CASE("cli/clumsy input: a master outside of the devices is named so") {
  const Kitchen bench;
  check_refused(bench, plan_words({"--devices", "desk", "--master", "sofa"}), 2,
                "'sofa' is not among '--devices desk'");
  check_refused(bench, plan_words({"--devices", "desk", "--master", "bed"}), 1,
                "unknown in cluster");
}

TEST_CASE("cli/clumsy input: a file of another kind is named") {
  const Kitchen bench;
  bench.plan();
  bench.write("hosts.txt", "sofa 127.0.0.1:7392\n");
  check_refused(bench, {"simulate", "pair.xml"}, 1, "pair.xml: a platform file, expected a plan");
  check_refused(bench, {"simulate", "hosts.txt"}, 1, "hosts.txt: a list of hosts, expected a plan");
  check_refused(bench, {"whatif", "profile.json"}, 1, "profile.json: a profile, expected a plan");
  check_refused(bench, {"platform", "plan.json"}, 1, "plan.json: a plan, expected a platform file");
  check_refused(bench, {"compare", "plan.json", "pair.xml"}, 1,
                "plan.json: a plan, expected a result");
  check_refused(bench, plan_words({"--profile", "plan.json"}), 1,
                "plan.json: a plan, expected a profile");
  check_refused(bench, {"model", "inspect", "pair.xml"}, 1,
                "pair.xml: a platform file, expected a model's config.json");
  check_refused(bench, {"simulate", "plan.json", "--workload", "pair.xml"}, 1,
                "pair.xml: a platform file, expected a workload");
}

TEST_CASE("cli/clumsy input: an attribute of a platform gets the nearest name") {
  const Kitchen bench;
  bench.write("cores.xml",
              replaced(bench.read("pair.xml"), "speed=\"20Gf\"", "speed=\"20Gf\" cores=\"4\""));
  check_refused(bench, {"platform", "cores.xml"}, 1, "did you mean 'core'?");
}

TEST_CASE("cli/clumsy input: links on no route are not asked about") {
  const Kitchen bench;
  bench.write("cable.xml",
              replaced(bench.read("pair.xml"), "<link ",
                       "<link id=\"unused\" bandwidth=\"1Gbps\" latency=\"1us\"/>\n    <link "));
  bench.must(plan_words({}, "tensor", "cable.xml"));
  const Json json =
      Json::parse(bench.good({"whatif", "out.json", "--json", "--evaluator", "analytic"}));
  std::string changes;
  for (const Json& change : json.at("changes")) changes += change.at("change").get<std::string>();
  CHECK(changes.find("bandwidth") != std::string::npos);
  CHECK(changes.find("'unused'") == std::string::npos);
}

TEST_CASE("cli/clumsy input: a profile of a busy machine says so") {
  const Kitchen bench;
  const std::string table = bench.good({"profile", "--model", "tiny.json", "--seconds", "0.2",
                                        "--disk", "none", "--threads", "1", "--out", "p.json"});
  const double drift = Json::parse(bench.read("p.json")).at("drift").get<double>();
  CHECK((table.find("measure again") != std::string::npos) == (drift > 0.1));
}

}  // namespace tandem::test::clumsy_input_test
