#include "model/transformer/transformer.hpp"
#include "tests/fuzz/parser.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem::model;
  return tandem::fuzz::check_parser(data, size, parse_config_json,
                                    [](const Transformer& value) { return to_config_json(value); });
}
