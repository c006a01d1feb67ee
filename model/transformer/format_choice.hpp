#pragma once

// The formats of all matrices of a model by one name: a format for all, or a mix.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/transformer/transformer.hpp"
#include "model/transformer/weight_format.hpp"

namespace tandem::model {

// The names, in the order of kWeightFormats (those of is_for_writing), then "q4_k_m" and "q5_k_m".
[[nodiscard]] std::vector<std::string_view> format_choices();
// "f32, f16, ... or q5_k_m".
[[nodiscard]] std::string format_choices_text();

// The formats that `name` gives the matrices of `transformer`; nothing of another name.
// A mix is llama.cpp's (llama-quant.cpp, llama_tensor_get_type): q4_k or q5_k, but
//   - q6_k for the head, or the embedding that is one;
//   - q6_k for value and down in the first and last eighth of the layers and in every third of
//     those between;
//   - what a family's files fuse with value (GPT-2's and Phi 3's query and key) as value;
//   - q5_k for the other values of q4_k_m in what llama.cpp takes for a model of 70B: Qwen2 of 80
//     layers, and Llama of 80 layers whose heads are grouped.
// Rows of q4_k, q5_k and q6_k that are no multiples of 256 fall back to q5_0, q5_1 and q8_0, and
// those that are no multiples of 32 to f16.
[[nodiscard]] std::optional<WeightFormats> chosen_formats(std::string_view name,
                                                          const Transformer& transformer);

// Which matrices of `transformer` have another format than the one that `name` means for them, as
// their rows are not whole blocks of it: "q4_k is impossible for rows of 3200 and 8640 numbers, no
// multiples of 256: all matrices are in q5_0". Empty: none, or another name.
[[nodiscard]] std::string substitution_remark(std::string_view name,
                                              const Transformer& transformer);

// The name that gives `transformer` its formats, "q4_k_m"; of others their text().
[[nodiscard]] std::string format_name(const Transformer& transformer);

// An object with a format for each group of matrices, or each matrix where a group's differ, and in
// "layers", by number, those that differ in a layer, as plans have it: {"query_key_value": "q4_k",
// ..., "layers": {"0": {"down": "q6_k"}}}.
[[nodiscard]] std::string to_json(const WeightFormats& formats);

}  // namespace tandem::model
