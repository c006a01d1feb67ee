#pragma once

// Peak memory of a device, by category, from what the device holds.

#include <span>
#include <vector>

#include "model/graph/storage.hpp"
#include "model/graph/task_graph.hpp"
#include "model/transformer/layer_runs.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::model {

// What a device computes, or keeps, of what several hold the weights of.
struct Part {
  Range heads{};      // query heads
  Range columns{};    // FFN columns
  Range positions{};  // of the plan's prompt, whose keys and values it keeps
  bool operator==(const Part&) const = default;
};

// What one device holds of the model. Layers it has no share in cost nothing.
struct Share {
  LayerRuns layers{};      // the layers it takes part in
  Range heads{};           // query heads, in each of those layers
  Range columns{};         // FFN columns, in each of those layers
  bool embedding = false;  // holds the embedding matrix
  bool head = false;       // holds the final norm and rows of the LM head
  // Those rows, of the vocabulary, where others hold the rest; empty: all, if `head`.
  Range vocabulary{};
  Part part{};  // of what others hold, too; heads and columns: all, if empty
  [[nodiscard]] Range computed_heads() const { return part.heads.empty() ? heads : part.heads; }
  [[nodiscard]] Range computed_columns() const {
    return part.columns.empty() ? columns : part.columns;
  }
  bool operator==(const Share&) const = default;
};

// The rows of the LM head that a device with `share` holds; empty of an encoder.
[[nodiscard]] Range head_rows(const Transformer& transformer, const Share& share);
// Whether the LM head of a device with `share` is rows of the embedding matrix that it holds
// besides as embedding.
[[nodiscard]] bool head_is_embedding(const Transformer& transformer, const Share& share);

struct MemoryUse {  // bytes
  double weights = 0.0;
  double kv_cache = 0.0;
  double activations = 0.0;  // buffers of one step that hold no messages
  double buffers = 0.0;      // receive buffers, gathered weights, and slots of messages in flight
  double program = 0.0;      // code, libraries, and what a session takes besides: a profile's
  [[nodiscard]] double total() const {
    return weights + kv_cache + activations + buffers + program;
  }
  bool operator==(const MemoryUse&) const = default;
};

// What the program itself takes where no profile has measured it, without connections and graphs of
// a session: code and shared libraries as far as they are touched, heap and stacks of `tandem` on
// Debian 12, x86-64. Measured of one device alone with 3 million parameters.
inline constexpr double kProgramBytes = 43.6 * 1024.0 * 1024.0;

// The bytes of one block on a device: keys and values, in their type, of all layers and key/value
// heads of `share`.
[[nodiscard]] std::int64_t cache_block_bytes(const Transformer& transformer, const Share& share);

// The bytes of the weights of `share`, in their formats: every norm it uses, its heads' Wq and Wo,
// the Wk and Wv of its key/value heads (copies included), its FFN columns, embedding and head (once
// if tied).
[[nodiscard]] double weight_bytes(const Transformer& transformer, const Share& share);

// The bytes of one layer's attention or FFN of a share as a device has it in memory: those of
// Transformer::attention_bytes or ffn_bytes, with what aligns each matrix and vector in it to 64
// bytes. Of heads or FFN columns, at least one.
[[nodiscard]] std::int64_t block_extent(const Transformer& transformer, WeightBlock block,
                                        std::int32_t layer, Range columns);

// The buffers of a device with `share`, for tasks on all of it: those of every strategy, without
// receive buffers, which are the collectives'. With `streams_head` its LM head passes by in tiles,
// once for all sampled rows, so that each row keeps its logits. A device without a share has none.
[[nodiscard]] std::vector<BufferDeclaration> share_buffers(const Transformer& transformer,
                                                           const Share& share,
                                                           bool streams_head = false);

// Room for the messages of one step at one end of a channel.
struct ChannelRoom {
  DeviceIndex peer = 0;
  bool outgoing = false;
  std::int64_t bytes = 0;
  bool operator==(const ChannelRoom&) const = default;
};

// All storage of a device but its weights.
struct DeviceStorage {
  std::vector<BufferDeclaration> buffers{};
  std::vector<ChannelRoom> channels{};
  bool operator==(const DeviceStorage&) const = default;
};

// What `graph` declares of each of `devices` devices, and the room that its messages take.
[[nodiscard]] std::vector<DeviceStorage> storage_of(const TaskGraph& graph, std::size_t devices);
// Makes `storage` serve what `more` is for as well. Throws logic_error if they declare a buffer
// differently.
void widen(DeviceStorage& storage, const DeviceStorage& more);

// The bytes of a device's storage: its cache, activations and buffers. Throws logic_error for a
// negative extent.
[[nodiscard]] MemoryUse memory_use(const DeviceStorage& storage, const Extents& extents);

}  // namespace tandem::model
