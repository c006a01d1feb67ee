// Built without Avahi's headers.

#include "exec/discovery/dns_sd.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

[[noreturn]] void fail() {
  throw Error(
      "DNS-SD: this tandem was built without Avahi; install libavahi-client-dev and build it "
      "again, or name the workers with --hosts");
}

}  // namespace

struct Announcement::State {};

Announcement::Announcement(
    std::uint16_t /*port*/,
    std::function<
        void(const std::string&)> /*log*/) {  // NOLINT(performance-unnecessary-value-param)
  fail();
}
Announcement::~Announcement() = default;

std::vector<FoundWorker> browse_workers(std::chrono::milliseconds /*time*/,
                                        const Cancellation& /*cancellation*/) {
  fail();
}

}  // namespace tandem::exec
