#include "exec/gguf/gguf_geometry.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "exec/gguf/gguf_vocabulary_size.hpp"
#include "exec/kernels/rope.hpp"
#include "exec/weights/formats/block_codec.hpp"
#include "exec/weights/source/weight_source.hpp"
#include "model/base/error.hpp"
#include "model/base/limits.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::exec {
namespace {

using model::Family;
using model::kMaxSize;
using model::RopeScaling;
using model::Transformer;

constexpr std::size_t kMostStops = 256;
constexpr std::array<std::pair<Family, std::string_view>, 10> kGgufFamilies{
    {{Family::llama, "llama"},
     {Family::gpt2, "gpt2"},
     {Family::qwen2, "qwen2"},
     {Family::qwen3, "qwen3"},
     {Family::gemma2, "gemma2"},
     {Family::gemma3, "gemma3"},
     {Family::phi3, "phi3"},
     {Family::granite, "granite"},
     {Family::smollm3, "smollm3"},
     {Family::llama, kMistral3}}};

// Files store numbers in 32 bits that a config.json writes in decimal: the shortest decimal number
// that they can mean.
double decimal(double value) {
  if (static_cast<double>(static_cast<float>(value)) != value) return value;
  std::array<char, 64> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), static_cast<float>(value)).ptr;
  double result = value;
  std::from_chars(text.data(), end, result);
  return result;
}

class GeometryReader {
 public:
  explicit GeometryReader(const GgufFile& file) : file_(file) {}

  Transformer read() {
    check_general();
    read_sizes();
    if (!t_.architecture().learned()) {
      check_decoder();
      read_family();
      read_rope();
      read_factors();
    } else {
      t_.norm_epsilon = epsilon("attention.layer_norm_epsilon");
      t_.activation = model::Activation::gelu_tanh;
    }
    read_tokens();
    const std::vector<std::string> unknown = file_.unknown(arch_ + ".");
    if (!unknown.empty())
      file_.fail(unknown.front(),
                 "only keys that tandem knows, as it may change what the model computes");
    validate();
    return std::move(t_);
  }

 private:
  [[nodiscard]] std::string key(std::string_view name) const {
    return arch_ + "." + std::string(name);
  }

  // Reports impossible models in terms of this file, which has no config.json.
  void validate() const {
    constexpr std::string_view kOfFolders = "; correct the model's config.json";
    try {
      t_.validate();
    } catch (const Error& error) {
      std::string text = error.what();
      if (text.ends_with(kOfFolders)) {
        text.resize(text.size() - kOfFolders.size());
        text += "; convert the model anew";
      }
      throw Error(file_.path().string() + ": " + text);
    }
  }

  void check_general() {
    arch_ = file_.text("general.architecture").value_or("");
    const auto* const found = std::ranges::find(
        kGgufFamilies, arch_, [](const auto& entry) { return std::string(entry.second); });
    if (found == kGgufFamilies.end())
      file_.fail("general.architecture",
                 "one of " + known_architectures() +
                     ": of other families this program lacks norms, rotations or tensors; convert "
                     "another model");
    t_.family = found->first;
    if (const auto type = file_.text("general.type"); type && *type != "model")
      file_.fail("general.type", "'model'; give the file of a whole model");
    if (const auto version = file_.integer("general.quantization_version", 0, kMaxSize);
        version && *version != 2)
      file_.fail("general.quantization_version",
                 "2: blocks of other versions are stored otherwise; convert the model anew");
    std::string name = file_.text("general.name").value_or("");
    if (name.empty()) {
      name = file_.path().stem().string();
      constexpr std::size_t kTail = std::string_view("-00001-of-00002").size();
      if (file_.files().size() > 1) name.resize(name.size() - kTail);
    }
    constexpr std::size_t kLongest = 200;
    t_.name = model::one_line(std::string_view(name).substr(0, kLongest));
  }

