#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "exec/runtime/device_run.hpp"
#include "exec/runtime/run_result.hpp"
#include "model/base/error.hpp"
#include "model/predict/program.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/run_accounts.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem::exec::run_report_test {
namespace {

std::unique_ptr<FirstSteps> first_steps(StepGraphs& graphs, std::int32_t count) {
  return std::make_unique<FirstSteps>(graphs, count);
}

TEST_CASE("exec/report: options of a run survive the wire") {
  for (const Pace pace : {Pace::real, Pace::measured, Pace::nominal}) {
    RunOptions options{.workload = {.prompt_tokens = 7, .new_tokens = 3},
                       .pace = pace,
                       .dilation = pace == Pace::real ? 1.0 : 2.5,
                       .scored_rows = pace == Pace::measured ? 3 : 0,
                       .keep_records = pace == Pace::nominal,
                       .capacity = {.rows = 9, .positions = 64, .sequences = 2},
                       .long_sequences = pace == Pace::real ? std::vector<std::int32_t>{1, 7}
                                                            : std::vector<std::int32_t>{}};
    if (pace == Pace::measured) {
      options.overhead = {.threads = {.message_s = 1e-5 / 3.0, .byte_s = 2e-10},
                          .computing_thread = {.message_s = 7e-6, .byte_s = 0.0},
                          .send = {.message_s = 8e-6, .byte_s = 3e-10},
                          .receive = {.message_s = 9e-6, .byte_s = 4e-10}};
    }
    CHECK(parse_run_options(to_json(options), "test") == options);
  }
}

TEST_CASE("exec/report: bad options are one clear error") {
  const std::string good =
      R"({"prompt_tokens": 1, "new_tokens": 1, "pace": "real", "dilation": 1, "scored_rows": 0, )"
      R"("rows": 0, "positions": 0, "sequences": 0, "steps": 0, "most_steps": 0, "keep_records": false, )"
      R"("long_sequences": [], "overhead": null})";
  CHECK(parse_run_options(good, "offered run").workload.new_tokens == 1);
  const auto check_refused = [](const std::string& text) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(static_cast<void>(parse_run_options(text, "offered run")),
                         doctest::Contains("offered run"), Error);
  };
  for (const char* text : {"", "[]", "{}"}) check_refused(text);
  for (const auto& [field, bad] : std::vector<std::pair<std::string, std::vector<const char*>>>{
           {R"("prompt_tokens": 1)", {"0", "-1", "\"1\"", "1.5"}},
           {R"("new_tokens": 1)", {"1e30", "18446744073709551615", "null"}},
           {R"("pace": "real")", {"\"fast\"", "1"}},
           {R"("dilation": 1)", {"2", "true"}},
           {R"("scored_rows": 0)", {"-1", "2", "false"}},
           {R"("rows": 0)", {"-1", "1e9", "null"}},
           {R"("positions": 0)", {"-1", "\"1\""}},
           {R"("sequences": 0)", {"-1", "[]"}},
           {R"("most_steps": 0)", {"-1", "1e30"}},
           {R"("long_sequences": [])", {"[-1]", "[1.5]", "null", "{}"}},
           {R"("overhead": null)",
            {"0", "{}",
             R"({"threads": [1], "computing_thread": [0, 0], "send": [0, 0], "receive": [0, 0]})",
             R"({"threads": [0, 0], "computing_thread": [0, 0], "receive": [0, 0]})"}},
           {R"("keep_records": false)", {"0", "\"no\"", "null"}}}) {
    const std::size_t at = good.find(field);
    REQUIRE(at != std::string::npos);
    const std::string name = field.substr(0, field.find(':') + 2);
    for (const char* value : bad)
      check_refused(std::string(good).replace(at, field.size(), name + value));
    // Renamed, so that it is missing.
    check_refused(std::string(good).replace(at + 1, 1, "x"));
  }
}

TEST_CASE("exec/report: only emulated time is dilated, and never to pass faster") {
  const auto parsed = [](const std::string& pace, const std::string& dilation) {
    return parse_run_options(
        R"({"prompt_tokens": 1, "new_tokens": 1, "scored_rows": 0, "rows": 0, "positions": 0, )"
        R"("sequences": 0, "steps": 0, "most_steps": 0, "keep_records": false, "overhead": null, )"
        R"("long_sequences": [], "pace": ")" +
            pace + R"(", "dilation": )" + dilation + "}",
        "offered run");
  };
  CHECK(parsed("measured", "2.5").dilation == 2.5);
  CHECK_THROWS_WITH_AS(parsed("real", "2"), doctest::Contains("1 without emulation"), Error);
  for (const char* dilation : {"0.5", "-1", "1e300", "\"2\""}) {
    CAPTURE(dilation);
    CHECK_THROWS_WITH_AS(parsed("measured", dilation), doctest::Contains("dilation"), Error);
  }
}

