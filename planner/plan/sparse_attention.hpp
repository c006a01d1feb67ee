#pragma once

// What of a prompt's attention is left out (CSPS, 3.2.4): levels of near devices, and how many rows
// are dropped at each (docs/decisions/0052).

#include <cstdint>
#include <span>
#include <vector>

#include "model/base/range.hpp"
#include "model/cluster/cluster.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::planner {

// What is asked for by hand: so many levels, at the second one, in layers that may drop, a part
// `drop` of the rows, whether levels overlap, and tiles: for all levels alike, or for each from the
// second on; none: of a few numbers for all levels alike the one that makes the request fastest.
struct SparseRequest {
  std::int32_t levels = 2;
  double drop = 0.0;
  bool overlap = false;
  std::vector<std::int32_t> tiles{1};
  bool operator==(const SparseRequest&) const = default;
};

// The part of rows that a level drops: of all key/value heads, or of each its own.
struct DropRatio {
  std::vector<double> parts{0.0};  // one, or one for each key/value head

  [[nodiscard]] double of(std::int32_t kv_head) const {
    return parts.size() == 1 ? parts.front() : parts.at(static_cast<std::size_t>(kv_head));
  }
  [[nodiscard]] bool drops() const;
  bool operator==(const DropRatio&) const = default;
};
// Of each level a part that all heads drop.
[[nodiscard]] std::vector<DropRatio> for_all_heads(const std::vector<double>& by_level);

// Level 1 is each device's own rows, level v its group's: groups of equal number are near one
// another, and each lies within one of the next level. The last level is everybody.
struct SparseAttention {
  // By place in a prompt: its devices; groups are adjacent. The master is last, or, where a
  // strategy's places are ranks, the order is theirs.
  std::vector<model::DeviceIndex> order{};
  // Of levels 2 to the last but one, by place.
  std::vector<std::vector<std::int32_t>> groups{};
  // By layer, and by level from the second on: the part of rows that is dropped, which falls with
  // the level for no head. The first two layers and the last drop nothing.
  std::vector<std::vector<DropRatio>> drop{};
  // Whether a level attends to all of its group, as the paper prints it, nearer rows once more, or
  // to what nearer levels have not: then nothing dropped is dense attention.
  bool overlap = false;
  // By layer, and by level from the second on: into how many tiles the rows that a place asks with
  // are cut, so that one is attended while the next travels. Empty: nothing is cut.
  std::vector<std::vector<std::int32_t>> tiles{};

  [[nodiscard]] std::int32_t levels() const { return static_cast<std::int32_t>(groups.size()) + 2; }
  // The places of the group that `place` is in, at `level` from 1 on.
  [[nodiscard]] model::Range group(std::int32_t level, std::size_t place) const;
  // The part that `layer` drops at `level`, from 1 on, of a key/value head.
  [[nodiscard]] double dropped(std::int32_t layer, std::int32_t level, std::int32_t kv_head) const;
  // The tiles of a layer at `level` from 2 on, and whether any level of the layer is cut.
  [[nodiscard]] std::int32_t tiles_of(std::int32_t layer, std::int32_t level) const;
  [[nodiscard]] bool tiled(std::int32_t layer) const;
  // Cuts every layer alike: one number for all levels, or one for each.
  void set_tiles(const std::vector<std::int32_t>& by_level);
  // Runs of the key/value heads that drop alike there, ascending: of `kv_heads`, one after another.
  [[nodiscard]] std::vector<model::Range> heads_alike(std::int32_t layer, std::int32_t level,
                                                      std::int64_t kv_heads) const;
  // Whether some level of `layer` drops, or of any layer.
  [[nodiscard]] bool drops(std::int32_t layer) const;
  [[nodiscard]] bool drops() const;
  // The same levels with places in this order, as near as groups stay adjacent: each is where the
  // first of its devices is.
  [[nodiscard]] SparseAttention in_order(std::vector<model::DeviceIndex> devices) const;
  // Throws Error, as a plan says it, unless all of this holds, for these devices and layers and
  // key/value heads of `model`. `ranks`: what the order is to be; empty: the master last.
  void validate(const std::vector<model::Device>& devices, model::DeviceIndex master,
                std::span<const model::DeviceIndex> ranks, const model::Transformer& model) const;
  bool operator==(const SparseAttention&) const = default;
};

inline constexpr std::int32_t kMostLevels = 8;

// How many of `rows` are kept: ceil((1 - drop) rows), of which 1e-9 more than a whole number is not
// more; at least one of some.
[[nodiscard]] std::int32_t kept_rows(double drop, std::int32_t rows);

// By the network: the order is that of `proximity`, reversed; groups are cut where latencies differ
// most. At level 2 + n a layer that may drop keeps (1 - drop) / 2^n (the paper prints the inverse,
// which would keep more of what is farther). Throws Error if the network has no so many levels, for
// a drop outside [0, 1), for tiles of other levels, and for a cluster of one device.
[[nodiscard]] SparseAttention sparse_attention(const SparseRequest& request,
                                               const model::Cluster& cluster,
                                               model::DeviceIndex master, std::int64_t layers);

}  // namespace tandem::planner
