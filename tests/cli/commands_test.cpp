// The commands, one after the other, as a user runs them; only what stays from release to release.

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::commands_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("cli/help: every command explains itself, on standard output, with exit code 0") {
  const Kitchen bench;
  const std::string overview = bench.good({"--help"});
  CHECK(overview == bench.good({"help"}));
  for (const std::string command :
       {"model", "platform", "plan", "simulate", "run", "worker", "compare", "profile"}) {
    CAPTURE(command);
    CHECK(contains(overview, "\n  " + command + " "));
    const std::string help = bench.good({"help", command});
    CHECK(help.rfind("usage: tandem " + command, 0) == 0);
    CHECK(help == bench.good({command, "--help"}));
  }
  CHECK(contains(bench.good({"help", "model", "inspect"}), "--prompt-tokens N"));
  CHECK(bench.good({"--version"}).rfind("tandem 0.", 0) == 0);
}

TEST_CASE("cli/output: what cannot be written is an error, never silence") {
  const Kitchen bench;
  const Outcome full = bench.run_into("/dev/full", {"--help"});
  CHECK(full.code == 1);
  CHECK(contains(full.err, "standard output: cannot write"));
  bench.plan();
  const Outcome file = bench.run({"simulate", "plan.json", "--out", "/dev/full"});
  CHECK(file.code == 1);
  CHECK(contains(file.err, "/dev/full: cannot write"));
}

TEST_CASE("cli/output: files are replaced whole, through links, and devices are written to") {
  const Kitchen bench;
  bench.plan();
  bench.write("real.json", "old");
  std::filesystem::create_symlink("real.json", bench.folder() / "link.json");
  bench.must({"simulate", "plan.json", "--out", "link.json", "--quiet"});
  CHECK(std::filesystem::is_symlink(bench.folder() / "link.json"));
  CHECK(contains(bench.read("real.json"), "tandem.result/7"));
  bench.must({"simulate", "plan.json", "--out", "/dev/null", "--quiet"});
  CHECK(bench.listing() ==
        Words{"link.json", "pair.xml", "plan.json", "profile.json", "real.json", "tiny.json"});
}

TEST_CASE("cli/model: list names every model of the scenarios, in a table and in JSON") {
  const Kitchen bench;
  const std::string table = bench.good({"model", "list"});
  const Json list = Json::parse(bench.good({"model", "list", "--json"}));
  CHECK(list.size() >= 23);
  for (const Json& model : list) {
    CAPTURE(model["name"]);
    CHECK(contains(table, model["name"].get<std::string>()));
    CHECK(model["parameters"].get<double>() > 1e6);
  }
}

TEST_CASE("cli/model: scenarios are looked for where TANDEM_SCENARIOS says") {
  const Kitchen bench;
  bench.write("mine/models/own.json", bench.read("tiny.json"));
  const std::string out = (bench.folder() / "out").string();
  const Outcome found = bench.run_into(out, {"model", "list"}, {"TANDEM_SCENARIOS=mine"});
  CHECK(found.code == 0);
  CHECK(contains(bench.read("out"), "own"));
  // A folder with weights is a model too.
  bench.write("mine/models/with-weights/config.json", bench.read("tiny.json"));
  const Outcome both = bench.run_into(out, {"model", "list"}, {"TANDEM_SCENARIOS=mine"});
  CHECK(both.code == 0);
  CHECK(contains(bench.read("out"), "own"));
  CHECK(contains(bench.read("out"), "with-weights"));
  const Outcome inspected =
      bench.run_into(out, {"model", "inspect", "with-weights"}, {"TANDEM_SCENARIOS=mine"});
  CHECK(inspected.code == 0);
  const Outcome astray = bench.run_into(out, {"model", "list"}, {"TANDEM_SCENARIOS=nowhere"});
  CHECK(astray.code == 1);
  CHECK(contains(astray.err, "nowhere"));
}

