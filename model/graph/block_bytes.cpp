#include "model/graph/block_bytes.hpp"

#include <algorithm>

namespace tandem::model {

BlockBytes::BlockBytes(const Transformer& transformer, const LayerRuns& layers, Range heads,
                       Range columns)
    : kind_(static_cast<std::size_t>(transformer.layers)) {
  const auto& exceptions = transformer.formats.exceptions();
  auto next = exceptions.begin();
  std::array<WeightFormat, kWeightMatrices.size()> usual{};
  for (const WeightMatrix matrix : kWeightMatrices)
    usual[static_cast<std::size_t>(matrix)] = transformer.formats.of(matrix);
  for (const std::int32_t layer : layers) {
    auto formats = usual;
    while (next != exceptions.end() && next->first.first < layer) ++next;
    for (; next != exceptions.end() && next->first.first == layer; ++next)
      formats[static_cast<std::size_t>(next->first.second)] = next->second;
    const bool has_experts = transformer.experts && transformer.experts->in(layer);
    const auto known = std::ranges::find_if(kinds_, [&](const Kind& kind) {
      return kind.has_experts == has_experts && kind.formats == formats;
    });
    const auto place = static_cast<std::size_t>(known - kinds_.begin());
    kind_[static_cast<std::size_t>(layer)] = place;
    if (known == kinds_.end())
      kinds_.push_back({.formats = formats,
                        .has_experts = has_experts,
                        .attention = transformer.attention_bytes(layer, heads),
                        .ffn = transformer.ffn_bytes(layer, columns)});
    total_ += kinds_[place].attention + kinds_[place].ffn;
  }
}

}  // namespace tandem::model
