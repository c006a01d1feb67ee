#include "model/predict/device_profile.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/limits.hpp"

namespace tandem::model {

namespace {

// Flops a streamed byte and a row: what work.cpp counts for the kind, streamed_bytes over flops.
double flops_per_byte(TaskKind kind, WeightFormat format) {
  const FormatBlock block = block_of(format);
  switch (kind) {
    case TaskKind::project_qkv:
    case TaskKind::project_out:
    case TaskKind::ffn_up:
    case TaskKind::ffn_down:
    case TaskKind::lm_head:
    case TaskKind::attend:
    case TaskKind::score:  // 2 flops an element, of weights or of the cache
      return 2.0 * static_cast<double>(block.elements) / static_cast<double>(block.bytes);
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
  if (format != WeightFormat::f32 && (kind == TaskKind::attend || kind == TaskKind::score)) {
    const auto of = std::ranges::find(
        caches, format, [](const CacheRates& rates) { return rated_as(rates.format); });
    if (of == caches.end()) return nullptr;
    if (kind == TaskKind::attend) return &of->attend;
    return of->score ? &*of->score : nullptr;
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
  std::erase_if(profile.caches, [&](const CacheRates& rates) { return rates.format != cache; });
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
  for (const CacheFormat cache : kCacheFormats) {
    if (cache == CacheFormat::f32) continue;
    CacheRates& rates = profile.caches.emplace_back();
    rates.format = cache;
    rates.attend.points = roofline(TaskKind::attend, rated_as(cache));
    rates.score.emplace().points = roofline(TaskKind::score, rated_as(cache));
  }
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
  for (CacheRates& rates : profile.caches) {
    slow(rates.attend, factor);
    if (rates.score) slow(*rates.score, factor);
  }
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
  for (const CacheRates& rates : caches) {
    const std::string over = " over a cache in " + std::string(to_string(rates.format));
    check_rate("rate of attend" + over, rates.attend);
    if (rates.score) check_rate("rate of score" + over, *rates.score);
  }
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
