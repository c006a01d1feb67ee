// Writes, for each of a table of models, a Hugging Face folder of random weights and what tandem
// computes with it, for check_logits.py to compare with PyTorch:
//   FOLDER/<case>/config.json, model.safetensors  random weights
//   FOLDER/<case>/ids.json                        prompt, and the tokens that were fed one by one
//   FOLDER/<case>/<run>.f32                       logits [1 + tokens, vocab], little-endian f32;
//                                                 of an encoder hidden states [prompt, hidden]

#include <cmath>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "exec/weights/random_weights.hpp"
#include "model/base/error.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem {
namespace {

constexpr int kFurtherTokens = 32;

struct Case {
  std::string name;
  model::Transformer transformer;
  model::DType dtype = model::DType::f32;
  std::uint64_t file_limit = exec::kWeightsFileLimit;
  bool every_strategy = false;  // all of kRuns, not only three devices
};

struct Run {
  const char* name;
  const char* strategy;
  int devices;
  const char* partition;
};

constexpr Run kRuns[] = {
    {"tensor-2", "tensor", 2, "equal"},     {"tensor-3", "tensor", 3, "4:2:1"},
    {"tensor-5", "tensor", 5, "equal"},     {"tensor-5-uneven", "tensor", 5, "1:4:2:1:3"},
    {"pipeline-2", "pipeline", 2, "equal"}, {"pipeline-3", "pipeline", 3, "1:3:1"},
    {"pipeline-5", "pipeline", 5, "equal"}, {"sp-3", "sp", 3, "equal"},
    {"galaxy-3", "galaxy", 3, "equal"},     {"csps-3", "csps", 3, "equal"},
};

model::Transformer base() {
  model::Transformer t;
  t.name = "base";
  t.layers = 4;
  t.hidden = 96;
  t.heads = 8;
  t.kv_heads = 8;
  t.head_dim = 12;
  t.intermediate = 250;
  t.vocab = 320;
  t.max_context = 256;
  return t;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const std::string& name, auto change) {
    Case c{name, base()};
    change(c);
    all.push_back(c);
  };
  add("mha", [](Case&) {});
  add("gqa", [](Case& c) { c.transformer.kv_heads = 2; });
  add("mqa", [](Case& c) { c.transformer.kv_heads = 1; });
  add("tied", [](Case& c) { c.transformer.tied_embeddings = true; });
  add("tied-gqa-split", [](Case& c) {
    c.transformer.tied_embeddings = true;
    c.transformer.kv_heads = 4;
    c.file_limit = 100000;
  });
  add("f16", [](Case& c) { c.dtype = model::DType::f16; });
  add("bf16-gqa", [](Case& c) {
    c.dtype = model::DType::bf16;
    c.transformer.kv_heads = 4;
  });
  add("linear-scaling", [](Case& c) {
    c.transformer.rope_scaling = {model::RopeScaling::Kind::linear, 2.5, 1.0, 4.0, 8192};
  });
  add("llama3-scaling", [](Case& c) {
    c.transformer.kv_heads = 4;
    c.transformer.head_dim = 16;
    c.transformer.rope_theta = 500000.0;
    // A context so short that all three of the rule's bands occur within its 8 pairs.
    c.transformer.rope_scaling = {model::RopeScaling::Kind::llama3, 8.0, 1.0, 4.0, 64};
  });
  add("odd-sizes", [](Case& c) {
    c.transformer.layers = 3;
    c.transformer.hidden = 35;
    c.transformer.heads = 7;
    c.transformer.kv_heads = 7;
    c.transformer.head_dim = 10;
    c.transformer.intermediate = 53;
    c.transformer.vocab = 257;
    c.transformer.norm_epsilon = 1e-6;
    c.transformer.rope_theta = 12345.0;
  });
  add("one-of-everything", [](Case& c) {
    c.transformer.layers = 1;
    c.transformer.hidden = 64;
    c.transformer.heads = 1;
    c.transformer.kv_heads = 1;
    c.transformer.head_dim = 64;
    c.transformer.intermediate = 1;
  });
  return all;
}

