#include "model/predict/device_profile.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/file_kind.hpp"
#include "model/base/json_value.hpp"
#include "model/base/limits.hpp"

namespace tandem::model {

namespace {

constexpr std::string_view kProfileSchema = "tandem.profile/3";
constexpr std::string_view kProfilesSchema = "tandem.profiles/1";
constexpr std::int64_t kMostThreads = 1024;

// Flops a streamed byte and a row: what work.cpp counts for the kind, streamed_bytes over flops.
double flops_per_byte(TaskKind kind, WeightFormat format) {
  const FormatBlock block = block_of(format);
  switch (kind) {
    case TaskKind::project_qkv:
    case TaskKind::project_out:
    case TaskKind::ffn_up:
    case TaskKind::ffn_down:
    case TaskKind::lm_head:  // 2 flops an element
      return 2.0 * static_cast<double>(block.elements) / static_cast<double>(block.bytes);
    case TaskKind::attend:  // 2 flops an element of the cache: 4 bytes, or 2
    case TaskKind::score:
      return format == WeightFormat::f16 ? 1.0 : 0.5;
    case TaskKind::norm:  // 4 flops an element, read and written
      return 0.5;
    case TaskKind::add:
      return 1.0 / 12.0;  // 1 flop an element, two read and one written
    case TaskKind::sample:
    case TaskKind::select:  // 1 flop an element, read
    case TaskKind::merge:   // 3 flops an element, two read and one written
      return 0.25;
    case TaskKind::embed:
    case TaskKind::fetch:
    case TaskKind::load:
    case TaskKind::release:
    case TaskKind::transfer:
    case TaskKind::capture:
    case TaskKind::deliver:
    case TaskKind::gather:
    case TaskKind::shortlist:  // see rate_kind
      return 0.0;
  }
  throw std::logic_error("task kind out of range");
}

// Of the cpu lane, with rates of their own.
bool is_compute(TaskKind kind) {
  return kind != TaskKind::transfer && kind != TaskKind::load && kind != TaskKind::release &&
         rate_kind(kind) == kind;
}

void slow(KindRate& rate, double factor) {
  rate.overhead_s *= factor;
  rate.row_s *= factor;
  for (RatePoint& point : rate.points) point.seconds_per_byte *= factor;
}

nlohmann::ordered_json rate_json(const KindRate& rate) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  for (const RatePoint& point : rate.points) {
    points.push_back({{"reuse", point.intensity}, {"seconds_per_byte", point.seconds_per_byte}});
  }
  nlohmann::ordered_json json{{"overhead_s", rate.overhead_s}, {"points", points}};
  if (rate.row_s > 0.0) json["row_s"] = rate.row_s;
  if (rate.error) json["error"] = {{"fit", rate.error->fit}, {"spread", rate.error->spread}};
  return json;
}

double read_deviation(const JsonValue& json) { return json.number(0.0, limits::kMostDeviation); }

KindRate read_rate(const JsonValue& json) {
  json.expect_keys({"overhead_s", "points", "row_s", "error"});
  KindRate rate;
  rate.overhead_s = json.at("overhead_s").number(0.0, limits::kMostSeconds);
  const JsonValue points = json.at("points");
  const std::size_t count = points.size(limits::kRatePoints);
  if (count == 0) points.fail("at least one point");
  for (std::size_t i = 0; i < count; ++i) {
    const JsonValue point = points.at(i);
    point.expect_keys({"reuse", "seconds_per_byte"});
    const JsonValue intensity = point.at("reuse");
    const double value = intensity.number(0.0, limits::kMostIntensity);
    if (value <= (i == 0 ? 0.0 : rate.points.back().intensity)) {
      intensity.fail("a positive number above the point before");
    }
    rate.points.push_back({value, point.at("seconds_per_byte").number(0.0, limits::kMostSeconds)});
  }
  if (const auto row = json.find("row_s")) rate.row_s = row->number(0.0, limits::kMostSeconds);
  if (const auto error = json.find("error")) {
    error->expect_keys({"fit", "spread"});
    rate.error = RateError{.fit = read_deviation(error->at("fit")),
                           .spread = read_deviation(error->at("spread"))};
  }
  return rate;
}

// Every format but f32 may be there, with the kinds that read weights and no others.
std::vector<FormatRates> read_formats(const JsonValue& json) {
  std::vector<FormatRates> formats;
  for (const WeightFormat format : kAllFormats) {
    const auto rates = json.find(to_string(format));
    if (format == WeightFormat::f32 || !rates) continue;
    rates->expect_keys({"embed", "project_qkv", "project_out", "ffn_up", "ffn_down", "lm_head"});
    FormatRates& of = formats.emplace_back();
    of.format = format;
    for (int k = 0; k < kTaskKinds; ++k) {
      const auto kind = static_cast<TaskKind>(k);
      if (reads_weights(kind))
        of.rate[static_cast<std::size_t>(k)] = read_rate(rates->at(to_string(kind)));
    }
  }
  if (json.json().size() != formats.size())
    json.fail("formats of weights only, as f16, q8_0 and q4_k");
  return formats;
}

MeasuredKernels read_kernels(const JsonValue& json) {
  constexpr std::int64_t kMostGenerations = 1'000'000;
  constexpr std::size_t kMostText = 256;
  json.expect_keys({"generation", "instruction_sets", "processor"});
  const JsonValue sets = json.at("instruction_sets");
  std::string names = sets.line(kMostText);
  if (names.empty()) sets.fail("names of instruction sets, as avx2");
  return {.generation = json.at("generation").integer(1, kMostGenerations),
          .instruction_sets = std::move(names),
          .processor = json.at("processor").line(kMostText)};
}

}  // namespace

