#include "model/transformer/weight_format.hpp"

#include <algorithm>
#include <stdexcept>

#include "model/base/error.hpp"

namespace tandem::model {

std::optional<WeightFormat> find_weight_format(std::string_view name) {
  const auto found = std::ranges::find(kWeightFormats, name,
                                       [](WeightFormat format) { return to_string(format); });
  if (found == kWeightFormats.end()) return std::nullopt;
  return *found;
}

std::optional<WeightFormat> find_any_format(std::string_view name) {
  const auto found =
      std::ranges::find(kAllFormats, name, [](WeightFormat format) { return to_string(format); });
  if (found == kAllFormats.end()) return std::nullopt;
  return *found;
}

std::string_view to_string(WeightMatrix matrix) {
  switch (matrix) {
    case WeightMatrix::query:
      return "query";
    case WeightMatrix::key:
      return "key";
    case WeightMatrix::value:
      return "value";
    case WeightMatrix::out:
      return "out";
    case WeightMatrix::gate:
      return "gate";
    case WeightMatrix::up:
      return "up";
    case WeightMatrix::down:
      return "down";
    case WeightMatrix::embedding:
      return "embedding";
    case WeightMatrix::head:
      return "head";
  }
  throw std::logic_error("weight matrix out of range");
}

const std::vector<MatrixGroup>& matrix_groups() {
  using enum WeightMatrix;
  static const std::vector<MatrixGroup> groups{{"query_key_value", {query, key, value}},
                                               {"out", {out}},
                                               {"gate_up", {gate, up}},
                                               {"down", {down}},
                                               {"embedding", {embedding}},
                                               {"head", {head}}};
  return groups;
}

void WeightFormats::set(WeightMatrix matrix, WeightFormat format) {
  formats_[static_cast<std::size_t>(matrix)] = format;
  std::erase_if(exceptions_, [&](const auto& one) { return one.first.second == matrix; });
}

void WeightFormats::set(WeightMatrix matrix, std::int32_t layer, WeightFormat format) {
  require(is_of_layer(matrix), "formats: a matrix of a layer");
  if (format == of(matrix)) {
    exceptions_.erase({layer, matrix});
  } else {
    exceptions_[{layer, matrix}] = format;
  }
}

bool WeightFormats::has(WeightFormat format) const {
  return std::ranges::find(formats_, format) != formats_.end() ||
         std::ranges::any_of(exceptions_, [&](const auto& one) { return one.second == format; });
}

std::string WeightFormats::text() const {
  if (std::ranges::count(formats_, formats_.front()) ==
          static_cast<std::ptrdiff_t>(formats_.size()) &&
      exceptions_.empty())
    return std::string(to_string(formats_.front()));
  std::string text;
  const auto add = [&](std::string_view name, WeightFormat format) {
    text += (text.empty() ? "" : ", ") + std::string(name) + " ";
    text += to_string(format);
  };
  for (const MatrixGroup& group : matrix_groups()) {
    const WeightFormat first = of(group.matrices.front());
    if (std::ranges::all_of(group.matrices, [&](WeightMatrix m) { return of(m) == first; })) {
      add(group.name, first);
    } else {
      for (const WeightMatrix matrix : group.matrices) add(to_string(matrix), of(matrix));
    }
  }
  for (const auto& [place, format] : exceptions_) {
    add("layer " + std::to_string(place.first) + "'s " + std::string(to_string(place.second)),
        format);
  }
  return text;
}

}  // namespace tandem::model
