// What `tandem plan` is asked to choose: --strategy auto, --objective.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::choice_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("cli/choice: strategy auto takes the soonest, and tells of the others and why" *
          doctest::test_suite("long")) {
  const Kitchen bench;
  const Words words{"plan", "--model", "bert-l", "--platform", "home4", "--out", "m.json"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  const Json plan = Json::parse(bench.good(with({"--strategy", "auto", "--json"})));
  const Json& contenders = plan.at("choice").at("contenders");
  REQUIRE(contenders.size() == 7);
  CHECK(contenders[0].at("strategy") == plan.at("strategy"));
  // A search that ended early does not know why.
  CHECK(plan.at("choice").at("reason").is_string() == plan.at("choice").at("to_the_end"));
  for (std::size_t i = 1; i < contenders.size(); ++i)
    CHECK(contenders[i - 1].at("request_s").get<double>() * (1 - 1e-3) <=
          contenders[i].at("request_s").get<double>());
  CHECK(contains(bench.good(with({"--strategy", "auto"})), "% longer)"));
  CHECK(Json::parse(bench.good(with({"--strategy", "tensor", "--json"}))).at("choice").is_null());
  for (const Words& more :
       {Words{"--tiles", "1"}, Words{"--partition", "equal"}, Words{"--allreduce", "ring"},
        Words{"--objective", "throughput"}, Words{"--policy", "static"},
        Words{"--dtype", "bf16,bf16"}, Words{"--dtype", "bf16,five"}}) {
    CAPTURE(more.front());
    Words all = with({"--strategy", "auto"});
    all.insert(all.end(), more.begin(), more.end());
    CHECK(bench.run(all).code == 2);
  }
  // Nothing fits anywhere.
  CHECK(bench.run(with({"--strategy", "auto", "--memory-limit", "1MiB", "--window", "all"})).code ==
        3);
}

TEST_CASE(
    "cli/choice: csps chooses between SP-NTP and SP-TP, and tells bytes and the paper's rule" *
    doctest::test_suite("long")) {
  const Kitchen bench;
  const auto with = [&](const Words& more) {
    Words words{"plan",  "--model",         "gpt2", "--platform",   "flat3",
                "--out", "--prompt-tokens", "40",   "--new-tokens", "6"};
    words.insert(words.begin() + 6, "m.json");
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const Words both{"--strategy", "csps", "--sp", "auto"};
  Words json = both;
  json.emplace_back("--json");
  const Json plan = Json::parse(bench.good(with(json)));
  const Json& sp = plan.at("sp");
  const bool ntp = sp.at("ntp").at("seconds") <= sp.at("tp").at("seconds");
  CHECK(sp.at("taken") == (ntp ? "ntp" : "tp"));
  CHECK(plan.at("strategy") == (ntp ? "csps" : "galaxy"));
  CHECK(sp.at("rule").at("ratio") == doctest::Approx(768.0 / 40.0));
  for (const char* const way : {"ntp", "tp"}) CHECK(sp.at(way).at("prompt_sent_bytes") > 0.0);
  CHECK(contains(bench.good(with(both)), "the paper's rule (appendix A): h / L = 19.200"));
  const Words tp{"--strategy", "csps", "--sp", "tp", "--json"};
  CHECK(Json::parse(bench.good(with(tp))).at("strategy") == "galaxy");
  for (const Words& refused :
       {Words{"--strategy", "tensor", "--sp", "tp"}, Words{"--strategy", "auto", "--sp", "tp"},
        Words{"--strategy", "csps", "--decode-moves", "kv"},
        Words{"--strategy", "tensor", "--decode-moves", "migrate"},
        Words{"--strategy", "spread", "--decode-moves", "auto", "--samples", "2"},
        Words{"--strategy", "csps", "--decode-moves", "auto", "--levels", "2", "--max-loss",
              "1"}}) {
    CAPTURE(refused[1] + refused[3]);
    CHECK(bench.run(with(refused)).code == 2);
  }
  for (const Words& unknown :
       {Words{"--strategy", "csps", "--sp", "all"},
        Words{"--strategy", "spread", "--decode-moves", "k"},
        Words{"--strategy", "csps", "--decode-moves", "kv", "--levels", "2"}}) {
    CAPTURE(unknown[3]);
    CHECK(bench.run(with(unknown)).code == 1);
  }
}

TEST_CASE(
    "cli/choice: spread has parts in proportion, and plans that move keys and values say so") {
  const Kitchen bench;
  const auto planned = [&](const std::string& out) {
    return bench.good({"plan", "--model", "tandem-tiny", "--platform", "home4", "--strategy",
                       "spread", "--decode-moves", "kv", "--partition", "1:2:1:1",
                       "--prompt-tokens", "50", "--new-tokens", "6", "--out", out});
  };
  const std::string table = planned("m.json");
  CHECK(contains(table, "in every layer of every new token"));
  CHECK(contains(table, "laptop [0, 20), mini-pc [20, 30), board [30, 40), desktop [40, 50)"));
  const Json plan = Json::parse(planned("-"));
  CHECK(plan.at("decode_moves") == "kv");
  CHECK(plan.at("devices").at(1).at("part").at("positions") == Json({0, 20}));
}

TEST_CASE("cli/choice: of what may travel for new tokens spread takes the fastest, and says so") {
  const Kitchen bench;
  const auto planned = [&](const std::string& moves, const Words& more) {
    Words words{"plan",  "--model",         "tandem-tiny", "--platform",
                "home4", "--strategy",      "spread",      "--partition",
                "equal", "--out",           "m.json",      "--decode-moves",
                moves,   "--prompt-tokens", "50",          "--new-tokens"};
    words.insert(words.end(), more.begin(), more.end());
    return bench.good(words);
  };
  const std::string table = planned("auto", {"6"});
  CHECK(contains(table, "for new tokens (--decode-moves), objective request, q: "));
  CHECK(contains(table, "; kv: "));
  CHECK(contains(table, " a new token; migrate: "));
  CHECK(contains(table, " and 0 B a new token; taken: migrate"));
  CHECK(contains(table, "keeps them all and computes new tokens alone"));
  // The partition is given, and there is still something to choose.
  CHECK(contains(planned("auto", {"6", "--objective", "latency"}), "objective latency, q: "));
  const Json result = Json::parse(bench.good({"simulate", "m.json", "--json"}));
  const double best = result.at("metrics").at("token_times_s").back();
  const Json moves = Json::parse(planned("auto", {"6", "--json"})).at("decode_moves");
  CHECK(moves.at("taken") == "migrate");
  CHECK(moves.at("migrate").at("seconds").get<double>() == doctest::Approx(best).epsilon(1e-9));
  CHECK(moves.at("migrate").at("token_sent_bytes") == 0.0);
  for (const char* const other : {"q", "kv"})
    CHECK(moves.at(other).at("seconds").get<double>() > best);
}

// Ring and tiles together beat the sums that trials without tiles would choose.
TEST_CASE("cli/choice: strategy auto is no later than any strategy with the sums it has by itself" *
          doctest::test_suite("long")) {
  const Kitchen bench;
  const auto planned = [&](const std::string& strategy, const std::string& printed) {
    return bench.good({"plan", "--model", "gpt2", "--platform", "flat3", "--strategy", strategy,
                       "--prompt-tokens", "40", "--new-tokens", "6", "--seconds", "0", "--out",
                       "m.json", printed});
  };
  const Json chosen =
      Json::parse(planned("auto", "--json")).at("choice").at("contenders").at(0).at("request_s");
  for (const char* const strategy : {"tensor", "galaxy", "pipeline", "local"}) {
    CAPTURE(strategy);
    planned(strategy, "--quiet");  // without its free changes, which are searched to the end, too
    const Json result = Json::parse(bench.good({"simulate", "m.json", "--json"}));
    CHECK(chosen.get<double>() <=
          result.at("metrics").at("token_times_s").back().get<double>() * (1 + 1e-9));
  }
}

TEST_CASE("cli/choice: strategy auto of weights that stream" * doctest::test_suite("long")) {
  const Kitchen bench;
  const Outcome made = bench.run({"plan", "--model", "gpt2", "--platform", "home4", "--strategy",
                                  "auto", "--memory-limit", "150MiB", "--prompt-tokens", "8",
                                  "--new-tokens", "2", "--out", "m.json"});
  CHECK(made.code == 0);
  CHECK(made.err.empty());
  CHECK(contains(made.out, "stream"));
}

TEST_CASE("cli/choice: a plan that leaves devices out is simulated and told of as it is" *
          doctest::test_suite("long")) {
  const Kitchen bench;
  const Json plan = Json::parse(bench.good(
      {"plan", "--model", "gpt2-l", "--platform", "home4", "--strategy", "auto", "--master",
       "desktop", "--dtype", "q8_0", "--seconds", "0", "--out", "m.json", "--json"}));
  const Json& first = plan.at("choice").at("contenders").at(0);
  const Json& left_out = plan.at("choice").at("left_out");
  REQUIRE(!left_out.empty());
  CHECK(first.at("devices").size() + left_out.size() == 4);
  CHECK(plan.at("devices").size() == first.at("devices").size());
  CHECK(first.at("master") == "desktop");
  CHECK(first.at("dtype") == "q8_0");
  for (const Json& one : left_out)
    CHECK(one.at("request_s").get<double>() >= first.at("request_s").get<double>());
  const Json result = Json::parse(bench.good({"simulate", "m.json", "--json"}));
  CHECK(result.at("metrics").at("token_times_s").back().get<double>() ==
        doctest::Approx(first.at("request_s").get<double>()).epsilon(1e-9));
  CHECK(result.at("devices").size() == first.at("devices").size());
}

TEST_CASE("cli/choice: for samples the rate counts, and the policy is told" *
          doctest::test_suite("long")) {
  const Kitchen bench;
  const Words words{"plan",      "--model", "tinyllama-1.1b", "--platform",   "flat3",
                    "--samples", "4",       "--strategy",     "auto",         "--prompt-tokens",
                    "8",         "--dtype", "bf16,q8_0",      "--new-tokens", "6",
                    "--out",     "m.json"};
  Words json = words;
  json.emplace_back("--json");
  const Json choice = Json::parse(bench.good(json)).at("choice");
  CHECK(choice.at("objective") == "throughput");
  const Json& first = choice.at("contenders").at(0);
  CHECK(first.at("dtype") == "q8_0");
  const std::string policy = first.at("policy");
  CHECK(contains(bench.good(words), "--policy " + policy));
  const Json result = Json::parse(
      bench.good({"simulate", "m.json", "--samples", "4", "--policy", policy, "--json"}));
  CHECK(result.at("metrics").at("throughput_tokens_per_s").get<double>() ==
        doctest::Approx(first.at("throughput_per_s").get<double>()).epsilon(1e-9));
}

TEST_CASE("cli/choice: the answer counts devices with work, and its advice has an effect") {
  const Kitchen bench;
  const auto answer = [&](const Words& more) {
    Words words{"plan", "--model", "gpt2-l", "--platform", "home4"};
    words.insert(words.end(), more.begin(), more.end());
    const std::string text = bench.good(words);
    return text.substr(0, text.find("\n\n"));
  };
  CHECK(contains(answer({"--strategy", "local"}), "fits on 1 of 4 devices of home4"));
  CHECK(contains(answer({"--strategy", "galaxy"}), "fits on all 4 devices of home4"));
  CHECK(contains(answer({"--strategy", "local"}), "weights in fewer bits"));
  CHECK_FALSE(contains(answer({"--strategy", "local", "--dtype", "q4_0"}), "in fewer bits"));
  CHECK_FALSE(contains(answer({"--strategy", "galaxy", "--dtype", "q4_0", "--wire-type", "q8_0"}),
                       "in fewer bits"));
  const Words galaxy{"--strategy", "galaxy", "--prompt-tokens", "40", "--new-tokens"};
  const auto with = [&](const Words& more) {
    Words words = galaxy;
    words.insert(words.end(), more.begin(), more.end());
    return answer(words);
  };
  CHECK(contains(with({"40"}), "Bottleneck of new tokens"));
  CHECK(contains(with({"2"}), "Bottleneck of the prompt"));
  CHECK(contains(with({"40", "--objective", "ttft"}), "Bottleneck of the prompt"));
  CHECK(contains(with({"2", "--objective", "latency"}), "Bottleneck of new tokens"));
}

TEST_CASE("cli/choice: a search that ends early names no reason, and one scale for alternatives") {
  const Kitchen bench;
  const Words words{"plan",  "--model",    "gpt2-l", "--platform",
                    "home4", "--strategy", "auto",   "--evaluations"};
  const auto with = [&](const Words& more) {
    Words all = words;
    all.insert(all.end(), more.begin(), more.end());
    return bench.good(all);
  };
  CHECK_FALSE(contains(with({"2"}), "use one device"));
  const std::string rates = with({"60", "--samples", "4", "--policy", "recurrent"});
  CHECK(contains(rates, "Best alternative"));
  CHECK(contains(rates, "% less"));
  CHECK_FALSE(contains(rates, "% longer"));
}

TEST_CASE("cli/choice: an objective makes its phase no slower, and has the bound of it") {
  const Kitchen bench;
  const auto planned = [&](const Words& more) {
    Words words{"plan",       "--model", "gpt2-l",          "--platform", "home4",
                "--strategy", "galaxy",  "--prompt-tokens", "40",         "--out",
                "m.json",     "--json",  "--seconds",       "0"};
    words.insert(words.end(), more.begin(), more.end());
    const Json plan = Json::parse(bench.good(words));
    const Json metrics = Json::parse(bench.good({"simulate", "m.json", "--json"})).at("metrics");
    return std::pair(plan, metrics);
  };
  const auto request = planned({});
  const auto ttft = planned({"--objective", "ttft"});
  CHECK(ttft.second.at("ttft_s").get<double>() <=
        request.second.at("ttft_s").get<double>() * (1 + 1e-9));
  CHECK(ttft.first.at("bound").at("objective") == "ttft");
  CHECK(ttft.first.at("bound").at("planned_s").get<double>() <
        request.first.at("bound").at("planned_s").get<double>());
  const auto latency = planned({"--objective", "latency"});
  CHECK(latency.first.at("bound").is_null());
  const auto mean = [](const Json& metrics) {
    const Json& times = metrics.at("token_times_s");
    return times.back().get<double>() - times.front().get<double>();
  };
  CHECK(mean(latency.second) <= mean(request.second) * (1 + 1e-9));
}

TEST_CASE("cli/choice: an objective that changes nothing, or has no meaning, is refused") {
  const Kitchen bench;
  const auto refused = [&](const Words& more) {
    Words words{"plan", "--model", "bert-l", "--platform", "home4", "--out", "m.json"};
    words.insert(words.end(), more.begin(), more.end());
    CAPTURE(more.back());
    const Outcome outcome = bench.run(words);
    CHECK((outcome.code == 1 || outcome.code == 2));
    CHECK(contains(outcome.err, "objective"));
  };
  refused({"--strategy", "local", "--objective", "ttft"});
  refused({"--partition", "equal", "--objective", "ttft"});
  refused({"--objective", "throughput"});
  refused({"--objective", "soon"});
  refused({"--objective", "latency"});  // an encoder has no new tokens
  refused({"--strategy", "auto", "--objective", "latency"});
}

// Groups divide layers, so they may be faster than what bounds stages of one device.
TEST_CASE("cli/choice: a pipeline of groups tells of no bound, one without of both") {
  const Kitchen bench;
  for (const bool groups : {false, true}) {
    for (const bool samples : {false, true}) {
      CAPTURE(groups);
      CAPTURE(samples);
      Words words{"plan",       "--model",  "gpt2-l",          "--platform", "home4",
                  "--strategy", "pipeline", "--prompt-tokens", "8",          "--new-tokens",
                  "2",          "--out",    "m.json"};
      words.insert(words.end(), {"--groups", groups ? "desktop,laptop/mini-pc,board" : "none"});
      if (samples) words.insert(words.end(), {"--samples", "2"});
      const std::string table = bench.good(words);
      CHECK(contains(table, "lower bound") != groups);
      words.emplace_back("--json");
      CHECK(Json::parse(bench.good(words)).at("bound").is_null() == groups);
    }
  }
}

TEST_CASE("cli/choice: groups compute prompts as tensor or galaxy does, and a rate has two sides") {
  const Kitchen bench;
  const auto planned = [&](const Words& more) {
    Words words{"plan",       "--model",  "gpt2-l",          "--platform", "home4",
                "--strategy", "pipeline", "--prompt-tokens", "8",          "--new-tokens",
                "4",          "--out",    "m.json"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const Words groups{"--groups", "desktop,laptop/mini-pc,board", "--samples", "4"};
  Words galaxy = groups;
  galaxy.insert(galaxy.end(), {"--group-strategy", "galaxy", "--tiles", "2"});
  bench.must(planned(groups));
  CHECK(!contains(bench.read("m.json"), "group_strategy"));
  CHECK(contains(bench.good(planned(galaxy)), "never more than"));
  const Json plan = Json::parse(bench.read("m.json"));
  CHECK(plan.at("group_strategy") == "galaxy");
  CHECK(plan.at("tiles") == 2);
  bench.must({"simulate", "m.json", "--samples", "4", "--quiet", "--out", "r.json"});
  galaxy.emplace_back("--json");
  const Json rate = Json::parse(bench.good(planned(galaxy))).at("recurrent");
  CHECK(rate.at("throughput_tokens_per_s").get<double>() <=
        rate.at("throughput_bound_per_s").get<double>() * (1 + 1e-9));
  CHECK(bench.run(planned({"--group-strategy", "galaxy"})).code == 2);
  Words tiles = groups;
  tiles.insert(tiles.end(), {"--tiles", "2"});
  CHECK(bench.run(planned(tiles)).code == 2);
  Json bad = plan;
  bad["group_strategy"] = "sp";
  bench.write("bad.json", bad.dump());
  CHECK(contains(bench.run({"simulate", "bad.json"}).err, "group strategy 'sp'"));
}

TEST_CASE("cli/choice: --decode-ffn says who computes the FFN of new tokens") {
  const Kitchen bench;
  const auto with = [&](const Words& more) {
    Words words{"plan",       "--model", "tandem-tiny",     "--platform", "flat3",
                "--strategy", "spread",  "--prompt-tokens", "40",         "--new-tokens",
                "6",          "--out",   "m.json"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  CHECK(!contains(bench.good(with({"--decode-ffn", "owner"})), "FFN columns of new tokens"));
  const std::string table = bench.good(with({"--decode-ffn", "all", "--decode-moves", "q"}));
  CHECK(contains(table, "FFN columns of new tokens: "));
  CHECK(contains(table, ", 640)"));
  const Json simulated = Json::parse(bench.good({"simulate", "m.json", "--json"}));
  const Json analytic =
      Json::parse(bench.good({"simulate", "m.json", "--json", "--evaluator", "analytic"}));
  for (std::size_t d = 0; d < 3; ++d)
    CHECK(simulated.at("devices")[d].at("bytes_sent") ==
          analytic.at("devices")[d].at("bytes_sent"));
  CHECK(contains(bench.good(with({"--decode-ffn", "all", "--decode-moves", "migrate"})),
                 "attends with new tokens alone"));
  CHECK(bench.run(with({"--decode-ffn", "auto", "--decode-moves", "auto"})).code == 0);
  CHECK(bench.run(with({"--decode-ffn", "some"})).code == 1);
  const Outcome single =
      bench.run({"plan", "--model", "tandem-tiny", "--platform", "flat3", "--strategy", "spread",
                 "--new-tokens", "1", "--decode-ffn", "all"});
  CHECK(single.code == 1);
  CHECK(contains(single.err, "nothing is computed after the prompt"));
  for (const char* const other : {"csps", "tensor", "auto"}) {
    CAPTURE(other);
    CHECK(bench
              .run({"plan", "--model", "tandem-tiny", "--platform", "flat3", "--strategy", other,
                    "--decode-ffn", "all"})
              .code == 2);
  }
}

TEST_CASE(
    "cli/choice: a profile without rates is refused where a plan needs them, and only there") {
  const Kitchen bench;
  const auto with = [&](const Words& more) {
    Words words{"plan", "--model",      "tandem-tiny", "--platform", "flat3", "--prompt-tokens",
                "40",   "--new-tokens", "4",           "--out",      "m.json"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  bench.must(with({}));
  const Json whole = Json::parse(bench.read("m.json")).at("devices")[0].at("profile");
  for (const char* const kind : {"merge", "select", "gather", "score"}) {
    CAPTURE(kind);
    Json profile = whole;
    REQUIRE(profile.at("rates").erase(kind) == 1);
    bench.write("old.json", profile.dump());
    bench.must(with({"--profile", "old.json"}));
    bench.must(with({"--profile", "old.json", "--strategy", "csps"}));
    const std::string reason = "has no rate for '" + std::string(kind) + "'";
    const Outcome sparse =
        bench.run(with({"--profile", "old.json", "--strategy", "csps", "--partition", "equal",
                        "--levels", "2", "--drop", "0.5"}));
    CHECK(sparse.code == 1);
    CHECK(contains(sparse.err, reason));
    if (std::string(kind) != "merge") continue;
    const Outcome spread =
        bench.run(with({"--profile", "old.json", "--strategy", "spread", "--partition", "equal"}));
    CHECK(spread.code == 1);
    CHECK(contains(spread.err, reason));
    CHECK(contains(bench.good(with({"--profile", "old.json", "--strategy", "auto"})),
                   "not spread: profile"));
  }
}

TEST_CASE("cli/choice: --devices names those that are used, or finds the fewest") {
  const Kitchen bench;
  const auto with = [&](const Words& more) {
    Words words{"plan", "--model", "llama-2-3b", "--dtype", "q4_0", "--platform", "klonet8"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const Words fewest{"--devices", "fewest", "--memory-limit", "1500MiB", "--out", "m.json"};
  Words json = fewest;
  json.emplace_back("--json");
  const Json summary = Json::parse(bench.good(with(json)));
  CHECK(summary.at("fewest").at("devices") == 2);
  CHECK(summary.at("fewest").at("of") == 8);
  CHECK(contains(summary.at("fewest").at("fewer").get<std::string>(), "'device0': lacks"));
  CHECK(summary.at("devices").size() == 2);
  CHECK(contains(bench.good(with(fewest)),
                 "the fewest devices that hold it: 2 of 8 (device0, device1); on 1: device"));
  // On one of them there is no plan, and on these two there is one, which runs are predicted of.
  CHECK(bench.run(with({"--devices", "device0", "--memory-limit", "1500MiB", "--window", "all"}))
            .code == 3);
  CHECK(contains(bench.good({"simulate", "m.json", "--json"}), "ttft_s"));
  const Json named = Json::parse(bench.good(with({"--devices", "device3,device1", "--json"})));
  REQUIRE(named.at("devices").size() == 2);
  CHECK(named.at("devices")[0].at("name") == "device1");
  CHECK(Json::parse(bench.good(with({"--out", "m.json", "--json"}))).count("fewest") == 0);
  // None holds it.
  const Outcome none = bench.run(with({"--devices", "fewest", "--memory-limit", "100MiB"}));
  CHECK(none.code == 3);
  CHECK(contains(none.out, "the whole cluster lacks"));
  for (const Words& refused :
       {Words{"--devices", "device1,device1"}, Words{"--devices", "fewest", "--window", "auto"},
        Words{"--devices", "fewest", "--retain", "2"},
        Words{"--devices", "fewest", "--strategy", "auto"},
        Words{"--devices", "fewest", "--strategy", "local"},
        Words{"--devices", "fewest", "--strategy", "csps", "--levels", "2"},
        Words{"--devices", "fewest", "--strategy", "pipeline", "--groups", "auto"},
        Words{"--devices", "fewest", "--partition", "1:1:1:1:1:1:1:1"}}) {
    CAPTURE(refused[1]);
    CHECK(bench.run(with(refused)).code == 2);
  }
  // A strategy that is named needs no second device, searched or not.
  const Words alone{"--hosts", "device0", "--strategy", "pipeline"};
  const std::string one = bench.good(with(alone));
  Words searched = alone;
  searched.insert(searched.end(), {"--devices", "auto"});
  CHECK(contains(one, "strategy pipeline"));
  CHECK(contains(bench.good(with(searched)), "strategy pipeline"));
  const Outcome outside = bench.run(with({"--devices", "device1,device2", "--master", "device0"}));
  CHECK(outside.code == 2);
  CHECK(contains(outside.err, "not among"));
  for (const Words& unknown : {Words{"--devices", "device1,"}, Words{"--devices", "9"}}) {
    CAPTURE(unknown[1]);
    const Outcome outcome = bench.run(with(unknown));
    CHECK(outcome.code == 1);
    CHECK(contains(outcome.err, "unknown in cluster"));
  }
}

}  // namespace tandem::test::choice_command_test
