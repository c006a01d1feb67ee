#include "advice/fidelity/matrix_files.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "model/base/quantity_text.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::study {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVocabulary = 2048;

// Decoders with rotary positions, RMS norms and a gated FFN.
Json rotary(const char* type, const char* architecture) {
  return {{"model_type", type},
          {"architectures", {architecture}},
          {"hidden_act", "silu"},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"rope_scaling", nullptr},
          {"max_position_embeddings", 1024},
          {"tie_word_embeddings", false},
          {"hidden_size", 512},
          {"intermediate_size", 1536},
          {"num_hidden_layers", 8},
          {"num_attention_heads", 16},
          {"num_key_value_heads", 8},
          {"vocab_size", kVocabulary}};
}

Json config_of(std::string_view family) {
  if (family == "llama") return rotary("llama", "LlamaForCausalLM");
  if (family == "qwen3") {
    Json config = rotary("qwen3", "Qwen3ForCausalLM");
    config.update({{"head_dim", 32}, {"attention_bias", false}, {"use_sliding_window", false}});
    return config;
  }
  if (family == "gemma2") {
    Json config = rotary("gemma2", "Gemma2ForCausalLM");
    config.update({{"head_dim", 32},
                   {"hidden_act", "gelu_pytorch_tanh"},
                   {"hidden_activation", "gelu_pytorch_tanh"},
                   {"attn_logit_softcapping", 50.0},
                   {"final_logit_softcapping", 30.0},
                   {"query_pre_attn_scalar", 32},
                   {"sliding_window", 128},
                   {"attention_bias", false},
                   {"tie_word_embeddings", true}});
    return config;
  }
  if (family != "gpt2") throw std::logic_error("fidelity: no family '" + std::string(family) + "'");
  return {{"model_type", "gpt2"},
          {"architectures", {"GPT2LMHeadModel"}},
          {"activation_function", "gelu_new"},
          {"n_layer", 8},
          {"n_embd", 512},
          {"n_head", 16},
          {"n_inner", nullptr},
          {"vocab_size", kVocabulary},
          {"n_positions", 1024},
          {"n_ctx", 1024},
          {"layer_norm_epsilon", 1e-5}};
}

std::string prop(const std::string& name, const std::string& value) {
  return "      <prop id=\"tandem:" + name + "\" value=\"" + value + "\"/>\n";
}

std::string host(const std::string& name, const std::string& slowdown, std::string_view disk) {
  std::string text = "    <host id=\"" + name + "\" speed=\"20Gf\" core=\"1\">\n" +
                     prop("memory", "2GiB") + prop("memory_bandwidth", "10GBps");
  if (disk != kNoLevel && disk != "own") text += prop("disk_bandwidth", std::string(disk));
  return text + prop("slowdown", slowdown) + "    </host>\n";
}

}  // namespace

std::string fidelity_model_config(std::string_view family) {
  return config_of(family).dump(2) + '\n';
}

std::string fidelity_platform_xml(const Configuration& configuration, double most_demand) {
  constexpr std::array kUneven{2, 4, 8, 3, 6, 4, 8, 3};
  const std::size_t count = configuration.devices();
  const bool uneven = configuration.level("balance") == "uneven";
  std::vector<int> slowdowns;
  double demand = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    slowdowns.push_back(count == 1 ? 1 : uneven ? kUneven.at(i) : 4);
    demand += 1.0 / slowdowns.back();
  }
  const int scale = std::max(1, static_cast<int>(std::ceil(demand / most_demand - 1e-9)));
  const bool wifi = configuration.level("bandwidth") == "wifi";
  std::string hosts;
  std::string links;
  std::string routes;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = "d" + std::to_string(i + 1);
    hosts += host(name, std::to_string(slowdowns[i] * scale), configuration.level("disk"));
    if (count == 1) continue;
    // Two links from device to device, or the medium twice.
    const model::Seconds half = model::parse_seconds(configuration.level("latency"), "latency") / 2;
    const std::string bandwidth = wifi ? "400Mbps" : std::string(configuration.level("bandwidth"));
    const std::string link = wifi ? "medium" : "to-" + name;
    if (!wifi || i == 0) {
      links.append("    <link id=\"").append(link).append("\" bandwidth=\"").append(bandwidth);
      links.append("\" latency=\"").append(model::shortest_text(half.value() * 1e3));
      links.append("ms\" sharing_policy=\"").append(wifi ? "SHARED" : "SPLITDUPLEX");
      links.append("\"/>\n");
    }
    routes.append("    <route src=\"").append(name).append("\" dst=\"switch\">\n");
    routes.append("      <link_ctn id=\"").append(link);
    routes.append(wifi ? "\"/>\n" : "\" direction=\"UP\"/>\n").append("    </route>\n");
  }
  if (count > 1) links.insert(0, "    <router id=\"switch\"/>\n");
  return "<?xml version='1.0'?>\n"
         "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
         "<platform version=\"4.1\">\n  <zone id=\"fidelity\" routing=\"" +
         std::string(count > 1 ? "Dijkstra" : "Full") + "\">\n" + hosts + links + routes +
         "  </zone>\n</platform>\n";
}

std::vector<std::string> fidelity_plan_flags(const Configuration& configuration) {
  const auto text = [&](std::string_view factor) {
    return std::string(configuration.level(factor));
  };
  std::vector<std::string> flags{"--strategy",      text("strategy"),
                                 "--dtype",         text("format"),
                                 "--prompt-tokens", text("prompt"),
                                 "--new-tokens",    std::to_string(kFidelityNewTokens),
                                 "--cache-type",    "f32",
                                 "--chunk",         "whole"};
  const auto add = [&](std::initializer_list<std::string> more) {
    flags.insert(flags.end(), more);
  };
  if (!planner::find_strategy(text("strategy")).sharding.is_local()) add({"--wire-type", "f32"});
  if (text("collective") != kNoLevel) add({"--allreduce", text("collective")});
  if (text("window") != "resident") add({"--window", text("window").substr(1), "--retain", "none"});
  if (text("requests") != "1") add({"--samples", text("requests"), "--policy", "continuous"});
  return flags;
}

}  // namespace tandem::study