// GPT-2, OPT, BERT and DistilBERT, each with even and with odd sizes.
std::vector<Case> family_cases() {
  std::vector<Case> all;
  for (const model::Family family :
       {model::Family::gpt2, model::Family::opt, model::Family::bert, model::Family::distilbert}) {
    for (const bool odd : {false, true}) {
      Case c{std::string(model::to_string(family)) + (odd ? "-odd" : ""), base()};
      model::Transformer& t = c.transformer;
      t.family = family;
      t.layers = 5;
      t.activation = model::Activation::gelu;
      if (family == model::Family::gpt2) t.activation = model::Activation::gelu_tanh;
      if (family == model::Family::opt) t.activation = model::Activation::relu;
      t.token_types = family == model::Family::bert ? 2 : 0;
      t.norm_epsilon = odd ? 1e-3 : 1e-12;
      if (family == model::Family::opt) t.norm_epsilon = 1e-5;  // not in OPT's config.json
      if (family == model::Family::distilbert) t.norm_epsilon = 1e-12;
      t.tied_embeddings = !odd || !t.architecture().generates();
      if (odd) {  // fewer heads than devices: some hold FFN columns alone
        t.heads = t.kv_heads = 3;
        t.head_dim = 14;
        t.hidden = 42;
        t.intermediate = 53;
        t.vocab = 257;
        c.file_limit = 50000;
      }
      c.every_strategy = true;
      all.push_back(c);
    }
  }
  return all;
}

// Successors of Llama, each with even and with odd sizes. Windows are shorter than the prompt, and
// caps and scales such that they tell.
std::vector<Case> successor_cases() {
  using model::Family;
  std::vector<Case> all;
  for (const Family family : {Family::llama, Family::qwen2, Family::qwen3, Family::gemma2,
                              Family::gemma3, Family::granite, Family::smollm3, Family::phi3}) {
    for (const bool odd : {false, true}) {
      Case c{std::string(model::to_string(family)) + (odd ? "-odd" : ""), base()};
      model::Transformer& t = c.transformer;
      t.family = family;
      t.layers = family == Family::gemma3 ? 7 : 5;
      t.kv_heads = 4;
      t.head_dim = 16;
      t.norm_epsilon = 1e-6;
      if (odd) {  // fewer heads than devices: some hold FFN columns alone
        t.heads = 3;
        t.kv_heads = 1;
        t.head_dim = 14;
        t.hidden = 36;
        t.intermediate = 53;
        t.vocab = 257;
        t.tied_embeddings = true;
        c.file_limit = 50000;
      }
      const auto by_layer = [&](auto of) {
        std::vector<bool> list;
        for (std::int64_t layer = 0; layer < t.layers; ++layer) list.push_back(of(layer));
        return list;
      };
      if (family == Family::llama) {
        c.name = odd ? "ministral3-odd" : "ministral3";
        t.query_growth = 0.1;
        t.rope_scaling = {.kind = model::RopeScaling::Kind::yarn,
                          .factor = 16.0,
                          .original_context = odd ? 7 : 20};
      }
      if (family == Family::qwen2 && odd) {
        t.rope_scaling = {.kind = model::RopeScaling::Kind::yarn,
                          .factor = 4.0,
                          .original_context = 24,
                          .attention_factor = 1.125F};
      }
      if (family == Family::qwen3 && odd) {  // every layer from the third on
        t.window = 7;
        t.windowed = by_layer([](std::int64_t layer) { return layer >= 2; });
      }
      if (family == Family::gemma2 || family == Family::gemma3) {
        const int every = family == Family::gemma2 ? 2 : 6;
        t.tied_embeddings = true;
        t.activation = model::Activation::gelu_tanh;
        t.embedding_scale = std::sqrt(static_cast<double>(t.hidden));
        t.attention_scale = 1.0 / std::sqrt(odd ? 24.0 : 4.0);
        t.window = odd ? 5 : 21;
        t.windowed = by_layer([&](std::int64_t layer) { return (layer + 1) % every != 0; });
      }
      if (family == Family::gemma2) {
        t.score_cap = 1.5;
        t.logit_cap = 2.0;
      }
      if (family == Family::gemma3) {
        t.rope_theta = 1e6;
        t.window_rope_theta = 10000.0;
        t.rope_scaling = {model::RopeScaling::Kind::linear, 8.0, 1.0, 4.0, 8192};
      }
      if (family == Family::granite) {
        t.embedding_scale = 12.0;
        t.residual_scale = 0.22;
        t.attention_scale = 0.015625 * 8;
        t.logit_divisor = 16.0;
      }
      if (family == Family::phi3) {
        // The prompt of 43 tokens and 33 more: of the odd one, more than it was made for.
        t.rotary_dims = odd ? 10 : 12;
        t.rope_scaling = {.kind = model::RopeScaling::Kind::longrope,
                          .original_context = odd ? 32 : 128,
                          .attention_factor = odd ? 1.25F : 1.0F};
        for (std::int64_t i = 0; i < t.rotary_dims / 2; ++i) {
          t.rope_scaling->short_factors.push_back(1.0F + 0.125F * static_cast<float>(i));
          t.rope_scaling->long_factors.push_back(1.5F + static_cast<float>(i));
        }
      }
      if (family == Family::smollm3)
        t.unrotated = by_layer([](std::int64_t layer) { return (layer + 1) % 4 == 0; });
      c.every_strategy = true;
      all.push_back(c);
    }
  }
  return all;
}

