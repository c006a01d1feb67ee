#include "exec/testbed/tcp_settings.hpp"

#include <array>
#include <string_view>
#include <utility>

namespace tandem::exec {
namespace {

using Setting = std::pair<std::string_view, std::string_view>;

constexpr std::string_view kCongestion = "ipv4.tcp_congestion_control";
constexpr std::string_view kSlowStartAfterIdle = "ipv4.tcp_slow_start_after_idle";

constexpr std::string_view kPinnedCongestion = "cubic";
// Of connections that have carried several messages of 4 MiB, as segments of 1448 bytes.
constexpr std::uint32_t kWarmWindow = 4 * 1024 * 1024 / 1448;

// A pause of 600 ms would otherwise cost a message of 64 KiB several round trips. Buffers hold
// several messages of 4 MiB, so that the links alone bound a sender.
constexpr std::array<Setting, 4> kWarm{{{kSlowStartAfterIdle, "0"},
                                        {"ipv4.tcp_no_metrics_save", "1"},
                                        {"ipv4.tcp_rmem", "4096 16777216 33554432"},
                                        {"ipv4.tcp_wmem", "4096 16777216 33554432"}}};

}  // namespace

void choose_tcp(TcpChoice choice, TunSettings& settings) {
  if (choice == TcpChoice::system) return;
  settings.first_window = kWarmWindow;
  if (choice == TcpChoice::pinned) settings.congestion_control = kPinnedCongestion;
}

void apply_tcp(TcpChoice choice, const NetworkNamespace& to) {
  for (const auto& [name, value] : kWarm) {
    // A new namespace has the kernel's defaults, not all of the machine's settings.
    const std::string wanted =
        choice == TcpChoice::system ? network_setting(std::string(name)) : std::string(value);
    if (!wanted.empty()) to.set(std::string(name), wanted);
  }
}

std::string describe_tcp(TcpChoice choice, const NetworkNamespace& where) {
  std::string text = choice == TcpChoice::pinned
                         ? "pinned: " + std::string(kPinnedCongestion)
                         : "the system's: " + where.get(std::string(kCongestion));
  text += ", slow start after idle " + where.get(std::string(kSlowStartAfterIdle));
  if (choice != TcpChoice::system)
    text += ", first window " + std::to_string(kWarmWindow) + " segments";
  return text;
}

}  // namespace tandem::exec
