// Hosts files: any text is an address for every device but the master, or one Error.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <variant>

#include "exec/session/hosts.hpp"
#include "model/base/error.hpp"
#include "planner/search/search.hpp"

namespace {

tandem::planner::Plan small_plan() {
  using namespace tandem::model;
  Transformer llama{.name = "small",
                    .layers = 1,
                    .hidden = 6,
                    .heads = 3,
                    .kv_heads = 3,
                    .head_dim = 2,
                    .intermediate = 3,
                    .vocab = 8,
                    .max_context = 8};
  std::vector<Device> devices;
  std::vector<Link> links;
  std::vector<Edge> edges;
  for (const char* name : {"desktop", "laptop", "board"}) {
    devices.push_back({.name = name,
                       .flop_rate = FlopsPerSecond{1e9},
                       .memory_bandwidth = BytesPerSecond{1e9},
                       .memory = Bytes{1e9}});
    const auto port = static_cast<LinkIndex>(links.size());
    links.push_back({.name = std::string("port-") + name, .latency = 1_ms, .bandwidth = 100_Mbps});
    edges.push_back({.from = name, .to = "switch", .hops = {{port, Direction::up}}});
  }
  const Cluster cluster("home", devices, {"switch"}, links, edges);
  auto made = tandem::planner::make_plan({.model = llama,
                                          .cluster = cluster,
                                          .partition = "equal",
                                          .workload = {.prompt_tokens = 2, .new_tokens = 2}});
  return std::get<tandem::planner::Plan>(std::move(made));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const tandem::planner::Plan plan = small_plan();
  try {
    const auto endpoints =
        tandem::exec::parse_hosts({reinterpret_cast<const char*>(data), size}, "fuzz", plan);
    if (endpoints.size() != 3 || endpoints[1].port == 0 || endpoints[2].port == 0) std::abort();
  } catch (const tandem::Error&) {
    // The expected answer to garbage.
  }
  return 0;
}
