#include "exec/testbed/network_namespace.hpp"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>
#include <vector>

#include "exec/testbed/netlink.hpp"
#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

constexpr std::string_view kDevice = "tandem0";
constexpr std::uint32_t kMtu = 1500;
constexpr int kQueuePackets = 10'000;  // a packet that finds its device's queue full would be lost
constexpr std::string_view kNetworkRemedy =
    "run as root, on a kernel with TUN (/dev/net/tun) and network namespaces";

[[noreturn]] void fail_namespace(const std::string& what) {
  throw Error("network namespace: " + what + ": " + model::system_fault(errno, kNetworkRemedy));
}

ifreq request_of(std::string_view device) {
  ifreq request{};
  std::copy(device.begin(), device.end(), std::begin(request.ifr_name));
  return request;
}

void ask(int socket, unsigned long call, ifreq& request, const char* what) {
  if (::ioctl(socket, call, &request) != 0) fail_namespace(what);
}

void bring_up(int socket, std::string_view device) {
  ifreq request = request_of(device);
  ask(socket, SIOCGIFFLAGS, request, "cannot read a network device's state");
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP | IFF_RUNNING);
  ask(socket, SIOCSIFFLAGS, request, "cannot start a network device");
}

sockaddr address_of(std::uint32_t address) {
  sockaddr_in internet{};
  internet.sin_family = AF_INET;
  internet.sin_addr.s_addr = htonl(address);
  sockaddr general{};
  std::memcpy(&general, &internet, sizeof(general));
  return general;
}

model::Descriptor open_tun() {
  model::Descriptor tun(::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!tun.is_open()) fail_namespace("cannot open /dev/net/tun");
  ifreq request = request_of(kDevice);
  request.ifr_flags = static_cast<short>(IFF_TUN | IFF_NO_PI | IFF_VNET_HDR);
  ask(tun.number(), TUNSETIFF, request, "cannot make a TUN device");
  // The kernel hands over segments of up to 64 KiB, and computes no checksums.
  if (::ioctl(tun.number(), TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0)
    fail_namespace("cannot have large segments from a TUN device");
  return tun;
}

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

void set_piece_bytes(int index, std::uint32_t bytes) {
  ifinfomsg link{};
  link.ifi_family = AF_UNSPEC;
  link.ifi_index = index;
  NetlinkRequest request(RTM_NEWLINK, 0, bytes_of(link));
  request.attribute(IFLA_GSO_MAX_SIZE, bytes);
  request.send("cannot set the largest segment of a TUN device");
}

void add_route(int index, const TunSettings& settings) {
  rtmsg route{};
  route.rtm_family = AF_INET;
  route.rtm_dst_len = static_cast<unsigned char>(settings.prefix_bits);
  route.rtm_table = RT_TABLE_MAIN;
  route.rtm_protocol = RTPROT_STATIC;
  route.rtm_scope = RT_SCOPE_LINK;
  route.rtm_type = RTN_UNICAST;
  NetlinkRequest request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, bytes_of(route));
  request.attribute(
      RTA_DST, htonl(settings.address & ~((std::uint32_t{1} << (32 - settings.prefix_bits)) - 1)));
  request.attribute(RTA_OIF, static_cast<std::uint32_t>(index));
  request.attribute(RTA_PREFSRC, htonl(settings.address));
  const std::size_t metrics = request.begin(RTA_METRICS);
  if (settings.first_window > 0) {
    request.attribute(RTAX_INITCWND, settings.first_window);
    request.attribute(RTAX_INITRWND, settings.first_window);
  }
  // As a metric of the route: a namespace's own default may not be one that the machine restricts.
  if (!settings.congestion_control.empty())
    request.attribute(RTAX_CC_ALGO,
                      std::as_bytes(std::span(settings.congestion_control.c_str(),
                                              settings.congestion_control.size() + 1)));
  request.end(metrics);
  request.send("cannot add a route");
}

