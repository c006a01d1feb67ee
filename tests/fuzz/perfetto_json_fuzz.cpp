#include "model/report/trace.hpp"
#include "tests/fuzz/parser.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem::model;
  return tandem::fuzz::check_parser(data, size, parse_perfetto_json, [](const Trace& value) {
    return to_perfetto_json(value, "fuzz");
  });
}
