#pragma once

// The weights of a session: slices them for the workers, ships them, loads the master's own.
// Private to the master.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "exec/session/master_voice.hpp"
#include "exec/session/peer_session.hpp"
#include "exec/session/shipment.hpp"
#include "exec/weights/store/block_maker.hpp"

namespace tandem::exec {

class MasterWeights {
 public:
  // All outlive it.
  MasterWeights(const planner::Plan& plan, const SessionOptions& options, Session& session,
                MasterVoice& voice);

  // Offers the plan to `peers`; slices their weights, one device after the other, and ships each
  // block as soon as it is there. Throws Error if a worker refuses, or a block cannot be made.
  void offer(std::span<const model::DeviceIndex> peers, const PlanOffer& offer);
  // The master's own: in SessionOptions::place, or a window on them.
  [[nodiscard]] DeviceWeights load(const StepGraphs& graphs);
  // Returns when every worker has its weights.
  void finish();
  [[nodiscard]] const ShippedWeights& shipped() const { return shipment_.shipped(); }

 private:
  [[nodiscard]] const std::string& name(model::DeviceIndex d) const;
  [[nodiscard]] const model::Share& share_of(model::DeviceIndex d) const;
  [[nodiscard]] const BlockMaker& maker();
  [[nodiscard]] BlockMakerOptions options_for(model::DeviceIndex d, const std::string& whose,
                                              std::uint64_t before, std::uint64_t total);

  const planner::Plan* plan_;
  const SessionOptions* options_;
  Session* session_;
  MasterVoice* voice_;
  BlockStore store_;
  std::unique_ptr<BlockMaker> maker_;
  Shipment shipment_;  // last: its threads use the others
};

}  // namespace tandem::exec