  std::optional<std::int64_t> optional_size(std::string_view name) {
    return file_.integer(key(name), 1, kMaxSize);
  }
  std::int64_t needed(std::string_view name, std::optional<std::int64_t> value) {
    if (!value) file_.fail(key(name), "a whole number from 1; convert the model anew");
    return *value;
  }
  std::int64_t size(std::string_view name) { return needed(name, optional_size(name)); }
  // One number, or a list of the same one for every layer.
  std::optional<std::int64_t> optional_size_of_layers(std::string_view name) {
    const std::string full = key(name);
    const GgufValue* value = file_.find(full);
    if (value == nullptr) return std::nullopt;
    const auto* list = std::get_if<GgufValue::Numbers>(&value->value);
    if (list == nullptr) return optional_size(name);
    if (static_cast<std::int64_t>(list->size()) != t_.layers || list->front() < 1 ||
        list->front() > kMaxSize ||
        std::ranges::any_of(*list, [&](std::int64_t one) { return one != list->front(); }))
      file_.fail(full, "one number of at least 1, or " + std::to_string(t_.layers) +
                           ", the same in all layers");
    return list->front();
  }
  double positive(std::string_view name) {
    const auto value = file_.real(key(name));
    if (!value || !std::isfinite(*value) || *value <= 0.0)
      file_.fail(key(name), "a positive number; convert the model anew");
    return decimal(*value);
  }
  double epsilon(std::string_view name) {
    const double value = positive(name);
    if (value >= 1.0) file_.fail(key(name), "a number between 0 and 1");
    return value;
  }
  // A setting that only one value of is computed.
  void expect(std::string_view name, double expected, const std::string& why) {
    const std::string full = key(name);
    const GgufValue* value = file_.find(full);
    if (value == nullptr) return;
    if (const auto* flag = std::get_if<bool>(&value->value)) {
      if ((*flag ? 1.0 : 0.0) != expected) file_.fail(full, why);
    } else if (file_.real(full) != expected) {
      file_.fail(full, why);
    }
  }

  void read_sizes() {
    t_.layers = needed("block_count", file_.integer(key("block_count"), 1, model::limits::kLayers));
    t_.hidden = size("embedding_length");
    t_.heads = needed("attention.head_count", optional_size_of_layers("attention.head_count"));
    t_.kv_heads = optional_size_of_layers("attention.head_count_kv").value_or(t_.heads);
    if (t_.heads % t_.kv_heads != 0)
      file_.fail(key("attention.head_count_kv"),
                 "a divisor of " + std::to_string(t_.heads) + " heads");
    t_.intermediate = needed("feed_forward_length", optional_size_of_layers("feed_forward_length"));
    t_.max_context = size("context_length");
    if (const auto length = optional_size("attention.key_length")) {
      t_.head_dim = *length;
      if (t_.head_dim % 2 != 0) file_.fail(key("attention.key_length"), "an even number");
    } else {
      if (t_.hidden % t_.heads != 0)
        file_.fail(key("embedding_length"), "a multiple of " + std::to_string(t_.heads) + " heads");
      t_.head_dim = t_.hidden / t_.heads;
    }
    expect("attention.value_length", static_cast<double>(t_.head_dim),
           std::to_string(t_.head_dim) + ", as keys have it");
    t_.vocab = gguf_vocabulary_size(file_, arch_);
    t_.tied_embeddings = !file_.tensors().contains("output.weight");
  }

  static std::string known_architectures() {
    std::string known;
    for (const auto& [family, name] : kGgufFamilies)
      known += (known.empty() ? "" : ", ") + std::string(name);
    return known;
  }

