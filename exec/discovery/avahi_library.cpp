#include "exec/discovery/avahi_library.hpp"

#include <dlfcn.h>

#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr const char* kNoLibrary =
    "; install the packages libavahi-client3 and avahi-daemon, or name the workers with --hosts";

// `names` end with the version of the interface that the headers describe.
void* load(const char* name) {
  void* const library = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL);
  if (library != nullptr) return library;
  throw Error(std::string("DNS-SD: ") + name + " cannot be loaded" + kNoLibrary);
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr)
    throw Error(std::string("DNS-SD: Avahi's library has no ") + name + kNoLibrary);
}

AvahiLibrary loaded() {
  AvahiLibrary avahi;
  void* const common = load("libavahi-common.so.3");
  find(common, "avahi_simple_poll_new", avahi.simple_poll_new);
  find(common, "avahi_simple_poll_get", avahi.simple_poll_get);
  find(common, "avahi_simple_poll_iterate", avahi.simple_poll_iterate);
  find(common, "avahi_simple_poll_free", avahi.simple_poll_free);
  find(common, "avahi_strerror", avahi.strerror);
  find(common, "avahi_alternative_service_name", avahi.alternative_service_name);
  find(common, "avahi_free", avahi.free);
  find(common, "avahi_address_snprint", avahi.address_snprint);
  void* const client = load("libavahi-client.so.3");
  find(client, "avahi_client_new", avahi.client_new);
  find(client, "avahi_client_free", avahi.client_free);
  find(client, "avahi_client_errno", avahi.client_errno);
  find(client, "avahi_entry_group_new", avahi.entry_group_new);
  find(client, "avahi_entry_group_reset", avahi.entry_group_reset);
  find(client, "avahi_entry_group_add_service", avahi.entry_group_add_service);
  find(client, "avahi_entry_group_commit", avahi.entry_group_commit);
  find(client, "avahi_service_browser_new", avahi.service_browser_new);
  find(client, "avahi_service_resolver_new", avahi.service_resolver_new);
  find(client, "avahi_service_resolver_free", avahi.service_resolver_free);
  return avahi;
}

}  // namespace

const AvahiLibrary& avahi_library() {
  static const AvahiLibrary library = loaded();
  return library;
}

AvahiSession::AvahiSession(AvahiClientCallback callback, void* context) {
  const AvahiLibrary& avahi = avahi_library();
  poll_ = avahi.simple_poll_new();
  if (poll_ == nullptr) throw Error("DNS-SD: no memory for Avahi; free some");
  int error = 0;
  client_ =
      avahi.client_new(avahi.simple_poll_get(poll_), AvahiClientFlags{}, callback, context, &error);
  if (client_ != nullptr) return;
  avahi.simple_poll_free(poll_);
  throw Error(std::string("DNS-SD: the Avahi daemon does not answer (") + avahi.strerror(error) +
              "); start it (package avahi-daemon), or name the workers with --hosts");
}

AvahiSession::~AvahiSession() {
  avahi_library().client_free(client_);  // with its groups, browsers and resolvers
  avahi_library().simple_poll_free(poll_);
}

bool AvahiSession::iterate(int milliseconds) const {
  return avahi_library().simple_poll_iterate(poll_, milliseconds) == 0;
}

std::string AvahiSession::fault() const {
  return avahi_library().strerror(avahi_library().client_errno(client_));
}

}  // namespace tandem::exec
