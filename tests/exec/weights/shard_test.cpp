#include "exec/weights/shard.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "exec/weights/files/read_file.hpp"
#include "exec/weights/formats/block_codec.hpp"
#include "exec/weights/model_folder.hpp"
#include "exec/weights/random_weights.hpp"
#include "exec/weights/source/layout.hpp"
#include "exec/weights/source/safetensors.hpp"
#include "exec/weights/source/slicing.hpp"
#include "exec/weights/tensors.hpp"
#include "model/base/digest.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/sampled.hpp"

namespace tandem::exec::shard_test {
namespace {

using model::Range;
using model::Share;
using model::Transformer;
using testing::error_of;
using testing::has;
using testing::small_llama;
using testing::TemporaryFolder;
using testing::whole_share;
using testing::write_text;

// Reads `rows` x `columns` of a tensor straight from the folder.
std::vector<float> slice_of(const SafetensorsFolder& weights, const std::string& name,
                            const std::vector<std::int64_t>& shape, Range rows, Range columns) {
  std::vector<float> out(static_cast<std::size_t>(rows.size() * columns.size()));
  weights.read(name, shape, rows, columns, out);
  return out;
}

bool equal(const std::vector<float>& expected, const float* actual) {
  return std::memcmp(expected.data(), actual, expected.size() * sizeof(float)) == 0;
}

const float* floats(const MatrixView& view) {
  REQUIRE((view.data == nullptr || view.format == model::WeightFormat::f32));
  return reinterpret_cast<const float*>(view.data);
}

Range all(std::int64_t n) { return {0, static_cast<std::int32_t>(n)}; }

// Every tensor of `shard` against the folder it was sliced from.
void check_contents(const Shard& shard, const std::filesystem::path& folder) {
  const SafetensorsFolder weights(folder);
  const Transformer& t = shard.transformer();
  const Share& share = shard.share();
  const Shard::Tensors& tensors = shard.tensors();
  const std::int64_t d = t.head_dim;
  const auto scaled = [&](Range heads) {
    return Range{static_cast<std::int32_t>(heads.begin * d),
                 static_cast<std::int32_t>(heads.end * d)};
  };
  const Range q = scaled(share.heads);
  const Range kv = scaled(t.kv_heads_for(share.heads));
  const std::vector<std::int64_t> vector_shape{t.hidden};
  const Range h = all(t.hidden);
  REQUIRE(tensors.layers.size() == static_cast<std::size_t>(share.layers.size()));
  for (std::size_t i = 0; i < tensors.layers.size(); ++i) {
    const LayerTensors& layer = tensors.layers[i];
    const std::string prefix =
        "model.layers." + std::to_string(share.layers.first() + static_cast<int>(i)) + ".";
    CAPTURE(prefix);
    if (!share.heads.empty()) {
      REQUIRE(layer.query.rows == q.size());
      REQUIRE(layer.key.rows == kv.size());
      REQUIRE(layer.value.rows == kv.size());
      REQUIRE(layer.query.columns == t.hidden);
      REQUIRE(layer.out.rows == t.hidden);
      REQUIRE(layer.out.columns == q.size());
      CHECK(equal(slice_of(weights, prefix + "input_layernorm.weight", vector_shape, {0, 1}, h),
                  layer.attention_norm.weight.data()));
      const float* at = floats(layer.query);
      for (const auto& [name, rows, of] :
           {std::tuple{"q", q, t.heads}, {"k", kv, t.kv_heads}, {"v", kv, t.kv_heads}}) {
        CHECK(equal(slice_of(weights, prefix + "self_attn." + name + "_proj.weight",
                             {of * d, t.hidden}, rows, h),
                    at));
        at += rows.size() * t.hidden;
      }
      CHECK(equal(
          slice_of(weights, prefix + "self_attn.o_proj.weight", {t.hidden, t.heads * d}, h, q),
          floats(layer.out)));
    }
    if (!share.columns.empty()) {
      REQUIRE(layer.gate.rows == share.columns.size());
      REQUIRE(layer.up.rows == share.columns.size());
      REQUIRE(layer.down.columns == share.columns.size());
      CHECK(equal(
          slice_of(weights, prefix + "post_attention_layernorm.weight", vector_shape, {0, 1}, h),
          layer.ffn_norm.weight.data()));
      const std::vector<std::int64_t> up_shape{t.intermediate, t.hidden};
      CHECK(equal(slice_of(weights, prefix + "mlp.gate_proj.weight", up_shape, share.columns, h),
                  floats(layer.gate)));
      CHECK(equal(slice_of(weights, prefix + "mlp.up_proj.weight", up_shape, share.columns, h),
                  floats(layer.up)));
      CHECK(equal(slice_of(weights, prefix + "mlp.down_proj.weight", {t.hidden, t.intermediate}, h,
                           share.columns),
                  floats(layer.down)));
    }
  }
  const std::vector<std::int64_t> vocab_shape{t.vocab, t.hidden};
  CHECK((tensors.embedding.data != nullptr) == share.embedding);
  CHECK((tensors.head.data != nullptr) == share.head);
  if (share.embedding) {
    CHECK(equal(slice_of(weights, "model.embed_tokens.weight", vocab_shape, all(t.vocab), h),
                floats(tensors.embedding)));
  }
  if (share.head) {
    const char* name = t.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
    CHECK(equal(slice_of(weights, name, vocab_shape, all(t.vocab), h), floats(tensors.head)));
    CHECK(equal(slice_of(weights, "model.norm.weight", vector_shape, {0, 1}, h),
                tensors.final_norm.weight.data()));
    CHECK((tensors.head.data == tensors.embedding.data) == (t.tied_embeddings && share.embedding));
  }
}

std::vector<Share> shares_of(const Transformer& t) {
  const Share whole = whole_share(t);
  return {whole,
          {all(t.layers), {0, 1}, {0, 1}, true, true},
          {all(t.layers), {1, 4}, {5, 18}, false, false},  // heads of two groups
          {all(t.layers), {5, 6}, {36, 37}, false, true},  // a kv head that others hold too
          {{1, 2}, {2, 6}, {0, 37}, false, false},
          {{2, 3}, {0, 0}, {3, 5}, true, false},
          {{0, 1}, {2, 3}, {0, 0}, false, false},
          {{0, 0}, {0, 0}, {0, 0}, false, true},
          {{0, 0}, {0, 0}, {0, 0}, false, false}};
}

TEST_CASE("exec/shard: holds exactly its part of every tensor, from every stored dtype") {
  for (const bool tied : {false, true}) {
    for (const auto dtype : {model::DType::f32, model::DType::f16, model::DType::bf16}) {
      Transformer t = small_llama();
      t.tied_embeddings = tied;
      const TemporaryFolder folder;
      write_random_weights(t, 7, dtype, folder.path(), dtype == model::DType::f16 ? 9000 : 1 << 30);
      for (const Share& share : shares_of(t)) {
        CAPTURE(tied);
        CAPTURE(share.heads.begin);
        CAPTURE(share.columns.begin);
        check_contents(Shard::slice(folder.path(), t, share), folder.path());
      }
    }
  }
}

TEST_CASE(
    "exec/shard: memory is model::weight_bytes, but for padding of at most 4096 + 192 a block") {
  for (const bool tied : {false, true}) {
    Transformer t = small_llama();
    t.tied_embeddings = tied;
    const TemporaryFolder folder;
    write_random_weights(t, 7, model::DType::f32, folder.path());
    for (const Share& share : shares_of(t)) {
      const Shard shard = Shard::slice(folder.path(), t, share);
      const ShardLayout layout = layout_of(t, share);
      double exact = 0.0;
      for (const LayoutBlock& block : layout.blocks) {
        CHECK(block.offset % kBlockAlignment == 0);
        for (const TensorSlice& slice : block.slices) {
          exact += static_cast<double>(slice.elements() * sizeof(float));
        }
      }
      // An empty half of a share has no norm to hold; the prediction may count it.
      const double unused_norms =
          4.0 * static_cast<double>(t.hidden * share.layers.size()) *
          ((share.heads.empty() ? 1.0 : 0.0) + (share.columns.empty() ? 1.0 : 0.0));
      CHECK(exact <= model::weight_bytes(t, share));
      CHECK(exact >= model::weight_bytes(t, share) - unused_norms);
      CHECK(shard.bytes() >= exact);
      CHECK(shard.bytes() <= exact + static_cast<double>(layout.blocks.size()) * (4096.0 + 192.0));
      for (const auto& memory : shard.tensors().storage)
        CHECK(reinterpret_cast<std::uintptr_t>(memory->data()) % 4096 == 0);
    }
  }
}

// `view` against the numbers of its tensor's part, encoded row by row.
void check_encoded(const MatrixView& view, std::int64_t first_row, std::span<const float> numbers) {
  std::vector<std::byte> row(static_cast<std::size_t>(view.row_bytes()));
  const auto width = static_cast<std::size_t>(view.columns);
  int wrong = 0;
  for (std::size_t r = 0; r < numbers.size() / width; ++r) {
    encode(view.format, numbers.subspan(r * width, width), row);
    const std::byte* const held = view.row(first_row + static_cast<std::int64_t>(r));
    wrong += std::memcmp(row.data(), held, row.size()) == 0 ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("exec/shard: matrices are in their formats, whatever part of them a device holds" *
          doctest::test_suite("long")) {
  for (const model::DType stored : {model::DType::f32, model::DType::f16, model::DType::bf16}) {
    for (const model::WeightFormat format : model::kWeightFormats) {
      CAPTURE(to_string(stored));
      CAPTURE(to_string(format));
      Transformer t = testing::in_blocks(small_llama(), format);
      t.formats.set(model::WeightMatrix::down, model::WeightFormat::q4_0);  // each its own
      t.formats.set(model::WeightMatrix::value, 2, model::WeightFormat::q8_0);
      const TemporaryFolder folder;
      write_random_weights(t, 9, stored, folder.path());
      const SafetensorsFolder weights(folder.path());
      const Share share{{1, 3}, {1, 5}, {32, 128}, true, true};
      const Shard shard = Shard::slice(folder.path(), t, share);
      const Shard::Tensors& tensors = shard.tensors();
      const LayerTensors& layer = tensors.layers.at(1);
      CHECK(layer.query.format == format);
      CHECK(layer.value.format == model::WeightFormat::q8_0);
      CHECK(layer.down.format == model::WeightFormat::q4_0);
      const std::string prefix = "model.layers.2.";
      const Range h = all(t.hidden);
      const auto d = static_cast<std::int32_t>(t.head_dim);
      check_encoded(layer.query, 0,
                    slice_of(weights, prefix + "self_attn.q_proj.weight",
                             {t.heads * t.head_dim, t.hidden}, {d, 5 * d}, h));
      check_encoded(layer.key, 0,
                    slice_of(weights, prefix + "self_attn.k_proj.weight",
                             {t.kv_heads * t.head_dim, t.hidden}, {0, 3 * d}, h));
      check_encoded(layer.value, 0,
                    slice_of(weights, prefix + "self_attn.v_proj.weight",
                             {t.kv_heads * t.head_dim, t.hidden}, {0, 3 * d}, h));
      check_encoded(layer.out, 0,
                    slice_of(weights, prefix + "self_attn.o_proj.weight",
                             {t.hidden, t.heads * t.head_dim}, h, t.out_columns(2, {1, 5})));
      check_encoded(layer.up, 0,
                    slice_of(weights, prefix + "mlp.up_proj.weight", {t.intermediate, t.hidden},
                             {32, 128}, h));
      check_encoded(layer.down, 0,
                    slice_of(weights, prefix + "mlp.down_proj.weight", {t.hidden, t.intermediate},
                             h, {32, 128}));
      check_encoded(
          tensors.embedding, 0,
          slice_of(weights, "model.embed_tokens.weight", {t.vocab, t.hidden}, all(t.vocab), h));
      check_encoded(tensors.head, 0,
                    slice_of(weights, "lm_head.weight", {t.vocab, t.hidden}, all(t.vocab), h));
      // What is stored so stays so, and what is not is said.
      const model::WeightFormats kept = stored_formats(weights, t);
      CHECK(kept == model::WeightFormats(stored == model::DType::f32 ? model::WeightFormat::f32
                                         : stored == model::DType::f16
                                             ? model::WeightFormat::f16
                                             : model::WeightFormat::bf16));
      Transformer same = t;
      same.formats = kept;
      CHECK(rounding_remark(weights, same) == "");
      CHECK(
          has(rounding_remark(weights, t),
              "down (" + std::string(to_string(kept.of(model::WeightMatrix::down))) + " to q4_0)"));
      // Blocks are made of the same bytes, portion by portion.
      for (const LayoutBlock& block : layout_of(t, share).blocks) {
        std::vector<std::byte> streamed;
        stream_block(weights, block, [&](std::span<const std::byte> bytes) {
          streamed.insert(streamed.end(), bytes.begin(), bytes.end());
        });
        std::vector<std::byte> sliced(streamed.size());
        slice_block(weights, block, sliced);
        CHECK(streamed == sliced);
      }
    }
  }
}

TEST_CASE("exec/shard: columns within a block and numbers beyond a format are refused") {
  const Transformer t = testing::in_blocks(small_llama(), model::WeightFormat::q8_0);
  CHECK(has(error_of([&] {
              (void)layout_of(t, {{0, 1}, {0, 1}, {0, 48}, false, false});
            }),
            "FFN columns [0, 48), expected multiples of 32"));
  // 1e9 is no half, and in blocks of 32 neither is 1e9 / 127.
  class Huge final {
   public:
    explicit Huge(const Transformer& transformer) {
      write_random_weights(transformer, 9, model::DType::f32, folder.path());
      const auto file = folder.path() / "model.safetensors";
      std::string bytes = read_text(file, std::uint64_t{1} << 30U);
      const float beyond = 1e9F;
      // The last tensor of the file is the LM head.
      std::memcpy(bytes.data() + bytes.size() - sizeof beyond, &beyond, sizeof beyond);
      write_text(file, bytes);
    }
    TemporaryFolder folder;
  };
  const Huge huge(t);
  const Huge long_rows(testing::in_blocks(t, model::WeightFormat::q4_k));
  testing::Sampled taken(4);
  for (const model::WeightFormat format : model::kWeightFormats) {
    if (!taken()) continue;
    CAPTURE(to_string(format));
    Transformer in = testing::in_blocks(t, format);
    const auto slice = [&] {
      (void)Shard::slice((in.hidden == t.hidden ? huge : long_rows).folder.path(), in,
                         whole_share(in));
    };
    if (format == model::WeightFormat::f32 || format == model::WeightFormat::bf16) {
      CHECK_NOTHROW(slice());
      continue;
    }
    const std::string error = error_of(slice);
    CHECK(has(error, "beyond what " + std::string(to_string(format)) + " can say"));
    CHECK(has(error, "lm_head.weight"));
  }
}

TEST_CASE("exec/shard: every matrix begins 64-aligned") {
  const Transformer t = small_llama();
  for (const Share& share : shares_of(t)) {
    for (const LayoutBlock& block : layout_of(t, share).blocks) {
      for (const TensorSlice& slice : block.slices) {
        // Key, value and up rows continue the matrix before them.
        if (has(slice.tensor, "k_proj") || has(slice.tensor, "v_proj") ||
            has(slice.tensor, "up_proj")) {
          continue;
        }
        CHECK(slice.offset % 64 == 0);
      }
    }
  }
}

TEST_CASE("exec/shard: shares outside the model and models that cannot run are refused") {
  const Transformer t = small_llama();
  for (const Share& share :
       {Share{{0, 4}, {0, 1}, {0, 1}, false, false}, Share{{0, 3}, {0, 7}, {0, 1}, false, false},
        Share{{0, 3}, {0, 1}, {0, 38}, false, false}, Share{{0, 3}, {-1, 1}, {0, 1}, false, false},
        Share{{0, 3}, {2, 1}, {0, 1}, false, false}}) {
    CHECK(has(error_of([&] { [[maybe_unused]] const auto n = layout_of(t, share); }), "share: "));
  }
  Transformer glm = t;
  glm.family = model::Family::glm;
  CHECK(has(error_of([&] { [[maybe_unused]] const auto n = layout_of(glm, whole_share(t)); }),
            "glm"));
  Transformer huge = t;
  huge.vocab = huge.hidden = 0x7fffffff;
  CHECK(has(error_of([&] { [[maybe_unused]] const auto n = layout_of(huge, whole_share(t)); }),
            "2^50"));
}

TEST_CASE("exec/shard: a missing tensor and one of another shape are named") {
  Transformer t = small_llama();
  t.tied_embeddings = true;
  const TemporaryFolder folder;
  write_random_weights(t, 7, model::DType::f32, folder.path());
  Transformer untied = t;
  untied.tied_embeddings = false;
  write_text(folder.path() / "config.json", model::to_config_json(untied));
  CHECK(has(error_of([&] { const auto s = Shard::slice(folder.path(), untied, whole_share(t)); }),
            "lm_head.weight is missing"));
  Transformer wider = t;
  wider.intermediate = 38;
  CHECK(has(error_of([&] { const auto s = Shard::slice(folder.path(), wider, whole_share(t)); }),
            "tie_word_embeddings false where the plan has true"));
  write_text(folder.path() / "config.json", model::to_config_json(wider));
  const std::string error =
      error_of([&] { const auto s = Shard::slice(folder.path(), wider, whole_share(wider)); });
  CHECK(has(error, "gate_proj.weight: shape [37, 30], expected [38, 30]"));
}

TEST_CASE("exec/aligned buffer: zeroed, aligned, and a refusal is an error") {
  AlignedBuffer buffer(10000);
  CHECK(buffer.size() == 10000);
  CHECK(buffer.floats().size() == 2500);
  CHECK(buffer.floats()[2499] == 0.0F);
  buffer.floats()[3] = 5.0F;
  AlignedBuffer moved(std::move(buffer));
  CHECK(moved.floats()[3] == 5.0F);
  CHECK(AlignedBuffer(0).data() == nullptr);
  // Buffers that lie beside one another: each begins with a huge page.
  std::vector<AlignedBuffer> large;
  for (const std::size_t bytes :
       {std::size_t{2} << 20U, std::size_t{5000001}, std::size_t{2097153}}) {
    AlignedBuffer& last = large.emplace_back(bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(last.data()) % (std::size_t{2} << 20U) == 0);
    CHECK(last.size() == bytes);
    last.populate();
    last.data()[bytes - 1] = std::byte{1};
  }
  CHECK(has(error_of([] { const AlignedBuffer huge(std::size_t{1} << 62U); }),
            "4611686018427387904"));
}

}  // namespace
}  // namespace tandem::exec::shard_test
