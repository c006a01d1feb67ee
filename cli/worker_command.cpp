// tandem worker: a device's process.

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <limits>
#include <optional>
#include <thread>

#include "cli/flags/cache.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/kernels_flag.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/testbed_flag.hpp"
#include "cli/version.hpp"
#include "cli/views/line_log.hpp"
#include "exec/discovery/dns_sd.hpp"
#include "exec/emulation/turn.hpp"
#include "exec/session/worker.hpp"
#include "exec/weights/store/block_store.hpp"
#include "model/base/error.hpp"

namespace tandem::cli {
namespace {

Syntax worker_syntax() {
  return {.command = "worker",
          .summary = "Serves this device to masters, one after another.",
          .positionals = {},
          .flags = {{"generate-key", "FILE", "write a new shared key, and leave"},
                    {"listen", "HOST:PORT", "address to listen on, port 0 for any (required)"},
                    {"key", "FILE", "shared key; needed unless HOST is a loopback address"},
                    {"announce", "", "let 'tandem discover --browse' find this worker (Avahi)"},
                    {"threads", "N", "computing threads [all cores; 1 in a testbed]"},
                    kKernelsFlag,
                    {"cache", "DIR", "where weights are kept [~/.cache/tandem]"},
                    kCacheSizeFlag,
                    kVerifyFlag,
                    {"once", "", "leave after one session"},
                    {"quiet", "", "say nothing but errors"},
                    {"port-fd", "FD", "write the port to this open descriptor (emulation)"},
                    {"ledger-fd", "FD", "emulate links by this open descriptor (emulation)"},
                    {"turn-fd", "FD", "compute in turns by this open descriptor (emulation)"},
                    kTestbedFlag}};
}

constexpr std::int64_t kMostDescriptors = std::numeric_limits<int>::max();

void tell_port(int descriptor, std::uint16_t port) {
  const std::string line = std::to_string(port) + "\n";
  const bool told =
      ::write(descriptor, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  ::close(descriptor);
  if (!told)
    throw Error("flag '--port-fd': descriptor is not open for writing; leave the flag out");
}

}  // namespace

int worker_command(const Arguments& arguments, std::ostream& out) {
  Options options(worker_syntax(), arguments);
  if (const auto file = options.text("generate-key")) {
    for (const Flag& flag : worker_syntax().flags) {
      if (flag.name != "generate-key")
        options.refuse({flag.name}, "with '--generate-key', which makes a key and leaves");
    }
    options.settle();
    exec::generate_key_file(*file);
    out << *file << ": a new key; copy it to every device, readable by its owner only\n";
    return 0;
  }
  const exec::Endpoint listen =
      exec::parse_endpoint(options.required("listen"), "flag '--listen'", /*any_port=*/true);
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));

  exec::WorkerOptions worker;
  if (const auto path = options.text("key")) worker.key = exec::read_key_file(*path);
  const auto testbed = testbed_of(options);
  worker.threads = static_cast<int>(options.integer_or("threads", testbed ? 1 : cores, 1, 1024));
  worker.kernels = kernels_of(options);
  worker.program = version();
  const Cache cache = cache_of(options);
  exec::need_cache_dir(cache.folder);
  worker.cache_dir = cache.folder;
  worker.cache_bytes = cache.bytes;
  worker.verify = options.has(kVerifyFlag.name);
  worker.once = options.has("once");
  worker.verbose = !options.has("quiet");
  worker.ledger_fd = static_cast<int>(options.integer_or("ledger-fd", -1, -1, kMostDescriptors));
  worker.turn_fd = static_cast<int>(options.integer_or("turn-fd", -1, -1, kMostDescriptors));
  std::optional<exec::SharedTurn> turn;
  if (testbed) {
    options.refuse({"ledger-fd", "turn-fd"}, "with '--testbed', which has links and turns");
    worker.turn_fd = turn.emplace(std::filesystem::path(testbed->turn)).descriptor();
  }
  LineLog log("tandem worker: ");
  worker.log = [&log](const std::string& line) { log.write(line); };

  const std::int64_t port_fd = options.integer_or("port-fd", -1, -1, kMostDescriptors);
  const bool announce = options.has("announce");
  if (announce && !worker.key)
    throw Error(
        "flag '--announce': without '--key' no other machine can use this worker; give a key, or "
        "leave the flag out");
  options.settle();
  exec::ListenSocket socket(listen, worker.key.has_value());
  if (port_fd >= 0) tell_port(static_cast<int>(port_fd), socket.endpoint().port);
  if (!options.has("quiet")) out << "listening on " << to_text(socket.endpoint()) << std::endl;
  if (!options.has("quiet") && !worker.key && port_fd < 0)
    log.write("no key: only this machine can connect; for others give every device the same --key");
  std::optional<exec::Announcement> announcement;
  if (announce) announcement.emplace(socket.endpoint().port, worker.log);
  const exec::Cancellation never;
  try {
    exec::serve(std::move(socket), worker, never);
  } catch (const exec::ReportedError&) {
    if (port_fd < 0) throw;
    return 1;  // the process that started this one says why, once
  }
  return 0;
}

}  // namespace tandem::cli
