#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace tandem {

struct Device {
  std::string name{};
  double flops = 0.0;                 // a second, all cores, dense f32 products
  double memory_bytes = 0.0;          // that the program may use
  double memory_bandwidth_Bps = 0.0;  // sequential read, all cores
  double disk_bandwidth_Bps = 0.0;    // sequential read; 0: no weights come from a disk
  std::int64_t cores = 1;
  double slowdown = 1.0;  // emulation: computing takes so many times as long as on this machine
};

// A link between two devices, or between a device and a switch. Each direction has the whole
// bandwidth.
struct Connection {
  std::string from{};  // a device; another name is that of a switch
  std::string to{};
  double latency_s = 0.0;
  double bandwidth_Bps = 0.0;
};

// Devices and the network between them.
class Platform {
 public:
  // A SimGrid platform file (docs/reference/platform.md), which may also have shared media,
  // jitter, loss and changes in time. Throws std::runtime_error (file and line).
  [[nodiscard]] static Platform read(const std::filesystem::path& file);
  // Messages take the fewest links. Throws std::runtime_error for names that are used twice, values
  // out of range, and devices that do not reach one another.
  Platform(const std::string& name, const std::vector<Device>& devices,
           const std::vector<Connection>& connections);

  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] std::vector<std::string> device_names() const;

  // Defined in the library.
  struct Data;
  explicit Platform(std::shared_ptr<const Data> data);
  [[nodiscard]] const Data& data() const { return *data_; }

 private:
  std::shared_ptr<const Data> data_;
};

}  // namespace tandem
