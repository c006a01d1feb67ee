#include "model/config/folder_config.hpp"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "model/base/json_value.hpp"
#include "model/config/config_dialect.hpp"

namespace tandem::model {
namespace {

using nlohmann::ordered_json;

std::string torch_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "float32";
    case DType::f16:
      return "float16";
    case DType::bf16:
      return "bfloat16";
  }
  throw std::logic_error("dtype out of range");
}

// The class of a model type: the first that its files name.
std::string class_of(std::string_view model_type) {
  const std::string_view classes = dialect_of(model_type).architectures;
  return std::string(classes.substr(0, classes.find(' ')));
}

}  // namespace

std::string to_folder_config_json(const Transformer& t, std::optional<DType> dtype) {
  ordered_json json{};
  const ordered_json config = ordered_json::parse(to_config_json(t));
  json["architectures"] =
      ordered_json::array({class_of(config.at("model_type").get<std::string>())});
  json.update(config);
  const bool is_gemma = t.family == Family::gemma2 || t.family == Family::gemma3;
  if (t.architecture().gated) json["hidden_act"] = is_gemma ? "gelu_pytorch_tanh" : "silu";
  if (is_gemma) json["hidden_activation"] = "gelu_pytorch_tanh";
  if (t.family == Family::gpt2) json["n_ctx"] = t.max_context;
  if (t.architecture().generates()) {
    for (const char* const token : {"bos_token_id", "eos_token_id", "pad_token_id"})
      if (!json.contains(token)) json[token] = nullptr;
  }
  if (dtype) json["torch_dtype"] = torch_name(*dtype);
  return to_text(json);
}

}  // namespace tandem::model