TaskKind rate_kind(TaskKind kind) {
  switch (kind) {
    case TaskKind::fetch:
      return TaskKind::embed;
    case TaskKind::shortlist:
      return TaskKind::sample;
    case TaskKind::merge:
    case TaskKind::select:
    case TaskKind::gather:
    case TaskKind::score:
    case TaskKind::embed:
    case TaskKind::norm:
    case TaskKind::project_qkv:
    case TaskKind::attend:
    case TaskKind::project_out:
    case TaskKind::ffn_up:
    case TaskKind::ffn_down:
    case TaskKind::add:
    case TaskKind::lm_head:
    case TaskKind::sample:
    case TaskKind::load:
    case TaskKind::release:
    case TaskKind::transfer:
    case TaskKind::capture:
    case TaskKind::deliver:
      return kind;
  }
  throw std::logic_error("task kind out of range");
}

bool may_lack_rate(TaskKind kind) {
  return kind == TaskKind::merge || kind == TaskKind::select || kind == TaskKind::gather ||
         kind == TaskKind::score;
}

bool reads_weights(TaskKind kind) {
  switch (kind) {
    case TaskKind::project_qkv:
    case TaskKind::project_out:
    case TaskKind::ffn_up:
    case TaskKind::ffn_down:
    case TaskKind::lm_head:
    case TaskKind::embed:
      return true;
    case TaskKind::attend:
    case TaskKind::norm:
    case TaskKind::add:
    case TaskKind::sample:
    case TaskKind::fetch:
    case TaskKind::load:
    case TaskKind::release:
    case TaskKind::transfer:
    case TaskKind::capture:
    case TaskKind::deliver:
    case TaskKind::merge:
    case TaskKind::shortlist:
    case TaskKind::select:
    case TaskKind::gather:
    case TaskKind::score:
      return false;
  }
  throw std::logic_error("task kind out of range");
}

const KindRate* DeviceProfile::rate_of(TaskKind kind, WeightFormat format) const {
  if (format == WeightFormat::f16 && (kind == TaskKind::attend || kind == TaskKind::score)) {
    const std::optional<KindRate>& half = kind == TaskKind::attend ? half_attend : half_score;
    return half ? &*half : nullptr;
  }
  if (format == WeightFormat::f32 || !reads_weights(kind)) {
    const KindRate& known = rate[static_cast<std::size_t>(kind)];
    return known.points.empty() && may_lack_rate(kind) ? nullptr : &known;
  }
  const auto found = std::ranges::find(formats, format, &FormatRates::format);
  return found == formats.end() ? nullptr : &found->rate[static_cast<std::size_t>(kind)];
}

DeviceProfile for_formats(DeviceProfile profile, const WeightFormats& formats, CacheFormat cache) {
  std::erase_if(profile.formats,
                [&](const FormatRates& rates) { return !formats.has(rates.format); });
  if (cache != CacheFormat::f16) {
    profile.half_attend.reset();
    profile.half_score.reset();
  }
  return profile;
}

