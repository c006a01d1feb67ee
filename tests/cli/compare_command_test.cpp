// tandem compare of any number of results, and what it says of replays.

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::compare_command_test {
namespace {

using Json = nlohmann::json;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A plan with two predictions and a replay.
struct Shelf : Kitchen {
  Shelf() {
    must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
    plan();
    must({"simulate", "plan.json", "--out", "predicted.json", "--trace", "p.json", "--quiet"});
    must({"simulate", "plan.json", "--evaluator", "analytic", "--out", "analytic.json", "--quiet"});
    must({"run", "plan.json", "--weights", "tiny", "--cache", "cache", "--emulate", "--pace",
          "nominal", "--ignore-eos", "--out", "replayed.json", "--trace", "r.json", "--quiet"});
  }
};

}  // namespace

TEST_CASE("cli/compare: any number of results, and any of them as the reference") {
  const Shelf bench;
  const Outcome outcome =
      bench.run({"compare", "predicted.json", "analytic.json", "replayed.json", "--out", "c"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(has(outcome.out, "predicted (predicted)"));
  CHECK(has(outcome.out, "predicted (analytic)"));
  CHECK(has(outcome.out, "deviations are from predicted (predicted)"));
  CHECK(has(outcome.out, "replayed: largest deviation of TTFT"));
  CHECK(has(outcome.err, "trace.json has the 2 results that name a trace"));
  const std::string csv = bench.read("c/compare.csv");
  CHECK(
      csv.starts_with("scope,name,metric,unit,predicted (predicted),predicted "
                      "(analytic),replayed,absolute predicted (analytic),"));
  CHECK(has(csv, "device,sofa,sent,bytes,"));
  CHECK(has(bench.read("c/trace.json"), "[replayed]"));
  CHECK(has(bench.read("c/trace.json"), "[predicted (predicted)]"));
  CHECK(bench.read("c/compare.png").starts_with("\x89PNG"));

  const Json json =
      Json::parse(bench
                      .run({"compare", "predicted.json", "analytic.json", "replayed.json",
                            "--reference", "replayed.json", "--out", "c", "--json"})
                      .out);
  CHECK(json["schema"] == "tandem.comparison/3");
  CHECK(json["reference"] == "replayed");
  REQUIRE(json["results"].size() == 3);
  CHECK(json["results"][2] == Json({{"label", "replayed"},
                                    {"file", "replayed.json"},
                                    {"kind", "replayed"},
                                    {"pace", "replayed"}}));
  CHECK(json["worst_percent"].size() == 2);
  for (const Json& row : json["rows"]) {
    CAPTURE(row.dump());
    CHECK(row["percent"].size() == 2);
    CHECK_FALSE(row["percent"].contains("replayed"));
    const bool is_time = row["unit"] == "s" && row["metric"] != "ready";
    if (is_time) CHECK(row["calculated"]["predicted (predicted)"] == true);
    if (row["unit"] == "bytes") CHECK(row["calculated"]["predicted (predicted)"] == false);
  }
}

TEST_CASE("cli/compare: without a folder the table is printed, and nothing is written") {
  const Shelf bench;
  const Outcome with = bench.run({"compare", "predicted.json", "replayed.json", "--out", "c"});
  const Outcome without = bench.run({"compare", "predicted.json", "replayed.json"});
  REQUIRE_MESSAGE(without.code == 0, without.err);
  CHECK(without.out == with.out);
  const Outcome nothing = bench.run({"compare", "predicted.json", "replayed.json", "--quiet"});
  CHECK(nothing.code == 2);
  CHECK(has(nothing.err, "flag '--quiet' without '--out' would leave no result"));
}

TEST_CASE("cli/compare: a replay beside its prediction is never called measured") {
  const Shelf bench;
  const std::string table =
      bench.good({"compare", "predicted.json", "replayed.json", "--out", "c"});
  CHECK(has(table, "% of the replayed value"));
  CHECK(has(table, "replayed on emulated devices at nominal pace: times are calculated"));
  const std::string mark = "=: neither value is measured";
  REQUIRE(has(table, mark));
  std::string rest = table;
  rest.erase(rest.find(mark), mark.size());
  CHECK_FALSE(has(rest, "measured"));
  const std::size_t ttft = table.find("ttft");
  CHECK(has(table.substr(ttft, table.find('\n', ttft) - ttft), "% ="));
  const std::string csv = bench.read("c/compare.csv");
  CHECK(csv.starts_with("scope,name,metric,unit,predicted,replayed,absolute,percent,basis\n"));
  CHECK(has(csv, ",calculated\n"));
  CHECK_FALSE(has(bench.read("c/trace.json"), "[measured]"));
  CHECK_FALSE(has(bench.read("c/compare.svg"), "measured"));
}

TEST_CASE("cli/compare: settings of runs that differ are pointed out") {
  const Shelf bench;
  bench.must({"run", "plan.json", "--weights", "tiny", "--cache", "cache", "--emulate", "--pace",
              "nominal", "--ignore-eos", "--kernels", "eigen", "--threads", "2", "--out",
              "other.json", "--quiet"});
  const Outcome outcome = bench.run({"compare", "replayed.json", "other.json", "--out", "c"});
  CHECK(outcome.code == 0);
  CHECK(has(outcome.err,
            "'kernels' differs: replayed (replayed) has 'tuned', replayed (other) has "
            "'eigen'"));
  CHECK(has(outcome.err, "'threads' differs: "));
  CHECK_FALSE(has(outcome.err, "pacing_late"));
  CHECK(has(outcome.out, "deviations are from replayed (replayed)"));
  const Json json = Json::parse(
      bench.run({"compare", "replayed.json", "other.json", "--out", "c", "--json"}).out);
  CHECK(json["remarks"].size() >= 2);
}

TEST_CASE("cli/compare: what makes no sense is refused in one line") {
  const Shelf bench;
  check_refused(bench, {"compare", "predicted.json", "--out", "c"}, 2, "missing argument run.json");
  check_refused(bench, {"compare", "predicted.json", "./predicted.json", "--out", "c"}, 2,
                "the same file");
  check_refused(bench,
                {"compare", "predicted.json", "replayed.json", "predicted.json", "--out", "c"}, 2,
                "the same file");
  check_refused(
      bench,
      {"compare", "predicted.json", "replayed.json", "--reference", "analytic.json", "--out", "c"},
      1, "'--reference': 'analytic.json' is not among the results");
  check_refused(bench, {"compare", "predicted.json", "replayed.json", "plan.json", "--out", "c"}, 1,
                "plan.json");
  check_refused(bench, {"compare", "predicted.json", "replayed.json", "", "--out", "c"}, 2,
                "is empty");
  Json other = Json::parse(bench.read("replayed.json"));
  other["plan"]["sha256"] = std::string(64, '0');
  bench.write("other.json", other.dump());
  check_refused(bench, {"compare", "predicted.json", "analytic.json", "other.json", "--out", "c"},
                1, "different plans");
}

}  // namespace tandem::test::compare_command_test
