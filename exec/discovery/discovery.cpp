#include "exec/discovery/discovery.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "exec/discovery/link_probe.hpp"
#include "exec/machine/machine_identity.hpp"
#include "exec/transport/control.hpp"
#include "exec/weights/files/boot_id.hpp"
#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"
#include "model/base/system_fault.hpp"
#include "model/predict/cost_model.hpp"

namespace tandem::exec {
namespace {

constexpr std::chrono::milliseconds kRoundTrips{300};
constexpr std::chrono::seconds kClose{2};
constexpr std::chrono::milliseconds kGlance{200};  // at the other workers
// A profile of 1 GB would be no profile.
constexpr std::size_t kMostProfileBytes = std::size_t{16} << 20;

// One worker, from its Hello on.
struct Worker {
  model::DeviceIndex index = 0;  // in the session
  DiscoveredDevice device;
  bool named = false;  // by the user
  std::unique_ptr<Control> control;

  [[nodiscard]] std::string where() const {
    return device.name + " at " + to_text(device.endpoint);
  }
  // Prefixes what does not name the worker.
  [[nodiscard]] std::string fault(const std::string& text) const {
    return text.starts_with(where()) ? text : where() + ": " + text;
  }
};

}  // namespace

struct Discoverer::State {
  explicit State(DiscoveryOptions given) : options(std::move(given)) {}

  [[nodiscard]] model::DeviceIndex master() const {
    return static_cast<model::DeviceIndex>(kMaxDevices);
  }

  void notice(DiscoveryStage stage, std::size_t done, std::size_t total) {
    if (!options.progress) return;
    const std::lock_guard lock(notices);
    options.progress(stage, done, total);
  }

  void add_fault(const std::string& fault) {
    stop.check();  // a fault that follows from being cancelled is none
    const std::lock_guard lock(mutex);
    faults.push_back(fault);
  }

  std::unique_ptr<Worker> connect(const DiscoveryHost& host, model::DeviceIndex index) {
    auto worker = std::make_unique<Worker>();
    worker->index = index;
    worker->device = {.name = host.name.empty() ? host.endpoint.host : host.name,
                      .endpoint = host.endpoint,
                      .local = host.local,
                      .about = {},
                      .profile = {}};
    worker->named = !host.name.empty();
    const Hello hello{.role = Role::master,
                      .purpose = Purpose::control,
                      .session = session,
                      .device = master(),
                      .peer = index};
    const auto name = [&](model::DeviceIndex d) -> std::string {
      const auto i = static_cast<std::size_t>(d);
      if (i >= options.hosts.size()) return "the worker";
      const DiscoveryHost& other = options.hosts[i];
      if (!other.name.empty()) return other.name;
      return d == index ? "the worker" : to_text(other.endpoint);
    };
    Connection connection =
        connect_to(host.endpoint, options.key, hello,
                   {.deadline = Clock::now() + options.connect, .cancellation = &stop}, name);
    connection.rename(worker->where());
    std::vector<ControlPeer> peers;
    peers.push_back({.device = index, .connection = std::move(connection)});
    auto control = std::make_unique<Control>(
        std::move(peers), ControlOptions{.silence = options.silence, .first = options.connect});
    control->send(index, Inquiry{});
    worker->device.about = control->expect<About>(index, Clock::now() + options.connect);
    const std::lock_guard lock(mutex);
    stop.check();
    worker->control = std::move(control);
    return worker;
  }

  void connect_all() {
    std::vector<std::future<std::unique_ptr<Worker>>> coming;
    for (std::size_t i = 0; i < options.hosts.size(); ++i) {
      coming.push_back(std::async(std::launch::async, [this, i] {
        return connect(options.hosts[i], static_cast<model::DeviceIndex>(i));
      }));
    }
    for (auto& one : coming) take(one);
    const auto here = std::ranges::find_if(
        workers, [](const std::unique_ptr<Worker>& worker) { return worker->device.local; });
    if (here == workers.end() && options.start_local) {
      const DiscoveryHost host{.name = "", .endpoint = options.start_local(), .local = true};
      auto local = std::async(std::launch::async, [&] {
        return connect(host, static_cast<model::DeviceIndex>(options.hosts.size()));
      });
      take(local);
    }
    std::stable_partition(
        workers.begin(), workers.end(),
        [](const std::unique_ptr<Worker>& worker) { return worker->device.local; });
  }