// In the namespace of the calling thread, as are the others.
void configure(const TunSettings& settings) {
  const model::Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) fail_namespace("no socket");
  bring_up(socket.number(), "lo");
  ifreq request = request_of(kDevice);
  request.ifr_addr = address_of(settings.address);
  ask(socket.number(), SIOCSIFADDR, request, "cannot set a network device's address");
  request = request_of(kDevice);
  request.ifr_addr = address_of(~std::uint32_t{0});  // the route below is the only one
  ask(socket.number(), SIOCSIFNETMASK, request, "cannot set a network device's mask");
  request = request_of(kDevice);
  request.ifr_mtu = kMtu;
  ask(socket.number(), SIOCSIFMTU, request, "cannot set a network device's MTU");
  request = request_of(kDevice);
  request.ifr_qlen = kQueuePackets;
  ask(socket.number(), SIOCSIFTXQLEN, request, "cannot set a network device's queue");
  request = request_of(kDevice);
  ask(socket.number(), SIOCGIFINDEX, request, "cannot find a network device");
  const int index = request.ifr_ifindex;
  set_piece_bytes(index, settings.piece_bytes);
  bring_up(socket.number(), kDevice);
  add_route(index, settings);
}

// On a thread of its own, as a thread cannot leave its namespace without another to go to.
void on_thread(const std::function<void()>& action) {
  std::exception_ptr fault;
  std::thread thread([&] {
    try {
      action();
    } catch (...) {
      fault = std::current_exception();
    }
  });
  thread.join();
  if (fault) std::rethrow_exception(fault);
}

std::string setting_path(std::string name) {
  std::ranges::replace(name, '.', '/');
  return "/proc/sys/net/" + name;
}

}  // namespace

NetworkNamespace::NetworkNamespace(const TunSettings& settings) {
  on_thread([&] {
    if (::unshare(CLONE_NEWNET) != 0) fail_namespace("no network namespace");
    namespace_ = model::Descriptor(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    if (!namespace_.is_open()) fail_namespace("cannot open the network namespace");
    tun_ = open_tun();
    configure(settings);
  });
}

void NetworkNamespace::run(const std::function<void()>& action) const {
  on_thread([&] {
    if (::setns(descriptor(), CLONE_NEWNET) != 0)
      fail_namespace("cannot enter a network namespace");
    action();
  });
}

void NetworkNamespace::set(const std::string& name, std::string_view value) const {
  run([&] {
    const model::Descriptor file(::open(setting_path(name).c_str(), O_WRONLY | O_CLOEXEC));
    if (!file.is_open() ||
        ::write(file.number(), value.data(), value.size()) != static_cast<ssize_t>(value.size()))
      fail_namespace("network setting " + name + ": cannot be '" + std::string(value) + "'");
  });
}

std::string NetworkNamespace::get(const std::string& name) const {
  std::string value;
  run([&] { value = network_setting(name); });
  return value;
}

std::int64_t NetworkNamespace::lost_packets() const {
  std::int64_t lost = 0;
  run([&] {
    // Lines "device: bytes packets errors drop ...", eight numbers received and eight sent.
    std::ifstream devices("/proc/thread-self/net/dev");
    for (std::string line; std::getline(devices, line);) {
      const std::size_t colon = line.find(':');
      if (colon == std::string::npos || line.find(kDevice) > colon) continue;
      std::istringstream numbers(line.substr(colon + 1));
      std::vector<std::int64_t> counts{std::istream_iterator<std::int64_t>(numbers), {}};
      constexpr std::size_t kReceivedDrops = 3;
      constexpr std::size_t kSentDrops = 11;
      if (counts.size() > kSentDrops) lost += counts[kReceivedDrops] + counts[kSentDrops];
    }
  });
  return lost;
}

std::string network_setting(const std::string& name) {
  std::ifstream file(setting_path(name));
  std::string value;
  std::getline(file, value);
  return value;
}

std::string address_text(std::uint32_t address) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8)
    text += (text.empty() ? "" : ".") + std::to_string(address >> shift & 0xFFU);
  return text;
}

}  // namespace tandem::exec
