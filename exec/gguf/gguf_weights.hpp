#pragma once

#include <string>

#include "exec/gguf/gguf_file.hpp"
#include "exec/weights/source/weight_source.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

enum class WeightName : std::uint8_t;  // exec/weights/source/tensor_names.hpp

// What GGUF calls a weight of `layer` (-1: of none).
[[nodiscard]] std::string gguf_tensor(const model::Transformer& transformer, WeightName weight,
                                      std::int32_t layer);
// Whether GGUF has the rows of `weight` in pairs (StoredPlace::paired_rows).
[[nodiscard]] bool in_pairs(const model::Transformer& transformer, WeightName weight);

// The tensors of a GGUF file as the weights of `transformer`, whose geometry it states. Formats
// that cannot be read are an error when they are read.
class GgufWeights : public WeightSource {
 public:
  GgufWeights(const GgufFile& file, const model::Transformer& transformer);

  [[nodiscard]] StoredPlace place_of(const TensorSlice& slice, std::int32_t layer) const override;
  void check_tensors(const model::Transformer& transformer) const override;

 private:
  model::Transformer transformer_;
};

}  // namespace tandem::exec