// Both branches of the roofline in one point, at its knee: below it a rate is constant, beyond it
// it grows in proportion.
DeviceProfile nominal_profile(const Device& device) {
  DeviceProfile profile;
  profile.source = "nominal";
  const double seconds_per_byte = 1.0 / device.memory_bandwidth.value();
  const auto roofline = [&](TaskKind kind, WeightFormat format) -> std::vector<RatePoint> {
    const double per_byte = flops_per_byte(kind, format);
    const double knee =
        per_byte > 0.0 ? device.flop_rate.value() * seconds_per_byte / per_byte : 1.0;
    return {{knee, seconds_per_byte}};
  };
  for (int k = 0; k < kTaskKinds; ++k) {
    const auto kind = static_cast<TaskKind>(k);
    KindRate& rate = profile.rate[static_cast<std::size_t>(k)];
    if (kind == TaskKind::transfer) rate.points = {{1.0, 0.0}};
    if (is_compute(kind)) rate.points = roofline(kind, WeightFormat::f32);
  }
  profile.half_attend = KindRate{.points = roofline(TaskKind::attend, WeightFormat::f16)};
  profile.half_score = KindRate{.points = roofline(TaskKind::score, WeightFormat::f16)};
  for (const WeightFormat format : kAllFormats) {
    if (format == WeightFormat::f32) continue;
    FormatRates& rates = profile.formats.emplace_back();
    rates.format = format;
    for (int k = 0; k < kTaskKinds; ++k) {
      const auto kind = static_cast<TaskKind>(k);
      if (reads_weights(kind))
        rates.rate[static_cast<std::size_t>(k)].points = roofline(kind, format);
    }
  }
  return profile;
}

DeviceProfile slowed(DeviceProfile profile, double factor) {
  require(factor > 0.0, "slowed: expected a positive factor");
  for (int k = 0; k < kTaskKinds; ++k) {
    if (!is_compute(static_cast<TaskKind>(k))) continue;
    slow(profile.rate[static_cast<std::size_t>(k)], factor);
  }
  for (FormatRates& rates : profile.formats) {
    for (KindRate& rate : rates.rate) slow(rate, factor);
  }
  if (profile.half_attend) slow(*profile.half_attend, factor);
  if (profile.half_score) slow(*profile.half_score, factor);
  if (profile.inlined) {
    slow(profile.inlined->send, factor);
    slow(profile.inlined->receive, factor);
  }
  return profile;
}

void DeviceProfile::validate(const std::string& subject) const {
  const auto check = [&](const std::string& field, double value, double least, double most) {
    if (value >= least && value <= most) return;
    std::array<char, 96> text{};
    (void)std::snprintf(text.data(), text.size(), " is %.9g, expected a number from %.9g to %.9g",
                        value, least, most);
    throw Error(subject + ": " + field + text.data() + "; correct the profile, or the slowdown");
  };
  check("program_bytes", program_bytes, 0.0, limits::kMostBytes);
  if (disk_bandwidth.value() != 0.0)
    check("disk_bandwidth_Bps", disk_bandwidth.value(), limits::kLeastRate, limits::kMostRate);
  check("disk_spread", disk_spread.value_or(0.0), 0.0, limits::kMostDeviation);
  check("drift", drift.value_or(0.0), 0.0, limits::kMostDeviation);
  const auto check_rate = [&](const std::string& name, const KindRate& of) {
    check(name + ": overhead_s", of.overhead_s, 0.0, limits::kMostSeconds);
    check(name + ": row_s", of.row_s, 0.0, limits::kMostSeconds);
    const RateError error = of.error.value_or(RateError{});
    check(name + ": error: fit", error.fit, 0.0, limits::kMostDeviation);
    check(name + ": error: spread", error.spread, 0.0, limits::kMostDeviation);
    check(name + ": the number of points", static_cast<double>(of.points.size()), 0.0,
          static_cast<double>(limits::kRatePoints));
    for (const RatePoint& point : of.points) {
      check(name + ": reuse", point.intensity, limits::kLeastIntensity, limits::kMostIntensity);
      check(name + ": seconds_per_byte", point.seconds_per_byte, 0.0, limits::kMostSeconds);
    }
  };
  for (int k = 0; k < kTaskKinds; ++k) {
    check_rate("rate of " + std::string(to_string(static_cast<TaskKind>(k))),
               rate[static_cast<std::size_t>(k)]);
  }
  for (const FormatRates& rates : formats) {
    for (int k = 0; k < kTaskKinds; ++k) {
      check_rate("rate of " + std::string(to_string(static_cast<TaskKind>(k))) + " in " +
                     std::string(to_string(rates.format)),
                 rates.rate[static_cast<std::size_t>(k)]);
    }
  }
  if (half_attend) check_rate("rate of attend over an f16 cache", *half_attend);
  if (half_score) check_rate("rate of score over an f16 cache", *half_score);
  if (!inlined) return;
  check_rate("inline_messages: send", inlined->send);
  check_rate("inline_messages: transfer", inlined->transfer);
  check_rate("inline_messages: receive", inlined->receive);
}

