#pragma once

// A synthetic city: platform XML for studies of scale.

#include <cstdint>
#include <string>

namespace tandem::sim {

struct City {
  std::int64_t homes = 1;             // 1 to 4096
  std::int64_t devices_per_home = 1;  // 1 to 64; at most 4096 devices in all
  std::uint64_t seed = 1;
};

// Returns a SimGrid platform file, valid for SimGrid and for read_platform. The core has a switch
// for every 32 homes. A home is a router with its access line (fibre, cable or VDSL, with separate
// links up and down), and devices on switched ports or on the home's Wi-Fi, one shared medium. The
// classes of homes and devices, and values within each class's range, are drawn from the seed:
// equal arguments give equal bytes on every machine, and a home's draws do not depend on the number
// of homes. The first device, the default master, is a desktop on a port of a home with fibre. The
// file's comment lists classes, ranges and their sources. Throws Error (value, expected, remedy)
// for numbers out of range.
[[nodiscard]] std::string city_platform_xml(const City& city);

}  // namespace tandem::sim