TEST_CASE("cli/instruction sets: forced by the environment, told by a result, or refused") {
  const Kitchen bench;
  bench.must({"model", "random", "--config", "tiny.json", "--out", "weights", "--quiet"});
  bench.write("ids", "1 2 3 4 5 6 7 8 9 10 11 12");
  const std::string out = (bench.folder() / "out").string();
  const std::vector<std::string> words{"run",   "--weights",    "weights", "--prompt-ids",
                                       "ids",   "--new-tokens", "3",       "--ignore-eos",
                                       "--out", "result.json",  "--quiet"};
  const auto sets = [&](const std::vector<std::string>& environment) {
    const Outcome ran = bench.run_into(out, words, environment);
    CHECK(ran.code == 0);
    CAPTURE(ran.err);
    return Json::parse(bench.read("result.json"))["environment"]["instruction_sets"]
        .get<std::string>();
  };
  CHECK(sets({"TANDEM_INSTRUCTIONS=plain"}).find("plain for 8 bits") != std::string::npos);
  CHECK(!sets({}).empty());
  const Outcome unknown = bench.run_into(out, words, {"TANDEM_INSTRUCTIONS=mmx"});
  CHECK(unknown.code == 1);
  CHECK(contains(unknown.err, "unknown value 'mmx', expected one of plain"));
}

TEST_CASE("cli/model: inspect counts what the geometry says") {
  const Kitchen bench;
  const Json model =
      Json::parse(bench.good({"model", "inspect", "tiny.json", "--json", "--prompt-tokens", "10"}));
  SUBCASE("embedding: 300 * 64 = 19200") {
    CHECK(model["parameters_by_part"]["embedding"] == 19200);
  }
  SUBCASE("attention: 2 layers (2 * 64 * 64 + 2 * 32 * 64 + 64) = 24704") {
    CHECK(model["parameters_by_part"]["attention"] == 24704);
  }
  SUBCASE("ffn: 2 layers (3 * 64 * 96 + 64) = 36992") {
    CHECK(model["parameters_by_part"]["ffn"] == 36992);
  }
  SUBCASE("head: 300 * 64 + 64 = 19264, in all 100160, 2 bytes each in BF16") {
    CHECK(model["parameters_by_part"]["head"] == 19264);
    CHECK(model["parameters"] == 100160);
    CHECK(model["weight_bytes"]["BF16"] == 200320);
  }
  SUBCASE("cache: 2 layers * 2 (keys, values) * 2 heads * 16 * 4 B = 512 B a token") {
    CHECK(model["kv_bytes_per_token"] == 512);
    CHECK(model["windowed_layers"] == 0);
    // Of 26 layers every sixth sees everything.
    CHECK(contains(bench.good({"model", "inspect", "gemma-3-1b"}),
                   "attention of 22 layers sees the last 512 positions"));
  }
  SUBCASE("a new token: 2 flops a parameter that is multiplied, and a little") {
    const double multiplied = 2.0 * (100160 - 19200 - 5 * 64);
    CHECK(model["decode_flops_per_token"].get<double>() > multiplied);
    CHECK(model["decode_flops_per_token"].get<double>() < 1.2 * multiplied);
  }
  CHECK(contains(bench.good({"model", "inspect", "tiny.json"}), "100160"));
}

TEST_CASE("cli/model: random weights depend on the seed alone, and serve as a model") {
  const Kitchen bench;
  for (const auto& [folder, seed] : {std::pair{"a", "7"}, {"b", "7"}, {"c", "8"}})
    bench.must({"model", "random", "--config", "tiny.json", "--seed", seed, "--dtype", "BF16",
                "--out", folder});
  CHECK(bench.read("a/model.safetensors") == bench.read("b/model.safetensors"));
  CHECK(bench.read("a/model.safetensors") != bench.read("c/model.safetensors"));
  CHECK(contains(bench.good({"model", "inspect", "a"}), "100160"));
}

TEST_CASE("cli/plan: a prompt's tokens are counted by the model's tokenizer, 5 bytes here") {
  const Kitchen bench;
  bench.must({"model", "random", "--config", "tiny.json", "--out", "tiny"});
  const Json plan = Json::parse(bench.good(
      {"plan", "--platform", "pair.xml", "--model", "tiny", "--prompt", "hello", "--json"}));
  CHECK(plan["workload"]["prompt_tokens"] == 5);
}

