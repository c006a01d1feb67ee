#pragma once

// TPI-LLM's system on its testbeds, for reproducing its tables: the time of a run by the simulator,
// its memory by the paper's Proposition 5, and the constants that the paper does not state. arXiv
// 2410.00531

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/base/csv.hpp"
#include "model/cluster/cluster.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "model/transformer/transformer.hpp"
#include "study/experiment/experiment.hpp"

namespace tandem::study {

// The paper's "GB" are GiB: its Table 5 gives Llama 2-70B 257 GB, and 68.98e9 parameters of 4 bytes
// are 276e9 bytes, 257 GiB.
inline constexpr double kPaperGB = 1024.0 * 1024.0 * 1024.0;

// Identities of printed numbers (ExperimentRow::printed) that two tables print: peak memory of a
// run on so many devices, which Tables 1, 2 and 6 repeat.
[[nodiscard]] std::string printed_memory(const std::string& quantity, const std::string& model,
                                         std::int64_t devices, std::int64_t window);

// Parses "OOM" or a number; empty: none. Throws Error naming the file's row otherwise.
[[nodiscard]] Reading paper_reading(const model::Csv& csv, std::size_t row,
                                    std::string_view column);

struct Testbed {
  model::Cluster cluster;
  // Slowdown of its software relative to nominal rates.
  double slowdown = 1.0;
  std::int64_t prompt_tokens = 1;
};

// Returns the cluster with links that take no time.
[[nodiscard]] model::Cluster without_network(const model::Cluster& cluster);

struct RunTimes {
  double ttft_s = 0.0;
  double latency_s = 0.0;              // mean of the later tokens
  std::vector<double> loaded_bytes{};  // from disk in a pass, by device
};

// Returns tandem's window for the paper's `window`: one block less. The authors' scheduler
// (mem_manager.py, modeling_llama.py) waits at the beginning of a layer until its window is loaded,
// counts the block that computes in it, and loads the next one when a block has been computed. So
// with a window of two nothing is loaded while attention computes. tandem's window of one, released
// early, loads while messages travel and never while a block computes; its window of two loads
// during both. Chosen after seeing first tokens, which follow it.
[[nodiscard]] constexpr std::int32_t streamed_window(std::int32_t window) { return window - 1; }

// Simulates `strategy` with equal shares and unlimited memory. `window`: blocks, 0: none.
// `allreduce`: another than the strategy's own; `galaxy` takes one tile.
[[nodiscard]] RunTimes simulated_run(const Testbed& testbed, const model::Transformer& transformer,
                                     const std::string& strategy, std::int32_t window,
                                     const std::optional<std::string>& allreduce = {});

// Returns the bytes that tandem's plan of simulated_run's strategy `tensor` needs on its fullest
// device.
[[nodiscard]] double planned_memory(const Testbed& testbed, const model::Transformer& transformer,
                                    std::int32_t window);

// Peak bytes of the fullest of `devices` equal devices.
//   without the scheduler   program + 4 bytes a parameter of the master's share
//   with it                 program + gamma 4 bytes a parameter of Proposition 5's window
// Key/value cache and activations, a few MB for these workloads, are part of `program`.
struct TpiMemory {
  double program_bytes = 0.0;
  double gamma = 1.0;
  [[nodiscard]] double whole(const model::Transformer& transformer, std::int64_t devices) const;
  [[nodiscard]] double windowed(const model::Transformer& transformer, std::int64_t devices,
                                std::int64_t window) const;
  // The same of a device that is not the master.
  [[nodiscard]] double windowed_worker(const model::Transformer& transformer, std::int64_t devices,
                                       std::int64_t window) const;
  // Returns the memory with its two constants calibrated by rows of Tables 1 and 2.
  [[nodiscard]] static TpiMemory calibrated(const Scenarios& scenarios);
};

// Returns the x in [low, high] for which the monotone f(x) is `target`, to 1e-4 of x; the nearer
// end if there is none.
[[nodiscard]] double solve(const std::function<double(double)>& f, double target, double low,
                           double high);

// Returns "1.24 GB/s" and the like, for remarks.
[[nodiscard]] std::string rate_text(double bytes_per_second);

}  // namespace tandem::study
