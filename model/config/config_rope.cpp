#include "model/config/config_rope.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "model/config/config_experts.hpp"
#include "model/config/config_fields.hpp"

namespace tandem::model {
namespace {

constexpr double kPlainRopeTheta = 10000.0;

// Returns the original context of a scaling: its own, or the file's.
std::int64_t original_context(const JsonValue& root, const JsonValue& scaling,
                              std::optional<std::int64_t> absent) {
  const std::string_view key = "original_max_position_embeddings";
  const auto inner = size_of_field(scaling, key);
  const auto outer = size_of_field(root, key);
  if (inner && outer && *inner != *outer)
    scaling.at(key).fail(std::to_string(*outer) + ", as the file has it outside");
  if (inner) return *inner;
  if (outer) return *outer;
  if (absent) return *absent;
  return scaling.at(key).integer(1, kMaxSize);
}

// Peng et al. 2023; some models apply a part of the growth of attention with the factor.
RopeScaling read_yarn(const JsonValue& root, const Dialect& dialect, const JsonValue& scaling,
                      Transformer& t) {
  scaling.expect_keys({"rope_type", "type", "factor", "rope_theta", "partial_rotary_factor",
                       "original_max_position_embeddings", "attention_factor", "beta_fast",
                       "beta_slow", "mscale", "mscale_all_dim", "truncate",
                       "llama_4_scaling_beta"});
  RopeScaling result{.kind = RopeScaling::Kind::yarn};
  result.factor = scaling.at("factor").number(1.0, kMaxNumber);
  result.original_context = original_context(root, scaling, size_of_field(root, dialect.context));
  result.fast_turns = positive_or(scaling, "beta_fast", result.fast_turns);
  result.slow_turns = positive_or(scaling, "beta_slow", result.slow_turns);
  if (const auto whole = scaling.find("truncate")) result.whole_pairs = whole->boolean();
  const auto part = [&](std::string_view key) {
    const auto field = scaling.find(key);
    return field ? field->number(0.0, kMaxNumber) : 0.0;
  };
  const auto growth = [&](double of) {
    constexpr double kGrowth = 0.1;
    return 1.0 + kGrowth * of * std::log(result.factor);
  };
  const double scale = part("mscale");
  const double all = part("mscale_all_dim");
  const double implied = scale > 0.0 && all > 0.0 ? growth(scale) / growth(all) : growth(1.0);
  result.attention_factor = static_cast<float>(positive_or(scaling, "attention_factor", implied));
  if (const auto beta = scaling.find("llama_4_scaling_beta")) {
    t.query_growth = beta->number(0.0, kMaxNumber);
    if (t.query_growth > 0.0 && dialect.model_type != "ministral3")
      beta->fail("none: queries grow with positions in ministral3 only");
  }
  return result;
}

// Ding et al. 2024.
RopeScaling read_longrope(const JsonValue& root, const Dialect& dialect, const JsonValue& scaling) {
  scaling.expect_keys({"rope_type", "type", "factor", "rope_theta", "partial_rotary_factor",
                       "original_max_position_embeddings", "attention_factor", "short_factor",
                       "long_factor"});
  RopeScaling result{.kind = RopeScaling::Kind::longrope};
  constexpr std::int64_t kOriginal = 4096;
  result.original_context = original_context(root, scaling, kOriginal);
  const auto original = static_cast<double>(result.original_context);
  const double ratio =
      positive_or(scaling, "factor",
                  static_cast<double>(root.at(dialect.context).integer(1, kMaxSize)) / original);
  const double implied =
      ratio > 1.0 && original > 1.0 ? std::sqrt(1.0 + std::log(ratio) / std::log(original)) : 1.0;
  result.attention_factor = static_cast<float>(positive_or(scaling, "attention_factor", implied));
  const auto list = [&](std::string_view key) {
    constexpr std::size_t kMost = 4096;
    const JsonValue values = scaling.at(key);
    std::vector<float> factors;
    const std::size_t count = values.size(kMost);
    for (std::size_t i = 0; i < count; ++i)
      factors.push_back(static_cast<float>(positive(values.at(i))));
    return factors;
  };
  result.short_factors = list("short_factor");
  result.long_factors = list("long_factor");
  return result;
}

std::optional<RopeScaling> read_scaling(const JsonValue& root, const Dialect& dialect,
                                        const JsonValue& scaling, Transformer& t) {
  const auto newer = scaling.find("rope_type");
  const auto older = scaling.find("type");
  const auto kind_field = newer ? *newer : scaling.at("type");
  const std::string kind = kind_field.text();
  if (newer && older && older->text() != kind) older->fail("\"" + kind + "\", as rope_type has it");
  if (kind == "default") {
    // Three positions a token (Qwen's mrope), which are equal in a text.
    if (dialect.model_type == "qwen3_vl_text") {
      scaling.expect_keys({"rope_type", "type", "rope_theta", "partial_rotary_factor",
                           "mrope_interleaved", "mrope_section"});
      return std::nullopt;
    }
    scaling.expect_keys({"rope_type", "type", "rope_theta", "partial_rotary_factor"});
    return std::nullopt;
  }
  if (kind == "dynamic") {
    scaling.expect_keys({"rope_type", "type", "factor", "rope_theta", "partial_rotary_factor"});
    (void)scaling.at("factor").number(1.0, kMaxNumber);
    return std::nullopt;
  }
  // Phi 3's first files name it "su", and its class accepts "yarn" for it.
  const bool phi3 = dialect.family == Family::phi3;
  if (kind == "longrope" || (phi3 && (kind == "su" || kind == "yarn")))
    return read_longrope(root, dialect, scaling);
  if (kind == "yarn") return read_yarn(root, dialect, scaling, t);
  RopeScaling result;
  if (kind != "linear" && kind != "llama3") {
    kind_field.fail("one of default, linear, llama3, yarn, longrope, dynamic");
  }
  result.factor = scaling.at("factor").number(1.0, kMaxNumber);
  if (kind == "linear") {
    scaling.expect_keys({"rope_type", "type", "factor", "rope_theta", "partial_rotary_factor"});
    return result;
  }
  scaling.expect_keys({"rope_type", "type", "factor", "low_freq_factor", "high_freq_factor",
                       "original_max_position_embeddings", "rope_theta", "partial_rotary_factor"});
  result.kind = RopeScaling::Kind::llama3;
  result.low_frequency_factor = positive(scaling.at("low_freq_factor"));
  const JsonValue high = scaling.at("high_freq_factor");
  result.high_frequency_factor = positive(high);
  if (result.high_frequency_factor <= result.low_frequency_factor) {
    high.fail("a number above low_freq_factor");
  }
  result.original_context = scaling.at("original_max_position_embeddings").integer(1, kMaxSize);
  return result;
}

// The dimensions of a head that are rotated.
void read_partial(const JsonValue& root, const std::optional<JsonValue>& scaling,
                  const Dialect& dialect, Transformer& t) {
  if (dialect.family == Family::glm) return;
  std::optional<JsonValue> part = root.find("partial_rotary_factor");
  if (const auto inner = scaling ? scaling->find("partial_rotary_factor") : std::nullopt) {
    if (part && part->number(0.0, 1.0) != inner->number(0.0, 1.0))
      inner->fail("the same as partial_rotary_factor of the file");
    part = inner;
  }
  if (!part) return;
  const double share = part->number(0.0, 1.0);
  if (dialect.family != Family::phi3) {
    if (share != 1.0) part->fail("1: all of a head is rotated");
    return;
  }
  const auto dims = static_cast<std::int64_t>(static_cast<double>(t.head_dim) * share);
  if (dims < 2 || dims % 2 != 0)
    part->fail("a share of " + std::to_string(t.head_dim) + " that is an even number");
  if (dims != t.head_dim) t.rotary_dims = dims;
}

// Scaling changes no cost, and models with experts are planned only: the base alone is kept.
void read_theta(const JsonValue& root, Transformer& t) {
  const auto parameters = root.find("rope_parameters");
  const auto inner =
      parameters && parameters->is_object() ? parameters->find("rope_theta") : std::nullopt;
  if (inner) t.rope_theta = positive(*inner);
}

nlohmann::ordered_json scaling_json(const Transformer& t) {
  nlohmann::ordered_json json;  // null: none
  if (!t.rope_scaling) return json;
  const RopeScaling& s = *t.rope_scaling;
  switch (s.kind) {
    case RopeScaling::Kind::linear:
      json["rope_type"] = "linear";
      json["factor"] = s.factor;
      return json;
    case RopeScaling::Kind::llama3:
      json["rope_type"] = "llama3";
      json["factor"] = s.factor;
      json["low_freq_factor"] = s.low_frequency_factor;
      json["high_freq_factor"] = s.high_frequency_factor;
      break;
    case RopeScaling::Kind::yarn:
      json["rope_type"] = "yarn";
      json["factor"] = s.factor;
      json["beta_fast"] = s.fast_turns;
      json["beta_slow"] = s.slow_turns;
      json["attention_factor"] = s.attention_factor;
      if (!s.whole_pairs) json["truncate"] = false;
      if (t.query_growth > 0.0) json["llama_4_scaling_beta"] = t.query_growth;
      break;
    case RopeScaling::Kind::longrope:
      json["rope_type"] = "longrope";
      json["attention_factor"] = s.attention_factor;
      json["short_factor"] = s.short_factors;
      json["long_factor"] = s.long_factors;
      break;
  }
  json["original_max_position_embeddings"] = s.original_context;
  return json;
}

}  // namespace

void read_rope(const JsonValue& root, const Dialect& dialect, Transformer& t) {
  if (dialect.model_type == "chatglm") {
    if (const auto ratio = root.find("rope_ratio")) {
      t.rope_theta = kPlainRopeTheta * positive(*ratio, 1e12);
    }
    return;
  }
  t.rope_theta = dialect.default_theta;
  const auto theta = root.find("rope_theta");
  if (theta) t.rope_theta = positive(*theta);
  if (has_experts(dialect.family)) return read_theta(root, t);
  const std::optional<JsonValue> older = root.find("rope_scaling");
  // Newer files keep all of it in one object.
  const std::optional<JsonValue> newer = root.find("rope_parameters");
  if (older && newer) newer->fail("none beside rope_scaling");
  const std::optional<JsonValue> scaling = newer ? newer : older;
  // If it is absent, the class rotates by a default YaRN.
  if (!scaling && dialect.model_type == "ministral3")
    root.at("rope_parameters").fail("an object that says how positions are rotated");
  read_partial(root, scaling, dialect, t);
  if (!scaling) return;
  if (const auto inner = scaling->find("rope_theta")) {
    const double value = positive(*inner);
    if (theta && value != t.rope_theta) inner->fail("the same as rope_theta of the file");
    t.rope_theta = value;
  }
  if (older || scaling->find("rope_type") || scaling->find("type")) {
    t.rope_scaling = read_scaling(root, dialect, *scaling, t);
  } else {
    scaling->expect_keys({"rope_theta", "partial_rotary_factor"});
  }
}

void write_rope(const Transformer& t, nlohmann::ordered_json& json) {
  json["rope_theta"] = t.rope_theta;
  json["rope_scaling"] = scaling_json(t);
  if (t.family != Family::phi3) return;
  json["partial_rotary_factor"] =
      static_cast<double>(t.rotated()) / static_cast<double>(t.head_dim);
  if (t.rope_scaling && t.rope_scaling->kind == RopeScaling::Kind::longrope)
    json["original_max_position_embeddings"] = t.rope_scaling->original_context;
}

}  // namespace tandem::model
