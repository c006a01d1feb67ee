#include <doctest/doctest.h>

#include <string>

#include "model/error.hpp"
#include "sim/platform.hpp"

namespace tandem::sim {

TEST_CASE("sim/platform: every scenario loads") {
  for (const std::string name : {"home4", "klonet8", "laptops4", "plain", "single"}) {
    CAPTURE(name);
    CHECK_NOTHROW((void)read_platform(TANDEM_SOURCE_DIR "/scenarios/platforms/" + name + ".xml"));
  }
}

}  // namespace tandem::sim
