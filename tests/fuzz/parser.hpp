#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "model/base/error.hpp"

namespace tandem::fuzz {

// The law of every parser whose writer we have: any text either costs an Error or is a value, and
// what is written of a value parses again, to something that is written alike.
template <class Parse, class Write>
int check_parser(const std::uint8_t* data, std::size_t size, Parse parse, Write write) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  decltype(write(parse(text, ""))) written;
  try {
    written = write(parse(text, "fuzz"));
  } catch (const Error&) {
    return 0;
  }
  if (write(parse(written, "fuzz")) != written) std::abort();
  return 0;
}

}  // namespace tandem::fuzz
