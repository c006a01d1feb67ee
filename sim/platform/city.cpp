#include "sim/platform/city.hpp"

#include <array>
#include <cmath>
#include <cstdio>

#include "model/base/error.hpp"
#include "model/base/limits.hpp"
#include "sim/network/positional_random.hpp"

namespace tandem::sim {
namespace {

constexpr std::int64_t kMaxHomes = 4096;
constexpr std::int64_t kMaxDevicesPerHome = 64;
constexpr std::int64_t kMaxDevices = model::limits::kDevices;
constexpr std::int64_t kHomesPerSwitch = 32;

struct Between {
  double least;
  double most;
};

struct DeviceClass {
  const char* name;
  double share;  // of all devices
  double wifi;   // probability of Wi-Fi rather than a port
  int cores;
  Between core_gflops;
  Between memory_GBps;
  int memory_GiB;
  Between disk_MBps;
};
constexpr std::array<DeviceClass, 4> kDevices{{
    {"desktop", 0.20, 0.3, 8, {40, 80}, {30, 50}, 32, {2000, 3500}},
    {"laptop", 0.40, 0.9, 4, {30, 60}, {20, 40}, 16, {1000, 3000}},
    {"mini-pc", 0.25, 0.3, 4, {15, 30}, {10, 20}, 16, {400, 550}},
    {"board", 0.15, 0.5, 4, {8, 15}, {6, 12}, 8, {60, 100}},
}};

struct AccessClass {
  const char* name;
  double share;  // of all homes
  Between down_Mbps;
  Between up_Mbps;
  Between latency_ms;
};
constexpr std::array<AccessClass, 3> kAccess{{
    {"fibre", 0.40, {500, 1000}, {200, 500}, {1, 2}},
    {"cable", 0.35, {250, 1000}, {20, 50}, {4, 8}},
    {"vdsl", 0.25, {50, 100}, {10, 40}, {5, 10}},
}};

constexpr Between kWifiMbps{150, 600};
constexpr Between kWifiMs{1, 3};
constexpr Between kMetroMs{0.2, 1.0};

constexpr const char* kComment = R"(<!-- A synthetic city, made by `tandem platform city`.
     What is drawn, uniformly within each range, and why. No value is a measurement.
       desktop  20% of devices  8 cores of 40-80 Gflop/s  memory 32 GiB at 30-50 GB/s  disk 2-3.5 GB/s (NVMe)
       laptop   40%             4 cores of 30-60 Gflop/s  memory 16 GiB at 20-40 GB/s  disk 1-3 GB/s (NVMe)
       mini-pc  25%             4 cores of 15-30 Gflop/s  memory 16 GiB at 10-20 GB/s  disk 400-550 MB/s (SATA)
       board    15%             4 cores of 8-15 Gflop/s   memory 8 GiB at 6-12 GB/s    disk 60-100 MB/s (SD card)
         flop/s: clock x f32 lanes x 2 of such processors (AVX2, NEON), sustained; memory: what one or two DDR4,
         DDR5 or LPDDR4 channels sustain; disks: PCIe 3.0 x4, SATA 3 (600 MB/s on the wire), UHS-I (104 MB/s).
       fibre    40% of homes    500-1000 Mbps down, 200-500 up, 1-2 ms   products on a GPON (ITU-T G.984: 2.5/1.2 Gbps)
       cable    35%             250-1000 Mbps down, 20-50 up, 4-8 ms     DOCSIS 3.1 down, 3.0 split up
       vdsl     25%             50-100 Mbps down, 10-40 up, 5-10 ms      VDSL2 (ITU-T G.993.2, profile 17a)
         latency: one way, line and its interleaving. A line's directions are two links, as they differ.
       port     1 Gbps full duplex, 0.2 ms (Ethernet 1000BASE-T; boards 1 Gbps too)
       Wi-Fi    a home's air, 150-600 Mbps for all its stations together, 1-3 ms a frame: a message between two
                stations passes it twice (802.11ac/ax, 80 MHz, two streams, after its overhead)
         90% of laptops, 50% of boards, 30% of the others are stations.
       metro    a switch for 32 homes, 10 Gbps full duplex to the core, 0.2-1 ms (20-100 km of fibre and its switches) -->
)";

class Writer {
 public:
  explicit Writer(const City& city) : city_(city) {}

  std::string write() && {
    text_ =
        "<?xml version='1.0'?>\n"
        "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n";
    text_ += kComment;
    line(
        "<platform version=\"4.1\">\n  <zone id=\"city-%lld-%lld-%llu\" "
        "routing=\"DijkstraCache\">\n",
        static_cast<long long>(city_.homes), static_cast<long long>(city_.devices_per_home),
        static_cast<unsigned long long>(city_.seed));
    for (std::int64_t home = 0; home < city_.homes; ++home) add_home(home);
    const std::int64_t switches = (city_.homes + kHomesPerSwitch - 1) / kHomesPerSwitch;
    for (std::int64_t metro = 0; metro < switches; ++metro) add_switch(metro);
    text_ += hosts_ + "    <router id=\"core\"/>\n" + routers_ + links_ + routes_;
    text_ += "  </zone>\n</platform>\n";
    return std::move(text_);
  }

 private:
  // Draws of one home or switch: its own stream, so that nothing depends on the number of others.
  struct Draws {
    std::uint64_t seed;
    std::uint64_t stream;
    std::uint64_t count = 0;
    double uniform() { return sim::uniform(seed, stream, count++); }
    double operator()(Between range) {
      return range.least + (range.most - range.least) * uniform();
    }
    template <class Class, std::size_t N>
    const Class& pick(const std::array<Class, N>& classes) {
      double left = uniform();
      for (const Class& each : classes) {
        if (left < each.share) return each;
        left -= each.share;
      }
      return classes.back();
    }
  };