  // Checks properties common to all families of decoders.
  void check_decoder() {
    t_.norm_epsilon = epsilon("attention.layer_norm_rms_epsilon");
    if (t_.family == Family::phi3) {
      const auto dims = optional_size("rope.dimension_count").value_or(t_.head_dim);
      if (dims > t_.head_dim || dims % 2 != 0)
        file_.fail(key("rope.dimension_count"),
                   "an even number up to " + std::to_string(t_.head_dim));
      if (dims != t_.head_dim) t_.rotary_dims = dims;
    }
    expect("rope.dimension_count", static_cast<double>(t_.rotated()),
           std::to_string(t_.rotated()) + ": all of a head is rotated");
    expect("expert_count", 0, "0: mixtures of experts are not supported");
    expect("expert_used_count", 0, "0: mixtures of experts are not supported");
    expect("use_parallel_residual", 0, "false: attention comes before the FFN");
    expect("attention.causal", 1, "true: each token sees those before it");
    // Describes the original file; Q and K are in pairs in all of them.
    if (const auto layout = file_.text(key("tensor_data_layout"));
        layout && *layout != "Meta AI original pth")
      file_.fail(key("tensor_data_layout"), "'Meta AI original pth': queries and keys in pairs");
  }

  double positive_or(std::string_view name, double absent) {
    return file_.find(key(name)) != nullptr ? positive(name) : absent;
  }

  void read_family() {
    const bool gemma = t_.family == Family::gemma2 || t_.family == Family::gemma3;
    if (t_.family == Family::granite) {
      t_.logit_divisor = positive("logit_scale");
      t_.residual_scale = positive_or("residual_scale", 1.0);
      t_.embedding_scale = positive_or("embedding_scale", 1.0);
      t_.attention_scale =
          positive_or("attention.scale", 1.0 / std::sqrt(static_cast<double>(t_.head_dim)));
    }
    for (const char* const scale :
         {"logit_scale", "residual_scale", "embedding_scale", "attention.scale"}) {
      if (t_.family != Family::granite) expect(scale, 1, "1: scales are granite's");
    }
    if (t_.family == Family::gemma2) {  // what llama.cpp takes for granted
      constexpr double kScoreCap = 50.0;
      constexpr double kLogitCap = 30.0;
      t_.score_cap = positive_or("attn_logit_softcapping", kScoreCap);
      t_.logit_cap = positive_or("final_logit_softcapping", kLogitCap);
    } else {
      expect("final_logit_softcapping", 0, "0: capped logits are gemma2's");
      expect("attn_logit_softcapping", 0, "0: capped scores are gemma2's");
    }
    if (gemma) {
      t_.activation = model::Activation::gelu_tanh;
      t_.embedding_scale = std::sqrt(static_cast<double>(t_.hidden));
      t_.attention_scale = gguf_attention_scale(t_);
      return read_windows();
    }
    if (t_.family == Family::smollm3) {
      t_.unrotated = gguf_unrotated(t_.layers);
      if (std::ranges::find(t_.unrotated, true) == t_.unrotated.end()) t_.unrotated.clear();
    }
    // Attention within a window is full attention up to there.
    const auto window = file_.integer(key("attention.sliding_window"), 0, kMaxSize);
    if (window.value_or(0) == 0) return;
    if (t_.family != Family::llama && t_.family != Family::phi3)
      file_.fail(key("attention.sliding_window"),
                 "none: which layers have it is not said by files of this family");
    t_.max_context = std::min(t_.max_context, *window);
  }

  // Gemma's: every so-many-th layer attends to everything, the others within a window.
  void read_windows() {
    // Only gemma2's files may leave it out.
    constexpr std::int64_t kWindow = 4096;
    t_.window = t_.family == Family::gemma2
                    ? optional_size("attention.sliding_window").value_or(kWindow)
                    : size("attention.sliding_window");
    const std::int64_t every =
        optional_size("attention.sliding_window_pattern").value_or(gguf_window_period(t_.family));
    t_.windowed = gguf_windowed(t_.layers, every);
    const bool any = std::ranges::find(t_.windowed, true) != t_.windowed.end();
    if (!any) t_.windowed.clear();
    if (!any) t_.window = 0;
    constexpr double kLocalTheta = 10000.0;
    if (t_.family == Family::gemma3 && any)
      t_.window_rope_theta = positive_or("rope.freq_base_swa", kLocalTheta);
  }

