#include "exec/synthetic_shard.hpp"

#include <utility>

#include "exec/weights/tensors.hpp"
#include "model/error.hpp"

namespace tandem::exec {

Shard::Shard(std::unique_ptr<Tensors> tensors) : tensors_(std::move(tensors)) {}

Shard Shard::from_tensors(std::unique_ptr<Tensors> tensors) {
  require(tensors != nullptr, "a shard has tensors");
  return Shard(std::move(tensors));
}

namespace {

constexpr std::int64_t kAlignment = 16;  // floats

// Walks over the share's weights twice: once to count, once to fill.
class Filler {
 public:
  Filler(const model::Transformer& transformer, const model::Share& share,
         const std::function<float(const WeightElement&)>& value)
      : transformer_(transformer), share_(share), value_(value) {}

  void write_to(float* memory) {
    memory_ = memory;
    used_ = 0;
  }
  [[nodiscard]] std::int64_t floats() const { return used_; }

  void walk(Shard::Tensors& tensors) {
    const std::int64_t d = transformer_.head_dim;
    const std::int64_t h = transformer_.hidden;
    const auto heads = scaled(share_.heads, d);
    const auto kv = scaled(transformer_.kv_heads_for(share_.heads), d);
    const auto whole = [](std::int64_t n) { return Span{0, n}; };
    const Span columns = scaled(share_.columns, 1);
    tensors.layers.clear();
    for (std::int32_t i = share_.layers.begin; i < share_.layers.end; ++i) {
      LayerTensors layer;
      layer.attention_norm = vector(WeightName::attention_norm, i);
      layer.qkv.data = append(WeightName::query, i, heads, whole(h));
      append(WeightName::key, i, kv, whole(h));
      append(WeightName::value, i, kv, whole(h));
      layer.qkv = {layer.qkv.data, heads.size() + 2 * kv.size(), h};
      align();
      layer.out = matrix(WeightName::out, i, whole(h), heads);
      layer.ffn_norm = vector(WeightName::ffn_norm, i);
      layer.gate_up.data = append(WeightName::gate, i, columns, whole(h));
      append(WeightName::up, i, columns, whole(h));
      layer.gate_up = {layer.gate_up.data, 2 * columns.size(), h};
      align();
      layer.down = matrix(WeightName::down, i, whole(h), columns);
      tensors.layers.push_back(layer);
    }
    const Span vocab = whole(transformer_.vocab);
    if (share_.embedding) tensors.embedding = matrix(WeightName::embedding, -1, vocab, whole(h));
    if (!share_.head) return;
    tensors.final_norm = vector(WeightName::final_norm, -1);
    if (!transformer_.tied_embeddings) {
      tensors.head = matrix(WeightName::head, -1, vocab, whole(h));
    } else if (share_.embedding) {
      tensors.head = tensors.embedding;
    } else {
      tensors.head = matrix(WeightName::embedding, -1, vocab, whole(h));
    }
  }

 private:
  struct Span {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    [[nodiscard]] std::int64_t size() const { return end - begin; }
  };
  static Span scaled(model::Range r, std::int64_t by) { return {r.begin * by, r.end * by}; }

  float* append(WeightName name, std::int32_t layer, Span rows, Span columns) {
    float* start = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += rows.size() * columns.size();
    if (start == nullptr) return nullptr;
    float* to = start;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        *to++ = value_({name, layer, row, column});
      }
    }
    return start;
  }
  void align() { used_ = (used_ + kAlignment - 1) / kAlignment * kAlignment; }
  MatrixView matrix(WeightName name, std::int32_t layer, Span rows, Span columns) {
    const float* data = append(name, layer, rows, columns);
    align();
    return {data, rows.size(), columns.size()};
  }
  std::span<const float> vector(WeightName name, std::int32_t layer) {
    const MatrixView m = matrix(name, layer, {0, transformer_.hidden}, {0, 1});
    return {m.data, static_cast<std::size_t>(m.data == nullptr ? 0 : m.rows)};
  }

  const model::Transformer& transformer_;
  const model::Share& share_;
  const std::function<float(const WeightElement&)>& value_;
  float* memory_ = nullptr;
  std::int64_t used_ = 0;
};

}  // namespace

Shard synthetic_shard(const model::Transformer& transformer, const model::Share& share,
                      const std::function<float(const WeightElement&)>& value) {
  auto tensors = std::make_unique<Shard::Tensors>();
  tensors->transformer = transformer;
  tensors->share = share;
  Filler filler(transformer, share, value);
  filler.walk(*tensors);
  tensors->storage = AlignedBuffer(static_cast<std::size_t>(filler.floats()) * sizeof(float));
  filler.write_to(tensors->storage.floats().data());
  filler.walk(*tensors);
  return Shard::from_tensors(std::move(tensors));
}

}  // namespace tandem::exec
