#pragma once

// A worker's side of a shipment: takes the weights of its share, as far as it lacks them. Private
// to the worker.

#include <cstdint>
#include <string>
#include <vector>

#include "exec/session/peer_session.hpp"
#include "exec/weights/source/layout.hpp"
#include "exec/weights/store/block_assembly.hpp"
#include "exec/weights/store/block_store.hpp"
#include "exec/weights/store/resident_blocks.hpp"

namespace tandem::exec {

struct IntakeCounts {
  std::size_t in_memory = 0;  // blocks
  std::size_t in_store = 0;
  std::size_t put_together = 0;  // of pieces that were here, and others that were sent
  std::uint64_t received_bytes = 0;
  std::uint64_t total_bytes = 0;
};
// "14 blocks of 96 MB: 2 in memory, 11 in the cache, 1 put together, 1.3 MB received"
[[nodiscard]] std::string to_text(const IntakeCounts& counts);

class WeightIntake {
 public:
  // All outlive it.
  WeightIntake(Session& session, model::DeviceIndex master, BlockStore& store,
               const ResidentBlocks& memory);

  // The blocks of `layout`, once the master has offered them all and sent what was missing. With
  // `files` every one is there as a file too; without, what is in memory need not be. Throws Error:
  // the master offers what does not fit the layout, sends other bytes than it announced, the disk
  // is full, the session has failed.
  [[nodiscard]] std::vector<BlockFile> take(const model::Transformer& transformer,
                                            const ShardLayout& layout, bool files);
  [[nodiscard]] const IntakeCounts& counts() const { return counts_; }

 private:
  struct Wanted {
    BlockLabel label;
    std::optional<BlockFile> file{};
    std::vector<std::uint32_t> lacking{};
  };
  [[nodiscard]] std::optional<BlockFile> find(const BlockLabel& label, bool files);
  void obtain(std::vector<Wanted>& wanted);
  // What can be put together of pieces that are here.
  void assemble_here(std::vector<Wanted>& wanted);
  void receive(Wanted& wanted);
  [[nodiscard]] WeightProgress progress();

  Session* session_;
  model::DeviceIndex master_;
  BlockStore* store_;
  const ResidentBlocks* memory_;
  PieceIndex index_;
  IntakeCounts counts_;
  std::uint64_t before_ = 0;  // bytes of the blocks that are done
};

}  // namespace tandem::exec