TEST_CASE("exec/report: a device's report survives the wire") {
  const DeviceReport report{
      .peak_memory = {.weights = 1, .kv_cache = 2, .activations = 3, .buffers = 4, .program = 5},
      .bytes_sent = 6,
      .mean_late_s = 0.5,
      .max_late_s = 0.75,
      .clock_ns = std::int64_t{1} << 60,
      .boot = "one",
      .kernels = KernelSet::eigen,
      .tally = {.steps = 3,
                .busy_cpu_ns = 25,
                .busy_disk_ns = 26,
                .origin_ns = -5,
                .first_cpu_ns = -4,
                .last_cpu_ns = std::int64_t{1} << 60,
                .late_stall_ns = 27,
                .late_disk_ns = 28,
                .channels = {{.peer = 2, .sends = true, .count = 9, .times_ns = ~0ULL},
                             {.peer = 2, .count = 9, .times_ns = 1ULL << 63}}}};
  const std::string json = to_json(report);
  CHECK(parse_device_report(json, "test") == report);
  const std::size_t kernels = json.find(R"("eigen")");
  REQUIRE(kernels != std::string::npos);
  CHECK_THROWS_WITH_AS(static_cast<void>(parse_device_report(
                           std::string(json).replace(kernels, 7, R"("fast")"), "test")),
                       doctest::Contains("expected tuned or eigen"), Error);
  SUBCASE("an older program does not name its kernels: tuned") {
    const std::string older =
        std::string(json).replace(json.find(R"("kernels")"), 9, R"("others")");
    CHECK(parse_device_report(older, "test").kernels == KernelSet::tuned);
  }
  CHECK_THROWS_AS(static_cast<void>(parse_device_report("{}", "test")), Error);
  CHECK_THROWS_AS(static_cast<void>(parse_device_report(R"({"weights_bytes": -1})", "test")),
                  Error);
}

TEST_CASE("exec/report: text nested beyond all bounds is an error, not the end of the stack") {
  constexpr std::size_t kDepth = 400'000;
  const std::string deep = std::string(kDepth, '[') + std::string(kDepth, ']');
  for (const char* field : {"prompt_tokens", "pace", "weights_bytes", "boot"}) {
    CAPTURE(field);
    const std::string text = "{\"" + std::string(field) + "\": " + deep + "}";
    CHECK_THROWS_AS(static_cast<void>(parse_run_options(text, "test")), Error);
    CHECK_THROWS_AS(static_cast<void>(parse_device_report(text, "test")), Error);
  }
}

TEST_CASE("exec/report: records survive the wire, half a record does not") {
  const TimeLog log{{.step = 1, .task = 2, .start_ns = 3, .end_ns = std::int64_t{1} << 50},
                    {.step = -1, .task = 0x7fffffff, .start_ns = -5, .end_ns = 0}};
  const std::string bytes = encode_times(log);
  CHECK(bytes.size() == 48);
  TimeLog back;
  decode_times(bytes, "test", back);
  REQUIRE(back.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(back[i].step == log[i].step);
    CHECK(back[i].task == log[i].task);
    CHECK(back[i].start_ns == log[i].start_ns);
    CHECK(back[i].end_ns == log[i].end_ns);
  }
  CHECK_THROWS_AS(decode_times(bytes.substr(1), "test", back), Error);
}

TEST_CASE("exec/result: spans of all devices merge on the master's clock") {
  const planner::Plan plan = testing::plan_for(testing::small_llama(), "tensor", 3, "equal", 5, 4);
  StepGraphs graphs(plan, plan.workload);
  const auto accounts = testing::even_accounts(plan, graphs, 4);
  const RunResult run = merge(plan, *first_steps(graphs, 4), accounts, true);
  const double prompt_s = 1e-3 * static_cast<double>(graphs.prompt().size());
  const double decode_s = 1e-3 * static_cast<double>(graphs.decode().size());
  CHECK(run.result.metrics.ttft_s == doctest::Approx(prompt_s));  // one task after the other
  REQUIRE(run.result.metrics.token_times_s.size() == 4);
  CHECK(run.result.metrics.token_times_s[3] == doctest::Approx(prompt_s + 3 * decode_s));
  const auto spans_of = [](const model::TaskGraph& graph) {
    return static_cast<std::size_t>(model::Program(graph).size());  // copies included
  };
  CHECK(run.trace.spans.size() == spans_of(graphs.prompt()) + 3 * spans_of(graphs.decode()));
  for (const model::Span& span : run.trace.spans) {
    CHECK(span.end - span.start == doctest::Approx(1e-3));
  }
  CHECK(run.result.origin == model::ResultOrigin::measured);
  CHECK(run.result.devices.size() == 3);
}

