#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "model/report/trace.hpp"
#include "tests/model/model_fixtures.hpp"

namespace tandem::model::perfetto_test {

using nlohmann::json;
using test::contains;
using test::error_of;

namespace {

Trace sample_trace() {
  Trace trace;
  trace.devices = {"laptop \"one\"", "box\n2"};
  trace.spans = {
      {.step = 0, .task = 0, .kind = TaskKind::embed, .start = 0.0, .end = 1.2345e-5, .bytes = 96},
      {.step = 0,
       .task = 1,
       .kind = TaskKind::transfer,
       .lane = LaneKind::channel,
       .device = 0,
       .peer = 1,
       .layer = 3,
       .start = 1e-5,
       .end = 5e-5,
       .bytes = 4096},
      {.step = 0,
       .task = 2,
       .kind = TaskKind::transfer,
       .lane = LaneKind::channel,
       .device = 0,
       .peer = 1,
       .layer = 3,
       .start = 2e-5,
       .end = 6e-5,
       .bytes = 4096},
      {.step = 1,
       .task = 0,
       .kind = TaskKind::ffn_up,
       .device = 1,
       .layer = 7,
       .start = 1.0,
       .end = 2.5,
       .bytes = 1e9,
       .flops = 5e8}};
  return trace;
}

}  // namespace

TEST_CASE("model/perfetto: metadata, complete events in microseconds, arguments") {
  const json document = json::parse(to_perfetto_json(sample_trace(), "predicted"));
  CHECK(document["displayTimeUnit"] == "ms");
  std::map<std::string, int> metadata;
  int complete = 0;
  for (const json& event : document["traceEvents"]) {
    if (event["ph"] == "M") {
      ++metadata[event["name"]];
      continue;
    }
    CHECK(event["ph"] == "X");
    ++complete;
    if (event["name"] != "ffn_up 7") continue;
    CHECK(event["ts"] == 1e6);
    CHECK(event["dur"] == 1.5e6);
    CHECK(event["args"]["flops"] == 5e8);
    CHECK(event["args"]["step"] == 1);
  }
  CHECK(complete == 4);
  CHECK(metadata["process_name"] == 2);
  CHECK(metadata["process_sort_index"] == 2);
  CHECK(metadata["thread_name"] == 4);  // cpu and two rows of a channel; cpu
  CHECK(metadata["thread_sort_index"] == 4);
}

TEST_CASE("model/perfetto: slices of a thread never overlap, whatever overlaps in a lane") {
  std::mt19937 random(3);
  Trace trace;
  trace.devices = {"a", "b", "c"};
  for (int i = 0; i < 2000; ++i) {
    const auto device = static_cast<DeviceIndex>(random() % 3);
    const bool cpu = random() % 4 == 0;
    const double start = 1e-6 * static_cast<double>(random() % 100000) / 7.0;
    trace.spans.push_back({.task = i,
                           .kind = cpu ? TaskKind::add : TaskKind::transfer,
                           .lane = cpu ? LaneKind::cpu : LaneKind::channel,
                           .device = device,
                           .peer = cpu ? -1 : (device + 1) % 3,
                           .start = start,
                           .end = start + 1e-6 * static_cast<double>(random() % 300) / 3.0});
  }
  std::map<std::pair<int, int>, std::int64_t> free;  // nanoseconds, by process and thread
  const json document = json::parse(to_perfetto_json(trace, "x"));
  int count = 0;
  for (const json& event : document["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++count;
    const auto start = std::llround(event["ts"].get<double>() * 1e3);
    std::int64_t& end = free[{event["pid"], event["tid"]}];
    CHECK(start >= end);
    end = start + std::llround(event["dur"].get<double>() * 1e3);
  }
  CHECK(count == 2000);
}

TEST_CASE("model/perfetto: reads back what it wrote, times to the nanosecond") {
  const Trace trace = sample_trace();
  const Trace back = parse_perfetto_json(to_perfetto_json(trace, "measured"), "t.json");
  CHECK(back.devices == trace.devices);
  REQUIRE(back.spans.size() == trace.spans.size());
  for (const Span& a : back.spans) {
    const auto original = std::find_if(trace.spans.begin(), trace.spans.end(), [&](const Span& b) {
      return a.step == b.step && a.task == b.task;
    });
    REQUIRE(original != trace.spans.end());
    const Span& b = *original;
    CHECK(std::tie(a.kind, a.lane, a.device, a.peer, a.layer, a.bytes, a.flops) ==
          std::tie(b.kind, b.lane, b.device, b.peer, b.layer, b.bytes, b.flops));
    CHECK(std::abs(a.start - b.start) < 1e-9);
    CHECK(std::abs(a.end - b.end) < 1e-9);
  }
  CHECK(parse_perfetto_json(to_perfetto_json(Trace{}, ""), "t").spans.empty());
}

TEST_CASE("model/perfetto: traces of one plan stand side by side, device by device") {
  const json document = json::parse(to_perfetto_json(
      {{"predicted", sample_trace()}, {"replayed", sample_trace()}, {"measured", sample_trace()}}));
  std::map<int, std::string> processes;
  int complete = 0;
  for (const json& event : document["traceEvents"]) {
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (event["ph"] == "X") ++complete;
  }
  CHECK(complete == 12);
  CHECK(processes == std::map<int, std::string>{{1, "laptop \"one\" [predicted]"},
                                                {2, "laptop \"one\" [replayed]"},
                                                {3, "laptop \"one\" [measured]"},
                                                {4, "box\n2 [predicted]"},
                                                {5, "box\n2 [replayed]"},
                                                {6, "box\n2 [measured]"}});
}

TEST_CASE("model/perfetto: every wrong field costs one line that names it") {
  const auto message = [](auto change) {
    json document = json::parse(to_perfetto_json(sample_trace(), "x"));
    for (json& event : document["traceEvents"]) {
      if (event["ph"] == "X") change(event);
    }
    return error_of([&] { return parse_perfetto_json(document.dump(), "t.json"); });
  };
  CHECK(message([](json&) {}).empty());
  CHECK(contains(message([](json& e) { e["ph"] = "B"; }), "ph' is \"B\", expected M or X"));
  CHECK(contains(message([](json& e) { e["cat"] = "dance"; }), "cat' is \"dance\""));
  CHECK(contains(message([](json& e) { e["args"]["lane"] = "gpu"; }), "args.lane' is \"gpu\""));
  CHECK(contains(message([](json& e) { e["args"]["device"] = 2; }), "args.device' is 2"));
  CHECK(contains(message([](json& e) { e["args"]["peer"] = -2; }), "args.peer' is -2"));
  CHECK(contains(message([](json& e) { e["args"].erase("step"); }), "args.step' is missing"));
  CHECK(contains(message([](json& e) { e["dur"] = -1; }), "dur' is -1"));
  CHECK(contains(message([](json& e) { e["ts"] = nullptr; }), "ts' is null"));
  CHECK(contains(error_of([] { return parse_perfetto_json("{}", "t"); }), "'traceEvents' is miss"));
}

}  // namespace tandem::model::perfetto_test
