#pragma once

// Names for the formats of all matrices of a model: a format for all, or a mix.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/transformer/transformer.hpp"
#include "model/transformer/weight_format.hpp"

namespace tandem::model {

// Returns the writable formats in the order of kWeightFormats, then "q4_k_m" and "q5_k_m".
[[nodiscard]] std::vector<std::string_view> format_choices();
// Returns these and the formats that plans only know the size of: "fp8", "mxfp4" and "nvfp4".
[[nodiscard]] std::vector<std::string_view> planned_formats();
// "f32, f16, ... or q5_k_m".
[[nodiscard]] std::string format_choices_text();

// Returns the formats that `name` gives the matrices of `transformer`; nothing for another name. A
// mix is llama.cpp's (llama-quant.cpp, llama_tensor_get_type): q4_k or q5_k, except
//   - q6_k for the head, or for the embedding if it is the head;
//   - q6_k for value and down in the first and last eighth of the layers and in every third of
//     those between;
//   - as value for matrices that a family's files fuse with value (GPT-2's and Phi 3's query and
//     key);
//   - q5_k for the other values of q4_k_m in models that llama.cpp classifies as 70B: Qwen2 of 80
//     layers, and Llama of 80 layers with grouped heads.
// fp8 is every matrix of the layers, mxfp4 and nvfp4 are the FFN's or the experts' matrices, as in
// published files. Other matrices are bf16, and so are those whose rows are not whole blocks.
// Rows of q4_k, q5_k and q6_k that are no multiples of 256 use q5_0, q5_1 and q8_0 instead, and
// rows that are no multiples of 32 use f16.
[[nodiscard]] std::optional<WeightFormats> chosen_formats(std::string_view name,
                                                          const Transformer& transformer);

// Describes the matrices of `transformer` that cannot have the format of `name`, as their rows are
// not whole blocks of it: "q4_k is impossible for rows of 3200 and 8640 numbers, no multiples of
// 256: all matrices are in q5_0". Empty: none, or another name.
[[nodiscard]] std::string substitution_remark(std::string_view name,
                                              const Transformer& transformer);

// Returns the name of the formats of `transformer`, such as "q4_k_m"; without one, their text().
[[nodiscard]] std::string format_name(const Transformer& transformer);

// Returns an object with a format for each group of matrices, or for each matrix if a group's
// differ, and in "layers", by number, the exceptions of single layers, as in plans:
// {"query_key_value": "q4_k", ..., "layers": {"0": {"down": "q6_k"}}}.
[[nodiscard]] std::string to_json(const WeightFormats& formats);

}  // namespace tandem::model
