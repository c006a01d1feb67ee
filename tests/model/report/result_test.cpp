#include "model/report/result.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "tests/model/model_fixtures.hpp"

namespace tandem::model::result_test {

using nlohmann::json;
using test::contains;
using test::error_of;

namespace {

Result measured() {
  Result r;
  r.origin = ResultOrigin::measured_emulated;
  r.evaluator = "exec";
  r.plan = {.sha256 = "ab", .strategy = "tensor", .model = "tandem-demo", .platform = "home"};
  r.weights_sha256 = std::string(64, 'a');
  r.environment = {{"seed", "42"}, {"machine", "2 cores"}};
  r.metrics = {.ready_s = 1.25, .ttft_s = 0.5, .token_times_s = {0.5, 0.6, 0.8}};
  r.tokens = {104, 105, 10};
  r.steady = Steady{.verdict = "stalling", .stall_fraction = 0.25, .slack_s = -0.125};
  r.devices = {
      {.name = "a",
       .peak_memory = {.weights = 1, .kv_cache = 2, .activations = 3, .buffers = 4, .program = 5},
       .bytes_sent = 6,
       .bytes_loaded = 7,
       .busy_cpu_s = 8,
       .busy_disk_s = 9,
       .busy_channel_s = 10,
       .stall_s = 11}};
  r.links = {{.name = "wifi", .bytes = 12}};
  r.task_kinds = {
      {.device = "a", .kind = TaskKind::ffn_up, .metrics = {.count = 13, .total_s = 1.4}}};
  r.communication = Communication{.total_s = 2.0, .hidden_s = 0.5};
  r.prompt_communication = Communication{.total_s = 1.0, .hidden_s = 0.75};
  r.trace = "trace.json";
  return r;
}

template <class Change>
std::string message(Change change) {
  json text = json::parse(to_json(measured()));
  change(text);
  return error_of([&] { return parse_result_json(text.dump(), "r.json"); });
}

}  // namespace

TEST_CASE("model/result: results of the schema before are read, without the weights' digest") {
  json before = json::parse(to_json(measured()));
  before["schema"] = "tandem.result/5";
  before["pace"] = "measured";
  before.erase("weights_sha256");
  const Result result = parse_result_json(before.dump(), "r.json");
  CHECK_FALSE(result.weights_sha256);
  CHECK(result.tokens == measured().tokens);
  before["schema"] = "tandem.result/6";
  CHECK(contains(error_of([&] { return parse_result_json(before.dump(), "r.json"); }),
                 "weights_sha256"));
  before["schema"] = "tandem.result/4";
  CHECK(contains(error_of([&] { return parse_result_json(before.dump(), "r.json"); }),
                 "tandem.result/7"));
}

TEST_CASE("model/result: every origin is written as a kind and a pace, and read back") {
  const std::set<std::string> kinds{"predicted", "replayed", "measured"};
  std::set<std::string> seen;
  for (const ResultOriginNames& names : kResultOrigins) {
    CAPTURE(names.kind);
    Result r = measured();
    r.origin = names.origin;
    const json j = json::parse(to_json(r));
    CHECK(j["kind"] == names.kind);
    CHECK((names.pace ? j["pace"] == *names.pace : j["pace"].is_null()));
    CHECK(kinds.contains(std::string(names.kind)));
    CHECK(seen.insert(j["pace"].dump()).second);  // the pace alone tells origins apart
    CHECK(parse_result_json(to_json(r), "r").origin == names.origin);
  }
  CHECK(seen.size() == 5);
}

TEST_CASE("model/result: a kind and a pace that contradict each other are rejected") {
  const auto with = [](const json& kind, const json& pace) {
    return message([&](json& j) {
      j["kind"] = kind;
      j["pace"] = pace;
    });
  };
  CHECK(with("replayed", "replayed").empty());
  CHECK(with("predicted", nullptr).empty());
  CHECK(contains(with("measured", "replayed"),
                 "'pace' is \"replayed\", expected \"measured (emulated)\" or \"measured "
                 "(testbed)\" or \"measured\" where 'kind' is \"measured\""));
  CHECK(contains(with("predicted", "measured"), "'pace' is \"measured\", expected null"));
  CHECK(contains(with("measured", nullptr), "'pace' is null"));
  CHECK(contains(with("replayed", "nominal"), "'pace' is \"nominal\""));
}

TEST_CASE("model/result: a run at nominal pace of an older schema is read as replayed") {
  const auto read = [](const char* schema, const char* kind, const json& pace) {
    json j = json::parse(to_json(measured()));
    j["schema"] = schema;
    j["kind"] = kind;
    j["pace"] = pace;
    if (std::string_view(schema) == "tandem.result/5") j.erase("weights_sha256");
    return parse_result_json(j.dump(), "r.json").origin;
  };
  for (const char* const schema : {"tandem.result/5", "tandem.result/6"}) {
    CAPTURE(schema);
    CHECK(read(schema, "measured", "nominal") == ResultOrigin::replayed);
    CHECK(read(schema, "measured", "measured") == ResultOrigin::measured_emulated);
    CHECK(read(schema, "measured", nullptr) == ResultOrigin::measured);
    CHECK(read(schema, "predicted", nullptr) == ResultOrigin::predicted);
    CHECK(contains(error_of([&] { return read(schema, "predicted", "nominal"); }), "'pace'"));
    CHECK(contains(error_of([&] { return read(schema, "measured", "replayed"); }), "'pace'"));
    CHECK(contains(error_of([&] { return read(schema, "replayed", "nominal"); }), "'kind'"));
  }
}

TEST_CASE("model/result: a weights' digest that is none is refused") {
  for (const json& bad : {json("ab"), json(std::string(64, 'g')), json(std::string(64, 'A')),
                          json(std::string(65, 'a')), json(1)}) {
    CAPTURE(bad);
    CHECK(contains(message([&](json& j) { j["weights_sha256"] = bad; }), "weights_sha256"));
  }
}

TEST_CASE("model/result: the keys of the result file, in their places") {
  const json j = json::parse(to_json(measured()));
  CHECK(j["schema"] == "tandem.result/7");
  CHECK(j["weights_sha256"] == std::string(64, 'a'));
  CHECK(j["kind"] == "measured");
  CHECK(j["pace"] == "measured (emulated)");
  CHECK(j["metrics"]["ready_s"] == 1.25);
  CHECK(j["metrics"]["ttft_s"] == 0.5);
  CHECK(j["metrics"]["token_latency_s"]["mean"].get<double>() == doctest::Approx(0.15));
  CHECK(j["metrics"]["token_latency_s"]["p50"].get<double>() == doctest::Approx(0.15));
  CHECK(j["metrics"]["token_latency_s"]["p90"].get<double>() == doctest::Approx(0.19));
  CHECK(j["metrics"]["token_latency_s"]["p99"].get<double>() == doctest::Approx(0.199));
  CHECK(j["tokens"] == json({104, 105, 10}));
  CHECK(j["steady"]["verdict"] == "stalling");
  CHECK(j["devices"][0]["peak_memory_bytes"]["total"] == 15.0);
  CHECK(j["devices"][0]["busy_s"]["channel"] == 10.0);
  CHECK(j["links"][0] == json({{"name", "wifi"}, {"bytes", 12.0}}));
  CHECK(j["task_kinds"][0]["kind"] == "ffn_up");
  CHECK(j["communication"]["hidden_fraction"] == 0.25);
  CHECK(j["communication"]["prompt"]["hidden_fraction"] == 0.75);
  CHECK(j["communication"]["new_tokens"].is_null());
  CHECK(j["trace"] == "trace.json");
}

TEST_CASE("model/result: what does not apply is null, never absent") {
  Result r;
  r.origin = ResultOrigin::predicted;
  r.evaluator = "analytic";
  r.metrics.ttft_s = std::nan("");
  r.metrics.token_times_s = {1.0};
  const json j = json::parse(to_json(r));
  for (const char* key :
       {"schema", "kind", "evaluator", "pace", "plan", "environment", "metrics", "tokens", "steady",
        "devices", "links", "task_kinds", "communication", "trace"}) {
    CAPTURE(key);
    CHECK(j.contains(key));
  }
  CHECK(j["pace"].is_null());
  CHECK(j["tokens"].is_null());
  CHECK(j["steady"].is_null());
  CHECK(j["communication"].is_null());
  CHECK(j["trace"].is_null());
  CHECK(j["metrics"]["ttft_s"].is_null());
  CHECK(j["metrics"]["ready_s"].is_null());
  CHECK(j["metrics"]["token_latency_s"]["p99"].is_null());
  CHECK(j["environment"].is_object());
  const Result back = parse_result_json(to_json(r), "r");
  CHECK(std::isnan(back.metrics.ttft_s));
  CHECK(back.tokens.empty());
  CHECK(back.origin == ResultOrigin::predicted);
  CHECK(to_json(back) == to_json(r));
}

TEST_CASE("model/result: reads back what it wrote") {
  const Result back = parse_result_json(to_json(measured()), "r");
  CHECK(to_json(back) == to_json(measured()));
  CHECK(back.devices[0].peak_memory == measured().devices[0].peak_memory);
  CHECK(back.environment == measured().environment);
  CHECK(back.task_kinds[0].metrics.count == 13);
  REQUIRE(back.steady);
  CHECK(back.steady->slack_s == -0.125);
}

TEST_CASE("model/result: an interval has its own time") {
  const auto with = [](const json& intervals) {
    return message([&](json& r) { r["metrics"]["interval_90"] = intervals; });
  };
  CHECK(contains(with({{"ttft_s", {0.6, 0.7}}}), "'metrics.interval_90.ttft_s'"));
  CHECK(contains(with({{"ttft_s", {0.1, 0.4}}}), "[low, high] around the predicted 0.5"));
  const json gap{0.1, 0.2};
  const json far{1.0, 2.0};
  CHECK(contains(
      with({{"token_latency_s", {{"mean", gap}, {"p50", gap}, {"p90", gap}, {"p99", far}}}}),
      "'metrics.interval_90.token_latency_s.p99'"));
  json fitting = json::parse(to_json(measured()));
  fitting["metrics"]["interval_90"] = {{"ttft_s", {0.5, 0.5}}, {"end_s", far}};
  CHECK(parse_result_json(fitting.dump(), "r.json").interval_90);
}

TEST_CASE("model/result: many requests, and the steps that were made for them") {
  Result r = measured();
  r.tokens.clear();
  r.metrics = {.ttft_s = std::nan(""),
               .token_latency = LatencyStats{.mean = 0.1, .p50 = 0.2, .p90 = 0.3, .p99 = 0.4},
               .throughput_tokens_per_s = 12.5};
  r.requests = {{.id = "a",
                 .arrival_s = 0.25,
                 .queueing_s = 0.5,
                 .ttft_s = 1.0,
                 .end_s = 3.0,
                 .token_latency = latency_stats({0.5, 0.7}),
                 .token_times_s = {1.0, 1.5, 2.75},
                 .tokens = {7, 8, 9}},
                {.id = "b", .token_latency = latency_stats({})}};
  r.schedule = {{.not_before_s = 0.25,
                 .batch = {.segments = {{.sequence = 0, .past = 0, .rows = 4, .sampled = 1}}}},
                {.not_before_s = 1.25,
                 .batch = {.segments = {{.sequence = 1, .past = 0, .rows = 2, .sampled = 0},
                                        {.sequence = 0, .past = 4, .rows = 1, .sampled = 1}}}}};
  const std::string text = to_json(r);
  const json j = json::parse(text);
  CHECK(j["metrics"]["ttft_s"].is_null());
  CHECK(j["metrics"]["token_times_s"].is_null());
  CHECK(j["metrics"]["token_latency_s"]["p90"] == 0.3);
  CHECK(j["metrics"]["throughput_tokens_per_s"] == 12.5);
  CHECK(j["tokens"].is_null());
  CHECK(j["requests"][0]["queueing_s"] == 0.5);
  CHECK(j["requests"][0]["token_latency_s"]["mean"] == doctest::Approx(0.6));
  CHECK(j["requests"][0]["token_times_s"] == json({1.0, 1.5, 2.75}));
  CHECK(j["requests"][1]["token_latency_s"]["mean"].is_null());
  CHECK(j["requests"][1]["token_times_s"] == json::array());
  CHECK(j["requests"][1]["tokens"].is_null());
  CHECK(j["schedule"][1]["segments"] == json({{1, 0, 2, 0}, {0, 4, 1, 1}}));
  const Result back = parse_result_json(text, "r");
  CHECK(to_json(back) == text);
  CHECK(back.schedule == r.schedule);
  const auto error_with = [&](const json& times) {
    json other = j;
    other["requests"][0]["token_times_s"] = times;
    return error_of([&] { static_cast<void>(parse_result_json(other.dump(), "r")); });
  };
  CHECK(contains(error_with({1.0, 2.75}), "3 tokens"));
  CHECK(contains(error_with({1.0, 2.8, 2.75}), "before it"));
  CHECK(contains(error_with({0.9, 1.5, 2.75}), "ttft_s first"));
  CHECK(contains(error_with({1.0, 1.5, 2.5}), "end_s last"));
  json before = j;  // results of earlier versions
  before["requests"][0].erase("token_times_s");
  CHECK(parse_result_json(before.dump(), "r").requests[0].token_times_s.empty());

  const auto wrong = [&](const auto& change) {
    json changed = j;
    change(changed);
    return error_of([&] { return parse_result_json(changed.dump(), "r.json"); });
  };
  CHECK(contains(wrong([](json& x) { x["requests"][0].erase("end_s"); }), "end_s"));
  CHECK(contains(wrong([](json& x) { x["requests"][0]["who"] = 1; }), "who"));
  CHECK(contains(wrong([](json& x) { x["requests"][0]["arrival_s"] = nullptr; }), "arrival_s"));
  CHECK(contains(wrong([](json& x) { x["schedule"][0]["segments"] = json::array(); }),
                 "at least one segment"));
  CHECK(contains(wrong([](json& x) {
                   x["schedule"][0]["segments"][0] = {0, 0, 1};
                 }),
                 "[sequence, past, rows, sampled]"));
  CHECK(contains(wrong([](json& x) {
                   x["schedule"][0]["segments"][0] = {0, 0, 1, 2};
                 }),
                 "no more sampled rows than rows"));
  CHECK(contains(wrong([](json& x) { x["schedule"][0]["segments"][0] = {-1, 0, 1, 1}; }), "-1"));
}

TEST_CASE("model/result: a run of one request has its times as the request's") {
  Result r = measured();
  set_only_request(r);
  REQUIRE(r.requests.size() == 1);
  CHECK(r.requests[0].ttft_s == 0.5);
  CHECK(r.requests[0].end_s == 0.8);
  CHECK(r.requests[0].tokens == r.tokens);
  CHECK(r.metrics.throughput_tokens_per_s == doctest::Approx(3 / 0.8));
}

TEST_CASE("model/result: every wrong field costs one line that names it") {
  CHECK(message([](json&) {}).empty());
  CHECK(contains(message([](json& j) { j["schema"] = "x"; }), "r.json: field 'schema' is \"x\""));
  CHECK(contains(message([](json& j) { j["kind"] = "guessed"; }), "'kind' is \"guessed\""));
  CHECK(contains(message([](json& j) { j["evaluator"] = 1; }), "'evaluator' is 1"));
  CHECK(contains(message([](json& j) { j["pace"] = "fast"; }), "'pace' is \"fast\""));
  CHECK(contains(message([](json& j) { j.erase("pace"); }), "'pace' is missing"));
  CHECK(contains(message([](json& j) { j["plan"].erase("model"); }), "'plan.model' is missing"));
  CHECK(
      contains(message([](json& j) { j["environment"] = json::array(); }), "'environment' is an"));
  CHECK(
      contains(message([](json& j) { j["environment"]["seed"] = 1; }), "'environment.seed' is 1"));
  CHECK(contains(message([](json& j) { j["metrics"]["ready_s"] = "soon"; }), "'metrics.ready_s'"));
  CHECK(contains(message([](json& j) { j["devices"][0]["peak_memory_bytes"]["total"] = 16; }),
                 "'devices[0].peak_memory_bytes.total' is 16, expected the sum of the others"));
  CHECK(contains(message([](json& j) { j["metrics"].erase("ready_s"); }), "is missing"));
  CHECK(contains(message([](json& j) { j["metrics"]["ttft_s"] = -1; }), "'metrics.ttft_s' is -1"));
  CHECK(contains(message([](json& j) { j["metrics"]["token_latency_s"]["p50"] = "x"; }),
                 "'metrics.token_latency_s.p50' is \"x\""));
  CHECK(contains(message([](json& j) { j["metrics"]["token_times_s"][1] = "t"; }),
                 "'metrics.token_times_s[1]' is \"t\""));
  CHECK(contains(message([](json& j) { j["metrics"]["token_times_s"][1] = 0.4; }),
                 "'metrics.token_times_s[1]' is 0.4, expected no time before"));
  CHECK(contains(message([](json& j) { j["tokens"][0] = -1; }), "'tokens[0]' is -1"));
  CHECK(contains(message([](json& j) { j["steady"]["verdict"] = "?"; }), "'steady.verdict' is"));
  CHECK(contains(message([](json& j) { j["devices"] = 1; }), "'devices' is 1, expected an array"));
  CHECK(contains(message([](json& j) { j["devices"][0]["bytes_sent"] = -5; }),
                 "'devices[0].bytes_sent' is -5"));
  CHECK(contains(message([](json& j) { j["devices"][0]["busy_s"].erase("disk"); }),
                 "'devices[0].busy_s.disk' is missing"));
  CHECK(contains(message([](json& j) { j["links"][0]["extra"] = 1; }), "unknown field \"extra\""));
  CHECK(contains(message([](json& j) { j["task_kinds"][0]["kind"] = "?"; }), "a task kind"));
  CHECK(contains(message([](json& j) { j["task_kinds"][0]["count"] = 1.5; }), "count' is 1.5"));
  CHECK(contains(message([](json& j) { j["trace"] = 5; }), "'trace' is 5"));
  CHECK(contains(message([](json& j) { j["more"] = 5; }), "unknown field \"more\""));
}

TEST_CASE("model/result: communication is told by phase of one request, and at once of several") {
  const auto message = [](std::int32_t step, double start, double end) {
    return Span{.step = step,
                .kind = TaskKind::transfer,
                .lane = LaneKind::channel,
                .device = 0,
                .peer = 1,
                .start = start,
                .end = end};
  };
  const Trace trace{.devices = {"a", "b"},
                    .spans = {message(0, 0.0, 2.0), message(1, 2.0, 3.0), message(2, 4.0, 5.0)}};
  Result one;
  set_communication(one, trace);
  CHECK(one.communication->total_s == doctest::Approx(8.0));
  CHECK(one.prompt_communication->total_s == doctest::Approx(4.0));
  CHECK(one.token_communication->total_s == doctest::Approx(4.0));
  Result several;
  several.schedule.resize(1);
  set_communication(several, trace);
  CHECK(several.communication->total_s == doctest::Approx(8.0));
  CHECK_FALSE(several.prompt_communication);
  CHECK_FALSE(several.token_communication);
}

}  // namespace tandem::model::result_test