TEST_CASE("cli/model: the weights of a plan are blocks, of which the table says how many") {
  const Kitchen bench;
  bench.plan();
  bench.must({"model", "random", "--config", "tiny.json", "--out", "tiny"});
  const std::string table =
      bench.good({"model", "shard", "plan.json", "--weights", "tiny", "--out", "cache"});
  CHECK(contains(table, "desk"));
  CHECK(contains(table, "sofa"));
  std::size_t blocks = 0;
  std::size_t labels = 0;
  for (const std::string& name : bench.listing()) {
    blocks += name.find("cache/blocks/") == std::string::npos ? 0 : 1;
    labels += name.find("cache/labels/") == std::string::npos ? 0 : 1;
  }
  CHECK(blocks > 2);
  CHECK(labels == blocks);
}

TEST_CASE("cli/platform: devices, links, routes and the defaults that were used") {
  const Kitchen bench;
  const std::string table = bench.good({"platform", "pair.xml"});
  for (const char* part : {"desk", "sofa", "cable", "desk <-> sofa", "split duplex"})
    CHECK(contains(table, part));
  const Json platform = Json::parse(bench.good({"platform", "pair.xml", "--json"}));
  CHECK(platform["routes"].size() == 2);
  CHECK(platform["routes"][0]["latency_s"] == 0.001);
  CHECK(platform["routes"][0]["bandwidth_bytes_per_s"] == 37.5e6);  // 300 Mbps / 8
  CHECK(platform["devices"][1]["slowdown"] == 2.0);
  CHECK(!platform["defaults"].empty());  // the disks
}

TEST_CASE("cli/platform: routes between many devices are left out, of a file and on a terminal") {
  const Kitchen bench;
  for (const int homes : {32, 33}) {
    CAPTURE(homes);
    const bool told = homes == 32;
    bench.must({"platform", "city", "--homes", std::to_string(homes), "--devices-per-home", "2",
                "--out", "city.xml"});
    const Json platform = Json::parse(bench.good({"platform", "city.xml", "--json"}));
    CHECK(platform["devices"].size() == 2U * static_cast<unsigned>(homes));
    CHECK(platform["links"].size() > 0);
    if (told)
      CHECK(platform["routes"].size() == 64 * 63);
    else
      CHECK(platform["routes"].is_null());
    CHECK(contains(bench.good({"platform", "city.xml"}), "are not printed") == !told);
  }
}

TEST_CASE("cli/plan: standard output and --out give the same plan, shares add up") {
  const Kitchen bench;
  const Words words{"plan", "--platform", "pair.xml", "--model", "tiny.json"};
  Words to_output = words;
  to_output.insert(to_output.end(), {"--out", "-"});
  const std::string printed = bench.good(to_output);
  Words as_json = words;
  as_json.emplace_back("--json");
  CHECK(bench.good(as_json) == printed);
  const std::string table = bench.good(words);
  CHECK(contains(table, "FFN columns"));
  CHECK_FALSE(contains(table, "{"));
  Words silent = words;
  silent.emplace_back("--quiet");
  CHECK(bench.good(silent).empty());
  Words with_out = words;
  with_out.insert(with_out.end(), {"--out", "plan.json", "--json"});
  const Json summary = Json::parse(bench.good(with_out));
  CHECK(bench.read("plan.json") == printed);
  std::int64_t heads = 0;
  std::int64_t columns = 0;
  for (const Json& device : summary["devices"]) {
    heads += device["heads"].get<std::int64_t>();
    columns += device["columns"].get<std::int64_t>();
    CHECK(device["total_bytes"].get<double>() <= device["budget_bytes"].get<double>());
  }
  CHECK(heads == 4);
  CHECK(columns == 96);
}

