#pragma once

// How a strategy shards weights, rows and caches. Search, validation, `auto`, flags and views use
// these five fields and the predicates below, never a strategy's name.

#include <cstdint>

namespace tandem::planner {

// Which weights of the layers a device holds. The master also has the embedding and the LM head.
enum class Weights : std::uint8_t {
  at_master,          // other devices hold none
  heads_and_columns,  // some query heads and FFN columns of every layer
  layers,             // some whole layers, in stages (strategy/common/stages.hpp)
  replicated,         // all of every layer
};

// Which devices compute a row of a prompt.
enum class PrefillRows : std::uint8_t {
  whole,                 // all devices with weights of a layer compute all its rows
  split,                 // one device computes a row, with all weights
  split_between_halves,  // one device adds and normalizes it, all compute its attention and FFN
  with_cache,            // the device that caches the row's keys and values
};

// Where a sequence's keys and values are cached.
enum class KvCache : std::uint8_t { at_master, by_heads, by_layers, by_position };

// Which devices compute a new token.
enum class Decode : std::uint8_t {
  master,    // the master alone
  tensor,    // all, each some heads and FFN columns
  pipeline,  // all, each some layers
  owner,     // the device that caches it, which asks the others' caches
};

struct Sharding {
  Weights weights = Weights::at_master;
  PrefillRows prefill = PrefillRows::whole;
  KvCache cache = KvCache::at_master;
  Decode decode = Decode::master;
  // Replicated weights only: devices may lack some, which a window streams or, for a prompt, other
  // devices send (Plan::gather_weights).
  bool gather_weights = false;
  bool operator==(const Sharding&) const = default;

  // The master computes alone.
  [[nodiscard]] constexpr bool is_local() const { return weights == Weights::at_master; }
  [[nodiscard]] constexpr bool splits_heads() const {
    return weights == Weights::heads_and_columns;
  }
  [[nodiscard]] constexpr bool splits_layers() const { return weights == Weights::layers; }
  [[nodiscard]] constexpr bool splits_weights() const { return splits_heads() || splits_layers(); }
  [[nodiscard]] constexpr bool replicates() const { return weights == Weights::replicated; }
  // Each device computes a part of replicated weights (Share::part) where rows are not split.
  [[nodiscard]] constexpr bool divides_work() const {
    return replicates() && cache == KvCache::by_heads;
  }
  // Several devices cache a prompt's positions (Share::part). Such a plan is for one request, whose
  // prompt has the plan's length, with at most the plan's new tokens; or for several of any lengths
  // within its capacity, each of which a scheduler places (model::Place).
  [[nodiscard]] constexpr bool splits_positions() const { return cache == KvCache::by_position; }
  // A plan has a partition.
  [[nodiscard]] constexpr bool has_partition() const { return cache != KvCache::at_master; }
  // A plan has an all-reduce and a layout.
  [[nodiscard]] constexpr bool has_collective() const { return splits_heads() || replicates(); }
  // New tokens do not use the collective, so the plan's one collective is for prompts.
  [[nodiscard]] constexpr bool joins_prompts_only() const {
    return replicates() && decode != Decode::tensor;
  }
  // The messages of a prompt depend on the rows whose results are needed.
  [[nodiscard]] constexpr bool splits_rows() const {
    return prefill == PrefillRows::split || prefill == PrefillRows::split_between_halves;
  }
  // Every layer of a prompt exchanges a device's rows for its heads, and back: products can overlap
  // with these messages (Plan::tiles), and attention can drop far rows (Plan::sparse).
  [[nodiscard]] constexpr bool exchanges_rows() const {
    return splits_rows() && cache == KvCache::by_heads;
  }
  // With sparse attention, rows are in the order of Plan::layout; else the master has the last
  // ones.
  [[nodiscard]] constexpr bool sparse_by_rank() const { return exchanges_rows() && splits_heads(); }
  // Measured losses by levels and ratios apply to it, with the master's rows last.
  [[nodiscard]] constexpr bool measures_losses() const {
    return exchanges_rows() && !sparse_by_rank();
  }
  // Devices other than the master may hold rows of the LM head (strategy/common/head.hpp).
  [[nodiscard]] constexpr bool may_split_head() const {
    return decode == Decode::tensor || decode == Decode::pipeline;
  }
  // Weights may stream through a window.
  [[nodiscard]] constexpr bool may_stream() const { return !replicates() || gather_weights; }
  // Devices other than a new token's owner may compute its FFN columns
  // (planner/search/token_ffn.hpp).
  [[nodiscard]] constexpr bool shares_token_ffn() const { return decode == Decode::owner; }
};

}  // namespace tandem::planner
