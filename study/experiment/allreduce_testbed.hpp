#pragma once

// One all-reduce alone on a network like TPI-LLM's testbed: every device behind a gateway of its
// own, the gateways behind one core, all links equal and full-duplex. arXiv 2410.00531, section 4.1

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

// The collectives that are compared, as `tandem plan --allreduce` names them.
[[nodiscard]] const std::vector<std::string>& compared_allreduces();

// From the first message's start to the last one's arrival, each device having `columns` f32
// values: messages share links, additions take no time.
[[nodiscard]] model::Seconds simulated_allreduce(const AllreduceTestbed& testbed,
                                                 const std::string& allreduce,
                                                 std::int32_t columns);

}  // namespace tandem::study
