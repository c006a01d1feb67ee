#include "exec/discovery/discovery_guest.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "exec/discovery/link_probe.hpp"
#include "exec/discovery/network_model.hpp"
#include "exec/kernels/kernels_here.hpp"
#include "exec/machine/available_memory.hpp"
#include "exec/machine/machine_identity.hpp"
#include "exec/transport/tcp_transport.hpp"
#include "exec/weights/files/boot_id.hpp"
#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

// Free bytes where `folder` is or will be made; 0: not known.
std::uint64_t free_space(std::filesystem::path folder) {
  std::error_code fault;
  folder = std::filesystem::absolute(folder, fault);
  while (!std::filesystem::exists(folder, fault) && folder != folder.parent_path())
    folder = folder.parent_path();
  const auto space = std::filesystem::space(folder, fault);
  return fault ? 0 : space.available;
}

class DiscoveryGuest {
 public:
  DiscoveryGuest(Control& control, Activity& activity, Reception& reception,
                 std::shared_ptr<Cancellation> cancellation, const GuestOptions& options)
      : control_(control),
        activity_(activity),
        reception_(reception),
        cancellation_(std::move(cancellation)),
        options_(options) {}

  void serve() {
    send(about());
    while (true) {
      activity_.enter(Phase::waiting);
      const Message message = control_.receive(master());
      if (const auto* profile = std::get_if<ProfileOrder>(&message)) {
        send_profile(*profile);
      } else if (const auto* link = std::get_if<LinkOrder>(&message)) {
        activity_.enter(Phase::opening);
        send(answered([&] { return open(*link); }));
      } else if (const auto* probe = std::get_if<ProbeOrder>(&message)) {
        activity_.enter(Phase::measuring);
        send(answered([&] { return measure(*probe); }));
      } else if (std::holds_alternative<Goodbye>(message)) {
        return;
      } else {
        throw Error("master: sent " + std::string(name_of(message)) +
                    ", expected ProfileOrder, LinkOrder, ProbeOrder or Goodbye; install the same "
                    "tandem on every device");
      }
    }
  }

 private:
  [[nodiscard]] model::DeviceIndex master() const { return options_.hello.device; }
  void send(const Message& message) { control_.send(master(), message); }

  [[nodiscard]] About about() const {
    About about{.name = host_name(),
                .boot = boot_id(),
                .network = network_namespace(),
                .processor = processor_here(),
                .program = options_.machine.program};
    about.cores = std::max(1U, std::thread::hardware_concurrency());
    about.threads = static_cast<std::uint32_t>(options_.machine.threads);
    about.memory_bytes = static_cast<std::uint64_t>(available_memory().bytes);
    about.disk_bytes = free_space(options_.machine.cache_dir);
    return about;
  }

