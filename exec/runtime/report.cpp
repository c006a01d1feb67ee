// What devices tell each other about a run, as text and bytes.

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "exec/runtime/device_run.hpp"
#include "model/error.hpp"

namespace tandem::exec {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kRecordBytes = 24;

Json parse_object(std::string_view text, std::string_view source) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    throw Error(std::string(source) +
                ": not a JSON object; use the same version of tandem on both "
                "sides");
  }
  return json;
}

[[noreturn]] void bad_field(std::string_view source, const char* field, const Json& object,
                            const char* expected) {
  const auto found = object.find(field);
  throw Error(std::string(source) + ": " + field + ": " +
              (found == object.end() ? "missing" : found->dump().substr(0, 60)) + ", expected " +
              expected + "; use the same version of tandem on both sides");
}

std::int64_t integer(const Json& object, const char* field, std::int64_t least, std::int64_t most,
                     std::string_view source) {
  const auto found = object.find(field);
  if (found != object.end() && found->is_number_integer() &&
      !(found->is_number_unsigned() && found->get<std::uint64_t>() > (std::uint64_t{1} << 62))) {
    const auto value = found->get<std::int64_t>();
    if (least <= value && value <= most) return value;
  }
  bad_field(source, field, object, "a whole number in range");
}

double number(const Json& object, const char* field, std::string_view source) {
  const auto found = object.find(field);
  if (found != object.end() && found->is_number()) {
    const auto value = found->get<double>();
    if (std::isfinite(value) && value >= 0.0) return value;
  }
  bad_field(source, field, object, "a number that is not negative");
}

std::string words(const Json& object, const char* field, std::string_view source) {
  const auto found = object.find(field);
  if (found != object.end() && found->is_string()) return found->get<std::string>();
  bad_field(source, field, object, "a text");
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
              {"scores", options.scores}}
      .dump();
}

RunOptions parse_run_options(std::string_view text, std::string_view source) {
  const Json json = parse_object(text, source);
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  RunOptions options;
  options.workload.prompt_tokens = integer(json, "prompt_tokens", 1, kMost, source);
  options.workload.new_tokens = integer(json, "new_tokens", 1, kMost, source);
  const auto scores = json.find("scores");
  if (scores == json.end() || !scores->is_boolean()) {
    bad_field(source, "scores", json, "true or false");
  }
  options.scores = scores->get<bool>();
  for (const Pace pace : {Pace::real, Pace::measured, Pace::nominal}) {
    if (json.value("pace", Json()) == to_string(pace)) {
      options.pace = pace;
      return options;
    }
  }
  bad_field(source, "pace", json, "real, measured or nominal");
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
  const Json json = parse_object(text, source);
  return {.peak_memory = {.weights = number(json, "weights_bytes", source),
                          .kv_cache = number(json, "kv_cache_bytes", source),
                          .activations = number(json, "activations_bytes", source),
                          .buffers = number(json, "buffers_bytes", source),
                          .program = number(json, "program_bytes", source)},
          .bytes_sent = number(json, "bytes_sent", source),
          .mean_late_s = number(json, "mean_late_s", source),
          .max_late_s = number(json, "max_late_s", source),
          .clock_ns = integer(json, "clock_ns", 0, std::int64_t{1} << 62, source),
          .boot = words(json, "boot", source)};
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
                " bytes of spans, expected a multiple of 24; use the same version of tandem on "
                "both sides");
  }
  for (std::size_t at = 0; at < bytes.size(); at += kRecordBytes) {
    into.push_back({.step = static_cast<std::int32_t>(get(bytes, at, 4)),
                    .task = static_cast<model::TaskIndex>(get(bytes, at + 4, 4)),
                    .start_ns = static_cast<std::int64_t>(get(bytes, at + 8, 8)),
                    .end_ns = static_cast<std::int64_t>(get(bytes, at + 16, 8))});
  }
}

}  // namespace tandem::exec
