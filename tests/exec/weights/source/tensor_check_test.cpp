// Tensors that a model does not compute with, and tensors that it should: what Hugging Face's
// classes warn of, or take without a word, would be another model.

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/weights/random_weights.hpp"
#include "exec/weights/shard.hpp"
#include "exec/weights/source/safetensors.hpp"
#include "tests/exec/weights/weights_support.hpp"

namespace tandem::exec::tensor_check_test {
namespace {

using model::Family;
using model::Transformer;
using testing::TemporaryFolder;

Transformer small(Family family) {
  Transformer t = testing::small_llama();
  t.family = family;
  t.kv_heads = family == Family::llama ? t.kv_heads : t.heads;
  t.head_dim = 6;
  t.hidden = 36;
  t.tied_embeddings = family != Family::llama;
  t.token_types = family == Family::bert ? 2 : 0;
  if (!t.architecture().gated) t.activation = model::Activation::gelu;
  if (family == Family::distilbert) t.norm_epsilon = 1e-12;
  return t;
}

// Adds a tensor of those bytes to the folder's one file.
void add_tensor(const std::filesystem::path& folder, const std::string& name,
                const std::string& shape, const std::string& bytes) {
  const auto file = folder / "model.safetensors";
  const std::string whole = testing::read_all(file);
  std::uint64_t length = 0;
  std::memcpy(&length, whole.data(), sizeof length);
  std::string header = whole.substr(sizeof length, length);
  const std::string data = whole.substr(sizeof length + length);
  header.erase(header.find_last_of('}'));
  header += ",\"" + name + R"(":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":[)" +
            std::to_string(data.size()) + "," + std::to_string(data.size() + bytes.size()) + "]}}";
  const std::uint64_t longer = header.size();
  std::string text(reinterpret_cast<const char*>(&longer), sizeof longer);
  testing::write_text(file, text + header + data + bytes);
}

// Stores tensor `name` with another type, one byte an element.
void make_bytes(const std::filesystem::path& folder, const std::string& name,
                const std::string& dtype) {
  const auto file = folder / "model.safetensors";
  const std::string whole = testing::read_all(file);
  std::uint64_t length = 0;
  std::memcpy(&length, whole.data(), sizeof length);
  auto header = nlohmann::json::parse(whole.substr(sizeof length, length));
  std::string data;
  for (auto& [key, entry] : header.items()) {
    if (key == "__metadata__") continue;
    const auto offsets = entry["data_offsets"].get<std::vector<std::size_t>>();
    std::size_t bytes = offsets[1] - offsets[0];
    const std::size_t begin = data.size();
    data += whole.substr(sizeof length + length + offsets[0], bytes);
    if (key == name) {
      bytes /= sizeof(float);
      entry["dtype"] = dtype;
      data.resize(begin + bytes);
    }
    entry["data_offsets"] = {begin, begin + bytes};
  }
  testing::write_text(file, testing::safetensors_text(header.dump(), 0) + data);
}

Shard slice(const TemporaryFolder& folder, const Transformer& t) {
  return Shard::slice(folder.path(), t, testing::whole_share(t));
}

// Slices random weights of a small model of `family` beside which a tensor `name` is stored.
void slice_with(Family family, const char* name) {
  const Transformer t = small(family);
  const TemporaryFolder folder;
  write_random_weights(t, 1, model::DType::f32, folder.path());
  add_tensor(folder.path(), name, "[1]", "1234");
  static_cast<void>(slice(folder, t));
}

// The types of others' quantised weights, behind a config.json that says nothing of them.
TEST_CASE("exec/tensor check: weights of an unread type are refused before any are sliced") {
  const Transformer t = small(Family::llama);
  for (const char* dtype : {"F8_E4M3", "F8_E5M2", "F8_E4M3FN", "U8", "I8"}) {
    for (const char* tensor : {"model.embed_tokens.weight", "lm_head.weight",
                               "model.layers.1.mlp.down_proj.weight", "model.norm.weight"}) {
      CAPTURE(dtype);
      CAPTURE(tensor);
      const TemporaryFolder folder;
      write_random_weights(t, 1, model::DType::f32, folder.path());
      make_bytes(folder.path(), tensor, dtype);
      // What belongs to such a weight is no reason to remove it.
      add_tensor(folder.path(), std::string(tensor) + "_scale_inv", "[1]", "1234");
      const std::string error = testing::error_of([&] {
        const SafetensorsFolder weights(folder.path());
        weights.check_tensors(t);
      });
      CAPTURE(error);
      CHECK(testing::has(error, std::string("dtype ") + dtype + ", expected"));
      CHECK(testing::has(error, tensor));
    }
  }
}

TEST_CASE("exec/tensor check: a tensor that the model would leave out is refused by name") {
  const struct {
    Family family;
    const char* tensor;
  } cases[] = {
      {Family::llama, "model.layers.3.input_layernorm.weight"},
      {Family::llama, "model.layers.0.self_attn.q_proj.bias"},
      {Family::llama, "model.layers.0.self_attn.q_norm.weight"},
      {Family::llama, "model.layers.0.mlp.up_proj.weight_scale"},
      {Family::llama, "norm.weight"},
      {Family::llama, "model.norm.bias"},
      {Family::llama, "transformer.h.0.attn.bias"},
      {Family::gpt2, "transformer.h.3.ln_1.weight"},
      {Family::gpt2, "lm_head.bias"},
      {Family::gpt2, "wte.weight"},
      {Family::opt, "model.decoder.project_in.weight"},
      {Family::bert, "bert.encoder.layer.3.output.dense.weight"},
      {Family::bert, "bert.encoder.layer.0.attention.self.distance_embedding.weight"},
      {Family::bert, "bert.embeddings.LayerNorm.gamma"},
      {Family::distilbert, "distilbert.embeddings.token_type_embeddings.weight"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.tensor);
    const std::string error = testing::error_of([&] { slice_with(c.family, c.tensor); });
    CHECK(testing::has(error, "model.safetensors: tensor " + std::string(c.tensor) + ": "));
    CHECK(testing::has(error, "check that config.json belongs to these weights"));
  }
}

TEST_CASE("exec/tensor check: what Hugging Face's classes store beside the model is no matter") {
  const struct {
    Family family;
    const char* tensor;
  } cases[] = {
      {Family::llama, "model.layers.0.self_attn.rotary_emb.inv_freq"},
      {Family::gpt2, "h.0.attn.bias"},
      {Family::gpt2, "transformer.h.2.attn.masked_bias"},
      {Family::bert, "bert.embeddings.position_ids"},
      {Family::bert, "bert.pooler.dense.weight"},
      {Family::bert, "cls.predictions.transform.LayerNorm.gamma"},
      {Family::distilbert, "vocab_layer_norm.weight"},
      {Family::distilbert, "vocab_projector.bias"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.tensor);
    CHECK_NOTHROW(slice_with(c.family, c.tensor));
  }
}

TEST_CASE("exec/tensor check: a head beside tied embeddings is the embedding, or refused") {
  for (const Family family : {Family::gpt2, Family::opt, Family::llama}) {
    CAPTURE(model::to_string(family));
    Transformer t = small(family);
    t.tied_embeddings = true;
    const TemporaryFolder folder;
    write_random_weights(t, 1, model::DType::f32, folder.path());
    const std::string whole = testing::read_all(folder.path() / "model.safetensors");
    const SafetensorsFolder stored(folder.path());
    std::string name;
    for (const std::string& tensor : stored.names()) {
      if (tensor.ends_with("wte.weight") || tensor.ends_with("embed_tokens.weight")) name = tensor;
    }
    std::vector<float> values(static_cast<std::size_t>(t.vocab * t.hidden));
    const model::Range rows{0, static_cast<std::int32_t>(t.vocab)};
    const model::Range columns{0, static_cast<std::int32_t>(t.hidden)};
    stored.read(name, std::vector<std::int64_t>{t.vocab, t.hidden}, rows, columns, values);
    std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    const std::string shape = "[" + std::to_string(t.vocab) + "," + std::to_string(t.hidden) + "]";
    add_tensor(folder.path(), "lm_head.weight", shape, bytes);
    CHECK_NOTHROW(static_cast<void>(slice(folder, t)));
    testing::write_text(folder.path() / "model.safetensors", whole);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    add_tensor(folder.path(), "lm_head.weight", shape, bytes);
    CHECK(testing::has(testing::error_of([&] { const Shard shard = slice(folder, t); }),
                       "\"tie_word_embeddings\": false"));
  }
}

// ReLU makes 0 of NaN on some processors.
TEST_CASE("exec/tensor check: weights that are not finite are refused by name") {
  const Transformer t = small(Family::opt);
  for (const std::uint16_t bits : std::initializer_list<std::uint16_t>{0x7FC0, 0x7F80, 0xFF80}) {
    const TemporaryFolder folder;
    write_random_weights(t, 1, model::DType::bf16, folder.path());
    std::string whole = testing::read_all(folder.path() / "model.safetensors");
    std::memcpy(whole.data() + whole.size() - 2, &bits, sizeof bits);
    testing::write_text(folder.path() / "model.safetensors", whole);
    CHECK(testing::has(testing::error_of([&] { const Shard shard = slice(folder, t); }),
                       "holds NaN or infinity"));
  }
}

TEST_CASE("exec/tensor check: a tensor that another device would need is missed at once") {
  const Transformer t = small(Family::llama);
  Transformer deeper = t;
  deeper.layers = t.layers + 1;
  const TemporaryFolder folder;
  write_random_weights(t, 1, model::DType::f32, folder.path());
  testing::write_text(folder.path() / "config.json", model::to_config_json(deeper));
  model::Share first = testing::whole_share(deeper);
  first.layers = {0, 1};
  CHECK(testing::has(
      testing::error_of([&] { const Shard shard = Shard::slice(folder.path(), deeper, first); }),
      "model.layers.3.input_layernorm.weight is missing"));
}

}  // namespace
}  // namespace tandem::exec::tensor_check_test
