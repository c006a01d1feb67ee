#pragma once

// One all-reduce alone on a network like TPI-LLM's testbed: every device behind its own gateway,
// the gateways behind one core, all links equal and full-duplex. arXiv 2410.00531, section 4.1

#include <cstdint>
#include <string>
#include <vector>

#include "model/cluster/cluster.hpp"

namespace tandem::study {

struct AllreduceTestbed {
  std::int32_t devices = 8;
  model::Seconds link_latency{1e-3};             // of each of the four links between two devices
  model::BytesPerSecond bandwidth{300e6 / 8.0};  // of each link and direction
  [[nodiscard]] model::Cluster cluster() const;
};

// Returns the compared collectives, in the notation of `tandem plan --allreduce`.
[[nodiscard]] const std::vector<std::string>& compared_allreduces();

// Returns the time from the first message's start to the last one's arrival, with `columns` f32
// values a device: messages share links, additions take no time.
[[nodiscard]] model::Seconds simulated_allreduce(const AllreduceTestbed& testbed,
                                                 const std::string& allreduce,
                                                 std::int32_t columns);

}  // namespace tandem::study