  void read_rope() {
    t_.rope_theta = positive_or("rope.freq_base", 10000.0);
    // In granite's files it states whether positions are rotated at all; elsewhere no effect.
    if (t_.family == Family::granite)
      expect("rope.scaling.finetuned", 1, "true: granite without positions is not supported");
    static_cast<void>(file_.find(key("rope.scaling.finetuned")));
    if (t_.family == Family::phi3) return read_long_factors();
    if (file_.text(key("rope.scaling.type")).value_or("") == "yarn") return read_yarn();
    if (const std::string own(kRopeAttentionFactor); file_.find(own) != nullptr)
      file_.fail(own, "none, as rope.scaling.type is not yarn");
    expect("rope.scaling.attn_factor", 1, "1: scaled scores are not supported");
    const std::string type = file_.text(key("rope.scaling.type")).value_or("");
    const bool older = file_.find(key("rope.scale_linear")) != nullptr;
    if (type == "linear" || (type.empty() && older)) {
      const std::string_view name = file_.find(key("rope.scaling.factor")) != nullptr || !older
                                        ? "rope.scaling.factor"
                                        : "rope.scale_linear";
      const double factor = positive(name);
      if (factor < 1.0) file_.fail(key(name), "a number of at least 1");
      if (factor != 1.0) t_.rope_scaling = RopeScaling{.factor = factor};
    } else if (!type.empty() && type != "none") {
      file_.fail(key("rope.scaling.type"),
                 "none, linear or yarn: rotations of other kinds are not supported");
    } else {
      expect("rope.scaling.factor", 1, "1, as rope.scaling.type is not linear");
      expect("rope.scale_linear", 1, "1, as rope.scaling.type is not linear");
    }
  }

  // As in llama.cpp: cosines grow with the factor, times the file's value.
  void read_yarn() {
    RopeScaling scaling{.kind = RopeScaling::Kind::yarn};
    scaling.factor = positive("rope.scaling.factor");
    if (scaling.factor < 1.0) file_.fail(key("rope.scaling.factor"), "a number of at least 1");
    scaling.original_context =
        optional_size("rope.scaling.original_context_length").value_or(t_.max_context);
    if (arch_ == kMistral3) {
      scaling.fast_turns = positive_or("rope.scaling.yarn_beta_fast", scaling.fast_turns);
      scaling.slow_turns = positive_or("rope.scaling.yarn_beta_slow", scaling.slow_turns);
      // Without it cosines grow as in other files.
      if (file_.find(key("rope.scaling.yarn_log_multiplier")) == nullptr)
        scaling.attention_factor = static_cast<float>(gguf_yarn_growth(scaling.factor));
      expect("rope.scaling.yarn_log_multiplier", 1, "1: other growths are not supported");
      expect("rope.scaling.attn_factor", 1, "1: other growths are not supported");
      if (file_.find(key("attention.temperature_scale")) != nullptr)
        t_.query_growth = positive("attention.temperature_scale");
      t_.rope_scaling = std::move(scaling);
      return;
    }
    expect("rope.scaling.yarn_beta_fast", scaling.fast_turns, "32: other bounds are not supported");
    expect("rope.scaling.yarn_beta_slow", scaling.slow_turns, "1: other bounds are not supported");
    if (t_.family == Family::gemma3)
      expect("rope.scaling.attn_factor", 1, "1: layers of the window do not grow");
    scaling.attention_factor = static_cast<float>(positive_or("rope.scaling.attn_factor", 1.0) *
                                                  gguf_yarn_growth(scaling.factor));
    read_own_growth(scaling.attention_factor);
    t_.rope_scaling = std::move(scaling);
  }

