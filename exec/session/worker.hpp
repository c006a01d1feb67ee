#pragma once

// A device's process: serves one master after another.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "exec/kernels/kernel_set.hpp"
#include "exec/session/peer_session.hpp"
#include "exec/transport/key.hpp"
#include "exec/transport/listener.hpp"
#include "exec/transport/reception.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {

struct WorkerOptions {
  std::optional<Key> key;
  std::filesystem::path cache_dir;
  std::optional<std::uint64_t> cache_bytes;  // at most; see BlockStore
  bool verify = false;  // hash what is cached, even if the file is one that was hashed before
  int threads = 1;
  KernelSet kernels = default_kernel_set();
  std::string program;  // version, for `tandem discover` and kept profiles
  bool once = false;    // leave after one session
  int ledger_fd = -1;   // of an emulation on this machine; -1: links are as fast as they are
  int turn_fd = -1;     // the same; -1: nobody else computes here
  SessionTimes times;
  // One line about a session that failed or clients that were turned away; also, if `verbose`,
  // about sessions that begin and end and what they wait for. Any thread calls it, and nothing is
  // served while it blocks.
  std::function<void(const std::string& line)> log;
  bool verbose = false;
};

// A session failed, and its master was told why.
class ReportedError : public Error {
 public:
  using Error::Error;
};

// Serves masters on `socket` until cancelled, or once; a master that comes while another is served
// is told so at once. A session that fails costs one log line and nothing else; with `once` it is
// thrown as Error: as ReportedError unless it failed before its master could be told.
//   offer: the plan is checked, this device's share of it, the memory that this machine has
//   weights: of each block of the share what is neither in memory nor in the cache is received, and
//   kept in both; what was loaded stays in memory until a plan comes that does not need it
//   then channels are opened, memory is allocated, and steps are executed as they are announced
// A master that begins with an Inquiry measures this machine and its links instead
// (exec/discovery/discovery_guest.hpp).
void serve(ListenSocket socket, const WorkerOptions& options, const Cancellation& cancellation);

}  // namespace tandem::exec