  void take(std::future<std::unique_ptr<Worker>>& coming) {
    try {
      std::unique_ptr<Worker> worker = coming.get();
      About& about = worker->device.about;
      const bool known = std::ranges::any_of(options.hosts, &DiscoveryHost::local) ||
                         std::ranges::any_of(workers, [](const std::unique_ptr<Worker>& other) {
                           return other->device.local;
                         });
      if (!known && !about.boot.empty() && about.boot == boot_id() &&
          about.network == network_namespace())
        worker->device.local = true;
      if (!worker->named) worker->device.name = device_name(about.name);
      const std::lock_guard lock(mutex);
      workers.push_back(std::move(worker));
    } catch (const std::exception& fault) {
      add_fault(model::describe(fault));
    }
  }

  // Names that hosts gave themselves are made unique with a number.
  void settle_names() {
    std::set<std::string> taken;
    for (const auto& worker : workers) {
      if (worker->named) taken.insert(worker->device.name);
    }
    for (const auto& worker : workers) {
      if (worker->named) continue;
      std::string name = worker->device.name;
      for (int number = 2; !taken.insert(name).second; ++number)
        name = worker->device.name + "-" + std::to_string(number);
      worker->device.name = name;
    }
  }

  void drop(Worker& worker, const std::string& fault) {
    add_fault(worker.fault(fault));
    const std::lock_guard lock(mutex);
    gone.insert(worker.index);
  }

  void forget_gone() {
    std::vector<std::unique_ptr<Worker>> dropped;
    const std::lock_guard lock(mutex);
    for (auto it = workers.begin(); it != workers.end();) {
      if (gone.contains((*it)->index)) {
        dropped.push_back(std::move(*it));
        it = workers.erase(it);
      } else {
        ++it;
      }
    }
    parted.insert(parted.end(), std::make_move_iterator(dropped.begin()),
                  std::make_move_iterator(dropped.end()));
  }

  void profile(Worker& worker) {
    worker.control->send(worker.index, options.profile);
    std::string json;
    for (bool last = false; !last;) {
      const auto piece = worker.control->expect<Report>(worker.index);
      if (piece.kind != ReportKind::profile || json.size() + piece.bytes.size() > kMostProfileBytes)
        throw Error("sent no profile, expected one; install the same tandem on every device");
      json += piece.bytes;
      last = piece.last;
    }
    worker.device.profile = model::parse_profile_json(json, "profile of " + worker.device.name);
  }

  // A profile that cannot be kept is a fault of this machine, not of the worker: it ends run().
  void keep_profile(const Worker& worker) {
    if (!options.on_profile) return;
    const std::lock_guard lock(notices);
    if (unkept) return;
    try {
      options.on_profile(worker.device);
    } catch (...) {
      unkept = std::current_exception();
    }
  }

  void profile_all() {
    std::map<std::string, std::vector<Worker*>> machines;
    for (const auto& worker : workers) machines[worker->device.about.boot].push_back(worker.get());
    std::atomic<std::size_t> done = 0;
    notice(DiscoveryStage::profiles, 0, workers.size());
    {
      std::vector<std::jthread> threads;
      threads.reserve(machines.size());
      for (auto& [boot, of_machine] : machines) {
        threads.emplace_back([&, &here = of_machine] {
          for (Worker* const worker : here) {
            try {
              profile(*worker);
              keep_profile(*worker);
            } catch (const std::exception& fault) {
              try {
                drop(*worker, model::describe(fault));
              } catch (const Error&) {
                return;  // cancelled
              }
            }
            notice(DiscoveryStage::profiles, ++done, workers.size());
          }
        });
      }
    }
    stop.check();
    if (unkept) std::rethrow_exception(unkept);
    forget_gone();
  }

