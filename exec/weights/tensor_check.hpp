#pragma once

// Whether a folder's tensors are those that a model computes with, and no others.

#include "exec/weights/safetensors.hpp"
#include "model/transformer.hpp"

namespace tandem::exec {

// Throws Error (file, tensor, what was expected, remedy) if `weights` lacks a tensor of the model,
// or has one that the model does not compute with: more layers than config.json says, biases or
// norms that the family lacks, scales of quantised weights, one tensor under two names. Buffers and
// heads that Hugging Face's classes store beside a language model are no such tensors. A head that
// is stored although config.json ties it to the embedding must equal it: its bytes are compared.
void check_tensors(const SafetensorsFolder& weights, const model::Transformer& transformer);

}  // namespace tandem::exec