  template <class... Values>
  static void append(std::string& to, const char* format, Values... values) {
    std::array<char, 4096> buffer{};
    const int size = std::snprintf(buffer.data(), buffer.size(), format, values...);
    require(0 <= size && static_cast<std::size_t>(size) < buffer.size(),
            "city: a line is too long");
    to.append(buffer.data(), static_cast<std::size_t>(size));
  }
  template <class... Values>
  void line(const char* format, Values... values) {
    append(text_, format, values...);
  }

  void add_home(std::int64_t home) {
    const auto h = static_cast<long long>(home);
    Draws draw{city_.seed, 2 * static_cast<std::uint64_t>(home)};
    const AccessClass& drawn = draw.pick(kAccess);
    const AccessClass& access = home == 0 ? kAccess.front() : drawn;
    append(routers_, "    <router id=\"home-%lld\"/>\n", h);
    const double latency_ms = draw(access.latency_ms);
    const char* const format =
        "    <link id=\"%s-%lld-%s\" bandwidth=\"%.4gMbps\" latency=\"%.3gms\" "
        "sharing_policy=\"SHARED\"/>\n";
    append(links_, format, access.name, h, "down", draw(access.down_Mbps), latency_ms);
    append(links_, format, access.name, h, "up", draw(access.up_Mbps), latency_ms);
    const auto metro = static_cast<long long>(home / kHomesPerSwitch);
    append(routes_,
           "    <route src=\"home-%lld\" dst=\"metro-%lld\" symmetrical=\"NO\"><link_ctn "
           "id=\"%s-%lld-up\"/></route>\n"
           "    <route src=\"metro-%lld\" dst=\"home-%lld\" symmetrical=\"NO\"><link_ctn "
           "id=\"%s-%lld-down\"/></route>\n",
           h, metro, access.name, h, metro, h, access.name, h);
    // The order of draws makes the file; that of arguments would be the compiler's.
    const double wifi_ms = draw(kWifiMs);
    append(links_, format, "air", h, "wifi", draw(kWifiMbps), wifi_ms);
    for (std::int64_t d = 0; d < city_.devices_per_home; ++d) add_device(draw, home, d);
  }

  void add_device(Draws& draw, std::int64_t home, std::int64_t number) {
    const auto h = static_cast<long long>(home);
    const auto d = static_cast<long long>(number);
    const bool master = home == 0 && number == 0;
    const DeviceClass& drawn = draw.pick(kDevices);
    const DeviceClass& device = master ? kDevices.front() : drawn;
    const bool wifi = draw.uniform() < device.wifi && !master;
    std::array<char, 64> name{};
    (void)std::snprintf(name.data(), name.size(), "%s-%lld-%lld", device.name, h, d);
    const double disk_rate = draw(device.disk_MBps);
    const double memory_rate = draw(device.memory_GBps);
    append(hosts_,
           "    <host id=\"%s\" speed=\"%.4gGf\" core=\"%d\">\n"
           "      <prop id=\"tandem:memory\" value=\"%dGiB\"/>\n"
           "      <prop id=\"tandem:memory_bandwidth\" value=\"%.4gGBps\"/>\n"
           "      <prop id=\"tandem:disk_bandwidth\" value=\"%.4gMBps\"/>\n"
           "      <prop id=\"tandem:slowdown\" value=\"1\"/>\n"
           "    </host>\n",
           name.data(), draw(device.core_gflops), device.cores, device.memory_GiB, memory_rate,
           disk_rate);
    if (wifi) {
      append(routes_,
             "    <route src=\"%s\" dst=\"home-%lld\"><link_ctn id=\"air-%lld-wifi\"/></route>\n",
             name.data(), h, h);
      return;
    }
    append(links_,
           "    <link id=\"port-%lld-%lld\" bandwidth=\"1Gbps\" latency=\"0.2ms\" "
           "sharing_policy=\"SPLITDUPLEX\"/>\n",
           h, d);
    append(routes_,
           "    <route src=\"%s\" dst=\"home-%lld\"><link_ctn id=\"port-%lld-%lld\" "
           "direction=\"UP\"/></route>\n",
           name.data(), h, h, d);
  }

  void add_switch(std::int64_t number) {
    const auto m = static_cast<long long>(number);
    Draws draw{city_.seed, 2 * static_cast<std::uint64_t>(number) + 1};
    append(routers_, "    <router id=\"metro-%lld\"/>\n", m);
    append(links_,
           "    <link id=\"trunk-%lld\" bandwidth=\"10Gbps\" latency=\"%.3gms\" "
           "sharing_policy=\"SPLITDUPLEX\"/>\n",
           m, draw(kMetroMs));
    append(routes_,
           "    <route src=\"metro-%lld\" dst=\"core\"><link_ctn id=\"trunk-%lld\" "
           "direction=\"UP\"/></route>\n",
           m, m);
  }

  City city_;
  std::string text_;
  std::string hosts_;
  std::string routers_;
  std::string links_;
  std::string routes_;
};

void check(const char* what, std::int64_t value, std::int64_t most) {
  if (value >= 1 && value <= most) return;
  throw Error(std::string("city: ") + std::to_string(value) + " " + what + ", expected 1 to " +
              std::to_string(most) + "; choose a number within that range");
}

}  // namespace

std::string city_platform_xml(const City& city) {
  check("homes", city.homes, kMaxHomes);
  check("devices a home", city.devices_per_home, kMaxDevicesPerHome);
  check("devices", city.homes * city.devices_per_home, kMaxDevices);
  return Writer(city).write();
}

}  // namespace tandem::sim
