#include "advice/free/free_change.hpp"

#include <stdexcept>

#include "model/base/quantity_text.hpp"

namespace tandem::study {

std::string_view to_string(Price price) {
  switch (price) {
    case Price::nothing:
      return "none";
    case Price::quality:
      return "quality";
    case Price::memory:
      return "memory";
    case Price::privacy:
      return "privacy";
    case Price::generality:
      return "generality";
  }
  throw std::logic_error("to_string: price out of range");
}

std::string price_words(const std::optional<double>& loss) {
  if (!loss) return "which 'tandem eval' measures";
  return "which loses " + model::shortest_text(*loss) +
         " bits per byte of text or less beyond f32, as measured of the model";
}

}  // namespace tandem::study
