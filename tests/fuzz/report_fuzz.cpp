// What devices tell each other about a run: any bytes are a value, which is written alike again, or
// one Error. The first byte picks the parser.

#include "exec/runtime/device_run.hpp"
#include "exec/transport/endpoint.hpp"
#include "tests/fuzz/parser.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem::exec;
  if (size == 0) return 0;
  const std::uint8_t kind = *data++ % 4;
  --size;
  const auto json = [](const auto& value) { return to_json(value); };
  if (kind == 0) return tandem::fuzz::check_parser(data, size, parse_run_options, json);
  if (kind == 1) return tandem::fuzz::check_parser(data, size, parse_device_report, json);
  if (kind == 2) {
    return tandem::fuzz::check_parser(
        data, size, [](auto text, auto source) { return parse_endpoint(text, source); },
        [](const Endpoint& endpoint) { return to_text(endpoint); });
  }
  return tandem::fuzz::check_parser(
      data, size,
      [](auto bytes, auto source) {
        TimeLog times;
        decode_times(bytes, source, times);
        return times;
      },
      [](const TimeLog& times) { return encode_times(times); });
}
