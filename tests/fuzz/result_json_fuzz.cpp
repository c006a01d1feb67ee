#include "model/report/result.hpp"
#include "tests/fuzz/parser.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem::model;
  return tandem::fuzz::check_parser(data, size, parse_result_json,
                                    [](const Result& value) { return to_json(value); });
}
