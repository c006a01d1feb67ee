// Reports of devices about a run, as text and bytes.

#include <limits>
#include <nlohmann/json.hpp>

#include "exec/runtime/device_run.hpp"
#include "model/base/error.hpp"
#include "model/base/json_value.hpp"
#include "model/base/limits.hpp"
#include "planner/plan/inference_request.hpp"

namespace tandem::exec {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kRecordBytes = 24;
constexpr double kMostDilation = 1e6;
constexpr std::int64_t kLatest = std::int64_t{1} << 61;   // of any clock; differences fit, too
constexpr std::int64_t kLongest = std::int64_t{1} << 57;  // four years, in nanoseconds
constexpr std::size_t kMostReportedChannels = 8192;

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

Json tally_json(const DeviceTally& tally) {
  Json kinds = Json::array();
  for (const KindTally& kind : tally.kinds) kinds.push_back({kind.count, kind.total_ns});
  Json channels = Json::array();
  for (const ChannelTally& channel : tally.channels) {
    channels.push_back({{"peer", channel.peer},
                        {"sends", channel.sends},
                        {"count", channel.count},
                        {"times_ns", static_cast<std::int64_t>(channel.times_ns)}});
  }
  return {{"steps", tally.steps},
          {"kinds", std::move(kinds)},
          {"busy_cpu_ns", tally.busy_cpu_ns},
          {"busy_disk_ns", tally.busy_disk_ns},
          {"origin_ns", tally.origin_ns},
          {"first_cpu_ns", tally.first_cpu_ns},
          {"last_cpu_ns", tally.last_cpu_ns},
          {"late_stall_ns", tally.late_stall_ns},
          {"late_disk_ns", tally.late_disk_ns},
          {"channels", std::move(channels)}};
}

// Reports of an older program do not name its kernels: they were tuned.
KernelSet parse_kernels(const model::JsonValue& report) {
  const std::optional<model::JsonValue> name = report.find("kernels");
  if (!name) return KernelSet::tuned;
  if (const auto set = find_kernel_set(name->text())) return *set;
  name->fail("tuned or eigen");
}

DeviceTally parse_tally(const model::JsonValue& root) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const auto moment = [&](std::string_view field) {
    return root.at(field).integer(-kLatest, kLatest);
  };
  const auto duration = [&](std::string_view field) { return root.at(field).integer(0, kLongest); };
  DeviceTally tally{.steps = root.at("steps").integer(0, std::int64_t{1} << 30),
                    .busy_cpu_ns = duration("busy_cpu_ns"),
                    .busy_disk_ns = duration("busy_disk_ns"),
                    .origin_ns = moment("origin_ns"),
                    .first_cpu_ns = moment("first_cpu_ns"),
                    .last_cpu_ns = moment("last_cpu_ns"),
                    .late_stall_ns = duration("late_stall_ns"),
                    .late_disk_ns = duration("late_disk_ns")};
  const model::JsonValue kinds = root.at("kinds");
  if (kinds.size(tally.kinds.size()) != tally.kinds.size()) {
    kinds.fail(std::to_string(tally.kinds.size()) + " kinds of tasks");
  }
  for (std::size_t k = 0; k < tally.kinds.size(); ++k) {
    const model::JsonValue kind = kinds.at(k);
    if (kind.size(2) != 2) kind.fail("a count and a time");
    tally.kinds.at(k) = {.count = kind.at(0).integer(0, kMost),
                         .total_ns = kind.at(1).integer(0, kLongest)};
  }
  const model::JsonValue channels = root.at("channels");
  const std::size_t count = channels.size(kMostReportedChannels);
  for (std::size_t c = 0; c < count; ++c) {
    const model::JsonValue channel = channels.at(c);
    tally.channels.push_back(
        {.peer = static_cast<model::DeviceIndex>(channel.at("peer").integer(0, 1 << 20)),
         .sends = channel.at("sends").boolean(),
         .count = channel.at("count").integer(0, kMost),
         .times_ns = static_cast<std::uint64_t>(
             channel.at("times_ns").integer(std::numeric_limits<std::int64_t>::min(), kMost))});
  }
  return tally;
}

Json line_json(const MessageOverhead::Line& line) { return {line.message_s, line.byte_s}; }

MessageOverhead::Line read_line(const model::JsonValue& json) {
  if (json.size(2) != 2) json.fail("seconds a message and a byte");
  return {.message_s = json.at(std::size_t{0}).number(0.0, model::limits::kMostSeconds),
          .byte_s = json.at(std::size_t{1}).number(0.0, model::limits::kMostSeconds)};
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
  Json json{{"prompt_tokens", options.workload.prompt_tokens},
            {"new_tokens", options.workload.new_tokens},
            {"pace", to_string(options.pace)},
            {"dilation", options.dilation},
            {"rows", options.capacity.rows},
            {"positions", options.capacity.positions},
            {"sequences", options.capacity.sequences},
            {"steps", options.capacity.steps},
            {"most_steps", options.most_steps},
            {"long_sequences", options.long_sequences},
            {"scored_rows", options.scored_rows},
            {"keep_records", options.keep_records},
            {"overhead", nullptr}};
  if (options.overhead) {
    json["overhead"] = {{"threads", line_json(options.overhead->threads)},
                        {"computing_thread", line_json(options.overhead->computing_thread)},
                        {"send", line_json(options.overhead->send)},
                        {"receive", line_json(options.overhead->receive)}};
  }
  return json.dump();
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
  options.keep_records = root.at("keep_records").boolean();
  options.capacity = {.rows = root.at("rows").integer(0, kMost),
                      .positions = root.at("positions").integer(0, kMost),
                      .sequences = root.at("sequences").integer(0, planner::kMostSequences),
                      .steps = root.at("steps").integer(0, planner::kMostSteps)};
  options.most_steps = root.at("most_steps").integer(0, kMost);
  const model::JsonValue long_sequences = root.at("long_sequences");
  const std::size_t count = long_sequences.size(planner::kMostRequests);
  for (std::size_t i = 0; i < count; ++i) {
    options.long_sequences.push_back(
        static_cast<std::int32_t>(long_sequences.at(i).integer(0, kMost)));
  }
  if (const model::JsonValue overhead = root.at("overhead"); !overhead.is_null()) {
    options.overhead = {.threads = read_line(overhead.at("threads")),
                        .computing_thread = read_line(overhead.at("computing_thread")),
                        .send = read_line(overhead.at("send")),
                        .receive = read_line(overhead.at("receive"))};
  }
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
              {"mapped_bytes", report.mapped_bytes},
              {"bytes_sent", report.bytes_sent},
              {"mean_late_s", report.mean_late_s},
              {"max_late_s", report.max_late_s},
              {"clock_ns", report.clock_ns},
              {"boot", report.boot},
              {"kernels", to_string(report.kernels)},
              {"tally", tally_json(report.tally)}}
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
          .mapped_bytes = amount(root, "mapped_bytes"),
          .bytes_sent = amount(root, "bytes_sent"),
          .mean_late_s = amount(root, "mean_late_s"),
          .max_late_s = amount(root, "max_late_s"),
          .clock_ns = root.at("clock_ns").integer(0, kLatest),
          .boot = root.at("boot").text(),
          .kernels = parse_kernels(root),
          .tally = parse_tally(root.at("tally"))};
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
