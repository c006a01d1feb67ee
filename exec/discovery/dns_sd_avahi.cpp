#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "exec/discovery/avahi_library.hpp"
#include "exec/discovery/dns_sd.hpp"
#include "exec/machine/machine_identity.hpp"
#include "exec/transport/transport.hpp"
#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::exec {
namespace {

constexpr int kLoopTurn = 100;  // milliseconds, after which the loop looks whether it is to end
constexpr std::size_t kMostFound = 64;

}  // namespace

// Only the loop's thread touches what follows `stop`, but for the constructor before it starts.
struct Announcement::State {
  State(std::uint16_t given, std::function<void(const std::string&)> say)
      : port(given), log(std::move(say)), name(host_name()) {
    if (name.empty()) name = "tandem";
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    stop.cancel("the announcement ends");
    if (thread.joinable()) thread.join();
  }

  // What the daemon says of itself.
  static void on_client(AvahiClient* client, AvahiClientState state, void* context) {
    auto& self = *static_cast<State*>(context);
    if (state == AVAHI_CLIENT_S_RUNNING) {
      self.publish(client);
    } else if (state == AVAHI_CLIENT_FAILURE) {
      self.fault = avahi_library().strerror(avahi_library().client_errno(client));
    } else if (self.group != nullptr) {
      avahi_library().entry_group_reset(self.group);  // it registers the host anew
    }
  }

  static void on_group(AvahiEntryGroup* group, AvahiEntryGroupState state, void* context) {
    auto& self = *static_cast<State*>(context);
    self.group = group;
    if (state == AVAHI_ENTRY_GROUP_COLLISION) {
      self.rename();
      self.publish(self.session->client());
    } else if (state == AVAHI_ENTRY_GROUP_FAILURE) {
      self.fault = "the service was refused";
    } else if (state == AVAHI_ENTRY_GROUP_ESTABLISHED) {
      self.established = true;
      self.log("announced as '" + model::printable(self.name, 60) + "'");
    }
  }

  void rename() {
    const AvahiLibrary& avahi = avahi_library();
    char* const other = avahi.alternative_service_name(name.c_str());
    name = other;
    avahi.free(other);
  }

  void publish(AvahiClient* client) {
    const AvahiLibrary& avahi = avahi_library();
    if (group == nullptr) group = avahi.entry_group_new(client, &State::on_group, this);
    if (group == nullptr) {
      fault = avahi.strerror(avahi.client_errno(client));
      return;
    }
    avahi.entry_group_reset(group);
    for (int tries = 0; tries < 100; ++tries) {
      const int error = avahi.entry_group_add_service(
          group, AVAHI_IF_UNSPEC, AVAHI_PROTO_UNSPEC, AvahiPublishFlags{}, name.c_str(),
          kWorkerService, nullptr, nullptr, port, nullptr);
      if (error == AVAHI_ERR_COLLISION) {  // another worker of this host
        rename();
        continue;
      }
      const int committed = error < 0 ? error : avahi.entry_group_commit(group);
      if (committed < 0) fault = avahi.strerror(committed);
      return;
    }
    fault = "100 services have this host's name";
  }

  void run() {
    while (!stop.cancelled()) {
      if (session->iterate(kLoopTurn) && fault.empty()) continue;
      if (stop.cancelled()) return;
      log("no longer announced: " + (fault.empty() ? session->fault() : fault) +
          "; start avahi-daemon and this worker again to be found");
      return;
    }
  }

  const std::uint16_t port;
  const std::function<void(const std::string&)> log;
  Cancellation stop;
  std::string name;
  std::string fault;
  bool established = false;
  AvahiEntryGroup* group = nullptr;  // the client's
  std::unique_ptr<AvahiSession> session;
  std::thread thread;
};

Announcement::Announcement(std::uint16_t port, std::function<void(const std::string& line)> log)
    : state_(std::make_unique<State>(port, std::move(log))) {
  State& state = *state_;
  state.session = std::make_unique<AvahiSession>(&State::on_client, &state);
  // Names are probed for a second or so (RFC 6762, 8.1).
  const Clock::time_point end = Clock::now() + std::chrono::seconds(10);
  while (!state.established && state.fault.empty() && Clock::now() < end) {
    if (!state.session->iterate(kLoopTurn)) state.fault = state.session->fault();
  }
  if (!state.established)
    throw Error("flag '--announce': the Avahi daemon announces nothing (" +
                (state.fault.empty() ? std::string("no answer within 10 s") : state.fault) +
                "); see its log, or leave the flag out");
  state.thread = std::thread([&state] { state.run(); });
}
Announcement::~Announcement() = default;

