// What devices tell each other about a run, as text and bytes.

#include <limits>
#include <nlohmann/json.hpp>

#include "exec/runtime/device_run.hpp"
#include "model/error.hpp"
#include "model/json_value.hpp"

namespace tandem::exec {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kRecordBytes = 24;
constexpr double kMostDilation = 1e6;

constexpr std::string_view kRemedy = "use the same version of tandem on both sides";

double amount(const model::JsonValue& object, std::string_view field) {
  return object.at(field).number(0.0, std::numeric_limits<double>::max());
}

void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

std::uint64_t get(std::string_view bytes, std::size_t at, int count) {
  std::uint64_t value = 0;
  for (int i = 0; i < count; ++i) {
    value |= static_cast<std::uint64_t>(
                 static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(i)]))
             << (8 * i);
  }
  return value;
}

}  // namespace

std::string_view to_string(Pace pace) {
  switch (pace) {
    case Pace::real:
      return "real";
    case Pace::measured:
      return "measured";
    case Pace::nominal:
      return "nominal";
  }
  throw std::logic_error("to_string: no such pace");
}

std::string to_json(const RunOptions& options) {
  return Json{{"prompt_tokens", options.workload.prompt_tokens},
              {"new_tokens", options.workload.new_tokens},
              {"pace", to_string(options.pace)},
              {"dilation", options.dilation},
              {"scored_rows", options.scored_rows}}
      .dump();
}

RunOptions parse_run_options(std::string_view text, std::string_view source) {
  const model::JsonDocument document(text, source, kRemedy);
  const model::JsonValue root = document.root();
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  RunOptions options;
  options.workload.prompt_tokens = root.at("prompt_tokens").integer(1, kMost);
  options.workload.new_tokens = root.at("new_tokens").integer(0, kMost);
  options.scored_rows =
      static_cast<std::int32_t>(root.at("scored_rows").integer(0, options.workload.prompt_tokens));
  const model::JsonValue given = root.at("pace");
  for (const Pace pace : {Pace::real, Pace::measured, Pace::nominal}) {
    if (given.text() != to_string(pace)) continue;
    options.pace = pace;
    const model::JsonValue dilation = root.at("dilation");
    options.dilation = dilation.number(1.0, kMostDilation);
    if (pace == Pace::real && options.dilation != 1.0) dilation.fail("1 without emulation");
    return options;
  }
  given.fail("real, measured or nominal");
}

std::string to_json(const DeviceReport& report) {
  const model::MemoryUse& memory = report.peak_memory;
  return Json{{"weights_bytes", memory.weights},
              {"kv_cache_bytes", memory.kv_cache},
              {"activations_bytes", memory.activations},
              {"buffers_bytes", memory.buffers},
              {"program_bytes", memory.program},
              {"bytes_sent", report.bytes_sent},
              {"mean_late_s", report.mean_late_s},
              {"max_late_s", report.max_late_s},
              {"clock_ns", report.clock_ns},
              {"boot", report.boot}}
      .dump();
}

DeviceReport parse_device_report(std::string_view text, std::string_view source) {
  const model::JsonDocument document(text, source, kRemedy);
  const model::JsonValue root = document.root();
  return {.peak_memory = {.weights = amount(root, "weights_bytes"),
                          .kv_cache = amount(root, "kv_cache_bytes"),
                          .activations = amount(root, "activations_bytes"),
                          .buffers = amount(root, "buffers_bytes"),
                          .program = amount(root, "program_bytes")},
          .bytes_sent = amount(root, "bytes_sent"),
          .mean_late_s = amount(root, "mean_late_s"),
          .max_late_s = amount(root, "max_late_s"),
          .clock_ns = root.at("clock_ns").integer(0, std::int64_t{1} << 61),
          .boot = root.at("boot").text()};
}

std::string encode_times(std::span<const TaskTime> times) {
  std::string bytes;
  bytes.reserve(times.size() * kRecordBytes);
  for (const TaskTime& time : times) {
    put(bytes, static_cast<std::uint32_t>(time.step), 4);
    put(bytes, static_cast<std::uint32_t>(time.task), 4);
    put(bytes, static_cast<std::uint64_t>(time.start_ns), 8);
    put(bytes, static_cast<std::uint64_t>(time.end_ns), 8);
  }
  return bytes;
}

void decode_times(std::string_view bytes, std::string_view source, TimeLog& into) {
  if (bytes.size() % kRecordBytes != 0) {
    throw Error(std::string(source) + ": " + std::to_string(bytes.size()) +
                " bytes of spans, expected a multiple of 24; " + std::string(kRemedy));
  }
  for (std::size_t at = 0; at < bytes.size(); at += kRecordBytes) {
    into.push_back({.step = static_cast<std::int32_t>(get(bytes, at, 4)),
                    .task = static_cast<model::TaskIndex>(get(bytes, at + 4, 4)),
                    .start_ns = static_cast<std::int64_t>(get(bytes, at + 8, 8)),
                    .end_ns = static_cast<std::int64_t>(get(bytes, at + 16, 8))});
  }
}

}  // namespace tandem::exec