TEST_CASE("exec/result: dilated times are divided") {
  const planner::Plan plan = testing::plan_for(testing::small_llama(), "tensor", 3, "equal", 5, 4);
  StepGraphs graphs(plan, plan.workload);
  const auto accounts = testing::even_accounts(plan, graphs, 4);
  const model::Metrics plain = merge(plan, *first_steps(graphs, 4), accounts, true).result.metrics;
  const RunResult run = merge(plan, *first_steps(graphs, 4), accounts, true, 2.5);
  CHECK(run.result.metrics.ttft_s == doctest::Approx(plain.ttft_s / 2.5));
  CHECK(run.result.metrics.token_times_s[3] == doctest::Approx(plain.token_times_s[3] / 2.5));
  for (const model::Span& span : run.trace.spans) {
    CHECK(span.end - span.start == doctest::Approx(1e-3 / 2.5));
  }
}

TEST_CASE("exec/result: a report that cannot be true names its device") {
  const planner::Plan plan = testing::plan_for(testing::small_llama(), "tensor", 2, "equal", 5, 2);
  StepGraphs graphs(plan, plan.workload);
  const auto merged = [&](const std::vector<DeviceAccount>& accounts) {
    static_cast<void>(merge(plan, *first_steps(graphs, 2), accounts, true));
  };
  auto accounts = testing::even_accounts(plan, graphs, 2);
  CHECK_NOTHROW(merged(accounts));
  SUBCASE("a record is missing") { accounts[1].times.erase(accounts[1].times.begin() + 3); }
  SUBCASE("a copy of a message is missing") {
    std::vector<TaskTime>& times = accounts[1].times;
    times.erase(std::ranges::find_if(times, [](const TaskTime& time) { return time.task < 0; }));
  }
  SUBCASE("a task is another device's") { accounts[1].times[3].task = accounts[0].times[0].task; }
  SUBCASE("a task does not exist") { accounts[1].times[3].task = 1 << 20; }
  SUBCASE("a copy of what is no message") { accounts[1].times[3].task = -1; }
  SUBCASE("a step does not exist") { accounts[1].times.back().step = 2; }
  SUBCASE("a time lies beyond all clocks") {
    accounts[1].times[3].start_ns = std::numeric_limits<std::int64_t>::min();
  }
  SUBCASE("records are out of order") {
    std::swap(accounts[1].times.front(), accounts[1].times.back());
  }
  CHECK_THROWS_WITH_AS(merged(accounts), doctest::Contains("report of device device-1"), Error);
  // Told from the others' before they are merged, so that it costs nothing but itself.
  CHECK_THROWS_AS(check_report(plan, *first_steps(graphs, 2), 1, accounts[1], true), Error);
  CHECK_NOTHROW(check_report(plan, *first_steps(graphs, 2), 0, accounts[0], true));
  CHECK_NOTHROW(check_report(plan, *first_steps(graphs, 2), 1, accounts[1], false));
  accounts[1] = DeviceAccount();
  accounts[1].missing = true;
  CHECK_NOTHROW(merged(accounts));
}

TEST_CASE("exec/result: a tally that cannot be true names its device") {
  const planner::Plan plan = testing::plan_for(testing::small_llama(), "tensor", 2, "equal", 5, 2);
  StepGraphs graphs(plan, plan.workload);
  auto accounts = testing::even_accounts(plan, graphs, 2);
  DeviceTally& tally = accounts[1].report.tally;
  SUBCASE("of no steps") { tally = DeviceTally(); }
  SUBCASE("steps are missing") { tally.steps = 1; }
  SUBCASE("a task is missing") { --tally.kinds[static_cast<int>(model::TaskKind::attend)].count; }
  SUBCASE("a copy is missing") { --tally.kinds[static_cast<int>(model::TaskKind::deliver)].count; }
  SUBCASE("a task is another device's") {
    ++tally.kinds[static_cast<int>(model::TaskKind::sample)].count;
  }
  SUBCASE("a channel is missing") { tally.channels.pop_back(); }
  SUBCASE("a channel is told twice") { tally.channels.push_back(tally.channels.back()); }
  SUBCASE("a channel to nobody") { tally.channels.back().peer = 7; }
  SUBCASE("a message is missing") { --tally.channels.back().count; }
  for (const bool records : {false, true}) {
    CHECK_THROWS_WITH_AS(static_cast<void>(merge(plan, *first_steps(graphs, 2), accounts, records)),
                         doctest::Contains("report of device device-1"), Error);
    CHECK_THROWS_AS(check_report(plan, *first_steps(graphs, 2), 1, accounts[1], records), Error);
    CHECK_NOTHROW(check_report(plan, *first_steps(graphs, 2), 0, accounts[0], records));
  }
}

}  // namespace
}  // namespace tandem::exec::run_report_test
