// Weights of families other than Llama: their tensors' names and forms, and which device holds
// what.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/weights/random_weights.hpp"
#include "exec/weights/shard.hpp"
#include "exec/weights/source/layout.hpp"
#include "exec/weights/source/safetensors.hpp"
#include "exec/weights/source/tensor_names.hpp"
#include "exec/weights/tensors.hpp"
#include "model/graph/memory.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/block_support.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem::exec::weight_families_test {
namespace {

using model::Family;
using model::Range;
using model::Share;
using model::Transformer;
using testing::TemporaryFolder;
using testing::whole_share;

constexpr Family kFamilies[] = {Family::llama, Family::gpt2, Family::opt, Family::bert,
                                Family::distilbert};

Transformer small(Family family) {
  Transformer t;
  t.name = "small";
  t.family = family;
  t.layers = 2;
  t.hidden = 24;
  t.heads = t.kv_heads = 4;
  t.head_dim = 6;
  t.intermediate = 37;
  t.vocab = 259;
  t.max_context = 50;
  t.tied_embeddings = family != Family::llama;
  t.token_types = family == Family::bert ? 2 : 0;
  if (!t.architecture().gated) t.activation = model::Activation::relu;
  t.norm_epsilon = family == Family::distilbert ? 1e-12 : 1e-5;
  return t;
}

std::vector<float> tensor(const SafetensorsFolder& folder, const std::string& name,
                          const std::vector<std::int64_t>& shape) {
  const auto rows = static_cast<std::int32_t>(shape.size() == 2 ? shape[0] : 1);
  const auto columns = static_cast<std::int32_t>(shape.back());
  std::vector<float> values(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
  folder.read(name, shape, {0, rows}, {0, columns}, values);
  return values;
}

// The folder with every tensor renamed in the header, which keeps its length.
void rename_tensors(const std::filesystem::path& folder, const std::string& from,
                    const std::string& to) {
  const auto file = folder / "model.safetensors";
  std::string bytes = testing::read_all(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  std::string header = bytes.substr(sizeof length, length);
  for (std::size_t at = 0; (at = header.find(from, at)) != std::string::npos; at += to.size())
    header.replace(at, from.size(), to);
  REQUIRE(header.size() <= length);
  header.resize(length, ' ');
  testing::write_text(
      file, bytes.substr(0, sizeof length) + header + bytes.substr(sizeof length + length));
}

TEST_CASE("exec/families: the tensors have the names of Hugging Face's classes") {
  const std::pair<Family, std::vector<const char*>> expected[] = {
      {Family::gpt2,
       {"transformer.wte.weight", "transformer.wpe.weight", "transformer.h.1.ln_1.bias",
        "transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.c_attn.bias",
        "transformer.h.1.mlp.c_proj.bias", "transformer.ln_f.weight"}},
      {Family::opt,
       {"model.decoder.embed_tokens.weight", "model.decoder.embed_positions.weight",
        "model.decoder.layers.1.self_attn.k_proj.bias",
        "model.decoder.layers.0.final_layer_norm.weight", "model.decoder.layers.1.fc2.bias",
        "model.decoder.final_layer_norm.bias"}},
      {Family::bert,
       {"bert.embeddings.word_embeddings.weight", "bert.embeddings.position_embeddings.weight",
        "bert.embeddings.token_type_embeddings.weight", "bert.embeddings.LayerNorm.weight",
        "bert.encoder.layer.0.attention.output.LayerNorm.bias",
        "bert.encoder.layer.0.output.LayerNorm.weight",
        "bert.encoder.layer.1.output.LayerNorm.bias",
        "bert.encoder.layer.1.intermediate.dense.weight"}},
      {Family::distilbert,
       {"distilbert.embeddings.LayerNorm.bias",
        "distilbert.transformer.layer.0.attention.q_lin.bias",
        "distilbert.transformer.layer.0.output_layer_norm.weight",
        "distilbert.transformer.layer.1.output_layer_norm.weight",
        "distilbert.transformer.layer.1.ffn.lin2.weight"}},
  };
  for (const auto& [family, names] : expected) {
    const Transformer t = small(family);
    const TemporaryFolder folder;
    write_random_weights(t, 1, model::DType::f32, folder.path());
    const SafetensorsFolder weights(folder.path());
    for (const char* name : names) {
      CAPTURE(name);
      CHECK(weights.contains(name));
    }
  }
}

TEST_CASE("exec/families: one layout counts what the model's geometry counts") {
  for (const Family family : kFamilies) {
    const Transformer t = small(family);
    for (const Share& share :
         {whole_share(t), Share{{0, 2}, {0, 3}, {5, 37}, false, false},
          Share{{1, 2}, {3, 4}, {0, 5}, false, true}, Share{{0, 2}, {0, 0}, {0, 37}, true, true},
          Share{{0, 2}, {1, 4}, {0, 0}, false, false}}) {
      CAPTURE(static_cast<int>(family));
      std::uint64_t elements = 0;
      for (const LayoutBlock& block : layout_of(t, share).blocks) {
        for (const TensorSlice& slice : block.slices) elements += slice.elements();
      }
      CHECK(4.0 * static_cast<double>(elements) == model::weight_bytes(t, share));
    }
  }
}

TEST_CASE("exec/families: GPT-2's fused, transposed matrices are cut as the kernels want them") {
  const Transformer t = small(Family::gpt2);
  const TemporaryFolder folder;
  write_random_weights(t, 3, model::DType::f32, folder.path());
  const SafetensorsFolder weights(folder.path());
  const auto fused = tensor(weights, "transformer.h.1.attn.c_attn.weight", {24, 72});
  const auto bias = tensor(weights, "transformer.h.1.attn.c_attn.bias", {72});
  const auto up = tensor(weights, "transformer.h.1.mlp.c_fc.weight", {24, 37});
  const Share share{{1, 2}, {1, 3}, {5, 20}, false, false};
  const Shard shard = Shard::slice(folder.path(), t, share);
  const LayerTensors& layer = shard.tensors().layers.at(0);
  REQUIRE(layer.query.rows == 12);
  REQUIRE(layer.key.rows == 12);
  REQUIRE(layer.value.rows == 12);
  REQUIRE(layer.qkv_bias.size() == 3 * 12);
  REQUIRE(layer.query.format == model::WeightFormat::f32);
  const auto* const qkv = reinterpret_cast<const float*>(layer.query.data);
  const auto* const gate_up = reinterpret_cast<const float*>(layer.up.data);
  std::size_t wrong = 0;
  for (std::int64_t third = 0; third < 3; ++third) {
    for (std::int64_t row = 0; row < 12; ++row) {
      const std::int64_t output = third * 24 + 6 + row;
      wrong += layer.qkv_bias[static_cast<std::size_t>(third * 12 + row)] !=
               bias[static_cast<std::size_t>(output)];
      for (std::int64_t in = 0; in < 24; ++in) {
        wrong +=
            qkv[(third * 12 + row) * 24 + in] != fused[static_cast<std::size_t>(in * 72 + output)];
      }
    }
  }
  for (std::int64_t row = 0; row < 15; ++row) {
    for (std::int64_t in = 0; in < 24; ++in) {
      wrong += gate_up[row * 24 + in] != up[static_cast<std::size_t>(in * 37 + 5 + row)];
    }
  }
  CHECK(wrong == 0);
  // Files that are cut portion by portion have the same bytes.
  BlockStore store(folder.path() / "cache");
  std::string bytes;
  for (const MadeBlock& block : testing::blocks_of(folder.path(), t, share, store))
    bytes += testing::read_all(block.file.path);
  CHECK(bytes == testing::contents_of(shard));
}

TEST_CASE("exec/families: exactly one device holds the bias of a sum, every one its norms") {
  for (const Family family : {Family::gpt2, Family::opt, Family::bert, Family::distilbert}) {
    const Transformer t = small(family);
    const TemporaryFolder folder;
    write_random_weights(t, 3, model::DType::f32, folder.path());
    int out = 0;
    int down = 0;
    for (const Share& share :
         {Share{{0, 2}, {0, 0}, {0, 9}, true, true}, Share{{0, 2}, {0, 1}, {9, 30}, false, false},
          Share{{0, 2}, {1, 4}, {30, 30}, false, false},
          Share{{0, 2}, {4, 4}, {30, 37}, false, false}}) {
      const Shard shard = Shard::slice(folder.path(), t, share);
      for (const LayerTensors& layer : shard.tensors().layers) {
        out += layer.out_bias.empty() ? 0 : 1;
        down += layer.down_bias.empty() ? 0 : 1;
        const bool all = t.architecture().post_norm();
        CHECK(layer.attention_norm.weight.empty() == (share.heads.empty() && !all));
        CHECK(layer.ffn_norm.bias.empty() == (share.columns.empty() && !all));
      }
    }
    CHECK(out == t.layers);
    CHECK(down == t.layers);
  }
}

TEST_CASE("exec/families: devices without heads or without columns, the master among them") {
  struct Split {
    std::vector<Range> heads;
    std::vector<Range> columns;
  };
  const Split splits[] = {
      {{{0, 4}, {4, 4}}, {{0, 0}, {0, 37}}},
      {{{0, 0}, {0, 4}}, {{0, 37}, {37, 37}}},
      {{{0, 1}, {1, 1}, {1, 4}}, {{0, 0}, {0, 30}, {30, 37}}},
      {{{0, 0}, {0, 3}, {3, 4}}, {{0, 5}, {5, 37}, {37, 37}}},
  };
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < 9; ++i) ids.push_back((17 + i * 31) % 259);
  for (const Family family : kFamilies) {
    const Transformer t = small(family);
    const bool generates = t.architecture().generates();
    const TemporaryFolder folder;
    write_random_weights(t, 5, model::DType::f32, folder.path());
    const auto result = [&](const planner::Plan& plan) {
      testing::SerialExecutor executor(plan, folder.path());
      return generates ? executor.step(ids) : executor.encode(ids);
    };
    const std::int64_t further = generates ? 1 : 0;
    const std::vector<float> whole = result(testing::plan_for(t, "local", 1, "equal", 9, further));
    for (const Split& split : splits) {
      CAPTURE(static_cast<int>(family));
      const auto count = static_cast<int>(split.heads.size());
      planner::Plan plan = testing::plan_for(t, "tensor", count, "equal", 9, further);
      for (std::size_t d = 0; d < split.heads.size(); ++d) {
        plan.devices[d].share.heads = split.heads[d];
        plan.devices[d].share.columns = split.columns[d];
      }
      plan.validate();
      const std::vector<float> parts = result(plan);
      REQUIRE(parts.size() == whole.size());
      float worst = 0.0F;
      for (std::size_t i = 0; i < whole.size(); ++i)
        worst = std::max(worst, std::abs(parts[i] - whole[i]));
      CHECK(worst <= 2e-5F);
    }
  }
}

TEST_CASE("exec/families: names without the prefix, with another one, and BERT's first names") {
  const struct {
    Family family;
    const char* from;
    const char* to;
  } cases[] = {
      {Family::llama, "\"model.", "\""},
      {Family::gpt2, "\"transformer.", "\""},
      {Family::opt, "\"model.decoder.", "\""},
      {Family::opt, "\"model.decoder.", "\"decoder."},
      {Family::bert, "\"bert.", "\""},
      {Family::bert, "LayerNorm.weight", "LayerNorm.gamma"},
      {Family::bert, "LayerNorm.bias", "LayerNorm.beta"},
      {Family::distilbert, "\"distilbert.", "\""},
  };
  for (const auto& c : cases) {
    CAPTURE(c.from);
    CAPTURE(c.to);
    const Transformer t = small(c.family);
    const TemporaryFolder folder;
    write_random_weights(t, 9, model::DType::f32, folder.path());
    const auto before = testing::contents_of(Shard::slice(folder.path(), t, whole_share(t)));
    rename_tensors(folder.path(), c.from, c.to);
    CHECK(testing::contents_of(Shard::slice(folder.path(), t, whole_share(t))) == before);
  }
  SUBCASE("a tensor that is not there under any name is missing under its own") {
    const Transformer t = small(Family::bert);
    const TemporaryFolder folder;
    write_random_weights(t, 9, model::DType::f32, folder.path());
    rename_tensors(folder.path(), "layer.1.output.dense", "layer.1.output.thick");
    CHECK(testing::has(
        testing::error_of([&] { const auto s = Shard::slice(folder.path(), t, whole_share(t)); }),
        "tensor bert.encoder.layer.1.output.dense.weight is missing"));
  }
}

}  // namespace
}  // namespace tandem::exec::weight_families_test