  void send_profile(const ProfileOrder& order) {
    activity_.enter(Phase::profiling, Activity::kNobody, order.milliseconds);
    const Clock::time_point start = Clock::now();
    const std::string json = to_json(machine_profile(options_.machine, order, [&] {
      cancellation_->check();
      activity_.advance(static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count()));
    }));
    for (std::size_t at = 0; at < json.size(); at += kMaxChunkBytes) {
      send(Report{.kind = ReportKind::profile,
                  .last = at + kMaxChunkBytes >= json.size(),
                  .bytes = json.substr(at, kMaxChunkBytes)});
    }
  }

  // What `work` returns; its Error as a fault, unless the session is over.
  template <class Work>
  ProbeAnswer answered(const Work& work) {
    try {
      return {.fault = "", .readings = work()};
    } catch (const std::exception& fault) {
      cancellation_->check();
      return {.fault = model::describe(fault), .readings = {}};
    }
  }

  std::vector<double> open(const LinkOrder& order) {
    const model::DeviceIndex self = options_.hello.peer;
    if (order.peer == self || order.peer >= kMostNetworkDevices || links_.contains(order.peer))
      throw Error("a link with device " + std::to_string(order.peer) +
                  " was ordered, expected another one, once; install the same tandem on every "
                  "device");
    // Once only: an order that fails is no way to try addresses.
    links_.emplace(order.peer, nullptr);
    std::vector<ChannelEnd> ends;
    const Patience patience{.deadline = Clock::now() + options_.connect,
                            .cancellation = cancellation_.get()};
    if (order.address.empty()) {
      while (ends.size() < 2) {
        std::optional<Incoming> incoming = reception_.next_channel(patience);
        if (!incoming) throw Error(order.name + ": did not connect in time");
        // Of a link that was given up.
        if (incoming->hello.device != order.peer) continue;
        ends.push_back({.peer = order.peer,
                        .sends = !incoming->hello.sends,
                        .connection = std::move(incoming->connection)});
      }
    } else {
      for (const bool sends : {true, false}) {
        ends.push_back(
            {.peer = order.peer,
             .sends = sends,
             .connection = connect_to(parse_endpoint(order.address, order.name), options_.key,
                                      {.role = Role::worker,
                                       .purpose = Purpose::channel,
                                       .session = options_.hello.session,
                                       .device = self,
                                       .peer = order.peer,
                                       .sends = sends},
                                      patience, [&](model::DeviceIndex) { return order.name; })});
      }
    }
    if (ends[0].sends == ends[1].sends)
      throw Error(order.name +
                  ": opened one direction twice; install the same tandem on every "
                  "device");
    for (ChannelEnd& end : ends) end.connection.rename(order.name);
    links_[order.peer] = std::make_unique<TcpTransport>(self, std::move(ends), cancellation_);
    return {};
  }

  [[nodiscard]] TcpTransport& link(model::DeviceIndex peer) const {
    const auto found = links_.find(peer);
    if (found == links_.end() || found->second == nullptr)
      throw Error("device " + std::to_string(peer) +
                  ": no link is open with it; install the same tandem on every device");
    return *found->second;
  }

  std::vector<double> measure(const ProbeOrder& order) {
    const std::chrono::milliseconds time(order.milliseconds);
    const model::Bytes walked{static_cast<double>(order.walked_bytes)};
    if (order.kind == ProbeKind::round_trips) {
      if (!order.to.empty())
        return {ask_round_trips(link(order.to.front()), order.to.front(), walked, time).value()};
      answer_round_trips(link(order.from.front()), order.from.front(), walked);
      return {};
    }
    std::vector<double> rates(order.from.size(), 0.0);
    std::vector<std::function<void()>> flows;
    for (const model::DeviceIndex peer : order.to)
      flows.emplace_back(
          [&transport = link(peer), peer, time] { send_stream(transport, peer, time); });
    for (std::size_t i = 0; i < order.from.size(); ++i) {
      const model::DeviceIndex peer = order.from[i];
      flows.emplace_back([&transport = link(peer), &rate = rates[i], peer, time] {
        rate = receive_stream(transport, peer, time).value();
      });
    }
    at_once(flows);
    return rates;
  }

  // Calls all, each on a thread of its own. Throws what the first to fail throws.
  static void at_once(const std::vector<std::function<void()>>& flows) {
    std::vector<std::exception_ptr> faults(flows.size());
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < flows.size(); ++i) {
        threads.emplace_back([&flow = flows[i], &fault = faults[i]] {
          try {
            flow();
          } catch (...) {
            fault = std::current_exception();
          }
        });
      }
    }
    for (const std::exception_ptr& fault : faults) {
      if (fault) std::rethrow_exception(fault);
    }
  }

  Control& control_;
  Activity& activity_;
  Reception& reception_;
  std::shared_ptr<Cancellation> cancellation_;
  const GuestOptions& options_;
  std::map<model::DeviceIndex, std::unique_ptr<TcpTransport>> links_;  // null: it failed
};

}  // namespace

void serve_discovery(Control& control, Activity& activity, Reception& reception,
                     const std::shared_ptr<Cancellation>& cancellation,
                     const GuestOptions& options) {
  DiscoveryGuest(control, activity, reception, cancellation, options).serve();
}

}  // namespace tandem::exec
