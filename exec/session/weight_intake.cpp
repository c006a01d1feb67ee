#include "exec/session/weight_intake.hpp"

#include <algorithm>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"

namespace tandem::exec {
namespace {

std::string bytes_text(std::uint64_t bytes) {
  return model::to_text(model::Bytes{static_cast<double>(bytes)});
}

}  // namespace

std::string to_text(const IntakeCounts& counts) {
  return std::to_string(counts.in_memory + counts.in_store + counts.put_together) + " blocks of " +
         bytes_text(counts.total_bytes) + ": " + std::to_string(counts.in_memory) + " in memory, " +
         std::to_string(counts.in_store) + " in the cache, " + std::to_string(counts.put_together) +
         " put together, " + bytes_text(counts.received_bytes) + " received";
}

WeightIntake::WeightIntake(Session& session, model::DeviceIndex master, BlockStore& store,
                           const ResidentBlocks& memory)
    : session_(&session), master_(master), store_(&store), memory_(&memory), index_(store) {}

std::vector<BlockFile> WeightIntake::take(const model::Transformer& transformer,
                                          const ShardLayout& layout, bool files) {
  std::vector<BlockFile> taken;
  counts_.total_bytes = layout.bytes;
  while (taken.size() < layout.blocks.size()) {
    session_->activity().enter(Phase::waiting);
    const auto offer = session_->control().expect<BlocksOffer>(master_);
    const std::size_t left = layout.blocks.size() - taken.size();
    if (offer.blocks.empty() || offer.blocks.size() > left) {
      throw Error("master: offers " + std::to_string(offer.blocks.size()) +
                  " blocks of weights, expected 1 to " + std::to_string(left) +
                  "; install the same tandem on every device");
    }
    std::vector<Wanted> wanted;
    for (const std::vector<model::Digest>& digests : offer.blocks) {
      const LayoutBlock& block = layout.blocks[taken.size() + wanted.size()];
      BlockPieces pieces = pieces_of(transformer, block);
      if (digests.size() != pieces.count) {
        throw Error("master: offers a block of " + std::to_string(digests.size()) +
                    " pieces of weights, expected " + std::to_string(pieces.count) +
                    "; install the same tandem on every device");
      }
      wanted.push_back({.label = BlockLabel(std::move(pieces), digests)});
    }
    session_->activity().enter(Phase::checking, Activity::kNobody, layout.bytes);
    for (Wanted& block : wanted) {
      block.file = find(block.label, files);
      if (block.file) before_ += block.file->bytes;
      session_->activity().advance(before_);
    }
    obtain(wanted);
    for (Wanted& block : wanted) taken.push_back(std::move(*block.file));
  }
  return taken;
}

std::optional<BlockFile> WeightIntake::find(const BlockLabel& label, bool files) {
  session_->check();
  std::optional<BlockFile> file = store_->find(label);
  if (!files && memory_->contains(label.id())) {
    ++counts_.in_memory;
    if (file) return file;
    return BlockFile{{}, label.id(), label.pieces().bytes, nullptr};
  }
  if (!file || !store_->check(*file, label, progress())) return std::nullopt;
  ++counts_.in_store;
  return file;
}

void WeightIntake::obtain(std::vector<Wanted>& wanted) {
  while (true) {
    assemble_here(wanted);
    BlocksWanted answer;
    for (const Wanted& block : wanted) answer.blocks.push_back(block.lacking);
    const bool complete =
        std::ranges::all_of(wanted, [](const Wanted& block) { return block.file.has_value(); });
    if (!complete) {
      session_->activity().enter(Phase::receiving, Activity::kNobody, counts_.total_bytes);
      session_->activity().advance(before_);
    }
    session_->control().send(master_, answer);
    if (complete) return;
    for (Wanted& block : wanted) {
      if (!block.file) receive(block);
    }
  }
}

void WeightIntake::assemble_here(std::vector<Wanted>& wanted) {
  for (Wanted& block : wanted) {
    block.lacking.clear();
    while (!block.file) {
      block.lacking = index_.lacking(block.label);
      if (!block.lacking.empty()) break;
      BlockAssembly assembly(index_, block.label, {}, progress());
      assembly.append({});
      block.file = assembly.finish();
      if (!block.file) continue;
      ++counts_.put_together;
      before_ += block.file->bytes;
    }
  }
}

void WeightIntake::receive(Wanted& block) {
  BlockAssembly assembly(index_, block.label, block.lacking, progress());
  assembly.append({});
  while (!assembly.complete()) {
    const auto chunk = session_->control().expect<WeightChunk>(master_);
    counts_.received_bytes += chunk.bytes.size();
    session_->activity().tick();
    if (chunk.bytes.empty() || assembly.append(chunk.bytes) != chunk.bytes.size()) {
      throw Error("master: sends " + std::to_string(chunk.bytes.size()) +
                  " bytes of weights, expected the rest of a block; install the same tandem on "
                  "every device");
    }
  }
  block.file = assembly.finish();
  if (!block.file) return;  // a donor was damaged: asked for once more
  ++counts_.put_together;
  before_ += block.file->bytes;
}

// Of work that waits for nobody: the master is told how far it is, and may end it.
WeightProgress WeightIntake::progress() {
  return [this](std::uint64_t done, std::uint64_t /*total*/) {
    session_->check();
    session_->activity().advance(before_ + done);
  };
}

}  // namespace tandem::exec
