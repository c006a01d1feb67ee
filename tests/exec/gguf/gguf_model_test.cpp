#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "exec/gguf/conversion/model_conversion.hpp"
#include "exec/gguf/gguf_file.hpp"
#include "exec/gguf/gguf_geometry.hpp"
#include "exec/weights/formats/convert.hpp"
#include "exec/weights/model_folder.hpp"
#include "exec/weights/random_weights.hpp"
#include "exec/weights/source/safetensors.hpp"
#include "exec/weights/source/weight_source.hpp"
#include "tests/exec/gguf/gguf_support.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/block_support.hpp"

namespace tandem::exec::gguf_model_test {
namespace {

namespace fs = std::filesystem;
using model::Transformer;
using model::WeightFormat;
using testing::contents_of;
using testing::entry;
using testing::error_of;
using testing::GgufParts;
using testing::has;
using testing::raw;
using testing::read_all;
using testing::real_entry;
using testing::TemporaryFolder;
using testing::tensor_entry;

// `longer`: rows of whole blocks of 256.
Transformer llama(bool longer = false) {
  Transformer t =
      testing::in_blocks(testing::small_llama(), longer ? WeightFormat::q4_k : WeightFormat::f32);
  t.formats = {};
  t.bos_token = 1;
  t.eos_tokens = {2, 5};
  t.rope_theta = 500000.0;
  t.norm_epsilon = 1e-6;
  return t;
}

model::WeightFormats in(WeightFormat format) { return model::WeightFormats(format); }

Transformer with_rule(double factor, double low, double high, std::int64_t original) {
  Transformer t = llama();
  t.tied_embeddings = true;
  t.rope_scaling = model::RopeScaling{.kind = model::RopeScaling::Kind::llama3,
                                      .factor = factor,
                                      .low_frequency_factor = low,
                                      .high_frequency_factor = high,
                                      .original_context = original};
  return t;
}

// No pair of such a head turns slowly enough to be scaled by all of the factor.
Transformer narrow() {
  Transformer t = with_rule(32.0, 1.0, 4.0, 8192);
  t.head_dim = 8;
  t.rope_theta = 10000.0;
  return t;
}

Transformer linear() {
  Transformer t = llama();
  t.rope_scaling = model::RopeScaling{.factor = 4.0};
  return t;
}

Transformer gpt2(bool longer = false) {
  Transformer t = llama(longer);
  t.family = model::Family::gpt2;
  t.activation = model::Activation::gelu_tanh;
  t.hidden = t.heads * t.head_dim;
  t.kv_heads = t.heads;
  t.tied_embeddings = true;
  t.rope_theta = 10000.0;
  t.max_context = 20;
  return t;
}

std::vector<model::Share> shares_of(const Transformer& t) {
  const model::Range layers{0, static_cast<std::int32_t>(t.layers)};
  const auto fifth = static_cast<std::int32_t>(t.intermediate / 5);
  return {testing::whole_share(t),
          {layers, {1, 4}, {fifth, 3 * fifth}, false, false},
          {{1, 2}, {5, 6}, {4 * fifth, 5 * fifth}, false, true}};
}

TEST_CASE(
    "exec/gguf: a folder that became a GGUF file becomes the same folder again, bit for bit") {
  for (const Transformer& t : {llama(), with_rule(32.0, 1.0, 4.0, 8192),
                               with_rule(8.0, 2.0, 3.0, 100), narrow(), linear(), gpt2()}) {
    for (const auto dtype : {model::DType::f32, model::DType::f16, model::DType::bf16}) {
      CAPTURE(model::to_string(t.family));
      CAPTURE(model::to_string(dtype));
      const TemporaryFolder home;
      const fs::path a = home.path() / "a";
      const fs::path file = home.path() / "b.gguf";
      const fs::path c = home.path() / "c";
      write_random_weights(t, 3, dtype, a);
      CHECK(convert_model({.weights = a, .out = file}).empty());
      CHECK(convert_model({.weights = file, .out = c}).empty());
      CHECK(read_all(c / "config.json") == read_all(a / "config.json"));
      // The tensors' order is the model's in both.
      CHECK(read_all(c / "model.safetensors") == read_all(a / "model.safetensors"));
      Transformer read = read_geometry(file);
      const WeightFormat stored = *model::find_weight_format(dtype == model::DType::f32   ? "f32"
                                                             : dtype == model::DType::f16 ? "f16"
                                                                                          : "bf16");
      for (const model::WeightMatrix matrix : model::kWeightMatrices)
        CHECK(read.format_of(matrix, 0) == stored);
      read.formats = t.formats;
      CHECK(read == t);
      CHECK(testing::names_in(home.path()).size() == 5);
    }
  }
}

TEST_CASE("exec/gguf: shares of a folder and of its GGUF file have the same bytes in every format" *
          doctest::test_suite("long")) {
  for (const Transformer& model : {llama(), gpt2(), llama(true), gpt2(true)}) {
    const TemporaryFolder home;
    const fs::path folder = home.path() / "a";
    write_random_weights(model, 5, model::DType::f32, folder);
    CHECK(convert_model({.weights = folder, .out = home.path() / "plain.gguf"}).empty());
    for (const WeightFormat format : model::kWeightFormats) {
      CAPTURE(model::to_string(format));
      if ((model::block_of(format).elements == 256) != (model.intermediate == 1280)) continue;
      Transformer t = model;
      t.formats = model::WeightFormats(format);
      const fs::path file = home.path() / "same.gguf";
      const std::string remark =
          convert_model({.weights = folder, .out = file, .formats = in(format)});
      CHECK(remark.empty() == (format == WeightFormat::f32));
      const Transformer read = read_geometry(file);
      for (const model::WeightMatrix matrix : model::kWeightMatrices)
        CHECK(read.format_of(matrix, 0) == format);
      CHECK(rounding_remark(*open_weights(file, t), t).empty());
      for (const model::Share& share : shares_of(t)) {
        const std::string expected = contents_of(Shard::slice(folder, t, share));
        CHECK(contents_of(Shard::slice(home.path() / "plain.gguf", t, share)) == expected);
        CHECK(contents_of(Shard::slice(file, t, share)) == expected);
      }
    }
  }
}

TEST_CASE("exec/gguf: a layer whose matrix is stored otherwise keeps it so, in both forms") {
  const TemporaryFolder home;
  const Transformer t = llama();
  write_random_weights(t, 3, model::DType::f32, home.path() / "plain");
  const SafetensorsFolder plain(home.path() / "plain");
  std::vector<TensorToWrite> tensors;
  for (const std::string& name : plain.names()) {
    const bool is_norm = plain.shape_of(name).size() == 1;
    const bool other = name == "model.layers.1.mlp.down_proj.weight";
    tensors.push_back({.name = name,
                       .shape = plain.shape_of(name),
                       .dtype = is_norm ? model::DType::f32
                                : other ? model::DType::bf16
                                        : model::DType::f16});
  }
  const fs::path mixed = home.path() / "mixed";
  fs::create_directory(mixed);
  fs::copy(home.path() / "plain" / "config.json", mixed / "config.json");
  SafetensorsWriter writer(mixed, model::DType::f32, tensors);
  for (const TensorToWrite& tensor : tensors) {
    const auto rows = tensor.shape.size() == 1 ? 1 : static_cast<std::int32_t>(tensor.shape[0]);
    const auto columns = static_cast<std::int32_t>(tensor.shape.back());
    std::vector<float> values(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
    plain.read(tensor.name, tensor.shape, {0, rows}, {0, columns}, values);
    std::vector<std::byte> stored(values.size() *
                                  static_cast<std::size_t>(model::size_of(*tensor.dtype)));
    from_f32(*tensor.dtype, values, stored);
    writer.append(stored);
  }
  writer.commit("model.safetensors");
  const fs::path file = home.path() / "mixed.gguf";
  CHECK(convert_model({.weights = mixed, .out = file}).empty());
  Transformer read = read_geometry(file);
  model::WeightFormats expected(WeightFormat::f16);
  expected.set(model::WeightMatrix::down, 1, WeightFormat::bf16);
  CHECK(read.formats == expected);
  CHECK(stored_formats(SafetensorsFolder(mixed), t) == expected);
  CHECK(rounding_remark(*open_weights(file, read), read).empty());
  read.formats = model::WeightFormats(WeightFormat::f16);
  CHECK(has(rounding_remark(*open_weights(file, read), read), "layer 1's down (bf16 to f16)"));
  read.formats = expected;
  const auto share = testing::whole_share(t);
  CHECK(contents_of(Shard::slice(file, read, share)) ==
        contents_of(Shard::slice(mixed, read, share)));
  CHECK(convert_model({.weights = file, .out = home.path() / "again"}).empty());
  const SafetensorsFolder before(mixed);
  const SafetensorsFolder after(home.path() / "again");
  CHECK(after.names() == before.names());
  for (const std::string& name : before.names())
    CHECK(after.dtype_of(name) == before.dtype_of(name));
  CHECK(contents_of(Shard::slice(home.path() / "again", read, share)) ==
        contents_of(Shard::slice(mixed, read, share)));
}

// Blocks that no encoder writes: their scale is not the largest number's.
TEST_CASE("exec/gguf: stored blocks stay what they are, and widen to what they mean") {
  for (const WeightFormat format : {WeightFormat::q8_0, WeightFormat::q4_0}) {
    const TemporaryFolder home;
    Transformer t = llama();
    write_random_weights(t, 5, model::DType::f32, home.path() / "a");
    const fs::path path = home.path() / "b.gguf";
    (void)convert_model({.weights = home.path() / "a", .out = path, .formats = in(format)});
    std::string bytes = read_all(path);
    const GgufFile file(path);
    const auto block = static_cast<std::size_t>(model::block_of(format).bytes);
    for (const char* name : {"blk.1.ffn_down.weight", "blk.1.attn_q.weight"}) {
      const GgufTensor& tensor = file.tensors().at(name).tensor;
      for (std::size_t i = 0; i < tensor.bytes; ++i)
        bytes[tensor.offset + i] =
            static_cast<char>(i % block == 1 ? 0x2c : static_cast<char>((i * 7 + i / 5) % 11));
    }
    testing::write_text(path, bytes);
    t.formats = model::WeightFormats(format);
    const Shard shard = Shard::slice(path, t, testing::whole_share(t));
    const MatrixView down = shard.tensors().layers[1].down;
    const GgufTensor& stored = file.tensors().at("blk.1.ffn_down.weight").tensor;
    CHECK(std::string(reinterpret_cast<const char*>(down.data), stored.bytes) ==
          bytes.substr(stored.offset, stored.bytes));
    // Rows of queries are in order again: row i + s d / 2 of a head is the file's 2 i + s.
    const MatrixView own = shard.tensors().layers[1].query;
    const GgufTensor& query = file.tensors().at("blk.1.attn_q.weight").tensor;
    const auto row = static_cast<std::size_t>(own.row_bytes());
    for (std::int64_t r = 0; r < t.heads * t.head_dim; ++r) {
      const std::int64_t within = r % t.head_dim;
      const std::int64_t from =
          r - within + 2 * (within % (t.head_dim / 2)) + within / (t.head_dim / 2);
      CHECK(std::string(reinterpret_cast<const char*>(own.row(r)), row) ==
            bytes.substr(query.offset + static_cast<std::size_t>(from) * row, row));
    }
    // A part of f32 may begin within a block.
    Transformer wide = t;
    wide.formats = model::WeightFormats();
    const std::vector<model::FieldDifference> none = model::differences(t, wide);
    CHECK(none.empty());
    const Shard all = Shard::slice(path, wide, testing::whole_share(wide));
    const Shard part = Shard::slice(
        path, wide, {{0, static_cast<std::int32_t>(t.layers)}, {0, 1}, {37, 75}, false, false});
    const auto number = [](const MatrixView& m, std::int64_t r, std::int64_t c) {
      return reinterpret_cast<const float*>(m.row(r))[c];
    };
    for (std::int64_t r = 0; r < t.hidden; ++r) {
      for (std::int64_t c = 0; c < 38; ++c)
        CHECK(number(part.tensors().layers[1].down, r, c) ==
              number(all.tensors().layers[1].down, r, c + 37));
    }
  }
}

// The keys of a small Llama, and a table of tokens.
std::vector<std::string> keys() {
  return {entry("general.architecture", "llama"),
          entry("llama.block_count", 1U),
          entry("llama.context_length", 64U),
          entry("llama.embedding_length", 8U),
          entry("llama.feed_forward_length", 12U),
          entry("llama.attention.head_count", 2U),
          real_entry("llama.attention.layer_norm_rms_epsilon", 1e-5F)};
}

GgufParts small() {
  return {
      .entries = keys(), .tensors = {tensor_entry("token_embd.weight", {8, 5}, 0, 0)}, .data = 160};
}

Transformer geometry(const GgufParts& parts) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "small.gguf";
  testing::write_text(path, parts.text());
  return gguf_geometry(GgufFile(path));
}

TEST_CASE(
    "exec/gguf: a geometry is what the keys say, and llama.cpp's defaults where they do not") {
  const Transformer t = geometry(small());
  CHECK(t.name == "small");
  CHECK(t.layers == 1);
  CHECK(t.hidden == 8);
  CHECK(t.intermediate == 12);
  CHECK(t.heads == 2);
  CHECK(t.kv_heads == 2);
  CHECK(t.head_dim == 4);
  CHECK(t.vocab == 5);
  CHECK(t.max_context == 64);
  CHECK(t.norm_epsilon == 1e-5);  // the decimal number, not the nearest of 32 bits
  CHECK(t.rope_theta == 10000.0);
  CHECK(t.tied_embeddings);
  CHECK(t.bos_token == -1);
  GgufParts more = small();
  for (const std::string& one :
       {entry("llama.attention.head_count_kv", 9,
              testing::u32(4) + testing::u64(1) + testing::u32(1)),
        entry("llama.expert_count", 0U), entry("llama.rope.dimension_count", 4U),
        entry("llama.attention.sliding_window", 48U), entry("general.name", "Other"),
        entry("quantize.imatrix.file", "x"), entry("tokenizer.ggml.eos_token_id", 4U),
        entry("tokenizer.ggml.eot_token_id", 3U)})
    more.entries.push_back(one);
  const Transformer other = geometry(more);
  CHECK(other.name == "Other");
  CHECK(other.kv_heads == 1);
  CHECK(other.max_context == 48);
  CHECK(other.eos_tokens == std::vector<std::int64_t>{4, 3});
}

TEST_CASE("exec/gguf: more layers than tandem takes are refused in a line that says how many") {
  for (const std::uint32_t layers : {100001U, 4294967295U}) {
    GgufParts many = small();
    many.entries[1] = entry("llama.block_count", layers);
    CHECK_THROWS_WITH_AS((void)geometry(many),
                         doctest::Contains(("llama.block_count is " + std::to_string(layers) +
                                            ", expected a whole number from 1 to 100000")
                                               .c_str()),
                         Error);
  }
}

TEST_CASE("exec/gguf: what would change the model and is not computed is refused by its key") {
  struct Bad {
    std::string added;
    const char* part;
  };
  const std::vector<Bad> all{
      {entry("llama.novel", 1U), "llama.novel is 1, expected only keys that tandem knows"},
      {entry("llama.expert_count", 8U), "llama.expert_count is 8, expected 0"},
      {entry("llama.rope.dimension_count", 2U), "llama.rope.dimension_count is 2, expected 4"},
      {entry("llama.rope.scaling.type", "longrope"), "llama.rope.scaling.type is 'longrope'"},
      {real_entry("llama.rope.scaling.factor", 2.0F), "llama.rope.scaling.factor is 2.0"},
      {real_entry("llama.rope.scaling.attn_factor", 2.0F), "attn_factor is 2.0"},
      {real_entry("llama.logit_scale", 0.5F), "llama.logit_scale is 0.5"},
      {real_entry("llama.attention.scale", 0.5F), "llama.attention.scale is 0.5"},
      {real_entry("llama.attn_logit_softcapping", 50.0F), "llama.attn_logit_softcapping is 50.0"},
      {entry("llama.attention.causal", 7, raw<std::uint8_t>(0)), "llama.attention.causal is false"},
      {entry("llama.attention.key_length", 6U), "llama.attention.value_length is missing"},
      {entry("llama.attention.key_length", "4"), "llama.attention.key_length is '4'"},
      {entry("llama.vocab_size", 6U), "llama.vocab_size is 6, expected 5"},
      {entry("llama.tensor_data_layout", "other"), "llama.tensor_data_layout is 'other'"},
      {entry("general.type", "adapter"), "general.type is 'adapter'"},
      {entry("general.quantization_version", 1U), "general.quantization_version is 1"},
      {entry("llama.attention.head_count_kv", 9,
             testing::u32(4) + testing::u64(2) + testing::u32(1) + testing::u32(2)),
       "llama.attention.head_count_kv is an array of 2, expected one number"},
      {entry("llama.attention.head_count_kv", 9,
             testing::u32(4) + testing::u64(2) + testing::u32(1) + testing::u32(1)),
       "head_count_kv is an array of 2, expected one number of at least 1, or 1"},
      {entry("llama.vocab_size", 9, testing::u32(4) + testing::u64(1) + testing::u32(5)),
       "llama.vocab_size is an array of 1, expected a whole number"},
      {entry("llama.attention.head_count_kv", 3U), "key/value heads"}};
  for (const Bad& bad : all) {
    CAPTURE(bad.part);
    GgufParts parts = small();
    parts.entries.push_back(bad.added);
    if (has(bad.part, "value_length")) continue;  // the defaults of both are tested below
    const std::string error = error_of([&] { (void)geometry(parts); });
    CAPTURE(error);
    if (!has(bad.part, "key/value heads")) CHECK(has(error, bad.part));
  }
  for (std::size_t i = 0; i < keys().size(); ++i) {
    GgufParts parts = small();
    parts.entries.erase(parts.entries.begin() + static_cast<std::ptrdiff_t>(i));
    CAPTURE(i);
    CHECK(has(error_of([&] { (void)geometry(parts); }), "is missing, expected"));
  }
  for (const char* other : {"qwen2moe", "gemma3n", "phimoe", "bert", "llama4"}) {
    GgufParts parts = small();
    parts.entries.front() = entry("general.architecture", other);
    CHECK(has(error_of([&] { (void)geometry(parts); }),
              std::string("general.architecture is '") + other + "', expected one of llama"));
  }
  GgufParts bare = small();
  bare.tensors.clear();
  bare.data = 0;
  CHECK(has(error_of([&] { (void)geometry(bare); }), "token_embd.weight"));
}

TEST_CASE("exec/gguf: rotation's factors that Llama 3.1's rule does not give are refused") {
  const TemporaryFolder home;
  const Transformer t = with_rule(32.0, 1.0, 4.0, 8192);
  write_random_weights(t, 1, model::DType::f32, home.path() / "a");
  const fs::path path = home.path() / "b.gguf";
  (void)convert_model({.weights = home.path() / "a", .out = path});
  std::string bytes = read_all(path);
  const GgufTensor tensor = GgufFile(path).tensors().at("rope_freqs.weight").tensor;
  CHECK(tensor.shape == std::vector<std::int64_t>{t.head_dim / 2});
  const auto change = [&](std::size_t index, float value) {
    std::string changed = bytes;
    changed.replace(tensor.offset + 4 * index, 4, raw(value));
    testing::write_text(path, changed);
    return error_of([&] { (void)read_geometry(path); });
  };
  CHECK(has(change(1, 1.5F), "rope_freqs.weight: number 1 is 1.5"));
  CHECK(has(change(15, 33.0F), "rope_freqs.weight: number"));
  CHECK(has(change(0, NAN), "rope_freqs.weight"));
  CHECK(has(change(2, -1.0F), "rope_freqs.weight: number 2 is -1"));
  // Without the factors the model would be another, silently.
  GgufParts parts = small();
  parts.entries.push_back(real_entry("tandem.rope.factor", 32.0F));
  CHECK(has(error_of([&] { (void)geometry(parts); }),
            "tandem.rope.factor is 32.0, expected tensor rope_freqs.weight"));
}

TEST_CASE("exec/gguf: a tensor that is missing, left over or unreadable is refused by name") {
  const TemporaryFolder home;
  const Transformer t = llama();
  write_random_weights(t, 1, model::DType::f32, home.path() / "a");
  const fs::path path = home.path() / "b.gguf";
  (void)convert_model({.weights = home.path() / "a", .out = path});
  const std::string bytes = read_all(path);
  // Another name of the same length is one too many and one too few.
  const auto renamed = [&](const std::string& name, const std::string& other) {
    const std::string from = testing::gguf_text(name);
    const std::string to = testing::gguf_text(other);
    REQUIRE(from.size() == to.size());
    std::string changed = bytes;
    changed.replace(changed.find(from), from.size(), to);
    testing::write_text(path, changed);
    return error_of([&] { (void)open_weights(path, read_geometry(path)); });
  };
  CHECK(has(renamed("blk.1.ffn_gate.weight", "blk.1.ffn_fate.weight"),
            "tensor blk.1.ffn_gate.weight is missing"));
  // Without its head the model is tied, and something is left over.
  CHECK(has(renamed("output.weight", "altput.weight"), "tensor altput.weight: is no weight"));
  std::string nan = bytes;
  nan.replace(GgufFile(path).tensors().at("blk.0.ffn_up.weight").tensor.offset, 4, raw(NAN));
  testing::write_text(path, nan);
  CHECK(has(error_of([&] { (void)Shard::slice(path, t, testing::whole_share(t)); }),
            "blk.0.ffn_up.weight: holds NaN"));
  // A type that is not read yet: F64, of as many bytes as the file has.
  GgufParts parts = small();
  parts.tensors = {tensor_entry("token_embd.weight", {8, 5}, 28, 0)};
  parts.data = 320;
  testing::write_text(path, parts.text());
  CHECK(has(error_of([&] { (void)read_geometry(path); }),
            "token_embd.weight: dtype F64, expected one of F32, F16, BF16, Q8_0, Q4_0"));
}

TEST_CASE("exec/gguf: plans and files of another model do not meet") {
  const TemporaryFolder home;
  const Transformer t = llama();
  write_random_weights(t, 1, model::DType::f32, home.path() / "a");
  const fs::path path = home.path() / "b.gguf";
  (void)convert_model({.weights = home.path() / "a", .out = path});
  Transformer other = t;
  other.rope_theta = 10000.0;
  check_config(path, t);
  CHECK(has(error_of([&] { check_config(path, other); }),
            "rope_theta 500000.0 where the plan has 10000.0"));
}

TEST_CASE("exec/model folder: an adapter is refused, as nothing applies it") {
  const TemporaryFolder home;
  const fs::path folder = home.path() / "a";
  const Transformer t = llama();
  write_random_weights(t, 1, model::DType::f32, folder);
  CHECK_NOTHROW(check_config(folder, t));
  testing::write_text(folder / "adapter_config.json", R"({"peft_type":"LORA"})");
  CHECK(has(error_of([&] { check_config(folder, t); }), "adapter_config.json: the folder has an"));
}

}  // namespace
}  // namespace tandem::exec::gguf_model_test
