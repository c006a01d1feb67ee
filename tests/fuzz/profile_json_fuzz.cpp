#include <span>
#include <vector>

#include "model/predict/device_profile.hpp"
#include "tests/fuzz/parser.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem::model;
  return tandem::fuzz::check_parser(data, size, parse_profiles_json,
                                    [](const std::vector<DeviceProfile>& all) {
                                      return to_json(std::span<const DeviceProfile>(all));
                                    });
}
