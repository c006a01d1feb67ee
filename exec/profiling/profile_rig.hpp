#pragma once

// What a profile is measured on: devices of the given geometry that run forward steps, and a clock
// around each task.

#include <cstdint>
#include <optional>
#include <vector>

#include "exec/compute/compute.hpp"
#include "exec/compute/sampling.hpp"
#include "exec/profiling/profile_log.hpp"
#include "model/graph/task_graph.hpp"
#include "model/graph/work.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

// Rows up to which a step is taken to be new tokens of some sequences, beyond to be a prompt.
inline constexpr std::int32_t kNewTokenRows = 8;

// Seconds on the clock that profiles use: with one thread the CPU time of the calling thread, so
// that a busy machine lengthens no measurement; else time on the wall.
class ProfileClock {
 public:
  explicit ProfileClock(int threads);
  [[nodiscard]] double now() const;
  [[nodiscard]] double cost() const { return cost_; }  // of reading it
 private:
  bool thread_time_;
  double cost_ = 0.0;
};

// A part of the model that runs whole steps, in the order and cache state of a real one.
class ProfileRig {
 public:
  struct Options {
    model::Transformer transformer;
    double fraction = 1.0;     // of heads and FFN columns
    double layer_bytes = 0.0;  // at least this much of weights, in several layers
    std::int32_t max_rows = 1;
    std::int32_t max_positions = 1;
    int threads = 1;
    KernelSet kernels = default_kernel_set();
  };
  explicit ProfileRig(const Options& options);
  // Bytes that a rig of `options` allocates.
  [[nodiscard]] static double memory_bytes(const Options& options);
  // From now on tasks compute with so many threads.
  void set_threads(int threads);

  // One step of `rows` tokens after `past` through `layers` layers, or all there are; every task's
  // time goes to `log`. It begins at the layer where the step before ended, so that a layer's
  // weights have been displaced from caches by those of all others when it is used again.
  void step(std::int32_t rows, std::int32_t past, std::int32_t layers, const ProfileClock& clock,
            ProfileLog& log);
  // Of all layers.
  [[nodiscard]] double weight_bytes() const { return model::weight_bytes(transformer_, share_); }

 private:
  // What is beside attention where positions are spread or rows dropped: the `rows` of `layer`
  // scored, half of them chosen, gathered and attended to, and merged with the others.
  void drop_half(const model::Batch& batch, std::int32_t layer, std::int32_t rows,
                 const ProfileClock& clock, ProfileLog& log);
  // What a message of the partial sums costs the thread that computes.
  void copy(std::int32_t rows, const ProfileClock& clock, ProfileLog& log);
  void run(const model::Batch& batch, const model::Task& task, const ProfileClock& clock,
           ProfileLog& log);

  model::Transformer transformer_;
  model::Share share_;
  Shard shard_;
  ComputeLimits limits_;
  std::optional<Compute> compute_{};  // always, but for moments of set_threads()
  // The `index`th payload of so many floats; they come round again.
  [[nodiscard]] std::span<float> slot(std::size_t floats, std::size_t index);
  std::vector<float> slots_;  // of messages
  std::size_t next_slot_ = 0;
  std::int32_t next_layer_ = 0;
};

// Embedding, final norm, LM head and sampling, for `sequences` at once.
class ProfileHead {
 public:
  ProfileHead(const model::Transformer& transformer, std::int64_t vocab, std::int32_t max_rows,
              std::int32_t sequences, int threads, KernelSet kernels);
  // Bytes that such a head allocates.
  [[nodiscard]] static double memory_bytes(const model::Transformer& transformer,
                                           std::int64_t vocab, std::int32_t max_rows,
                                           std::int32_t sequences);
  void set_threads(int threads);
  [[nodiscard]] std::int32_t sequences() const { return sequences_; }
  void step(std::int32_t rows, const ProfileClock& clock, ProfileLog& log);

 private:
  model::Transformer transformer_;
  std::int32_t sequences_;
  Shard shard_;
  ComputeLimits limits_;
  std::optional<Compute> compute_{};
  Sampler sampler_;
};

// A fraction of a model's heads, FFN columns and vocabulary: of layers of at most 32 million
// elements, but with one head at least, and a head of at most 16 million. What larger ones take is
// extrapolated in columns, of which time is an affine function.
class ProfilePart {
 public:
  struct Sizes {
    double layer_bytes = 0.0;  // as of the rig
    std::int32_t max_rows = 1;
    std::int32_t max_positions = 1;
    int threads = 1;
    KernelSet kernels = default_kernel_set();
  };
  ProfilePart(const model::Transformer& transformer, double fraction, const Sizes& sizes);
  // Bytes that such a part allocates, without code and what threads compute in.
  [[nodiscard]] static double memory_bytes(const model::Transformer& transformer, double fraction,
                                           const Sizes& sizes);
  void set_threads(int threads);

  // One step of new tokens, of up to 16 sequences, through all layers and the head; or of a prompt,
  // which computes for long with each byte of weights, so that one layer tells what all take, and
  // the head with 16 sequences.
  void step(std::int32_t rows, std::int32_t past, const ProfileClock& clock, ProfileLog& log);
  // Seconds of one layer for kNewTokenRows rows, the mean of some milliseconds: how fast the
  // machine is at this moment.
  [[nodiscard]] double reference_s(const ProfileClock& clock);

 private:
  ProfileRig rig_;
  ProfileHead head_;
};

}  // namespace tandem::exec
