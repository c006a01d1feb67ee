#pragma once

// The operations and bytes of a task, from the model's geometry alone.

#include <array>

#include "model/base/units.hpp"
#include "model/graph/task_graph.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::model {

// Activations, norms and biases are f32 everywhere; matrices are in their formats
// (model/transformer/weight_format.hpp), keys and values in the type of the cache
// (model/transformer/cache_format.hpp).
inline constexpr double kElementBytes = 4.0;

struct Work {
  double flops = 0.0;
  double bytes_read = 0.0;     // weights, cache, activations
  double bytes_written = 0.0;  // activations, cache
  double bytes_wire = 0.0;     // transfers: payload
  double bytes_disk = 0.0;     // loads and fetches: as stored on disk
  // The unit of the cost model's rates: weight bytes (project_*, ffn_*, lm_head), key and value
  // bytes of the mean row's context (attend), activation bytes (embed, fetch, norm, add, sample,
  // capture, deliver).
  double streamed_bytes = 0.0;
  // Arithmetic intensity: the number of rows that share each streamed byte. Rows of the batch; for
  // attend, times the query heads per key/value head. For f32 matrices and caches flops =
  // streamed_bytes * intensity / 2: a prompt of 8 rows does 4 flops per byte of weights.
  double intensity = 1.0;
  // Rows that a product handles one by one, whatever shares its bytes; 0: `intensity`.
  double rows = 0.0;
  // Format of the streamed weights, of the embedding's rows or (attend) of the cache; else f32.
  WeightFormat format = WeightFormat::f32;
  // Part of streamed_bytes in other formats, or that other numbers of rows share: a product's
  // second and third matrix, and what all rows use beside experts.
  struct Part {
    WeightFormat format = WeightFormat::f32;
    double bytes = 0.0;
    double intensity = 0.0;  // 0: the work's
  };
  std::array<Part, 4> others{};
};

// Returns the work of `task` in a step with `batch`. A multiply-add counts 2 flops. Equations in
// work.cpp, one per kind; for a whole layer they sum to the usual 2 * parameters * tokens plus
// attention's 4 * hidden * keys per token.
[[nodiscard]] Work work_of(const Transformer& transformer, const Batch& batch, const Task& task);

// Memory traffic of a capture or delivery on its device.
struct CopySize {
  Bytes payload{};  // on the wire
  Bytes read{};
  Bytes written{};
};
// Returns the traffic of bytes copied unchanged: each is read once and written once.
[[nodiscard]] CopySize plain_copy(Bytes payload);
// Returns the traffic of a capture or delivery of `transfer`. In formats other than f32 a capture
// also reads and writes the numbers that it rounds. Throws logic_error for other kinds.
[[nodiscard]] CopySize copy_size(TaskKind copy, const Task& transfer);
[[nodiscard]] Work copy_work(const CopySize& size);

// Returns the bytes that a span of `task` reports: from the disk (loads, and fetches, which a cpu
// lane does), on the wire, or streamed.
[[nodiscard]] double span_bytes(const Task& task, const Work& work);

}  // namespace tandem::model
