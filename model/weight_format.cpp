#include "model/weight_format.hpp"

#include <algorithm>
#include <stdexcept>

namespace tandem::model {

std::string_view to_string(WeightFormat format) {
  switch (format) {
    case WeightFormat::f32:
      return "f32";
    case WeightFormat::f16:
      return "f16";
    case WeightFormat::bf16:
      return "bf16";
    case WeightFormat::q8_0:
      return "q8_0";
    case WeightFormat::q4_0:
      return "q4_0";
  }
  throw std::logic_error("weight format out of range");
}

std::optional<WeightFormat> find_weight_format(std::string_view name) {
  const auto found = std::ranges::find(kWeightFormats, name,
                                       [](WeightFormat format) { return to_string(format); });
  if (found == kWeightFormats.end()) return std::nullopt;
  return *found;
}

std::string_view to_string(WeightMatrix matrix) {
  switch (matrix) {
    case WeightMatrix::query_key_value:
      return "query_key_value";
    case WeightMatrix::out:
      return "out";
    case WeightMatrix::gate_up:
      return "gate_up";
    case WeightMatrix::down:
      return "down";
    case WeightMatrix::embedding:
      return "embedding";
    case WeightMatrix::head:
      return "head";
  }
  throw std::logic_error("weight matrix out of range");
}

bool WeightFormats::has(WeightFormat format) const {
  return std::ranges::find(formats_, format) != formats_.end();
}

std::string WeightFormats::text() const {
  if (std::ranges::count(formats_, formats_.front()) ==
      static_cast<std::ptrdiff_t>(formats_.size()))
    return std::string(to_string(formats_.front()));
  std::string text;
  for (const WeightMatrix matrix : kWeightMatrices) {
    text += (text.empty() ? "" : ", ") + std::string(to_string(matrix)) + " ";
    text += to_string(of(matrix));
  }
  return text;
}

}  // namespace tandem::model