TEST_CASE("cli/plan: the answer no is exit code 3, with the reason on standard output") {
  const Kitchen bench;
  bench.write("small.xml", replaced(bench.read("pair.xml"), "4GiB", "100kB"));
  const Outcome outcome =
      bench.run({"plan", "--platform", "small.xml", "--model", "tiny.json", "--out", "plan.json"});
  CHECK(outcome.code == 3);
  CHECK(outcome.err.empty());
  CHECK(contains(outcome.out, "desk"));
  CHECK_FALSE(bench.has("plan.json"));
}

TEST_CASE("cli/plan: a profile speaks for every device, or for the one it names") {
  const Kitchen bench;
  const Words words{"plan",      "--platform",  "pair.xml", "--model",
                    "tiny.json", "--partition", "1:1",      "--json"};
  const auto profiles = [&](const Words& flags) {
    Words all = words;
    all.insert(all.end(), flags.begin(), flags.end());
    const Json plan = Json::parse(bench.good(all));
    return std::pair{plan["devices"][0]["profile"], plan["devices"][1]["profile"]};
  };
  const auto nominal = profiles({});
  const auto common = profiles({"--profile", "profile.json"});
  const auto one = profiles({"--profile", "sofa=profile.json"});
  check_refused(
      bench,
      {"plan", "--platform", "pair.xml", "--model", "tiny.json", "--profile", "profile.json",
       "--profile", "desk=profile.json", "--profile", "sofa=profile.json"},
      2, "each has one of its own");
  CHECK(one.first == nominal.first);
  CHECK(one.second == common.second);
  CHECK(common.first != nominal.first);
  CHECK(common.first != common.second);  // sofa's slowdown
}

TEST_CASE("cli/simulate: both evaluators agree where nothing contends, and repeat exactly") {
  const Kitchen bench;
  bench.plan();
  const Words words{"simulate", "plan.json", "--json"};
  const std::string text = bench.good(words);
  CHECK(text == bench.good(words));
  const Json simgrid = Json::parse(text);
  const Json analytic =
      Json::parse(bench.good({"simulate", "plan.json", "--json", "--evaluator", "analytic"}));
  CHECK(simgrid["kind"] == "predicted");
  CHECK(simgrid["metrics"]["token_times_s"].size() == 4);
  const double a = simgrid["metrics"]["ttft_s"];
  const double b = analytic["metrics"]["ttft_s"];
  CHECK(std::abs(a - b) <= 1e-9 * a);
  CHECK(a > 4e-3);  // 2 layers, at least an all-reduce in each, there and back over 1 ms
  CHECK(simgrid["devices"][0]["peak_memory_bytes"]["total"].get<double>() > 4.0 * 100160 / 2);
}

TEST_CASE("cli/simulate: the table names what the time goes to, and the network's settings") {
  const Kitchen bench;
  bench.plan();
  const std::string table = bench.good({"simulate", "plan.json", "--trace", "trace.json"});
  CHECK(contains(table, "time to first token"));
  CHECK(contains(table, "what a new token waits for      latency of links"));
  CHECK(contains(table, "network model"));
  CHECK(Json::parse(bench.read("trace.json"))["traceEvents"].size() > 100);
  // A run with a timeline keeps a record of every task.
  const Json timed =
      Json::parse(bench.good({"simulate", "plan.json", "--json", "--trace", "trace.json"}));
  const Json plain = Json::parse(bench.good({"simulate", "plan.json", "--json"}));
  const auto memory = [](const Json& result, const char* category) {
    return result["devices"][0]["peak_memory_bytes"][category].get<double>();
  };
  CHECK(memory(timed, "program") > memory(plain, "program") + 24.0 * 100.0);
  CHECK(memory(timed, "program") < memory(plain, "program") + 24.0 * 1000.0);
  CHECK(memory(timed, "buffers") == memory(plain, "buffers"));
  const std::string quiet =
      bench.good({"simulate", "plan.json", "--out", "result.json", "--quiet"});
  CHECK(quiet.empty());
  CHECK(Json::parse(bench.read("result.json"))["schema"] == "tandem.result/7");
}

