#pragma once

#include <string>

#include "exec/gguf/gguf_file.hpp"
#include "exec/weights/source/weight_source.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

enum class WeightName : std::uint8_t;  // exec/weights/source/tensor_names.hpp

// Returns GGUF's name of a weight of `layer` (-1: outside the layers).
[[nodiscard]] std::string gguf_tensor(const model::Transformer& transformer, WeightName weight,
                                      std::int32_t layer);
// Returns whether GGUF stores the rows of `weight` in pairs (StoredPlace::paired_rows).
[[nodiscard]] bool in_pairs(const model::Transformer& transformer, WeightName weight);

// The tensors of a GGUF file as the weights of `transformer`, whose geometry it states. Unreadable
// formats are an error only when they are read.
class GgufWeights : public WeightSource {
 public:
  GgufWeights(const GgufFile& file, const model::Transformer& transformer);

  [[nodiscard]] StoredPlace place_of(const TensorSlice& slice, std::int32_t layer) const override;
  void check_tensors(const model::Transformer& transformer) const override;

 private:
  model::Transformer transformer_;
};

}  // namespace tandem::exec
