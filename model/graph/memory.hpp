#pragma once

// Peak memory of a device, by category, from what the device holds.

#include <span>
#include <vector>

#include "model/graph/storage.hpp"
#include "model/graph/task_graph.hpp"
#include "model/transformer/layer_runs.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::model {

// The part of replicated weights that a device computes with, and of the prompt that it caches.
struct Part {
  Range heads{};      // query heads
  Range columns{};    // FFN columns
  Range positions{};  // of the plan's prompt, whose keys and values it caches
  bool operator==(const Part&) const = default;
};

// The weights of a model that one device holds. Layers without a share cost nothing.
struct Share {
  LayerRuns layers{};      // the layers it computes in
  Range heads{};           // query heads, in each of those layers
  Range columns{};         // FFN columns, in each of those layers
  bool embedding = false;  // holds the embedding matrix
  bool head = false;       // holds the final norm and rows of the LM head
  // The rows of the vocabulary, if other devices hold the rest; empty: all, if `head`.
  Range vocabulary{};
  Part part{};  // of replicated weights; empty heads and columns: all
  [[nodiscard]] Range computed_heads() const { return part.heads.empty() ? heads : part.heads; }
  [[nodiscard]] Range computed_columns() const {
    return part.columns.empty() ? columns : part.columns;
  }
  bool operator==(const Share&) const = default;
};

// Returns the rows of the LM head that a device with `share` holds; empty for an encoder.
[[nodiscard]] Range head_rows(const Transformer& transformer, const Share& share);
// Returns whether the LM head of `share` is part of the embedding matrix that it also holds.
[[nodiscard]] bool head_is_embedding(const Transformer& transformer, const Share& share);

struct MemoryUse {  // bytes
  double weights = 0.0;
  double kv_cache = 0.0;
  double activations = 0.0;  // buffers of one step that hold no messages
  double buffers = 0.0;      // receive buffers, gathered weights, and slots of messages in flight
  double program = 0.0;      // code, libraries and session overhead: from a profile
  [[nodiscard]] double total() const {
    return weights + kv_cache + activations + buffers + program;
  }
  bool operator==(const MemoryUse&) const = default;
};

// The program's memory where no profile has measured it, without a session's connections and
// graphs: touched code and shared libraries, heap and stacks of `tandem` on Debian 12, x86-64.
// Measured for one device alone with 3 million parameters.
inline constexpr double kProgramBytes = 43.6 * 1024.0 * 1024.0;

// Returns the bytes of one cache block: keys and values, in their type, of all layers and key/value
// heads of `share`.
[[nodiscard]] std::int64_t cache_block_bytes(const Transformer& transformer, const Share& share);

// Returns the bytes of the weights of `share`, in their formats: every norm it uses, its heads' Wq
// and Wo, the Wk and Wv of its key/value heads (copies included), its FFN columns, embedding and
// head (once if tied).
[[nodiscard]] double weight_bytes(const Transformer& transformer, const Share& share);

// Returns the bytes of one layer's attention or FFN of a share in memory: Transformer's
// attention_bytes or ffn_bytes plus the padding that aligns each matrix and vector to 64 bytes.
// Expects at least one head or FFN column.
[[nodiscard]] std::int64_t block_extent(const Transformer& transformer, WeightBlock block,
                                        std::int32_t layer, Range columns);

// Returns the buffers of a device for tasks on all of `share`, as every strategy needs them;
// receive buffers are declared by the collectives. With `streams_head` the LM head is read in
// tiles, once for all sampled rows, so each row keeps its logits. A device without a share has no
// buffers.
[[nodiscard]] std::vector<BufferDeclaration> share_buffers(const Transformer& transformer,
                                                           const Share& share,
                                                           bool streams_head = false);

// Memory for the messages of one step at one end of a channel.
struct ChannelRoom {
  DeviceIndex peer = 0;
  bool outgoing = false;
  std::int64_t bytes = 0;
  bool operator==(const ChannelRoom&) const = default;
};

// All storage of a device except its weights.
struct DeviceStorage {
  std::vector<BufferDeclaration> buffers{};
  std::vector<ChannelRoom> channels{};
  bool operator==(const DeviceStorage&) const = default;
};

// Returns what `graph` declares for each of `devices` devices, and the memory of its messages.
[[nodiscard]] std::vector<DeviceStorage> storage_of(const TaskGraph& graph, std::size_t devices);
// Extends `storage` so that it also serves `more`. Throws logic_error if the two declare a buffer
// differently.
void widen(DeviceStorage& storage, const DeviceStorage& more);

// Returns the bytes of a device's storage: its cache, activations and buffers. Throws logic_error
// for a negative extent.
[[nodiscard]] MemoryUse memory_use(const DeviceStorage& storage, const Extents& extents);

}  // namespace tandem::model
