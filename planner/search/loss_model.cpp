#include "planner/search/loss_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/base/error.hpp"
#include "model/base/json_value.hpp"
#include "model/base/limits.hpp"
#include "model/base/text_table.hpp"

namespace tandem::planner {
namespace {

using model::JsonValue;

constexpr std::string_view kLossSchema = "tandem.sparse_loss/1";
constexpr std::string_view kLossRemedy =
    "measure it again with scenarios/models/train/sparse_loss.py";
constexpr std::string_view kLossUnit = "bits per byte more than with nothing dropped";
constexpr std::size_t kMostKnots = 64;
constexpr std::size_t kMostTerms = 4096;
constexpr double kMostLoss = 64.0;
constexpr double kOtherRows = 0.05;  // of all rows, at one place
constexpr double kDropRounding = 1e-9;

constexpr std::int64_t kMostInt32 = std::numeric_limits<std::int32_t>::max();

std::int32_t int32(const JsonValue& value, std::int64_t least, std::int64_t most) {
  return static_cast<std::int32_t>(value.integer(least, most));
}

void read_places(const JsonValue& value, LossModel& loss) {
  value.expect_keys({"platform", "rows", "groups", "prompt_tokens"});
  loss.platform = value.at("platform").line();
  const JsonValue rows = value.at("rows");
  double sum = 0.0;
  for (std::size_t i = 0; i < rows.size(model::limits::kDevices); ++i) {
    loss.rows.push_back(rows.at(i).number(0.0, 1.0));
    sum += loss.rows.back();
  }
  if (loss.rows.size() < 2) rows.fail("two places or more");
  if (std::abs(sum - 1.0) > 1e-3) rows.fail("parts that add up to 1");
  const JsonValue groups = value.at("groups");
  for (std::size_t n = 0; n < groups.size(static_cast<std::size_t>(kMostLevels) - 2); ++n) {
    const JsonValue level = groups.at(n);
    if (level.size(model::limits::kDevices) != loss.rows.size())
      level.fail("a group for each of the " + std::to_string(loss.rows.size()) + " places");
    std::vector<std::int32_t>& of = loss.groups.emplace_back();
    for (std::size_t i = 0; i < loss.rows.size(); ++i) {
      of.push_back(int32(level.at(i), 0, kMostInt32));
      const std::int32_t before = i == 0 ? 0 : of[i - 1];
      if (i == 0 ? of[i] != 0 : of[i] != before && of[i] != before + 1)
        level.at(i).fail("numbers from 0 on that ascend by 0 or 1");
      if (n > 0 && i > 0 && of[i] != before && loss.groups[n - 1][i] == loss.groups[n - 1][i - 1])
        level.at(i).fail("groups of the level before within one of this");
    }
  }
  const JsonValue tokens = value.at("prompt_tokens");
  if (tokens.size(2) != 2) tokens.fail("two numbers, least and most");
  loss.least_tokens = tokens.at(0).integer(1, kMostInt32);
  loss.most_tokens = tokens.at(1).integer(loss.least_tokens, kMostInt32);
}

// Reads the bands: all layers that may drop, in consecutive runs.
void read_bands(const JsonValue& value, LossModel& loss) {
  const auto layers = static_cast<std::int32_t>(loss.model.layers);
  if (layers < 4)
    value.fail("none: a model of " + std::to_string(layers) + " layers has none that may drop");
  std::int32_t next = 2;
  for (std::size_t i = 0; i < value.size(model::limits::kNetwork); ++i) {
    const JsonValue band = value.at(i);
    if (band.size(2) != 2) band.fail("two numbers, [begin, end)");
    const model::Range range{int32(band.at(0), 0, layers), int32(band.at(1), 0, layers)};
    if (range.begin != next || range.end <= next || range.end > layers - 1)
      band.fail("layers from " + std::to_string(next) + " on, of which the last may not drop");
    loss.bands.push_back(range);
    next = range.end;
  }
  if (next != layers - 1)
    value.fail("bands of all layers from 2 to " + std::to_string(layers - 2) + ", which may drop");
}

std::vector<std::int32_t> read_ascending(const JsonValue& value, std::int32_t least,
                                         std::int32_t most) {
  std::vector<std::int32_t> numbers;
  for (std::size_t i = 0; i < value.size(model::limits::kNetwork); ++i) {
    numbers.push_back(int32(value.at(i), least, most));
    if (i > 0 && numbers[i] <= numbers[i - 1]) value.at(i).fail("numbers that ascend");
  }
  if (numbers.empty()) value.fail("at least one");
  return numbers;
}

void read_terms(const JsonValue& value, LossModel& loss) {
  for (std::size_t i = 0; i < value.size(kMostTerms); ++i) {
    const JsonValue term = value.at(i);
    term.expect_keys({"bands", "levels", "loss"});
    LossTerm& of = loss.terms.emplace_back(LossTerm{
        .bands =
            read_ascending(term.at("bands"), 0, static_cast<std::int32_t>(loss.bands.size()) - 1),
        .levels = read_ascending(term.at("levels"), 2, loss.levels()),
        .loss = {}});
    const JsonValue values = term.at("loss");
    if (values.size(kMostKnots) != loss.knots.size())
      values.fail("a number for each of the " + std::to_string(loss.knots.size()) + " knots");
    for (std::size_t k = 0; k < loss.knots.size(); ++k) {
      of.loss.push_back(values.at(k).number(0.0, kMostLoss));
      if (k == 0 && of.loss[0] > 0.0) values.at(k).fail("0, as nothing dropped costs nothing");
      if (k > 0 && of.loss[k] < of.loss[k - 1])
        values.at(k).fail("no less than at the knot before, as more dropped costs no less");
    }
  }
}

LossModel read_loss(const JsonValue& root, const std::string& source) {
  root.expect_keys({"schema", "unit", "model", "weights", "places", "bands", "knots", "terms",
                    "measured", "held_out"});
  if (root.at("unit").text() != kLossUnit)
    root.at("unit").fail("\"" + std::string(kLossUnit) + "\"");
  LossModel loss{.source = source,
                 .model = read_measured_model(root.at("model"), source),
                 .weights = read_measured_weights(root.at("weights")),
                 .platform = {}};
  read_places(root.at("places"), loss);
  read_bands(root.at("bands"), loss);
  const JsonValue knots = root.at("knots");
  for (std::size_t i = 0; i < knots.size(kMostKnots); ++i) {
    loss.knots.push_back(knots.at(i).number(0.0, 1.0));
    if (i == 0 ? loss.knots[0] > 0.0 : loss.knots[i] <= loss.knots[i - 1])
      knots.at(i).fail("0 and then numbers that ascend");
  }
  if (loss.knots.size() < 2 || loss.knots.back() >= 1.0)
    knots.fail("0 and at least one part more, below 1");
  read_terms(root.at("terms"), loss);
  const JsonValue measured = root.at("measured");
  measured.expect_keys({"settings", "documents", "bytes", "dense_bits_per_byte", "text_sha256"});
  loss.settings = measured.at("settings").integer(1, kMostInt32);
  // Informative: the amount of measurement.
  static_cast<void>(measured.at("documents").integer(1, kMostInt32));
  static_cast<void>(measured.at("bytes").integer(1, std::int64_t{1} << 52U));
  static_cast<void>(measured.at("dense_bits_per_byte").number(0.0, kMostLoss));
  static_cast<void>(measured.at("text_sha256").line());
  const JsonValue held_out = root.at("held_out");
  held_out.expect_keys({"folds", "seed", "rms", "worst", "mean_rms"});
  static_cast<void>(held_out.at("folds").integer(2, kMostInt32));
  static_cast<void>(held_out.at("seed").integer(0, kMostInt32));
  loss.held_out_rms = held_out.at("rms").number(0.0, kMostLoss);
  loss.held_out_worst = held_out.at("worst").number(loss.held_out_rms, kMostLoss);
  loss.mean_rms = held_out.at("mean_rms").number(0.0, kMostLoss);
  return loss;
}

// From `level` up to the last one, the first whose group of `place` has `other`.
std::int32_t level_between(const SparseAttention& sparse, std::size_t place, std::size_t other) {
  const auto at = static_cast<std::int32_t>(other);
  std::int32_t level = 2;
  while (true) {
    const model::Range group = sparse.group(level, place);
    if (group.begin <= at && at < group.end) return level;
    ++level;
  }
}

double interpolated(const std::vector<double>& knots, const std::vector<double>& values, double x) {
  const auto above = std::ranges::lower_bound(knots, x - kDropRounding);
  if (above == knots.end()) return values.back();
  const auto k = static_cast<std::size_t>(above - knots.begin());
  if (k == 0) return values.front();
  const double part = std::min(1.0, (x - knots[k - 1]) / (knots[k] - knots[k - 1]));
  return values[k - 1] + part * (values[k] - values[k - 1]);
}

std::string list_of(const std::vector<std::int32_t>& groups) {
  std::string text;
  for (const std::int32_t group : groups) text += (text.empty() ? "" : " ") + std::to_string(group);
  return text;
}

}  // namespace

double LossModel::loss(const std::vector<std::vector<double>>& dropped) const {
  double sum = 0.0;
  for (const LossTerm& term : terms) {
    double parts = 0.0;
    double layers = 0.0;
    for (const std::int32_t b : term.bands) {
      const auto band = static_cast<std::size_t>(b);
      for (const std::int32_t level : term.levels)
        parts += bands[band].size() * dropped[band][static_cast<std::size_t>(level) - 2];
      layers += bands[band].size() * static_cast<double>(term.levels.size());
    }
    sum += interpolated(knots, term.loss, parts / layers);
  }
  return sum;
}

double LossModel::loss(const SparseAttention& sparse) const {
  const std::vector<std::int32_t> level = level_of(sparse);
  if (static_cast<std::int64_t>(sparse.drop.size()) != model.layers)
    throw Error(source + ": measured of " + std::to_string(model.layers) + " layers, not of " +
                std::to_string(sparse.drop.size()) + "; " + std::string(kLossRemedy));
  std::vector<std::vector<double>> dropped;
  const auto heads = model.kv_heads;
  for (const model::Range& band : bands) {
    std::vector<double>& of = dropped.emplace_back(level.size(), 0.0);
    for (std::int32_t layer = band.begin; layer < band.end; ++layer) {
      for (std::size_t n = 0; n < level.size(); ++n) {
        if (sparse.head_runs(layer, level[n], heads).size() > 1)
          throw Error(source + ": measured with heads that drop equally, not as layer " +
                      std::to_string(layer) + " of the plan by head; give each level one ratio");
        const double part = sparse.dropped(layer, level[n], 0);
        if (part > most_dropped() + kDropRounding)
          throw Error(source + ": layer " + std::to_string(layer) + " drops " +
                      model::fixed(part, 4) + ", expected at most " +
                      model::fixed(most_dropped(), 4) + ", the most that was measured; " +
                      std::string(kLossRemedy) + ", or drop less");
        of[n] += part / band.size();
      }
    }
  }
  return loss(dropped);
}

std::vector<std::int32_t> LossModel::level_of(const SparseAttention& sparse) const {
  const std::string remedy = "; measure it there (sparse_loss.py --platform), or give '--levels 2'";
  if (sparse.overlap)
    throw Error(
        source +
        ": measured with disjoint levels, not with overlapping ones, which lose otherwise; plan "
        "without '--levels-overlap'");
  if (sparse.order.size() != rows.size())
    throw Error(source + ": measured on " + std::to_string(rows.size()) + " devices ('" + platform +
                "'), not on " + std::to_string(sparse.order.size()) +
                "; measure it there (sparse_loss.py --platform)");
  const SparseAttention measured{.order = sparse.order, .groups = groups};
  std::vector<std::int32_t> found(static_cast<std::size_t>(levels()) - 1, 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      std::int32_t& of = found[static_cast<std::size_t>(level_between(measured, i, j)) - 2];
      const std::int32_t level = level_between(sparse, i, j);
      if (of != 0 && of != level) {
        const auto& theirs = sparse.groups.empty() ? std::vector<std::int32_t>() : sparse.groups[0];
        throw Error(source + ": measured with other groups of places, " +
                    (groups.empty() ? "none" : list_of(groups[0])) + " ('" + platform +
                    "'), than the plan's, " + list_of(theirs) + remedy);
      }
      of = level;
    }
  }
  // A level that no two places have is as the one before.
  for (std::size_t n = 0; n < found.size(); ++n) {
    if (found[n] == 0) found[n] = n == 0 ? 2 : found[n - 1];
  }
  return found;
}

