#include "model/config/config_traits.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/config/config_fields.hpp"

namespace tandem::model {
namespace {

// Absent: `absent`; null: none.
std::int64_t window_or(const JsonValue& root, std::int64_t absent) {
  if (!root.json().contains("sliding_window")) return absent;
  return size_of_field(root, "sliding_window").value_or(0);
}

// "layer_types", one for each layer; true: attends within the window.
std::vector<bool> layer_types(const JsonValue& types, const Transformer& t) {
  const std::size_t count = types.size(static_cast<std::size_t>(kMaxSize));
  if (count != static_cast<std::size_t>(t.layers))
    types.fail("one for each of the " + std::to_string(t.layers) + " layers");
  std::vector<bool> windowed;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string type = types.at(i).text();
    if (type != "full_attention" && (type != "sliding_attention" || t.window == 0))
      types.at(i).fail("\"full_attention\", or \"sliding_attention\" with a sliding_window");
    windowed.push_back(type == "sliding_attention");
  }
  return windowed;
}

// `usual` returns whether a layer is windowed if the file does not state it.
template <class Usual>
void read_windows(const JsonValue& root, Transformer& t, const Usual& usual) {
  if (const auto types = root.find("layer_types")) {
    t.windowed = layer_types(*types, t);
  } else if (t.window > 0) {
    for (std::int64_t layer = 0; layer < t.layers; ++layer) t.windowed.push_back(usual(layer));
  }
  if (std::ranges::find(t.windowed, true) == t.windowed.end()) {
    t.windowed.clear();
    t.window = 0;
  }
}

void read_qwen(const JsonValue& root, Transformer& t) {
  constexpr std::int64_t kWindow = 4096;
  constexpr std::int64_t kFullLayers = 28;
  const auto uses = root.find("use_sliding_window");
  const std::int64_t window = window_or(root, kWindow);
  if (uses && uses->boolean()) t.window = window;
  const auto full = root.find("max_window_layers");
  const std::int64_t first = full ? full->integer(0, kMaxSize) : kFullLayers;
  read_windows(root, t, [&](std::int64_t layer) { return layer >= first; });
}

void read_gemma(const JsonValue& root, Transformer& t) {
  constexpr std::int64_t kWindow = 4096;
  constexpr std::int64_t kScalar = 256;
  const bool third = t.family == Family::gemma3;
  t.embedding_scale = std::sqrt(static_cast<double>(t.hidden));
  const std::int64_t scalar = size_of_field(root, "query_pre_attn_scalar").value_or(kScalar);
  if (scalar != t.head_dim) t.attention_scale = 1.0 / std::sqrt(static_cast<double>(scalar));
  // null: none.
  const auto cap = [&](std::string_view key, double absent) {
    return root.json().contains(key) ? positive_or(root, key, 0.0) : absent;
  };
  constexpr double kScoreCap = 50.0;
  constexpr double kLogitCap = 30.0;
  t.score_cap = cap("attn_logit_softcapping", third ? 0.0 : kScoreCap);
  t.logit_cap = cap("final_logit_softcapping", third ? 0.0 : kLogitCap);
  t.window = window_or(root, kWindow);
  if (const auto again = root.find("sliding_window_size");
      again && again->integer(1, kMaxSize) != t.window)
    again->fail(std::to_string(t.window) + ", as sliding_window has it");
  std::int64_t every = third ? 6 : 2;  // of which the last has no window
  for (const std::string_view key : {"sliding_window_pattern", "_sliding_window_pattern"}) {
    if (third) every = size_of_field(root, key).value_or(every);
  }
  read_windows(root, t, [&](std::int64_t layer) { return (layer + 1) % every != 0; });
  constexpr double kLocalTheta = 10000.0;
  if (third && t.window > 0 && t.window_rope_theta == 0.0)
    t.window_rope_theta = positive_or(root, "rope_local_base_freq", kLocalTheta);
}

void read_gpt_oss(const JsonValue& root, Transformer& t) {
  constexpr std::int64_t kWindow = 128;
  t.window = window_or(root, kWindow);
  read_windows(root, t, [](std::int64_t layer) { return layer % 2 == 0; });
}

void read_granite(const JsonValue& root, Transformer& t) {
  t.embedding_scale = positive_or(root, "embedding_multiplier", 1.0);
  t.residual_scale = positive_or(root, "residual_multiplier", 1.0);
  t.attention_scale = positive_or(root, "attention_multiplier", 1.0);
  t.logit_divisor = positive_or(root, "logits_scaling", 1.0);
}

void read_smollm3(const JsonValue& root, Transformer& t) {
  constexpr std::int64_t kInterval = 4;
  const std::int64_t every = size_of_field(root, "no_rope_layer_interval").value_or(kInterval);
  const auto list = root.find("no_rope_layers");
  if (list && list->size(static_cast<std::size_t>(kMaxSize)) < static_cast<std::size_t>(t.layers))
    list->fail("one for each of the " + std::to_string(t.layers) + " layers");
  for (std::int64_t layer = 0; layer < t.layers; ++layer) {
    // 1: the layer is rotated.
    t.unrotated.push_back(list ? list->at(static_cast<std::size_t>(layer)).integer(0, 1) == 0
                               : (layer + 1) % every == 0);
  }
  const auto uses = root.find("use_sliding_window");
  const std::int64_t window = window_or(root, 0);
  if (uses && uses->boolean()) t.window = window;
  read_windows(root, t,
               [&](std::int64_t layer) { return t.unrotated[static_cast<std::size_t>(layer)]; });
  if (std::ranges::find(t.unrotated, true) == t.unrotated.end()) t.unrotated.clear();
}

constexpr std::array<std::string_view, 6> kSmolLm3{"sliding_window",     "layer_types",
                                                   "use_sliding_window", "max_window_layers",
                                                   "no_rope_layers",     "no_rope_layer_interval"};
constexpr std::span kQwen = std::span(kSmolLm3).first<4>();
constexpr std::array<std::string_view, 9> kGemma3{
    "sliding_window",         "layer_types",
    "query_pre_attn_scalar",  "attn_logit_softcapping",
    "sliding_window_size",    "final_logit_softcapping",
    "rope_local_base_freq",   "sliding_window_pattern",
    "_sliding_window_pattern"};
constexpr std::span kGemma2 = std::span(kGemma3).first<6>();
constexpr std::array<std::string_view, 4> kGranite{"embedding_multiplier", "residual_multiplier",
                                                   "attention_multiplier", "logits_scaling"};

struct TraitsRow {
  Family family;
  std::span<const std::string_view> keys;
  void (*read)(const JsonValue& root, Transformer& t);
};
// The families that have traits.
constexpr std::array kTraits{TraitsRow{Family::qwen2, kQwen, read_qwen},
                             TraitsRow{Family::qwen3, kQwen, read_qwen},
                             TraitsRow{Family::gemma2, kGemma2, read_gemma},
                             TraitsRow{Family::gemma3, kGemma3, read_gemma},
                             TraitsRow{Family::qwen2_moe, kQwen, read_qwen},
                             TraitsRow{Family::qwen3_moe, kQwen, read_qwen},
                             TraitsRow{Family::gpt_oss, kQwen, read_gpt_oss},
                             TraitsRow{Family::granite, kGranite, read_granite},
                             TraitsRow{Family::smollm3, kSmolLm3, read_smollm3}};

const TraitsRow* traits_of(Family family) {
  const auto* const found = std::ranges::find(kTraits, family, &TraitsRow::family);
  return found == kTraits.end() ? nullptr : found;
}

bool has_windows(Family family) {
  const std::span<const std::string_view> keys = trait_keys(family);
  return std::ranges::find(keys, "sliding_window") != keys.end();
}

}  // namespace

