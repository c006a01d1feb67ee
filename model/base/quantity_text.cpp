#include "model/base/quantity_text.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>

#include "model/base/error.hpp"

namespace tandem::model {

namespace {

struct Unit {
  std::string_view name;
  double scale;  // in base SI units
};

constexpr double kKi = 1024.0;
constexpr double kMi = kKi * kKi;
constexpr double kGi = kMi * kKi;
constexpr double kTi = kGi * kKi;

constexpr Unit kTimes[] = {{"s", 1.0},  {"ms", 1e-3},  {"us", 1e-6},   {"ns", 1e-9},
                           {"m", 60.0}, {"h", 3600.0}, {"d", 86400.0}, {"w", 604800.0}};
constexpr Unit kRates[] = {
    {"bps", 1.0 / 8.0},   {"kbps", 1e3 / 8.0},  {"Kbps", 1e3 / 8.0},  {"Mbps", 1e6 / 8.0},
    {"Gbps", 1e9 / 8.0},  {"Tbps", 1e12 / 8.0}, {"Kibps", kKi / 8.0}, {"Mibps", kMi / 8.0},
    {"Gibps", kGi / 8.0}, {"Tibps", kTi / 8.0}, {"Bps", 1.0},         {"kBps", 1e3},
    {"KBps", 1e3},        {"MBps", 1e6},        {"GBps", 1e9},        {"TBps", 1e12},
    {"KiBps", kKi},       {"MiBps", kMi},       {"GiBps", kGi},       {"TiBps", kTi},
    {"Pbps", 1e15 / 8.0}, {"Ebps", 1e18 / 8.0}, {"PBps", 1e15},       {"EBps", 1e18}};
constexpr Unit kSizes[] = {{"B", 1.0},   {"kB", 1e3},  {"KB", 1e3},  {"MB", 1e6},  {"GB", 1e9},
                           {"TB", 1e12}, {"KiB", kKi}, {"MiB", kMi}, {"GiB", kGi}, {"TiB", kTi}};
constexpr Unit kSpeeds[] = {{"f", 1.0},  {"kf", 1e3},  {"Kf", 1e3},  {"Mf", 1e6},
                            {"Gf", 1e9}, {"Tf", 1e12}, {"Pf", 1e15}, {"Ef", 1e18}};

[[noreturn]] void fail(std::string_view subject, std::string_view text, std::span<const Unit> units,
                       std::string_view example) {
  constexpr std::size_t kShown = 40;
  std::string known;
  for (const Unit& unit : units) {
    known += known.empty() ? "" : " ";
    known += unit.name;
  }
  throw Error(std::string(subject) + ": '" + std::string(text.substr(0, kShown)) +
              "', expected a number of at least 0 with a unit (" + known + "); write for example " +
              std::string(example));
}

double parse(std::string_view text, std::string_view subject, std::span<const Unit> units,
             std::string_view example) {
  // from_chars would also take "inf" and "nan".
  if (text.empty() || !((text[0] >= '0' && text[0] <= '9') || text[0] == '.')) {
    fail(subject, text, units, example);
  }
  double value = 0.0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) fail(subject, text, units, example);
  std::string_view name = text.substr(static_cast<std::size_t>(rest - text.data()));
  if (name.starts_with(' ')) name.remove_prefix(1);
  for (const Unit& unit : units) {
    if (unit.name != name) continue;
    const double scaled = value * unit.scale;
    if (!std::isfinite(scaled)) break;
    return scaled;
  }
  fail(subject, text, units, example);
}

// `units` ascending. The largest in which the value is at least 1 once rounded to three digits.
std::string format(double value, std::span<const Unit> units) {
  constexpr double kRoundsUp = 0.9995;
  const Unit* best = &units.front();
  for (const Unit& unit : units) {
    if (std::abs(value) >= kRoundsUp * unit.scale) best = &unit;
  }
  const double shown = value / best->scale;
  const double magnitude = std::abs(shown);
  const int decimals = magnitude < 9.995 ? 2 : magnitude < 99.95 ? 1 : 0;
  std::array<char, 64> buffer{};
  if (!std::isfinite(value) || magnitude >= 1e6) {
    (void)std::snprintf(buffer.data(), buffer.size(), "%.3g", shown);
  } else {
    (void)std::snprintf(buffer.data(), buffer.size(), "%.*f", decimals, shown);
  }
  std::string text = buffer.data();
  if (text.find('.') != std::string::npos && text.find('e') == std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text + " " + std::string(best->name);
}

}  // namespace

Seconds parse_seconds(std::string_view text, std::string_view subject) {
  return Seconds{parse(text, subject, kTimes, "5ms")};
}
BytesPerSecond parse_rate(std::string_view text, std::string_view subject) {
  return BytesPerSecond{parse(text, subject, kRates, "300Mbps")};
}
Bytes parse_bytes(std::string_view text, std::string_view subject) {
  return Bytes{parse(text, subject, kSizes, "8GiB")};
}
FlopsPerSecond parse_flops(std::string_view text, std::string_view subject) {
  return FlopsPerSecond{parse(text, subject, kSpeeds, "1.5Gf")};
}

std::string to_text(Seconds value) {
  constexpr Unit kShown[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}};
  constexpr Unit kLong[] = {{"h", 3600.0}, {"d", 86400.0}};
  constexpr double kLongest = 9999.5;  // in seconds
  if (std::abs(value.value()) >= kLongest) return format(value.value(), kLong);
  return format(value.value(), value.value() == 0.0 ? std::span(kShown).last(1) : kShown);
}
std::string to_text(Bytes value) {
  constexpr Unit kShown[] = {{"B", 1.0}, {"KiB", kKi}, {"MiB", kMi}, {"GiB", kGi}, {"TiB", kTi}};
  return format(value.value(), kShown);
}
std::string to_text(BytesPerSecond value) {
  constexpr Unit kShown[] = {
      {"Bps", 1.0}, {"kBps", 1e3}, {"MBps", 1e6}, {"GBps", 1e9}, {"TBps", 1e12}};
  return format(value.value(), kShown);
}
std::string to_text(FlopsPerSecond value) {
  constexpr Unit kShown[] = {{"f", 1.0},  {"kf", 1e3},  {"Mf", 1e6},
                             {"Gf", 1e9}, {"Tf", 1e12}, {"Pf", 1e15}};
  return format(value.value(), kShown);
}

std::string shortest_text(double value) {
  std::array<char, 32> text{};
  const auto [end, fault] = std::to_chars(text.data(), text.data() + text.size(), value);
  require(fault == std::errc(), "32 characters hold any double");
  return {text.data(), end};
}

}  // namespace tandem::model