namespace {

// A service on one interface, with one protocol.
struct Sighting {
  std::string name;
  Endpoint endpoint;
  bool ipv4 = false;
  bool loopback = false;
};

class Browser {
 public:
  Browser() : session_(&Browser::on_client, this) {
    const AvahiLibrary& avahi = avahi_library();
    if (avahi.service_browser_new(session_.client(), AVAHI_IF_UNSPEC, AVAHI_PROTO_UNSPEC,
                                  kWorkerService, nullptr, AvahiLookupFlags{}, &Browser::on_browse,
                                  this) == nullptr)
      throw Error("DNS-SD: the Avahi daemon does not browse (" + session_.fault() +
                  "); see its log, or name the workers with --hosts");
  }

  std::vector<Sighting> seen(std::chrono::milliseconds time, const Cancellation& cancellation) {
    const Clock::time_point end = Clock::now() + time;
    while (Clock::now() < end && !(complete_ && resolving_ == 0)) {
      cancellation.check();
      if (!session_.iterate(kLoopTurn) || !fault_.empty())
        throw Error("DNS-SD: the Avahi daemon has ended (" +
                    (fault_.empty() ? session_.fault() : fault_) +
                    "); start it again, or name the workers with --hosts");
    }
    return seen_;
  }

 private:
  static void on_client(AvahiClient* client, AvahiClientState state, void* context) {
    if (state == AVAHI_CLIENT_FAILURE)
      static_cast<Browser*>(context)->fault_ =
          avahi_library().strerror(avahi_library().client_errno(client));
  }

  static void on_browse(AvahiServiceBrowser* /*browser*/, AvahiIfIndex interface,
                        AvahiProtocol protocol, AvahiBrowserEvent event, const char* name,
                        const char* type, const char* domain, AvahiLookupResultFlags /*flags*/,
                        void* context) {
    auto& self = *static_cast<Browser*>(context);
    const AvahiLibrary& avahi = avahi_library();
    if (event == AVAHI_BROWSER_ALL_FOR_NOW) self.complete_ = true;
    if (event == AVAHI_BROWSER_FAILURE) self.fault_ = self.session_.fault();
    if (event != AVAHI_BROWSER_NEW || self.resolving_ >= kMostFound) return;
    if (avahi.service_resolver_new(self.session_.client(), interface, protocol, name, type, domain,
                                   protocol, AvahiLookupFlags{}, &Browser::on_resolve,
                                   context) != nullptr)
      ++self.resolving_;
  }

  static void on_resolve(AvahiServiceResolver* resolver, AvahiIfIndex /*interface*/,
                         AvahiProtocol /*protocol*/, AvahiResolverEvent event, const char* name,
                         const char* /*type*/, const char* /*domain*/, const char* /*host*/,
                         const AvahiAddress* address, std::uint16_t port, AvahiStringList* /*text*/,
                         AvahiLookupResultFlags /*flags*/, void* context) {
    auto& self = *static_cast<Browser*>(context);
    const AvahiLibrary& avahi = avahi_library();
    if (event == AVAHI_RESOLVER_FOUND && port != 0) {
      std::array<char, AVAHI_ADDRESS_STR_MAX> text{};
      avahi.address_snprint(text.data(), text.size(), address);
      const std::string host = text.data();
      const bool ipv4 = address->proto == AVAHI_PROTO_INET;
      // An address of one link only, which means nothing without the interface.
      if (ipv4 || !host.starts_with("fe80:"))
        self.seen_.push_back({.name = name,
                              .endpoint = {.host = host, .port = port},
                              .ipv4 = ipv4,
                              .loopback = ipv4 ? host.starts_with("127.") : host == "::1"});
    }
    avahi.service_resolver_free(resolver);
    --self.resolving_;
  }

  std::vector<Sighting> seen_;
  std::size_t resolving_ = 0;
  bool complete_ = false;  // the daemon has asked the network
  std::string fault_;
  AvahiSession session_;  // last: its destructor may call back
};

}  // namespace

std::vector<FoundWorker> browse_workers(std::chrono::milliseconds time,
                                        const Cancellation& cancellation) {
  std::vector<Sighting> seen = Browser().seen(time, cancellation);
  std::ranges::sort(seen, {}, [](const Sighting& one) {
    return std::tuple(one.name, one.endpoint.port, one.loopback, !one.ipv4, one.endpoint.host);
  });
  std::vector<FoundWorker> found;
  for (const Sighting& one : seen) {
    if (found.empty() || found.back().name != one.name ||
        found.back().endpoint.port != one.endpoint.port)
      found.push_back({.name = one.name, .endpoint = one.endpoint});
  }
  return found;
}

}  // namespace tandem::exec