void write_logits(const std::filesystem::path& path,
                  const std::vector<std::vector<float>>& logits) {
  std::ofstream out(path, std::ios::binary);
  for (const std::vector<float>& row : logits) {
    out.write(reinterpret_cast<const char*>(row.data()),
              static_cast<std::streamsize>(row.size() * sizeof(float)));
  }
  out.close();
  if (!out) throw Error(path.string() + ": cannot write; check the folder");
}

// One prefill, then one token a step, always those of `fed`.
std::vector<std::vector<float>> feed(const planner::Plan& plan,
                                     const std::filesystem::path& weights,
                                     std::span<const std::int32_t> prompt,
                                     std::span<const std::int32_t> fed) {
  testing::SerialExecutor executor(plan, weights);
  std::vector<std::vector<float>> logits{executor.step(prompt)};
  for (const std::int32_t& id : fed) logits.push_back(executor.step({&id, 1}));
  return logits;
}

std::vector<Run> runs_of(const Case& c) {
  if (c.every_strategy) return {std::begin(kRuns), std::end(kRuns)};
  if (c.transformer.heads > 1) return {kRuns[1]};
  return {};
}

void dump_encoder(const Case& c, const std::filesystem::path& folder,
                  const std::vector<std::int32_t>& prompt) {
  const auto rows = static_cast<std::int64_t>(prompt.size());
  const planner::Plan local = testing::plan_for(c.transformer, "local", 1, "equal", rows, 0);
  write_logits(folder / "local.f32", {testing::SerialExecutor(local, folder).encode(prompt)});
  for (const Run& run : runs_of(c)) {
    const planner::Plan plan =
        testing::plan_for(c.transformer, run.strategy, run.devices, run.partition, rows, 0);
    write_logits(folder / (std::string(run.name) + ".f32"),
                 {testing::SerialExecutor(plan, folder).encode(prompt)});
  }
  std::ofstream(folder / "ids.json") << nlohmann::json{{"prompt", prompt}}.dump();
}

void dump(const Case& c, const std::filesystem::path& folder) {
  exec::write_random_weights(c.transformer, 4711, c.dtype, folder, c.file_limit);
  const std::string text = "The quick brown fox jumps over the lazy dog";
  const std::vector<std::int32_t> prompt(text.begin(), text.end());
  if (!c.transformer.architecture().generates()) return dump_encoder(c, folder, prompt);
  const auto rows = static_cast<std::int64_t>(prompt.size());
  const planner::Plan local =
      testing::plan_for(c.transformer, "local", 1, "equal", rows, kFurtherTokens + 1);
  std::vector<std::vector<float>> logits;
  std::vector<std::int32_t> fed =
      testing::SerialExecutor(local, folder).generate(prompt, kFurtherTokens + 1, logits);
  fed.pop_back();  // the last token is fed to nothing
  write_logits(folder / "local.f32", logits);
  for (const Run& run : runs_of(c)) {
    const planner::Plan plan = testing::plan_for(c.transformer, run.strategy, run.devices,
                                                 run.partition, rows, kFurtherTokens + 1);
    write_logits(folder / (std::string(run.name) + ".f32"), feed(plan, folder, prompt, fed));
  }
  std::ofstream(folder / "ids.json") << nlohmann::json{{"prompt", prompt}, {"fed", fed}}.dump();
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: tandem_dump_logits FOLDER\n";
    return 2;
  }
  for (const tandem::Case& c : tandem::cases()) {
    tandem::dump(c, std::filesystem::path(argv[1]) / c.name);
  }
  for (const auto& cases : {tandem::family_cases(), tandem::successor_cases()}) {
    for (const tandem::Case& c : cases) tandem::dump(c, std::filesystem::path(argv[1]) / c.name);
  }
  return 0;
} catch (const std::exception& e) {
  std::cerr << "tandem_dump_logits: " << e.what() << '\n';
  return 1;
}