TEST_CASE("cli/compare: table, CSV, figures and the merged timeline") {
  const Kitchen bench;
  bench.plan();
  bench.must({"simulate", "plan.json", "--out", "predicted.json", "--trace", "predicted.trace.json",
              "--quiet"});
  bench.write("measured.json", as_measured(bench.read("predicted.json")));
  const std::string table =
      bench.good({"compare", "predicted.json", "measured.json", "--out", "deep/down"});
  CHECK(contains(table, "ttft"));
  CHECK(contains(table, "largest deviation of TTFT, mean and median token latency: 0.0%"));
  const auto line = [&](const std::string& name) {
    const std::size_t begin = table.find('\n' + name);
    REQUIRE(begin != std::string::npos);
    return table.substr(begin + 1, table.find('\n', begin + 1) - begin - 1);
  };
  // Each number has its unit, and no fraction is rounded to 0.
  CHECK(contains(line("throughput"), "0/s"));
  CHECK(contains(line("communication hidden"), "%  0.0 points"));
  const std::string csv = bench.read("deep/down/compare.csv");
  CHECK(csv.rfind("scope,name,metric,unit,predicted,measured,absolute,percent,basis\nrun,,ttft,s,",
                  0) == 0);
  CHECK(contains(csv, "device,sofa,sent,bytes,"));
  CHECK(contains(csv, "task,desk/attend,mean,s,"));
  CHECK(contains(csv, "token,3,latency,s,"));
  CHECK(bench.read("deep/down/compare.png").rfind("\x89PNG", 0) == 0);
  CHECK(contains(bench.read("deep/down/compare.svg"), "<svg"));
  CHECK(Json::parse(bench.read("deep/down/trace.json"))["traceEvents"].size() > 200);
  const Json rows = Json::parse(
      bench.good({"compare", "predicted.json", "measured.json", "--out", "again", "--json"}));
  CHECK(rows["worst_percent"] == 0.0);

  bench.write("measured.json", replaced(bench.read("measured.json"), "\"prompt_tokens\": \"5\"",
                                        "\"prompt_tokens\": \"7\""));
  const Outcome unlike =
      bench.run({"compare", "predicted.json", "measured.json", "--out", "unlike"});
  CHECK(unlike.code == 0);
  CHECK(contains(unlike.err, "a prompt of 5 tokens was predicted, one of 7 measured: "));
}

TEST_CASE("cli/worker: makes a key for its owner only, and never over another file") {
  const Kitchen bench;
  CHECK(contains(bench.good({"worker", "--generate-key", "home.key"}), "home.key"));
  CHECK(bench.read("home.key").size() == 65);
  const auto permissions = std::filesystem::status(bench.folder() / "home.key").permissions();
  CHECK((permissions & std::filesystem::perms(077)) == std::filesystem::perms::none);
  const std::string key = bench.read("home.key");
  CHECK(bench.run({"worker", "--generate-key", "home.key"}).code == 1);
  CHECK(bench.read("home.key") == key);
  CHECK(bench.run({"worker", "--generate-key", "new.key", "--once"}).code == 2);
}

TEST_CASE("cli/profile: JSON on standard output equals the file") {
  const Kitchen bench;
  const std::string printed =
      bench.good({"profile", "--model", "tiny.json", "--threads", "1", "--seconds", "0.1", "--disk",
                  "1MiB", "--cache", "cache", "--out", "measured.json", "--json"});
  CHECK(printed == bench.read("measured.json"));
  const Json profile = Json::parse(printed);
  CHECK(profile["schema"] == "tandem.profile/3");
  CHECK(profile["disk_bandwidth_Bps"] > 0.0);
  CHECK(contains(profile["source"].get<std::string>(), "disk: 1 MiB in cache"));
  CHECK(bench.has("cache"));  // and nothing in it
  for (const std::string& name : bench.listing()) CHECK_FALSE(contains(name, "partial"));
}

