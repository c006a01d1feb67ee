#include "exec/testbed/testbed.hpp"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "exec/testbed/calibration.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"

namespace tandem::exec {
namespace {

constexpr std::uint32_t kFirstAddress = (10U << 24) + (77U << 16) + 1;  // 10.77.0.1
constexpr model::DeviceIndex kMostDevices = 64;
// Copies through two TUN devices and a program take a core about this much (bench/testbed.cpp).
constexpr double kMostBandwidth = 10e9 / 8;

// Bytes that a device sends at once: what its narrowest route carries in 250 us, as the link ledger
// has it, so that those who share a link take turns often; but its widest route must not consist of
// more packets than this machine moves.
std::uint32_t piece_bytes(const model::Cluster& cluster, model::DeviceIndex from) {
  constexpr double kPieceSeconds = 250e-6;
  constexpr double kLeastSeconds = 60e-6;
  double narrowest = std::numeric_limits<double>::max();
  double widest = 0.0;
  for (model::DeviceIndex to = 0; to < cluster.size(); ++to) {
    if (to == from) continue;
    const double bandwidth = cluster.route(from, to).bandwidth.value();
    narrowest = std::min(narrowest, bandwidth);
    widest = std::max(widest, bandwidth);
  }
  constexpr double kLeastBytes = 2 * 1500;
  constexpr double kMostBytes = 65536;
  return static_cast<std::uint32_t>(std::clamp(
      std::max(narrowest * kPieceSeconds, widest * kLeastSeconds), kLeastBytes, kMostBytes));
}

}  // namespace

void check_testbed(const model::Cluster& cluster) {
  if (cluster.size() < 2 || cluster.size() > kMostDevices)
    throw Error("platform '" + cluster.name() + "' has " + std::to_string(cluster.size()) +
                " devices, expected 2 to " + std::to_string(kMostDevices) + " in a testbed" +
                "; use `tandem simulate`, or a platform with other devices");
  for (model::DeviceIndex from = 0; from < cluster.size(); ++from) {
    for (model::DeviceIndex to = 0; to < cluster.size(); ++to) {
      if (from == to) continue;
      const model::Route& route = cluster.route(from, to);
      if (route.bandwidth.value() <= kMostBandwidth) continue;
      const auto name = [&](model::DeviceIndex d) {
        return cluster.devices()[static_cast<std::size_t>(d)].name;
      };
      throw Error("the route from '" + name(from) + "' to '" + name(to) + "' carries " +
                  to_text(route.bandwidth) + ", expected at most " +
                  to_text(model::BytesPerSecond{kMostBandwidth}) +
                  ", which this machine's processor moves; use `tandem run --emulate`, or narrower "
                  "links");
    }
  }
}

void check_testbed_rights() {
  if (::geteuid() != 0)
    throw Error("user " + std::to_string(::geteuid()) +
                ", expected root, who may make network namespaces; run it with sudo, or use "
                "`tandem run --emulate`");
  const NetworkNamespace probe(TunSettings{.address = kFirstAddress, .piece_bytes = 65536});
}

Testbed::Testbed(const model::Cluster& cluster, TcpChoice tcp) : cluster_(cluster), tcp_(tcp) {
  check_testbed(cluster);
  std::vector<int> tuns;
  for (model::DeviceIndex d = 0; d < cluster.size(); ++d) {
    TunSettings settings{.address = address(d), .piece_bytes = piece_bytes(cluster, d)};
    choose_tcp(tcp, settings);
    namespaces_.emplace_back(settings);
    apply_tcp(tcp, namespaces_.back());
    tuns.push_back(namespaces_.back().tun());
  }
  overhead_ = measure_emulator_overhead(namespaces_, kFirstAddress);
  emulator_ = std::make_unique<Emulator>(
      cluster,
      EmulatorOptions{.tuns = tuns, .first_address = kFirstAddress, .overhead = overhead_});
}

std::uint32_t Testbed::address(model::DeviceIndex device) const {
  return kFirstAddress + static_cast<std::uint32_t>(device);
}

std::map<std::string, std::string> Testbed::environment() const {
  return {{"tcp", describe_tcp(tcp_, namespaces_.front())},
          {"testbed_overhead_s", model::fixed(std::chrono::duration<double>(overhead_).count(), 6)},
          {"testbed_scheduling",
           emulator_->has_priority() ? "emulator SCHED_FIFO" : "emulator without priority"}};
}

EmulatorStatistics Testbed::take_statistics() {
  EmulatorStatistics statistics = emulator_->take_statistics();
  std::int64_t lost = 0;
  for (const NetworkNamespace& space : namespaces_) lost += space.lost_packets();
  statistics.lost += lost - std::exchange(lost_before_, lost);
  return statistics;
}

std::string Testbed::remark() const {
  const double overhead_s = std::chrono::duration<double>(overhead_).count();
  for (model::DeviceIndex from = 0; from < cluster_.size(); ++from) {
    for (model::DeviceIndex to = 0; to < cluster_.size(); ++to) {
      if (from == to) continue;
      const model::LinkIndex last = cluster_.route(from, to).hops.back().link;
      const model::Link& link = cluster_.links()[static_cast<std::size_t>(last)];
      if (link.latency.value() >= overhead_s) continue;
      return "messages to '" + cluster_.devices()[static_cast<std::size_t>(to)].name +
             "' may be late by " + to_text(model::Seconds{overhead_s - link.latency.value()}) +
             ": the latency of link '" + link.name + "' is " + to_text(link.latency) +
             ", and the emulator takes " + to_text(model::Seconds{overhead_s});
    }
  }
  return "";
}

}  // namespace tandem::exec
