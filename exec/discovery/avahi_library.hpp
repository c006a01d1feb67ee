#pragma once

// Avahi's client library, loaded when it is first needed: a program that announces and browses
// nothing runs without it. Private to exec/discovery.

#include <avahi-client/client.h>
#include <avahi-client/lookup.h>
#include <avahi-client/publish.h>
#include <avahi-common/address.h>
#include <avahi-common/alternative.h>
#include <avahi-common/error.h>
#include <avahi-common/malloc.h>
#include <avahi-common/simple-watch.h>

#include <memory>
#include <string>

namespace tandem::exec {

// The functions of the library that are called, by their names there.
struct AvahiLibrary {
  decltype(&avahi_simple_poll_new) simple_poll_new = nullptr;
  decltype(&avahi_simple_poll_get) simple_poll_get = nullptr;
  decltype(&avahi_simple_poll_iterate) simple_poll_iterate = nullptr;
  decltype(&avahi_simple_poll_free) simple_poll_free = nullptr;
  decltype(&avahi_client_new) client_new = nullptr;
  decltype(&avahi_client_free) client_free = nullptr;
  decltype(&avahi_client_errno) client_errno = nullptr;
  decltype(&avahi_strerror) strerror = nullptr;
  decltype(&avahi_alternative_service_name) alternative_service_name = nullptr;
  decltype(&avahi_free) free = nullptr;
  decltype(&avahi_entry_group_new) entry_group_new = nullptr;
  decltype(&avahi_entry_group_reset) entry_group_reset = nullptr;
  decltype(&avahi_entry_group_add_service) entry_group_add_service = nullptr;
  decltype(&avahi_entry_group_commit) entry_group_commit = nullptr;
  decltype(&avahi_service_browser_new) service_browser_new = nullptr;
  decltype(&avahi_service_resolver_new) service_resolver_new = nullptr;
  decltype(&avahi_service_resolver_free) service_resolver_free = nullptr;
  decltype(&avahi_address_snprint) address_snprint = nullptr;
};

// The library of this machine. Throws Error (reason, remedy) if it has none.
[[nodiscard]] const AvahiLibrary& avahi_library();

// A connection with the daemon and the loop in which its callbacks run. One thread at a time.
class AvahiSession {
 public:
  // `callback` and `context` as for avahi_client_new, which calls them. Throws Error if there is no
  // library or the daemon does not answer.
  AvahiSession(AvahiClientCallback callback, void* context);
  ~AvahiSession();
  AvahiSession(const AvahiSession&) = delete;
  AvahiSession& operator=(const AvahiSession&) = delete;

  [[nodiscard]] AvahiClient* client() const { return client_; }
  // Waits at most `milliseconds` for something to happen, and runs its callbacks. False: the
  // connection has ended.
  [[nodiscard]] bool iterate(int milliseconds) const;
  [[nodiscard]] std::string fault() const;  // the daemon's last one

 private:
  AvahiSimplePoll* poll_ = nullptr;
  AvahiClient* client_ = nullptr;
};

}  // namespace tandem::exec
