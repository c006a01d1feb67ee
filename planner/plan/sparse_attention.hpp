#pragma once

// Sparse attention of prompts (CSPS, 3.2.4): levels of near devices, and the rows dropped at each
// (docs/decisions/0052).

#include <cstdint>
#include <span>
#include <vector>

#include "model/base/range.hpp"
#include "model/cluster/cluster.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::planner {

// A request for sparse attention: the number of levels; `drop`, the part of rows dropped at the
// second one in layers that may drop; whether levels overlap; and tiles, one number for all levels
// or one for each from the second on. Without tiles the planner chooses the fastest of a few
// numbers.
struct SparseRequest {
  std::int32_t levels = 2;
  double drop = 0.0;
  bool overlap = false;
  std::vector<std::int32_t> tiles{1};
  bool operator==(const SparseRequest&) const = default;
};

// The part of rows that a level drops, for all key/value heads or for each.
struct DropRatio {
  std::vector<double> parts{0.0};  // one, or one for each key/value head

  [[nodiscard]] double of(std::int32_t kv_head) const {
    return parts.size() == 1 ? parts.front() : parts.at(static_cast<std::size_t>(kv_head));
  }
  [[nodiscard]] bool drops() const;
  bool operator==(const DropRatio&) const = default;
};
// Returns, for each level, a ratio common to all heads.
[[nodiscard]] std::vector<DropRatio> for_all_heads(const std::vector<double>& by_level);

// Level 1 is each device's own rows, level v its group's: members of a group are near one another,
// and each group lies within one of the next level. The last level is all devices.
struct SparseAttention {
  // The devices by place in a prompt; groups are adjacent. The master is last, unless the
  // strategy's places are ranks, which then set the order.
  std::vector<model::DeviceIndex> order{};
  // Group numbers of levels 2 to the last but one, by place.
  std::vector<std::vector<std::int32_t>> groups{};
  // By layer, and by level from the second on: the part of rows dropped, never decreasing with the
  // level for any head. The first two layers and the last drop nothing.
  std::vector<std::vector<DropRatio>> drop{};
  // Whether a level attends to all of its group as the paper prints it, near rows again, or only to
  // rows that nearer levels have not covered: then dropping nothing is dense attention.
  bool overlap = false;
  // By layer, and by level from the second on: the number of tiles into which a place's queries are
  // split, so that one is attended while the next travels. Empty: no tiles.
  std::vector<std::vector<std::int32_t>> tiles{};

  [[nodiscard]] std::int32_t levels() const { return static_cast<std::int32_t>(groups.size()) + 2; }
  // Returns the places of the group of `place` at `level`, from 1 on.
  [[nodiscard]] model::Range group(std::int32_t level, std::size_t place) const;
  // Returns the part of rows that `layer` drops at `level`, from 1 on, for a key/value head.
  [[nodiscard]] double dropped(std::int32_t layer, std::int32_t level, std::int32_t kv_head) const;
  // Return the tiles of a layer at `level`, from 2 on, and whether any level of the layer has
  // tiles.
  [[nodiscard]] std::int32_t tiles_of(std::int32_t layer, std::int32_t level) const;
  [[nodiscard]] bool tiled(std::int32_t layer) const;
  // Sets the same tiles in every layer: one number for all levels, or one for each.
  void set_tiles(const std::vector<std::int32_t>& by_level);
  // Returns runs of the `kv_heads` key/value heads with equal ratios, ascending.
  [[nodiscard]] std::vector<model::Range> head_runs(std::int32_t layer, std::int32_t level,
                                                    std::int64_t kv_heads) const;
  // Return whether some level of `layer`, or of any layer, drops rows.
  [[nodiscard]] bool drops(std::int32_t layer) const;
  [[nodiscard]] bool drops() const;
  // Returns the same levels with places in the given order, as far as groups stay adjacent: each
  // group is placed at its first device.
  [[nodiscard]] SparseAttention in_order(std::vector<model::DeviceIndex> devices) const;
  // Throws Error, in terms of the plan, unless the invariants hold for these devices and the layers
  // and key/value heads of `model`. `ranks`: the required order; empty: the master is last.
  void validate(const std::vector<model::Device>& devices, model::DeviceIndex master,
                std::span<const model::DeviceIndex> ranks, const model::Transformer& model) const;
  bool operator==(const SparseAttention&) const = default;
};

inline constexpr std::int32_t kMostLevels = 8;

// Returns the number of kept rows: ceil((1 - drop) rows), with a tolerance of 1e-9 above a whole
// number, and at least one of some.
[[nodiscard]] std::int32_t kept_rows(double drop, std::int32_t rows);

// Derives the levels from the network: the order is that of `proximity`, reversed; groups are cut
// where latencies differ most. Level 2 + n of a layer that may drop keeps (1 - drop) / 2^n (the
// paper prints the inverse, which would keep more of farther rows). Throws Error if the network
// does not have as many levels, for a drop outside [0, 1), for tiles of other levels, and for one
// device.
[[nodiscard]] SparseAttention sparse_attention(const SparseRequest& request,
                                               const model::Cluster& cluster,
                                               model::DeviceIndex master, std::int64_t layers);

}  // namespace tandem::planner
