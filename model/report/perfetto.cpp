// Traces as Chrome trace-event JSON, which ui.perfetto.dev opens.
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

#include "model/base/error.hpp"
#include "model/base/file_kind.hpp"
#include "model/base/json_value.hpp"
#include "model/report/trace.hpp"

namespace tandem::model {

using nlohmann::ordered_json;

namespace {

constexpr std::int64_t kMaxIndex = std::numeric_limits<std::int32_t>::max();

// Appends events to the array of a document.
class Writer {
 public:
  void add(const ordered_json& event) {
    text_ += text_.empty() ? kOpening : ",\n";
    text_ += event.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  }
  [[nodiscard]] std::string finish() {
    if (text_.empty()) text_ = kOpening;
    return std::move(text_) + "\n],\"displayTimeUnit\":\"ms\"}\n";
  }

 private:
  static constexpr std::string_view kOpening = "{\"traceEvents\":[\n";
  std::string text_;
};

void add_metadata(Writer& writer, const char* name, std::int64_t pid, std::int64_t tid,
                  const ordered_json& args) {
  writer.add({{"ph", "M"}, {"name", name}, {"pid", pid}, {"tid", tid}, {"args", args}});
}

std::int64_t nanoseconds(double seconds) {
  constexpr double kMaxNanoseconds = 9e18;
  if (std::isnan(seconds)) return 0;
  return std::llround(std::clamp(seconds * 1e9, -kMaxNanoseconds, kMaxNanoseconds));
}

// A lane of a device: its kind, then the receiver of a channel.
using LaneKey = std::tuple<DeviceIndex, LaneKind, DeviceIndex>;

std::string lane_name(const Trace& trace, const LaneKey& lane, std::size_t row) {
  const auto& [device, kind, peer] = lane;
  std::string name(to_string(kind));
  const auto p = static_cast<std::size_t>(peer);
  if (kind == LaneKind::channel) {
    name = "to " + (p < trace.devices.size() ? trace.devices[p] : std::to_string(peer));
  }
  if (row > 0) name += " (" + std::to_string(row + 1) + ")";
  return name;
}

ordered_json event_of(const Span& span, std::int64_t pid, std::int64_t tid) {
  std::string name(to_string(span.kind));
  if (span.layer >= 0) name += " " + std::to_string(span.layer);
  const std::int64_t start = nanoseconds(span.start);
  const std::int64_t end = std::max(start, nanoseconds(span.end));
  constexpr double kPerMicrosecond = 1000.0;
  return {{"ph", "X"},
          {"name", name},
          {"cat", std::string(to_string(span.kind))},
          {"ts", static_cast<double>(start) / kPerMicrosecond},
          {"dur", static_cast<double>(end - start) / kPerMicrosecond},
          {"pid", pid},
          {"tid", tid},
          {"args",
           {{"step", span.step},
            {"task", span.task},
            {"device", span.device},
            {"lane", std::string(to_string(span.lane))},
            {"peer", span.peer},
            {"layer", span.layer},
            {"bytes", span.bytes},
            {"flops", span.flops}}}};
}

// A process for each device, pid first_pid + stride * device, and a thread for each lane. Spans of
// a lane that overlap, as messages in flight do, go to further threads, because slices of one
// thread must nest.
void add_trace(Writer& writer, const Trace& trace, std::string_view label, std::int64_t first_pid,
               std::int64_t stride) {
  for (std::size_t d = 0; d < trace.devices.size(); ++d) {
    const std::int64_t pid = first_pid + stride * static_cast<std::int64_t>(d);
    add_metadata(writer, "process_name", pid, 0,
                 {{"name", trace.devices[d] + " [" + std::string(label) + "]"},
                  {"device", trace.devices[d]}});
    add_metadata(writer, "process_sort_index", pid, 0, {{"sort_index", pid}});
  }
  std::map<LaneKey, std::vector<const Span*>> lanes;
  for (const Span& span : trace.spans) {
    require(span.device >= 0 && static_cast<std::size_t>(span.device) < trace.devices.size(),
            "perfetto: a span of a device that the trace does not name");
    lanes[{span.device, span.lane, span.peer}].push_back(&span);
  }
  std::map<DeviceIndex, std::int64_t> threads;  // so far, by device
  for (auto& [lane, spans] : lanes) {
    std::stable_sort(spans.begin(), spans.end(),
                     [](const Span* a, const Span* b) { return a->start < b->start; });
    const DeviceIndex device = std::get<0>(lane);
    const std::int64_t pid = first_pid + stride * device;
    std::vector<std::int64_t> row_end;  // nanoseconds
    std::vector<std::int64_t> row_thread;
    for (const Span* span : spans) {
      const std::int64_t start = nanoseconds(span->start);
      const auto fits = std::find_if(row_end.begin(), row_end.end(),
                                     [&](std::int64_t end) { return end <= start; });
      const auto row = static_cast<std::size_t>(fits - row_end.begin());
      if (fits == row_end.end()) {
        const std::int64_t thread = ++threads[device];
        row_end.push_back(0);
        row_thread.push_back(thread);
        add_metadata(writer, "thread_name", pid, thread, {{"name", lane_name(trace, lane, row)}});
        add_metadata(writer, "thread_sort_index", pid, thread, {{"sort_index", thread}});
      }
      row_end[row] = std::max(start, nanoseconds(span->end));
      writer.add(event_of(*span, pid, row_thread[row]));
    }
  }
}

template <class Enum>
Enum named(const JsonValue& field, int count, const char* expected) {
  const std::string name = field.text(64);
  for (int i = 0; i < count; ++i) {
    if (to_string(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  field.fail(expected);
}

std::int32_t index_field(const JsonValue& args, std::string_view key, std::int64_t min,
                         std::int64_t max) {
  return static_cast<std::int32_t>(args.at(key).integer(min, max));
}

Span read_span(const JsonValue& event, std::int64_t devices) {
  constexpr double kMaxMicroseconds = 1e12;  // beyond, a double holds no nanoseconds
  constexpr double kMaxAmount = 1e300;
  const JsonValue args = event.at("args");
  Span span;
  span.kind = named<TaskKind>(event.at("cat"), kTaskKinds, "a task kind");
  span.lane = named<LaneKind>(args.at("lane"), 3, "cpu, disk or channel");
  span.step = index_field(args, "step", 0, kMaxIndex);
  span.task = index_field(args, "task", 0, kMaxIndex);
  span.device = index_field(args, "device", 0, devices - 1);
  span.peer = index_field(args, "peer", -1, devices - 1);
  span.layer = index_field(args, "layer", -1, kMaxIndex);
  span.bytes = args.at("bytes").number(0.0, kMaxAmount);
  span.flops = args.at("flops").number(0.0, kMaxAmount);
  const double start_us = event.at("ts").number(-kMaxMicroseconds, kMaxMicroseconds);
  span.start = start_us * 1e-6;
  span.end = (start_us + event.at("dur").number(0.0, kMaxMicroseconds)) * 1e-6;
  return span;
}

}  // namespace

std::string to_perfetto_json(const Trace& trace, std::string_view label) {
  Writer writer;
  add_trace(writer, trace, label, 1, 1);
  return writer.finish();
}

std::string to_perfetto_json(const std::vector<LabelledTrace>& traces) {
  Writer writer;
  const auto count = static_cast<std::int64_t>(traces.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const LabelledTrace& one = traces[static_cast<std::size_t>(i)];
    add_trace(writer, one.trace, one.label, 1 + i, count);
  }
  return writer.finish();
}

Trace parse_perfetto_json(std::string_view text, std::string_view source) {
  expect_kind(text, source, kTraceKind);
  const JsonDocument document(text, source, "write the trace again with --trace",
                              {.bytes = std::size_t{1} << 30U, .depth = 8});
  const JsonValue events = document.root().at("traceEvents");
  const std::size_t count = events.size(std::size_t{1} << 26U);
  Trace trace;
  for (std::size_t i = 0; i < count; ++i) {
    const JsonValue event = events.at(i);
    if (event.at("ph").text(8) != "M" || event.at("name").text() != "process_name") continue;
    const JsonValue pid = event.at("pid");
    const auto expected = static_cast<std::int64_t>(trace.devices.size()) + 1;
    if (pid.integer(1, kMaxIndex) != expected) {
      pid.fail(std::to_string(expected) + ", as one process follows the other");
    }
    trace.devices.push_back(event.at("args").at("device").text());
  }
  const auto devices = static_cast<std::int64_t>(trace.devices.size());
  for (std::size_t i = 0; i < count; ++i) {
    const JsonValue event = events.at(i);
    const JsonValue phase = event.at("ph");
    const std::string kind = phase.text(8);
    if (kind == "X") {
      trace.spans.push_back(read_span(event, devices));
    } else if (kind != "M") {
      phase.fail("M or X");
    }
  }
  return trace;
}

}  // namespace tandem::model
