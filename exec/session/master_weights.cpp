#include "exec/session/master_weights.hpp"

#include <utility>
#include <vector>

#include "exec/weights/mapped_weights.hpp"
#include "exec/weights/model_folder.hpp"
#include "exec/weights/source/layout.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {

MasterWeights::MasterWeights(const planner::Plan& plan, const SessionOptions& options,
                             Session& session, MasterVoice& voice)
    : plan_(&plan),
      options_(&options),
      session_(&session),
      voice_(&voice),
      store_(options.cache_dir, options.cache_bytes,
             options.verify ? Trust::nothing : Trust::records),
      shipment_(session) {}

const std::string& MasterWeights::name(model::DeviceIndex d) const {
  return plan_->cluster.devices()[static_cast<std::size_t>(d)].name;
}

const model::Share& MasterWeights::share_of(model::DeviceIndex d) const {
  return plan_->devices[static_cast<std::size_t>(d)].share;
}

// For the session's thread.
const BlockMaker& MasterWeights::maker() {
  if (maker_) return *maker_;
  maker_ = std::make_unique<BlockMaker>(options_->weights, plan_->model, store_);
  if (const std::string remark = rounding_remark(maker_->weights(), plan_->model); !remark.empty())
    voice_->warn(remark);
  return *maker_;
}

// Of one block, before which `before` bytes of the share's `total` are done.
BlockMakerOptions MasterWeights::options_for(model::DeviceIndex d, const std::string& whose,
                                             std::uint64_t before, std::uint64_t total) {
  const auto tell = [=, this](const std::string& what, std::uint64_t done) {
    session_->check();
    session_->activity().enter(Phase::slicing, d, total);
    session_->activity().advance(before + done);
    voice_->stage(what + whose + ": " + std::to_string((before + done) * 100 / total) + "%");
  };
  BlockMakerOptions options;
  options.slicing = [tell](std::uint64_t done, std::uint64_t /*of_block*/) {
    tell("slicing the weights of ", done);
  };
  options.verifying = [tell](std::uint64_t done, std::uint64_t /*of_block*/) {
    tell("checking the weights of ", done);
  };
  options.on_damage = [this](const std::string& text) { voice_->warn(text); };
  return options;
}

void MasterWeights::offer(std::span<const model::DeviceIndex> peers, const PlanOffer& offer) {
  for (const model::DeviceIndex d : peers) shipment_.open(d, name(d), offer);
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const model::DeviceIndex d = peers[i];
    const std::string whose =
        name(d) + " (" + std::to_string(i + 1) + " of " + std::to_string(peers.size()) + ")";
    voice_->stage("preparing the weights of " + whose);
    session_->activity().enter(Phase::slicing, d);
    const ShardLayout layout = layout_of(plan_->model, share_of(d));
    for (const LayoutBlock& block : layout.blocks) {
      session_->check();
      BlockMakerOptions options = options_for(d, whose, block.offset, layout.bytes);
      options.verify = options_->verify;
      MadeBlock made = maker().make(block, options);
      options.verify = true;
      shipment_.add(
          d, {.block = std::move(made), .checked = [this, block, options = std::move(options)] {
                return maker_->make(block, options);
              }});
    }
    shipment_.close(d);
  }
}

DeviceWeights MasterWeights::load(const StepGraphs& graphs) {
  const model::Share& share = share_of(plan_->master);
  if (!streams(graphs, plan_->master)) {
    voice_->stage("loading the master's weights");
    session_->activity().enter(Phase::loading);
    // Others gather it from where it lies, in blocks, which a file has not.
    if (options_->place == WeightPlace::mapped && plan_->gather_weights) {
      throw Error("device " + name(plan_->master) +
                  ": weights mapped from their file, expected copied ones, as other devices gather "
                  "them; leave out '--map'");
    }
    if (options_->place != WeightPlace::copied && !plan_->gather_weights) {
      return {
          .shard = Shard::mapped(
              maker().weights(), plan_->model, share,
              {.threads = options_->threads,
               .notes = store_.has_folder() ? store_.folder() / "seen" : std::filesystem::path(),
               .believe = !options_->verify,
               .may_copy = options_->place == WeightPlace::chosen,
               .progress =
                   [this](std::uint64_t done, std::uint64_t total) {
                     session_->check();
                     session_->activity().enter(Phase::loading, Activity::kNobody, total);
                     session_->activity().advance(done);
                   }}),
          .window = nullptr};
    }
    // Of the same files, as they were opened, that the workers' blocks are made of.
    return {.shard = Shard::slice(maker().weights(), plan_->model, share), .window = nullptr};
  }
  voice_->stage("preparing the weights of " + name(plan_->master));
  session_->activity().enter(Phase::slicing, plan_->master);
  const ShardLayout layout = layout_of(plan_->model, share);
  std::vector<BlockFile> files;
  for (const LayoutBlock& block : layout.blocks) {
    BlockMakerOptions options =
        options_for(plan_->master, name(plan_->master), block.offset, layout.bytes);
    options.verify = true;
    files.push_back(maker().make(block, options).file);
  }
  ResidentBlocks memory;
  return open_weights_of(*plan_, plan_->master, graphs, files, memory);
}

void MasterWeights::finish() {
  shipment_.finish([this](const std::string& text) { voice_->stage(text); });
}

}  // namespace tandem::exec