void LossModel::check_model(const model::Transformer& transformer) const {
  check_measured_model(model, transformer, source, kLossRemedy);
}

std::vector<std::string> LossModel::remarks(const Plan& plan) const {
  std::vector<std::string> found;
  const std::string measured = "the loss was measured ";
  const std::int64_t tokens = plan.workload.prompt_tokens;
  if (tokens < least_tokens || tokens > most_tokens)
    found.push_back(measured + "of prompts of " + std::to_string(least_tokens) + " to " +
                    std::to_string(most_tokens) + " tokens; of " + std::to_string(tokens) +
                    " it may be another");
  if (plan.model.formats != model::WeightFormats() || plan.model.cache != model::CacheFormat::f32 ||
      plan.wire != model::WireFormat::f32)
    found.push_back(measured +
                    "with weights, cache and messages in f32; in other formats it may be another");
  if (!plan.sparse) return found;
  double all = 0.0;
  std::vector<double> parts;
  for (const model::DeviceIndex device : plan.sparse->order) {
    parts.push_back(plan.devices[static_cast<std::size_t>(device)].share.computed_columns().size());
    all += parts.back();
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (std::abs(parts[i] / all - rows[i]) <= kOtherRows) continue;
    found.push_back(measured + "with " + model::fixed(100.0 * rows[i], 0) +
                    "% of a prompt's rows at place " + std::to_string(i + 1) + ", not " +
                    model::fixed(100.0 * parts[i] / all, 0) +
                    "%: it may be another, as nothing of a device's own rows is dropped");
    break;
  }
  return found;
}

LossModel parse_loss_model(std::string_view text, std::string_view source) {
  const model::JsonDocument document(text, source, kLossRemedy);
  model::expect_schema(document.root(), kLossSchema);
  return read_loss(document.root(), document.source());
}

}  // namespace tandem::planner