  // Reads the growth itself, of which the file's other key is a rounded part.
  void read_own_growth(float& attention_factor) const {
    const std::string own(kRopeAttentionFactor);
    const auto value = file_.real(own);
    if (!value) return;
    constexpr float kRounding = 1e-6F;
    if (!(std::abs(static_cast<float>(*value) - attention_factor) <= kRounding * attention_factor))
      file_.fail(own, std::to_string(attention_factor) + ", as " + key("rope.scaling.attn_factor") +
                          " has it; convert the model anew");
    attention_factor = static_cast<float>(*value);
  }

  // LongRoPE's two lists, which files of Phi 3 have both or none of.
  void read_long_factors() {
    const auto& tensors = file_.tensors();
    if (!tensors.contains(std::string(kLongFactorsTensor)) &&
        !tensors.contains(std::string(kShortFactorsTensor))) {
      expect("rope.scaling.attn_factor", 1, "1 without factors of rotation");
      expect("rope.scaling.factor", 1, "1: rotations of other kinds are not supported");
      static_cast<void>(optional_size("rope.scaling.original_context_length"));
      if (const auto type = file_.text(key("rope.scaling.type")); type.value_or("none") != "none")
        file_.fail(key("rope.scaling.type"), "none without factors of rotation");
      return;
    }
    RopeScaling scaling{.kind = RopeScaling::Kind::longrope};
    scaling.original_context = size("rope.scaling.original_context_length");
    scaling.attention_factor = static_cast<float>(positive_or("rope.scaling.attn_factor", 1.0));
    if (const auto type = file_.text(key("rope.scaling.type"));
        type.value_or("longrope") != "longrope")
      file_.fail(key("rope.scaling.type"), "longrope, as there are its factors");
    scaling.short_factors = factors_of(kShortFactorsTensor);
    scaling.long_factors = factors_of(kLongFactorsTensor);
    t_.rope_scaling = std::move(scaling);
  }

  std::vector<float> factors_of(std::string_view name) {
    const auto found = file_.tensors().find(std::string(name));
    const std::string subject = file_.path().string() + ": " + std::string(name);
    if (found == file_.tensors().end())
      throw Error(subject +
                  ": is missing, expected beside the other list of factors; convert the "
                  "model anew");
    std::vector<float> stored = numbers_of(name, found->second);
    for (std::size_t i = 0; i < stored.size(); ++i) {
      if (std::isfinite(stored[i]) && stored[i] > 0.0F) continue;
      throw Error(subject + ": number " + std::to_string(i) + " is " + std::to_string(stored[i]) +
                  ", expected positive numbers; the file is damaged, copy or download it again");
    }
    return stored;
  }

  // Reads a tensor with one number for each rotated pair.
  [[nodiscard]] std::vector<float> numbers_of(std::string_view name,
                                              const GgufFile::Place& place) const {
    const GgufTensor& tensor = place.tensor;
    const std::vector<std::int64_t> shape{t_.rotated() / 2};
    if (tensor.type.name != "F32" || tensor.shape != shape)
      throw Error(file_.path().string() + ": " + std::string(name) + ": " +
                  std::string(tensor.type.name) + " " + shape_text(tensor.shape) +
                  ", expected F32 " + shape_text(shape) +
                  ", one number for each rotated pair of a head; convert the model anew");
    std::vector<float> stored(static_cast<std::size_t>(shape.front()));
    file_.files()[place.file]->read_at(tensor.offset, std::as_writable_bytes(std::span(stored)));
    return stored;
  }

