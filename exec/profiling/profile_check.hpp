#pragma once

// How well a profile predicts tasks of sizes that it was not fitted to.

#include <vector>

#include "exec/profiling/profile.hpp"
#include "model/graph/task_graph.hpp"
#include "model/predict/device_profile.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

struct HeldOutErrors {
  model::TaskKind kind = model::TaskKind::norm;
  model::WeightFormat format = model::WeightFormat::f32;  // of the weights, where it reads any
  std::vector<double> errors{};  // predicted / measured - 1, one for each size
};

// Measures half of `transformer`'s heads, columns and vocabulary, with `kernels`, of which
// `profile` must be, and with its threads, on single tokens and prompts of sizes that
// ProfileOptions does not name, a few seconds for each format that `profile` has rates of, and
// compares with its predictions. Of kinds that it has no rates of there are none. Throws
// logic_error unless the profile has threads.
[[nodiscard]] std::vector<HeldOutErrors> check_profile(const model::Transformer& transformer,
                                                       const model::DeviceProfile& profile,
                                                       KernelSet kernels,
                                                       double stream_bytes = 0.0);

}  // namespace tandem::exec