  // Nothing: no message for a while, or the worker is lost.
  static std::optional<Message> next_message(Worker& worker) {
    try {
      return worker.control->receive(worker.index, Clock::now() + kGlance);
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  // Throws Error as soon as any worker is lost: the peers of one that has stopped wait for it
  // without end.
  ProbeAnswer answer(Worker& worker) {
    for (;;) {
      for (const auto& other : workers) other->control->check();
      std::optional<Message> message = next_message(worker);
      if (!message) continue;
      if (auto* got = std::get_if<ProbeAnswer>(&*message)) return std::move(*got);
      throw Error(worker.fault("sent " + std::string(name_of(*message)) +
                               ", expected ProbeAnswer; install the same tandem on every device"));
    }
  }

  // Empty: both ends have a channel in each direction.
  std::string open_link(Worker& a, Worker& b) {
    b.control->send(b.index, LinkOrder{.peer = a.index, .name = a.device.name, .address = ""});
    a.control->send(
        a.index,
        LinkOrder{.peer = b.index, .name = b.device.name, .address = to_text(b.device.endpoint)});
    const ProbeAnswer dialled = answer(a);
    const ProbeAnswer waited = answer(b);
    return dialled.fault.empty() ? waited.fault : dialled.fault;
  }

  // Of devices that cannot reach each other, those with most such pairs are left out until none is
  // left: a run opens channels between any two.
  void open_links() {
    std::vector<std::pair<Worker*, Worker*>> broken;
    for (std::size_t a = 0; a < workers.size(); ++a) {
      for (std::size_t b = a + 1; b < workers.size(); ++b) {
        Worker& one = *workers[a];
        Worker& other = *workers[b];
        const std::string fault = open_link(one, other);
        if (fault.empty()) continue;
        broken.emplace_back(&one, &other);
        add_fault(
            one.device.name + " cannot connect to " + other.where() + ": " +
            (fault.starts_with(other.device.name) ? fault.substr(fault.find(": ") + 2) : fault));
      }
    }
    while (!broken.empty()) {
      std::map<Worker*, int> count;
      for (const auto& [one, other] : broken) ++count[one], ++count[other];
      Worker* worst = broken.front().second;
      for (const auto& worker : workers) {
        // This machine is the master of runs; of equals the later one goes.
        if (!worker->device.local && count[worker.get()] >= count[worst]) worst = worker.get();
      }
      drop(*worst, "left out, as a run needs a connection between any two devices");
      std::erase_if(broken,
                    [&](const auto& pair) { return pair.first == worst || pair.second == worst; });
    }
    forget_gone();
  }

  void check_answer(const Worker& worker, const ProbeAnswer& answer, std::size_t readings) const {
    if (!answer.fault.empty()) throw Error(worker.fault(answer.fault));
    if (answer.readings.size() != readings)
      throw Error(worker.fault("sent " + std::to_string(answer.readings.size()) +
                               " readings, expected " + std::to_string(readings) +
                               "; install the same tandem on every device"));
  }

  double round_trip(Worker& a, Worker& b) {
    ProbeOrder order{.kind = ProbeKind::round_trips};
    order.milliseconds = static_cast<std::uint32_t>(kRoundTrips.count());
    order.walked_bytes = static_cast<std::uint64_t>(options.walked.value());
    order.from = {a.index};
    b.control->send(b.index, order);
    order.from.clear();
    order.to = {b.index};
    a.control->send(a.index, order);
    const ProbeAnswer asked = answer(a);
    const ProbeAnswer answered = answer(b);
    check_answer(a, asked, 1);
    check_answer(b, answered, 0);
    const auto charged = [](const Worker& worker) {
      return model::task_seconds(
          worker.device.profile.rate[static_cast<std::size_t>(model::TaskKind::transfer)],
          static_cast<double>(kRoundTripBytes), 1.0);
    };
    return std::max(0.0, asked.readings.front() - (charged(a) + charged(b)) / 2.0);
  }

  void stream(Trial& trial) {
    std::vector<ProbeOrder> orders(workers.size());
    for (const Flow& flow : trial) {
      const auto from = static_cast<std::size_t>(flow.from);
      const auto to = static_cast<std::size_t>(flow.to);
      orders[from].to.push_back(workers[to]->index);
      orders[to].from.push_back(workers[from]->index);
    }
    const auto involved = [&](std::size_t w) {
      return !orders[w].to.empty() || !orders[w].from.empty();
    };
    for (std::size_t w = 0; w < workers.size(); ++w) {
      orders[w].milliseconds = static_cast<std::uint32_t>(options.stream.count());
      if (involved(w)) workers[w]->control->send(workers[w]->index, orders[w]);
    }
    for (std::size_t w = 0; w < workers.size(); ++w) {
      if (!involved(w)) continue;
      const ProbeAnswer got = answer(*workers[w]);
      check_answer(*workers[w], got, orders[w].from.size());
      for (Flow& flow : trial) {
        if (static_cast<std::size_t>(flow.to) != w) continue;
        const auto at =
            std::ranges::find(orders[w].from, workers[static_cast<std::size_t>(flow.from)]->index) -
            orders[w].from.begin();
        flow.rate = got.readings[static_cast<std::size_t>(at)];
        if (flow.rate <= 0.0) throw Error(workers[w]->fault("received nothing in a trial"));
      }
    }
  }

  NetworkMeasurements measure() {
    NetworkMeasurements network{.devices = static_cast<int>(workers.size())};
    if (workers.size() < 2) return network;
    network.trials = trials_of(network.devices);
    const std::size_t pairs = workers.size() * (workers.size() - 1) / 2;
    const std::size_t total = pairs + network.trials.size();
    std::size_t done = 0;
    for (int a = 0; a < network.devices; ++a) {
      for (int b = a + 1; b < network.devices; ++b) {
        network.latencies.push_back({.a = a,
                                     .b = b,
                                     .seconds = round_trip(*workers[static_cast<std::size_t>(a)],
                                                           *workers[static_cast<std::size_t>(b)])});
        notice(DiscoveryStage::links, ++done, total);
      }
    }
    for (Trial& trial : network.trials) {
      stream(trial);
      notice(DiscoveryStage::links, ++done, total);
    }
    return network;
  }

  void close() {
    const auto part = [](Worker& worker) {
      try {
        worker.control->say_goodbye();
        static_cast<void>(worker.control->close(Clock::now() + kClose));
      } catch (const std::exception&) {
        return;  // it failed before, and that was said
      }
    };
    for (const auto& worker : workers) part(*worker);
    for (const auto& worker : parted) part(*worker);
  }

  Discovery run() {
    require(options.hosts.size() < static_cast<std::size_t>(kMostNetworkDevices),
            "discovery: too many hosts");
    connect_all();
    stop.check();
    settle_names();
    if (!workers.empty()) profile_all();
    if (!workers.empty()) open_links();
    if (workers.empty())
      throw Error("no device is left" + (faults.empty() ? std::string() : ": " + faults.front()));
    Discovery found;
    found.network = measure();
    close();
    for (auto& worker : workers) found.devices.push_back(std::move(worker->device));
    found.faults = faults;
    return found;
  }

  DiscoveryOptions options;
  SessionId session = random_session();
  Cancellation stop;
  std::mutex notices;         // guards the callbacks, and:
  std::exception_ptr unkept;  // the first that on_profile threw
  std::mutex mutex;           // guards what follows
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::unique_ptr<Worker>> parted;  // left out, not yet told
  std::set<model::DeviceIndex> gone;
  std::vector<std::string> faults;
};

Discoverer::Discoverer(DiscoveryOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}
Discoverer::~Discoverer() = default;

Discovery Discoverer::run() {
  try {
    return state_->run();
  } catch (const Error&) {
    state_->stop.check();  // the reason of all that failed after it
    throw;
  }
}

void Discoverer::cancel(const std::string& reason) noexcept {
  state_->stop.cancel(reason);
  const std::lock_guard lock(state_->mutex);
  for (const auto& worker : state_->workers) worker->control->abort(reason);
}

std::string device_name(const std::string& host) {
  std::string name;
  for (const char c : host.substr(0, 60)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    name += plain ? c : '-';
  }
  while (name.starts_with('.') || name.starts_with('-')) name.erase(0, 1);
  return name.empty() ? "device" : name;
}

}  // namespace tandem::exec