  // Finds the parameters of Llama 3.1's rule that give the stored factors.
  void read_factors() {
    if (!gguf_has_rope_factors(t_.family) &&
        file_.tensors().contains(std::string(kRopeFactorsTensor)))
      throw Error(file_.path().string() + ": " + std::string(kRopeFactorsTensor) +
                  ": factors of rotation, which only files of llama, mistral3 and granite have, "
                  "expected none in one of " +
                  arch_ + "; convert the model anew");
    if (t_.family == Family::phi3) return;
    RopeScaling rule{.kind = RopeScaling::Kind::llama3};
    rule.original_context =
        optional_size("rope.scaling.original_context_length").value_or(rule.original_context);
    const std::string low = "tandem.rope.low_frequency_factor";
    const std::string high = "tandem.rope.high_frequency_factor";
    const std::string factor = "tandem.rope.factor";
    rule.low_frequency_factor = decimal(file_.real(low).value_or(rule.low_frequency_factor));
    rule.high_frequency_factor = decimal(file_.real(high).value_or(rule.high_frequency_factor));
    const std::string name(kRopeFactorsTensor);
    const auto found = file_.tensors().find(name);
    if (found == file_.tensors().end()) {
      // Only the stored factors are allowed with these keys.
      for (const std::string& rope : {factor, low, high}) {
        if (file_.find(rope) != nullptr)
          file_.fail(rope, "tensor " + name + " as well, which is missing; convert the model anew");
      }
      return;
    }
    const std::string subject = file_.path().string() + ": " + name;
    if (t_.rope_scaling)
      throw Error(subject + ": factors of rotation beside " + key("rope.scaling.type") + " '" +
                  file_.text(key("rope.scaling.type")).value_or("linear") +
                  "', expected one of the two; convert the model anew");
    const std::vector<float> stored = numbers_of(name, found->second);
    const std::size_t pairs = stored.size();
    // Narrow heads need not have a pair that turns slowly enough to be scaled by all of it.
    rule.factor = decimal(file_.real(factor).value_or(*std::ranges::max_element(stored)));
    const bool sensible = std::isfinite(rule.factor) && rule.factor >= 1.0 &&
                          rule.low_frequency_factor > 0.0 &&
                          rule.high_frequency_factor > rule.low_frequency_factor;
    if (sensible) t_.rope_scaling = rule;
    const std::vector<float> expected = sensible ? rope_factors(t_) : std::vector<float>{};
    // Converters compute in 32 bits, with differences that lose some.
    constexpr float kRounding = 1e-4F;
    for (std::size_t i = 0; i < pairs; ++i) {
      if (sensible && std::abs(stored[i] - expected[i]) <= kRounding * expected[i]) continue;
      throw Error(
          subject + ": number " + std::to_string(i) + " is " + std::to_string(stored[i]) +
          ", expected " + (sensible ? std::to_string(expected[i]) : std::string("1 or more")) +
          " as Llama 3.1's scaling by " + std::to_string(rule.factor) + " from " +
          std::to_string(rule.original_context) + " tokens gives; other factors are not supported");
    }
    // Factors of 1 change nothing.
    if (rule.factor == 1.0) t_.rope_scaling.reset();
  }

  void read_tokens() {
    const auto token = [&](const char* name) {
      return file_.integer(std::string("tokenizer.ggml.") + name, 0, kMaxSize);
    };
    if (const auto bos = token("bos_token_id")) t_.bos_token = *bos;
    if (const auto* own = file_.numbers("tandem.bos_token_id"); own != nullptr && own->size() == 1)
      t_.bos_token = std::clamp<std::int64_t>(own->front(), -1, kMaxSize);
    if (const auto* all = file_.numbers("tandem.eos_token_ids")) {
      if (all->size() > kMostStops ||
          std::ranges::any_of(*all, [](std::int64_t id) { return id < 0 || id > kMaxSize; }))
        file_.fail("tandem.eos_token_ids", "at most 256 tokens");
      t_.eos_tokens = *all;
      return;
    }
    for (const char* name : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
      const auto id = token(name);
      if (id && std::ranges::find(t_.eos_tokens, *id) == t_.eos_tokens.end())
        t_.eos_tokens.push_back(*id);
    }
  }

  const GgufFile& file_;
  std::string arch_;
  Transformer t_;
};

}  // namespace

std::string_view gguf_name(Family family) {
  for (const auto& [known, name] : kGgufFamilies) {
    if (known == family) return name;
  }
  return {};
}

Transformer gguf_geometry(const GgufFile& file) { return GeometryReader(file).read(); }

}  // namespace tandem::exec
