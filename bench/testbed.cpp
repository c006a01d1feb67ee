// How well the testbed emulates: medians of messages over TCP beside latency + bytes / bandwidth,
// an incast of several devices beside the bytes of all, and two competing flows beside max-min
// fairness. Each device is one link away from a router. As root; skipped where no testbed can be
// brought up.
//
// usage: testbed [--smoke] [--tcp system|pinned] [--latency-ms X] [--mbps X] [--repetitions N]
//   the latency of a route, of two links

#include "exec/testbed/testbed.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "model/base/descriptor.hpp"
#include "model/base/error.hpp"
#include "model/base/statistics.hpp"
#include "model/base/text_table.hpp"

namespace {

using namespace tandem;
using Clock = std::chrono::steady_clock;

struct Settings {
  exec::TcpChoice tcp = exec::TcpChoice::pinned;
  double latency_s = 0.5e-3;  // of each link
  double bandwidth_Bps = 300e6 / 8;
  int repetitions = 20;
};

model::Cluster home(int count, const Settings& settings) {
  std::vector<model::Device> devices;
  std::vector<model::Link> links;
  std::vector<model::Edge> edges;
  for (int i = 0; i < count; ++i) {
    const std::string name = "d" + std::to_string(i);
    devices.push_back({.name = name,
                       .flop_rate = model::FlopsPerSecond{1e9},
                       .memory_bandwidth = model::BytesPerSecond{1e9},
                       .memory = model::Bytes{1e9}});
    edges.push_back(
        {.from = name,
         .to = "core",
         .hops = {{.link = static_cast<model::LinkIndex>(i), .direction = model::Direction::up}}});
    links.push_back({.name = name + "-port",
                     .latency = model::Seconds{settings.latency_s},
                     .bandwidth = model::BytesPerSecond{settings.bandwidth_Bps}});
  }
  return {"home", devices, {"core"}, links, edges};
}

// A connection between two namespaces.
struct Line {
  model::Descriptor from;
  model::Descriptor to;
};

void without_delay(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

Line connect(const exec::Testbed& testbed, model::DeviceIndex from, model::DeviceIndex to) {
  const auto& namespaces = testbed.namespaces();
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  model::Descriptor listening;
  namespaces[static_cast<std::size_t>(to)].run([&] {
    listening = model::Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(testbed.address(to));
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listening.number(), any, size) != 0 || ::listen(listening.number(), 1) != 0 ||
        ::getsockname(listening.number(), any, &size) != 0)
      throw Error("testbed: cannot listen in the namespace of device " + std::to_string(to));
  });
  Line line;
  namespaces[static_cast<std::size_t>(from)].run([&] {
    line.from = model::Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(line.from.number(), reinterpret_cast<sockaddr*>(&address), size) != 0)
      throw Error("connect: " + std::string(std::strerror(errno)));
  });
  line.to = model::Descriptor(::accept(listening.number(), nullptr, nullptr));
  without_delay(line.from.number());
  without_delay(line.to.number());
  return line;
}

void send_all(int socket, std::size_t bytes) {
  static const std::vector<std::byte> zeros(std::size_t{4} << 20);
  while (bytes > 0) {
    const ssize_t sent = ::send(socket, zeros.data(), std::min(bytes, zeros.size()), MSG_NOSIGNAL);
    if (sent <= 0) throw Error("send: " + std::string(std::strerror(errno)));
    bytes -= static_cast<std::size_t>(sent);
  }
}

void receive_all(int socket, std::size_t bytes) {
  std::vector<std::byte> room(std::min<std::size_t>(bytes, 1U << 20));
  while (bytes > 0) {
    const ssize_t got = ::recv(socket, room.data(), std::min(bytes, room.size()), 0);
    if (got <= 0) throw Error("recv: " + std::string(std::strerror(errno)));
    bytes -= static_cast<std::size_t>(got);
  }
}

// Seconds until all of `lines`, each of which sends `bytes` at once, have arrived.
double transfer_s(std::span<const Line> lines, std::size_t bytes) {
  std::vector<std::thread> threads;
  const Clock::time_point start = Clock::now();
  std::vector<Clock::time_point> ends(lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    threads.emplace_back([&, i] {
      receive_all(lines[i].to.number(), bytes);
      ends[i] = Clock::now();
    });
    if (lines.size() > 1) threads.emplace_back([&, i] { send_all(lines[i].from.number(), bytes); });
  }
  if (lines.size() == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const Clock::time_point sent = Clock::now();
    send_all(lines[0].from.number(), bytes);
    for (std::thread& thread : threads) thread.join();
    return std::chrono::duration<double>(ends[0] - sent).count();
  }
  for (std::thread& thread : threads) thread.join();
  return std::chrono::duration<double>(*std::ranges::max_element(ends) - start).count();
}

double ping_pong_s(const Line& line, std::size_t bytes, int rounds) {
  std::thread answers([&] {
    for (int i = 0; i < rounds; ++i) {
      receive_all(line.to.number(), bytes);
      send_all(line.to.number(), bytes);
    }
  });
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    const Clock::time_point start = Clock::now();
    send_all(line.from.number(), bytes);
    receive_all(line.from.number(), bytes);
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count() / 2);
  }
  answers.join();
  return model::quantile(times, 0.5);
}

void print(const std::string& what, double measured_s, double expected_s) {
  std::cout << what << ": " << model::fixed(measured_s * 1e3, 3) << " ms, expected "
            << model::fixed(expected_s * 1e3, 3) << " ms, "
            << model::fixed((measured_s / expected_s - 1.0) * 100, 2) << "%\n";
}

