#include "advice/free/free_change.hpp"

#include <stdexcept>

#include "model/base/quantity_text.hpp"

namespace tandem::study {
namespace {

std::string words_of(const std::optional<double>& loss) {
  if (!loss) return "which 'tandem eval' measures";
  return "which loses " + model::shortest_text(*loss) +
         " bits per byte of text or less beyond f32, as measured of the model";
}

}  // namespace

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

std::string price_words(const std::optional<planner::FormatPrices>& prices,
                        model::WireFormat type) {
  return words_of(prices ? prices->of(type) : std::nullopt);
}

std::string price_words(const std::optional<planner::FormatPrices>& prices,
                        model::CacheFormat type) {
  return words_of(prices ? prices->of(type) : std::nullopt);
}

}  // namespace tandem::study