TEST_CASE("cli/profile: a disk that is not wanted, or not there") {
  const Kitchen bench;
  const Words words{"profile", "--model",   "tiny.json", "--threads",
                    "1",       "--seconds", "0.1",       "--json"};
  const auto with = [&](const Words& flags) {
    Words all = words;
    all.insert(all.end(), flags.begin(), flags.end());
    return all;
  };
  const Json profile = Json::parse(bench.good(with({"--disk", "none"})));
  CHECK(profile["disk_bandwidth_Bps"] == 0.0);
  CHECK_FALSE(contains(profile["source"].get<std::string>(), "disk"));
  check_refused(bench, with({"--disk", "none", "--cache", "x"}), 2, "--cache");
  check_refused(bench, with({"--disk", "0B"}), 1, "--disk");
  check_refused(bench, with({"--disk", "fast"}), 1, "--disk");
  check_refused(bench, with({"--cache", "tiny.json"}), 1, "tiny.json");
}

TEST_CASE("cli/plan: a measured disk is the one that is planned with") {
  const Kitchen bench;
  Json fast = Json::parse(bench.read("profile.json"));
  const auto disks = [&](double measured, const std::string& prefix) {
    fast["disk_bandwidth_Bps"] = measured;
    bench.write("disk.json", fast.dump());
    const Json plan =
        Json::parse(bench.good({"plan", "--platform", "pair.xml", "--model", "tiny.json",
                                "--profile", prefix + "disk.json", "--json"}));
    std::vector<double> rates;
    for (const Json& device : plan["cluster"]["devices"])
      rates.push_back(device["disk_bandwidth_Bps"].get<double>());
    return rates;
  };
  const std::vector<double> stated = disks(0.0, "");
  REQUIRE(stated.size() == 2);
  CHECK(disks(1e3, "") == std::vector{1e3, 1e3});  // emulated: no faster than the real one
  CHECK(disks(1e3, "sofa=") == std::vector{stated[0], 1e3});
}

TEST_CASE("cli/plan: says how far from the best possible it is, and of equation 5 apart") {
  const Kitchen bench;
  for (const std::string strategy : {"tensor", "galaxy", "pipeline"}) {
    CAPTURE(strategy);
    Words words{"plan",       "--model", "bert-l", "--platform", "home4",
                "--strategy", strategy,  "--out",  "made.json"};
    if (strategy == "pipeline") words.insert(words.end(), {"--groups", "none"});
    Words json = words;
    json.emplace_back("--json");
    const Json plan = Json::parse(bench.good(json));
    const Json& bound = plan.at("bound");
    const double planned = bound.at("planned_s").get<double>();
    const double least = bound.at("lower_bound_s").get<double>();
    CHECK(bound.at("objective") == "request");
    CHECK(0.0 < least);
    CHECK(least <= planned);
    CHECK(bound.at("gap_percent").get<double>() == doctest::Approx((planned / least - 1) * 100));
    CHECK(plan.at("equation5").is_null() == (strategy == "pipeline"));
    const std::string table = bench.good(words);
    CHECK(contains(table, "lower bound of the request: "));
    CHECK_FALSE(contains(table, "if no messages share a link"));
    CHECK(contains(table, "equation 5") == (strategy != "pipeline"));
  }
  const Json alone = Json::parse(bench.good({"plan", "--model", "bert-l", "--platform", "home4",
                                             "--strategy", "local", "--out", "m.json", "--json"}));
  CHECK(alone.at("bound").is_null());
}

TEST_CASE("cli/plan: the exact partition has the least equation 5") {
  const Kitchen bench;
  const auto seconds = [&](const std::string& partition) {
    return Json::parse(bench.good({"plan", "--model", "gpt2-l", "--platform", "home4",
                                   "--partition", partition, "--out", "m.json", "--json"}))
        .at("equation5")
        .at("planned_s")
        .get<double>();
  };
  const double exact = seconds("exact");
  for (const char* const other : {"galaxy", "equal", "auto", "4:3:2:1"}) {
    CAPTURE(other);
    CHECK(exact <= seconds(other) * (1 + 1e-9));
  }
}

}  // namespace tandem::test::commands_test