void read_traits(const JsonValue& root, const Dialect& dialect, Transformer& t) {
  if (const TraitsRow* const row = traits_of(dialect.family)) row->read(root, t);
}

std::span<const std::string_view> trait_keys(Family family) {
  const TraitsRow* const row = traits_of(family);
  return row == nullptr ? std::span<const std::string_view>() : row->keys;
}

void write_traits(const Transformer& t, nlohmann::ordered_json& json) {
  const nlohmann::ordered_json none;
  const auto or_none = [&](double value) {
    return value > 0.0 ? nlohmann::ordered_json(value) : none;
  };
  if (has_windows(t.family)) {
    const bool any = t.window > 0;
    const bool says_use = t.family != Family::gemma2 && t.family != Family::gemma3;
    if (says_use) json["use_sliding_window"] = any;
    json["sliding_window"] = any ? nlohmann::ordered_json(t.window) : none;
    for (std::int64_t layer = 0; any && layer < t.layers; ++layer) {
      json["layer_types"].push_back(
          t.windowed[static_cast<std::size_t>(layer)] ? "sliding_attention" : "full_attention");
    }
  }
  if (t.family == Family::gemma2 || t.family == Family::gemma3) {
    // The scale was made of a whole number.
    json["query_pre_attn_scalar"] =
        t.attention_scale == 0.0 ? t.head_dim
                                 : static_cast<std::int64_t>(
                                       std::llround(1.0 / (t.attention_scale * t.attention_scale)));
    json["attn_logit_softcapping"] = or_none(t.score_cap);
    json["final_logit_softcapping"] = or_none(t.logit_cap);
    if (t.window_rope_theta > 0.0) json["rope_local_base_freq"] = t.window_rope_theta;
  }
  if (t.family == Family::granite) {
    json["embedding_multiplier"] = t.embedding_scale;
    json["residual_multiplier"] = t.residual_scale;
    json["attention_multiplier"] = t.attention_scale;
    json["logits_scaling"] = t.logit_divisor;
  }
  if (t.family == Family::smollm3) {
    for (std::int64_t layer = 0; layer < t.layers; ++layer)
      json["no_rope_layers"].push_back(t.rotates(static_cast<std::int32_t>(layer)) ? 1 : 0);
  }
}

}  // namespace tandem::model
