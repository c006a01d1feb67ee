// Profiles as JSON, schema "tandem.profile/3".

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/file_kind.hpp"
#include "model/base/json_value.hpp"
#include "model/base/limits.hpp"
#include "model/predict/device_profile.hpp"

namespace tandem::model {

namespace {

constexpr std::string_view kProfileSchema = "tandem.profile/3";
constexpr std::string_view kProfilesSchema = "tandem.profiles/1";
constexpr std::int64_t kMostThreads = 1024;

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

// Every type but f32 may be there.
std::vector<CacheRates> read_caches(const JsonValue& json) {
  std::vector<CacheRates> caches;
  for (const CacheFormat format : kCacheFormats) {
    const auto rates = json.find(to_string(format));
    if (format == CacheFormat::f32 || !rates) continue;
    rates->expect_keys({"attend", "score"});
    CacheRates& of = caches.emplace_back();
    of.format = format;
    of.attend = read_rate(rates->at("attend"));
    if (const auto score = rates->find("score")) of.score = read_rate(*score);
  }
  if (json.json().size() != caches.size()) json.fail("types of the cache besides f32, as f16");
  return caches;
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
  for (const CacheRates& of : profile.caches) {
    nlohmann::ordered_json& by_kind = json["caches"][std::string(to_string(of.format))];
    by_kind["attend"] = rate_json(of.attend);
    if (of.score) by_kind["score"] = rate_json(*of.score);
  }
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
    const bool needed = rate_kind(kind) == kind && kind != TaskKind::load &&
                        kind != TaskKind::release && !may_lack_rate(kind);
    const std::string_view name = to_string(kind);
    const bool borrows = kind != TaskKind::fetch && rate_kind(kind) != kind;
    if (borrows || (!needed && !rates.find(name))) continue;
    profile.rate[static_cast<std::size_t>(k)] = read_rate(rates.at(name));
    ++known;
  }
  if (rates.json().size() != known) rates.fail("rates of task kinds only");
  if (const auto formats = root.find("formats")) profile.formats = read_formats(*formats);
  if (const auto caches = root.find("caches")) profile.caches = read_caches(*caches);
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

}  // namespace tandem::model