BytesPerSecond disk_bandwidth(const Device& device, const DeviceProfile& profile, bool emulated) {
  const BytesPerSecond stated = device.disk_bandwidth;
  const BytesPerSecond measured = profile.disk_bandwidth;
  if (measured.value() <= 0.0) return stated;
  if (stated.value() <= 0.0 || !emulated) return measured;
  return std::min(stated, measured);
}

std::string to_json(const DeviceProfile& profile) {
  nlohmann::ordered_json json;
  json["schema"] = kProfileSchema;
  json["source"] = profile.source;
  if (profile.threads > 0) json["threads"] = profile.threads;
  if (profile.kernels) {
    json["kernels"] = {{"generation", profile.kernels->generation},
                       {"instruction_sets", profile.kernels->instruction_sets},
                       {"processor", profile.kernels->processor}};
  }
  json["program_bytes"] = profile.program_bytes;
  json["disk_bandwidth_Bps"] = profile.disk_bandwidth.value();
  if (profile.disk_spread) json["disk_spread"] = *profile.disk_spread;
  if (profile.drift) json["drift"] = *profile.drift;
  nlohmann::ordered_json& rates = json["rates"];
  rates = nlohmann::ordered_json::object();
  for (int k = 0; k < kTaskKinds; ++k) {
    const KindRate& rate = profile.rate[static_cast<std::size_t>(k)];
    if (rate.points.empty()) continue;
    rates[std::string(to_string(static_cast<TaskKind>(k)))] = rate_json(rate);
  }
  for (const FormatRates& of : profile.formats) {
    nlohmann::ordered_json& by_kind = json["formats"][std::string(to_string(of.format))];
    for (int k = 0; k < kTaskKinds; ++k) {
      const KindRate& rate = of.rate[static_cast<std::size_t>(k)];
      if (!rate.points.empty())
        by_kind[std::string(to_string(static_cast<TaskKind>(k)))] = rate_json(rate);
    }
  }
  if (profile.half_attend) json["caches"]["f16"]["attend"] = rate_json(*profile.half_attend);
  if (profile.half_score) json["caches"]["f16"]["score"] = rate_json(*profile.half_score);
  json["inline_messages"] = nullptr;
  if (profile.inlined) {
    json["inline_messages"] = {{"send", rate_json(profile.inlined->send)},
                               {"transfer", rate_json(profile.inlined->transfer)},
                               {"receive", rate_json(profile.inlined->receive)}};
  }
  return to_text(json);
}

