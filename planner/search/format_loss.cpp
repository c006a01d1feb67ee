#include "planner/search/format_loss.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/base/json_value.hpp"
#include "model/base/limits.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

using model::JsonValue;

constexpr std::string_view kFormatSchema = "tandem.format_loss/1";
constexpr std::string_view kFormatUnit = "bits per byte more than with messages and cache in f32";
constexpr std::string_view kFormatRemedy =
    "measure it again with scenarios/models/train/format_loss.py";
constexpr double kMostFormatLoss = 64.0;
constexpr std::size_t kMostStrategies = 64;

// `mean` and `strategy` are for readers.
double read_loss(const JsonValue& of) {
  const double mean = of.at("mean").number(-kMostFormatLoss, kMostFormatLoss);
  static_cast<void>(of.at("strategy").line());
  const double loss = of.at("loss").number(0.0, kMostFormatLoss);
  if (!(loss > 0.0) || loss < mean) of.at("loss").fail("a number above 0, and not below `mean`");
  return loss;
}

// The loss of one format; nothing if it was not measured.
std::optional<double> read_price(const JsonValue& prices, std::string_view format) {
  const auto of = prices.find(format);
  if (!of) return std::nullopt;
  of->expect_keys({"loss", "mean", "strategy"});
  return read_loss(*of);
}

FormatPrices read_prices(const JsonValue& root) {
  FormatPrices prices;
  const JsonValue messages = root.at("messages");
  messages.expect_keys({"f16", "bf16", "q8_0"});
  for (const model::WireFormat format : model::kWireFormats) {
    if (const auto loss = read_price(messages, to_string(format)))
      prices.messages.emplace_back(format, *loss);
  }
  const JsonValue cache = root.at("cache");
  cache.expect_keys({"f16", "q8_0"});
  for (const model::CacheFormat format : model::kCacheFormats) {
    if (const auto loss = read_price(cache, to_string(format)))
      prices.cache.emplace_back(format, *loss);
  }
  return prices;
}

FormatLoss read_format_loss(const JsonValue& root, const std::string& source) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  root.expect_keys({"schema", "unit", "model", "weights", "platform", "devices", "strategies",
                    "messages", "cache", "both", "measured"});
  if (root.at("unit").text() != kFormatUnit)
    root.at("unit").fail("\"" + std::string(kFormatUnit) + "\"");
  FormatLoss loss{.source = source,
                  .model = read_measured_model(root.at("model"), source),
                  .weights = read_measured_weights(root.at("weights")),
                  .platform = root.at("platform").line(),
                  .devices = root.at("devices").integer(2, model::limits::kDevices),
                  .prices = read_prices(root)};
  // For readers: that losses add up.
  const JsonValue both = root.at("both");
  both.expect_keys({"messages", "cache", "loss", "mean", "strategy"});
  static_cast<void>(both.at("messages").line());
  static_cast<void>(both.at("cache").line());
  static_cast<void>(read_loss(both));
  const JsonValue strategies = root.at("strategies");
  for (std::size_t i = 0; i < strategies.size(kMostStrategies); ++i)
    loss.strategies.push_back(strategies.at(i).line());
  if (loss.strategies.empty()) strategies.fail("at least one");
  const JsonValue measured = root.at("measured");
  measured.expect_keys({"documents", "parts", "bytes", "f32_bits_per_byte", "text_sha256"});
  loss.documents = measured.at("documents").integer(2, kMost);
  // Informative: the amount of measurement.
  static_cast<void>(measured.at("parts").integer(2, loss.documents));
  static_cast<void>(measured.at("bytes").integer(1, std::int64_t{1} << 52U));
  static_cast<void>(measured.at("f32_bits_per_byte").number(0.0, kMostFormatLoss));
  static_cast<void>(measured.at("text_sha256").line());
  return loss;
}

}  // namespace

void FormatLoss::check_model(const model::Transformer& transformer) const {
  check_measured_model(model, transformer, source, kFormatRemedy);
}

std::vector<std::string> FormatLoss::remarks(const Plan& plan) const {
  std::vector<std::string> found;
  const std::string measured = "the loss of formats was measured ";
  const bool sends = plan.cluster.size() > 1 && !sharding_of(plan).is_local() &&
                     plan.wire != model::WireFormat::f32;
  if (!sends && plan.model.cache == model::CacheFormat::f32) return found;
  if (plan.model.formats != model::WeightFormats())
    found.push_back(measured + "with weights in f32; with other weights it may be another");
  if (sends && std::ranges::find(strategies, plan.strategy) == strategies.end())
    found.push_back(measured + "with other strategies than '" + plan.strategy +
                    "'; with it the loss of messages may be another");
  if (sends && static_cast<std::int64_t>(plan.cluster.size()) > devices)
    found.push_back(measured + "on " + std::to_string(devices) + " devices; on " +
                    std::to_string(plan.cluster.size()) +
                    ", where sums may be rounded more often, the loss of messages may be another");
  return found;
}

FormatLoss parse_format_loss(std::string_view text, std::string_view source) {
  const model::JsonDocument document(text, source, kFormatRemedy);
  model::expect_schema(document.root(), kFormatSchema);
  return read_format_loss(document.root(), document.source());
}

}  // namespace tandem::planner