// Two flows into one link: the first sends 3 times as much as the second, which begins with it. At
// a fair link the second has half of it until its end, then the first has all.
void measure_fairness(std::span<const Line> lines, const Settings& settings, std::size_t bytes) {
  const Clock::time_point start = Clock::now();
  std::array<double, 2> ends_s{};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::size_t size = i == 0 ? 3 * bytes : bytes;
    threads.emplace_back([&lines, i, size] { send_all(lines[i].from.number(), size); });
    threads.emplace_back([&, i, size] {
      receive_all(lines[i].to.number(), size);
      ends_s[i] = std::chrono::duration<double>(Clock::now() - start).count();
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double unit_s = static_cast<double>(bytes) / settings.bandwidth_Bps;
  print("two flows, the shorter", ends_s[1], 2 * settings.latency_s + 2 * unit_s);
  print("two flows, three times as long", ends_s[0], 2 * settings.latency_s + 4 * unit_s);
}

std::string size_text(std::size_t bytes) { return std::to_string(bytes) + " B"; }

constexpr int kSenders = 4;

void measure(exec::Testbed& testbed, const Settings& settings) {
  for (const auto& [name, value] : testbed.environment())
    std::cout << name << ": " << value << '\n';
  const double latency_s = 2 * settings.latency_s;
  const auto expected = [&](double bytes) { return latency_s + bytes / settings.bandwidth_Bps; };
  std::vector<Line> lines;
  for (int i = 1; i <= kSenders; ++i) lines.push_back(connect(testbed, i, 0));
  const std::span<const Line> first(lines.data(), 1);
  print("4 MiB, first of a connection", transfer_s(first, 4U << 20), expected(4U << 20));
  for (const Line& line : lines) {
    for (int i = 0; i < 3; ++i) transfer_s(std::span(&line, 1), 4U << 20);
  }
  static_cast<void>(testbed.take_statistics());
  for (const std::size_t bytes : {4UL, 1024UL, 16384UL, 65536UL, 1UL << 20, 4UL << 20}) {
    std::vector<double> times(static_cast<std::size_t>(settings.repetitions));
    for (double& time : times) time = transfer_s(first, bytes);
    print("message of " + size_text(bytes), model::quantile(times, 0.5),
          expected(static_cast<double>(bytes)));
    print("ping-pong of " + size_text(bytes), ping_pong_s(lines[0], bytes, settings.repetitions),
          expected(static_cast<double>(bytes)));
  }
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    times.push_back(transfer_s(first, 65536));
  }
  print("message of 65536 B after 700 ms", model::quantile(times, 0.5), expected(65536));
  for (const std::size_t bytes : {16384UL, 1UL << 20, 4UL << 20}) {
    times.clear();
    for (int i = 0; i < std::max(3, settings.repetitions / 2); ++i)
      times.push_back(transfer_s(lines, bytes));
    print("incast of " + std::to_string(kSenders) + " times " + size_text(bytes),
          model::quantile(times, 0.5), expected(kSenders * static_cast<double>(bytes)));
  }
  const Clock::time_point start = Clock::now();
  static_cast<void>(testbed.take_statistics());
  const std::size_t bulk = settings.repetitions < 10 ? std::size_t{4} << 20 : std::size_t{16} << 20;
  const double total_s = transfer_s(lines, bulk);
  const exec::EmulatorStatistics statistics = testbed.take_statistics();
  const double wall_s = std::chrono::duration<double>(Clock::now() - start).count();
  print("incast of " + std::to_string(kSenders) + " times " + size_text(bulk), total_s,
        expected(kSenders * static_cast<double>(bulk)));
  std::cout << "emulator meanwhile: " << model::fixed(statistics.cpu_s / wall_s * 100, 1)
            << "% of a core, " << statistics.packets << " packets, " << statistics.lost
            << " lost, late " << model::fixed(statistics.mean_late_s * 1e6, 1)
            << " us in the mean, " << model::fixed(statistics.max_late_s * 1e6, 1)
            << " us at most\n";
  measure_fairness(std::span(lines).first(2), settings, bulk);
}

}  // namespace

int main(int argc, char** argv) try {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--smoke") {
      settings.repetitions = 3;
      continue;
    }
    const std::string value = i + 1 < argc ? argv[++i] : "";
    if (flag == "--tcp" && (value == "system" || value == "pinned")) {
      settings.tcp = value == "system" ? exec::TcpChoice::system : exec::TcpChoice::pinned;
    } else if (flag == "--latency-ms" && std::atof(value.c_str()) > 0) {
      settings.latency_s = std::atof(value.c_str()) * 1e-3 / 2;
    } else if (flag == "--mbps" && std::atof(value.c_str()) > 0) {
      settings.bandwidth_Bps = std::atof(value.c_str()) * 1e6 / 8;
    } else if (flag == "--repetitions" && std::atoi(value.c_str()) > 0) {
      settings.repetitions = std::atoi(value.c_str());
    } else {
      std::string fault = "flag '";
      fault.append(flag).append("' '").append(value);
      throw Error(
          fault.append("', expected one of those in bench/testbed.cpp; give it with a value"));
    }
  }
  std::optional<exec::Testbed> testbed;
  try {
    testbed.emplace(home(kSenders + 1, settings), settings.tcp);
  } catch (const Error& error) {
    std::cout << "skipped: " << error.what() << '\n';
    return 0;
  }
  // The network is measured, not how late other programs let a thread wake.
  const sched_param priority{.sched_priority = 10};
  sched_setscheduler(0, SCHED_FIFO, &priority);
  measure(*testbed, settings);
} catch (const tandem::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