namespace {

constexpr std::string_view kRemedy = "measure the profile again with `tandem profile`";
constexpr JsonLimits kProfileLimits{.bytes = std::size_t{4} << 20U, .depth = 16};

DeviceProfile read_profile(const JsonValue& root, std::string_view source) {
  expect_schema(root, kProfileSchema);
  root.expect_keys({"schema", "source", "threads", "kernels", "program_bytes", "disk_bandwidth_Bps",
                    "disk_spread", "drift", "rates", "formats", "caches", "inline_messages"});
  DeviceProfile profile;
  profile.source = root.at("source").line();
  if (const auto threads = root.find("threads"))
    profile.threads = static_cast<int>(threads->integer(1, kMostThreads));
  if (const auto kernels = root.find("kernels")) profile.kernels = read_kernels(*kernels);
  profile.program_bytes = root.at("program_bytes").number(0.0, limits::kMostBytes);
  profile.disk_bandwidth =
      BytesPerSecond{root.at("disk_bandwidth_Bps").number(0.0, limits::kMostRate)};
  if (const auto spread = root.find("disk_spread")) profile.disk_spread = read_deviation(*spread);
  if (const auto drift = root.find("drift")) profile.drift = read_deviation(*drift);
  const JsonValue rates = root.at("rates");
  std::size_t known = 0;
  for (int k = 0; k < kTaskKinds; ++k) {
    const auto kind = static_cast<TaskKind>(k);
    const bool needed = (is_compute(kind) && !may_lack_rate(kind)) || kind == TaskKind::transfer;
    const std::string_view name = to_string(kind);
    const bool borrows = kind != TaskKind::fetch && rate_kind(kind) != kind;
    if (borrows || (!needed && !rates.find(name))) continue;
    profile.rate[static_cast<std::size_t>(k)] = read_rate(rates.at(name));
    ++known;
  }
  if (rates.json().size() != known) rates.fail("rates of task kinds only");
  if (const auto formats = root.find("formats")) profile.formats = read_formats(*formats);
  if (const auto caches = root.find("caches")) {
    caches->expect_keys({"f16"});
    const JsonValue half = caches->at("f16");
    half.expect_keys({"attend", "score"});
    profile.half_attend = read_rate(half.at("attend"));
    if (const auto score = half.find("score")) profile.half_score = read_rate(*score);
  }
  const JsonValue inlined = root.at("inline_messages");
  if (!inlined.json().is_null()) {
    inlined.expect_keys({"send", "transfer", "receive"});
    profile.inlined = InlineRates{.send = read_rate(inlined.at("send")),
                                  .transfer = read_rate(inlined.at("transfer")),
                                  .receive = read_rate(inlined.at("receive"))};
  }
  profile.validate(std::string(source));
  return profile;
}

}  // namespace

DeviceProfile parse_profile_json(std::string_view text, std::string_view source) {
  expect_kind(text, source, kProfileKind);
  const JsonDocument document(text, source, kRemedy, kProfileLimits);
  return read_profile(document.root(), source);
}

std::string to_json(std::span<const DeviceProfile> profiles) {
  require(!profiles.empty(), "a file of no profiles");
  if (profiles.size() == 1) return to_json(profiles.front());
  nlohmann::ordered_json json;
  json["schema"] = kProfilesSchema;
  json["profiles"] = nlohmann::ordered_json::array();
  for (const DeviceProfile& profile : profiles)
    json["profiles"].push_back(nlohmann::ordered_json::parse(to_json(profile)));
  return to_text(json);
}

std::vector<DeviceProfile> parse_profiles_json(std::string_view text, std::string_view source) {
  expect_kind(text, source, kProfileKind);
  const JsonDocument document(text, source, kRemedy, kProfileLimits);
  const JsonValue root = document.root();
  const auto list = root.find("profiles");
  if (!list) return {read_profile(root, source)};
  expect_schema(root, kProfilesSchema);
  root.expect_keys({"schema", "profiles"});
  std::vector<DeviceProfile> profiles;
  const std::size_t count = list->size(kMostThreads);
  if (count == 0) list->fail("one profile or more");
  for (std::size_t i = 0; i < count; ++i) {
    const JsonValue one = list->at(i);
    DeviceProfile profile = read_profile(one, source);
    const JsonValue threads = one.at("threads");
    if (std::ranges::find(profiles, profile.threads, &DeviceProfile::threads) != profiles.end())
      threads.fail("a number that no other profile of the file has");
    // One measurement has one machine and one set of kernels.
    if (!profiles.empty() && profile.kernels != profiles.front().kernels)
      one.at("kernels").fail("the same as of the file's first profile, as one machine has them");
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

const DeviceProfile& with_threads(std::span<const DeviceProfile> profiles,
                                  std::optional<int> threads, bool emulated,
                                  std::string_view source) {
  require(!profiles.empty(), "a file of no profiles");
  if (!threads) {
    const auto extremes = std::ranges::minmax_element(profiles, {}, &DeviceProfile::threads);
    return emulated ? *extremes.min : *extremes.max;
  }
  std::string known;
  for (const DeviceProfile& profile : profiles) {
    if (profile.threads == *threads) return profile;
    known += (known.empty() ? "" : ", ") +
             (profile.threads > 0 ? std::to_string(profile.threads) : "a number it does not tell");
  }
  throw Error(std::string(source) + ": measured with threads: " + known + "; expected " +
              std::to_string(*threads) + "; measure again with 'tandem profile --threads " +
              std::to_string(*threads) + "', or plan with threads that were measured");
}

}  // namespace tandem::model
