#include "exec/testbed/emulator.hpp"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <functional>
#include <limits>
#include <mutex>
#include <queue>
#include <thread>

#include "exec/testbed/link_schedule.hpp"
#include "exec/testbed/network_namespace.hpp"
#include "exec/testbed/packet.hpp"
#include "model/base/descriptor.hpp"
#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

using Clock = LinkSchedule::Clock;

constexpr std::size_t kMostPacket = 65536;
constexpr int kReadsInTurn = 32;  // of one device before the others and what is due have theirs

double emulator_cpu_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

struct Frame {
  std::vector<std::byte> bytes;  // the virtio_net_hdr, then the packet
  std::size_t size = 0;
  std::size_t payload = 0;
  model::DeviceIndex to = 0;
};

struct Due {
  Clock::time_point at;
  std::uint64_t order = 0;
  LinkSchedule::Packet packet = 0;
  bool operator>(const Due& other) const {
    return at != other.at ? at > other.at : order > other.order;
  }
};

}  // namespace

class Emulator::Loop {
 public:
  Loop(const model::Cluster& cluster, const EmulatorOptions& options)
      : options_(options), schedule_(cluster), stop_(eventfd(0, EFD_CLOEXEC)) {
    require(options.tuns.size() == cluster.devices().size(), "Emulator: a TUN device a device");
    if (!stop_.is_open())
      throw Error("packet emulator: no event: " +
                  model::system_fault(errno, "close other programs"));
    for (const int tun : options.tuns)
      polled_.push_back({.fd = tun, .events = POLLIN, .revents = 0});
    polled_.push_back({.fd = stop_.number(), .events = POLLIN, .revents = 0});
    thread_ = std::thread([this] { run(); });
    const sched_param priority{.sched_priority = Emulator::kPriority};
    // A process that this thread's caller starts must not inherit it, and does not: it is set from
    // here, for that thread alone.
    has_priority_ = pthread_setschedparam(thread_.native_handle(), SCHED_FIFO, &priority) == 0;
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop() {
    const std::uint64_t one = 1;
    while (::write(stop_.number(), &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    thread_.join();
  }

  [[nodiscard]] bool has_priority() const { return has_priority_; }

  EmulatorStatistics take_statistics() {
    const std::lock_guard lock(mutex_);
    EmulatorStatistics taken = statistics_;
    if (taken.packets > 0) taken.mean_late_s /= static_cast<double>(taken.packets);
    taken.cpu_s -= taken_cpu_s_;
    taken_cpu_s_ = statistics_.cpu_s;
    statistics_ = {.cpu_s = statistics_.cpu_s};
    return taken;
  }

 private:
  void run() {
    while (wait()) {
      for (std::size_t d = 0; d < options_.tuns.size(); ++d) {
        if (polled_[d].revents != 0) take(static_cast<model::DeviceIndex>(d));
      }
      const Clock::time_point now = Clock::now();
      passed_.clear();
      schedule_.advance(now, passed_);
      for (const LinkSchedule::Delivery& delivery : passed_)
        due_.push({.at = delivery.due, .order = order_++, .packet = delivery.packet});
      hand_on();
    }
  }

  // Until a device sends, a link moves on, or a packet is due. False: to end.
  bool wait() {
    Clock::time_point until = Clock::time_point::max();
    if (!due_.empty()) until = due_.top().at - options_.overhead;
    if (const auto next = schedule_.next()) {
      const auto later = schedule_.slack() - options_.overhead;
      until = std::min(until, *next + std::max(later, std::chrono::nanoseconds(0)));
    }
    timespec timeout{};
    if (until != Clock::time_point::max()) {
      const auto left = std::max<std::int64_t>(
          0, std::chrono::duration_cast<std::chrono::nanoseconds>(until - Clock::now()).count());
      timeout = {.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    }
    const bool forever = until == Clock::time_point::max();
    const int ready =
        ::ppoll(polled_.data(), polled_.size(), forever ? nullptr : &timeout, nullptr);
    if (ready <= 0) {
      for (pollfd& polled : polled_) polled.revents = 0;
      return true;
    }
    return polled_.back().revents == 0;
  }

  // What device `from` has sent.
  void take(model::DeviceIndex from) {
    for (int i = 0; i < kReadsInTurn; ++i) {
      const LinkSchedule::Packet packet = free_frame();
      Frame& frame = frames_[packet];
      const ssize_t got = ::read(options_.tuns[static_cast<std::size_t>(from)], frame.bytes.data(),
                                 frame.bytes.size());
      const Clock::time_point now = Clock::now();
      if (got <= static_cast<ssize_t>(NetworkNamespace::kHeaderBytes)) {
        free_.push_back(packet);
        // A TUN device that is gone is always ready: a thread of this priority must not spin on it.
        if (got < 0 && errno != EAGAIN && errno != EINTR)
          polled_[static_cast<std::size_t>(from)].fd = -1;
        return;
      }
      frame.size = static_cast<std::size_t>(got);
      const auto facts = parse_packet(
          std::span(frame.bytes).first(frame.size).subspan(NetworkNamespace::kHeaderBytes));
      const std::int64_t to =
          facts ? std::int64_t{facts->destination} - options_.first_address : -1;
      // Others: IPv6's search for routers, multicast, an address that no device has.
      if (to < 0 || to >= static_cast<std::int64_t>(options_.tuns.size()) || to == from) {
        free_.push_back(packet);
        const std::lock_guard lock(mutex_);
        if (facts) ++statistics_.lost;
        continue;
      }
      frame.to = static_cast<model::DeviceIndex>(to);
      frame.payload = facts->payload;
      schedule_.offer(packet, from, frame.to, static_cast<double>(facts->payload), now);
    }
  }

  void hand_on() {
    EmulatorStatistics more;
    while (!due_.empty()) {
      const Due next = due_.top();
      const Clock::time_point target = next.at - options_.overhead;
      const Clock::time_point now = Clock::now();
      if (target > now) break;
      due_.pop();
      const Frame& frame = frames_[next.packet];
      const ssize_t written = ::write(options_.tuns[static_cast<std::size_t>(frame.to)],
                                      frame.bytes.data(), frame.size);
      if (written == static_cast<ssize_t>(frame.size)) {
        ++more.packets;
        more.payload_bytes += static_cast<double>(frame.payload);
        more.mean_late_s += seconds(now - target);
        more.max_late_s = std::max(more.max_late_s, seconds(now - target));
      } else {
        ++more.lost;
      }
      free_.push_back(next.packet);
    }
    if (more.packets == 0 && more.lost == 0) return;
    const double cpu_s = emulator_cpu_s();
    const std::lock_guard lock(mutex_);
    statistics_.packets += more.packets;
    statistics_.lost += more.lost;
    statistics_.payload_bytes += more.payload_bytes;
    statistics_.mean_late_s += more.mean_late_s;  // a sum until it is taken
    statistics_.max_late_s = std::max(statistics_.max_late_s, more.max_late_s);
    statistics_.cpu_s = cpu_s;
  }

  LinkSchedule::Packet free_frame() {
    if (free_.empty()) {
      free_.push_back(static_cast<LinkSchedule::Packet>(frames_.size()));
      frames_.push_back(
          {.bytes = std::vector<std::byte>(NetworkNamespace::kHeaderBytes + kMostPacket)});
    }
    const LinkSchedule::Packet packet = free_.back();
    free_.pop_back();
    return packet;
  }

  EmulatorOptions options_;
  LinkSchedule schedule_;
  model::Descriptor stop_;
  std::vector<pollfd> polled_;  // by device, then stop_
  std::vector<Frame> frames_;   // by packet
  std::vector<LinkSchedule::Packet> free_;
  std::vector<LinkSchedule::Delivery> passed_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::uint64_t order_ = 0;
  std::mutex mutex_;
  EmulatorStatistics statistics_;  // guarded by mutex_; mean_late_s is a sum, cpu_s since the start
  double taken_cpu_s_ = 0.0;       // guarded by mutex_
  bool has_priority_ = false;
  std::thread thread_;  // last: it uses the others
};

Emulator::Emulator(const model::Cluster& cluster, const EmulatorOptions& options)
    : loop_(std::make_unique<Loop>(cluster, options)) {}

Emulator::~Emulator() = default;

EmulatorStatistics Emulator::take_statistics() { return loop_->take_statistics(); }

bool Emulator::has_priority() const { return loop_->has_priority(); }

}  // namespace tandem::exec
