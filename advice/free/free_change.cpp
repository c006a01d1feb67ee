#include "advice/free/free_change.hpp"

#include <stdexcept>

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

}  // namespace tandem::study
