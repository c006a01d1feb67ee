#pragma once

// What a task does to the machine, from the geometry alone.

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
  // What the cost model's rates are per: weight bytes (project_*, ffn_*, lm_head), key and value
  // bytes of the mean row's context (attend), activation bytes (embed, fetch, norm, add, sample,
  // capture, deliver).
  double streamed_bytes = 0.0;
  // The arithmetic intensity, as rows that share each streamed byte: rows of the batch; for attend,
  // times the query heads that a key/value head serves. So flops = streamed_bytes * intensity / 2
  // for f32 matrices and caches: a prompt of 8 rows does 4 flops a byte of weights.
  double intensity = 1.0;
  // Of the streamed weights, of the embedding's rows, or (attend) of the cache; f32 of other kinds.
  WeightFormat format = WeightFormat::f32;
  // Of streamed_bytes those that are in other formats: of a product's second and third matrix.
  struct Part {
    WeightFormat format = WeightFormat::f32;
    double bytes = 0.0;
  };
  std::array<Part, 2> others{};
};

// The format that Work::format and DeviceProfile::rate_of call this type of the cache.
[[nodiscard]] WeightFormat rated_as(CacheFormat cache);

// The work of `task` in a step with `batch`. Multiply-add counts 2 flops. Equations in work.cpp,
// one a kind; for a whole layer they sum to the usual 2 * parameters * tokens + attention's
// 4 * hidden * keys per token.
[[nodiscard]] Work work_of(const Transformer& transformer, const Batch& batch, const Task& task);

// What a capture or delivery moves in its device's memory.
struct CopySize {
  Bytes payload{};  // on the wire
  Bytes read{};
  Bytes written{};
};
// Of bytes that are copied as they are: each is read once and written once.
[[nodiscard]] CopySize plain_copy(Bytes payload);
// Of a capture or delivery of `transfer`. In formats other than f32 a capture reads numbers and
// writes them, rounded, besides the payload. Throws logic_error for other kinds.
[[nodiscard]] CopySize copy_size(TaskKind copy, const Task& transfer);
[[nodiscard]] Work copy_work(const CopySize& size);

// The bytes of `task`'s work that its span tells: bytes from the disk (loads, and fetches, which a
// cpu lane does), on the wire, or streamed.
[[nodiscard]] double span_bytes(const Task& task, const Work& work);

}  // namespace tandem::model
