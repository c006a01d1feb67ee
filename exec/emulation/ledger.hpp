#pragma once

// A shared account of when each emulated link is next free.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/transport/transport.hpp"
#include "model/cluster/cluster.hpp"

namespace tandem::exec {

// Shared by the processes of one machine through a file in memory: one clock for each link
// (`shared`) or link and direction (`split_duplex`), none for `fatpipe`. Thread- and process-safe,
// lock-free.
class Ledger {
 public:
  // Throws Error with the system's reason if the kernel refuses the memory.
  explicit Ledger(const model::Cluster& cluster);
  // The ledger that another process made for an equal cluster, by the descriptor inherited from it
  // (kept open by the caller). Throws Error if it is not one.
  Ledger(const model::Cluster& cluster, int descriptor);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // To be inherited by children; stays owned by the ledger.
  [[nodiscard]] int descriptor() const { return descriptor_; }

  // Occupies every link of `hops` for `bytes`, each from when it is free but not before `start`;
  // returns when the last of them is done. Alone on the path: start + bytes / min(bandwidth), the
  // bytes pipelining over the links.
  [[nodiscard]] Clock::time_point reserve(std::span<const model::Hop> hops, std::size_t bytes,
                                          Clock::time_point start);

 private:
  struct Shared;
  struct LinkClock {
    std::size_t slot = 0;  // of a split_duplex link's upward direction
    model::Sharing sharing = model::Sharing::split_duplex;
    double seconds_per_byte = 0.0;
  };
  void lay_out(const model::Cluster& cluster);
  void map();
  std::vector<LinkClock> links_;
  std::size_t bytes_ = 0;
  int descriptor_ = -1;
  bool owns_descriptor_ = false;
  Shared* shared_ = nullptr;
};

}  // namespace tandem::exec
