// The checks of a plan's invariant (Plan::validate), including its strategy's part.

#include <algorithm>
#include <span>
#include <string>

#include "model/base/error.hpp"
#include "model/base/limits.hpp"
#include "model/graph/candidates.hpp"
#include "planner/collective/collective.hpp"
#include "planner/plan/plan.hpp"
#include "planner/strategy/common/head.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/model_support.hpp"
#include "planner/strategy/common/stages.hpp"

namespace tandem::planner {
namespace {

using model::Range;

// No existing transformer has more; a plan with more is damaged or hostile.
constexpr std::int64_t kMaxLayers = 1000;
// Limit over all devices: a graph has about a dozen tasks for each, and a peer must not fill
// memory.
constexpr std::int64_t kMaxDeviceLayers = std::int64_t{1} << 19;

// Limit over all sums of a step: a ring's tasks grow with the square of the devices.
constexpr std::int64_t kMaxSumTasks = std::int64_t{1} << 23;

constexpr const char* kRemedy = "; make the plan again with `tandem plan`";

void check_within(Range range, std::int64_t total, const std::string& subject) {
  if (0 <= range.begin && range.begin <= range.end && range.end <= total) return;
  throw Error(subject + ": [" + std::to_string(range.begin) + ", " + std::to_string(range.end) +
              "): expected a range within [0, " + std::to_string(total) + ")" + kRemedy);
}

void check_size(std::size_t size, std::size_t devices, const std::string& subject) {
  if (size == devices) return;
  throw Error(
      "plan: " + subject + ": " + std::to_string(size) + ": expected " +
      (devices == 0 ? "none" : "one for each of the " + std::to_string(devices) + " devices") +
      kRemedy);
}

void check_bytes(const model::MemoryUse& memory, const std::string& subject) {
  for (const double bytes :
       {memory.weights, memory.kv_cache, memory.activations, memory.buffers, memory.program}) {
    if (bytes >= 0.0 && bytes <= model::limits::kMostBytes) continue;
    throw Error(subject + ": memory of " + std::to_string(bytes) +
                " bytes: expected numbers from 0 to 1e18" + kRemedy);
  }
}

void check_allreduce(const Plan& plan, bool splits) {
  for (const std::string& text : {plan.allreduce.prompt, plan.allreduce.decode}) {
    if (!splits) {
      if (text.empty()) continue;
      throw Error("plan: allreduce '" + text + "': expected none with strategy '" + plan.strategy +
                  "'" + kRemedy);
    }
    const Collective& collective = *parse_allreduce(text).collective;
    const std::int64_t tasks = collective.tasks(plan.cluster.size());
    if (tasks <= kMaxSumTasks / (2 * plan.model.layers)) continue;
    throw Error("plan: allreduce '" + text + "': " + std::to_string(tasks) + " tasks for " +
                std::to_string(plan.cluster.size()) + " devices, twice in each of " +
                std::to_string(plan.model.layers) + " layers: expected at most " +
                std::to_string(kMaxSumTasks) + " in all; plan with '--allreduce star'");
  }
}

void check_group_strategy(const Plan& plan) {
  if (plan.group_strategy.empty()) return;
  const auto refuse = [&](const std::string& expected) {
    throw Error("plan: group strategy '" + plan.group_strategy + "': expected " + expected +
                kRemedy);
  };
  if (plan.group_strategy != kGalaxyGroups) refuse("'galaxy', or none");
  if (!sharding_of(plan).splits_layers() || !has_groups(plan))
    refuse("none, as no stage is of several devices");
  if (has_rounds(plan)) refuse("none with several rounds");
}

void check_moves(const Plan& plan) {
  if (plan.decode_moves == DecodeMoves::queries) return;
  const std::vector<DecodeMoves> known = find_strategy(plan.strategy).moves();
  const std::string moves = "plan: keys and values that move ('decode_moves' " +
                            std::string(to_string(plan.decode_moves)) + "): expected ";
  if (known.size() == 1) {
    throw Error(moves + "none with strategy '" + plan.strategy +
                "', whose caches are not parted by positions" + kRemedy);
  }
  if (std::ranges::find(known, plan.decode_moves) == known.end()) {
    std::string names;
    for (const DecodeMoves one : known)
      names += (names.empty() ? "" : " or ") + std::string(to_string(one));
    throw Error(moves + names + " with strategy '" + plan.strategy + "'" + kRemedy);
  }
  if (plan.decode_moves == DecodeMoves::keys_once && plan.workload.steps() < 2) {
    throw Error(moves + "none with fewer than 2 new tokens (here " +
                std::to_string(plan.workload.new_tokens) +
                "), as nothing is computed after the prompt; leave it out");
  }
}

void check_gathering(const Plan& plan) {
  if (!plan.gather_weights) return;
  const auto refuse = [](const std::string& expected) {
    throw Error("plan: weights that travel ('gather_weights'): expected " + expected + kRemedy);
  };
  if (!sharding_of(plan).gather_weights) refuse("none with strategy '" + plan.strategy + "'");
  if (plan.sparse) refuse("none with levels, whose rows are projected apart");
  if (plan.cluster.size() < 2) refuse("none with one device, which has them all");
}

void check_tiles(const Plan& plan) {
  const std::int32_t most = has_tiles(plan) ? kMostTiles : 0;
  if (0 <= plan.tiles && plan.tiles <= most) return;
  throw Error("plan: tiles " + std::to_string(plan.tiles) + ": expected " +
              (has_tiles(plan) ? "0 to " + std::to_string(most) : "0") + " with strategy '" +
              plan.strategy + "'" + kRemedy);
}

// Checks the tiles of levels; empty tiles need no check.
void check_tiles(const SparseAttention& sparse, const Strategy& strategy) {
  if (sparse.tiles.empty()) return;
  const std::string subject = "plan: sparse attention: tiles";
  if (strategy.sharding.sparse_by_rank())
    throw Error(subject + ": expected none with strategy '" + strategy.name +
                "', of which nothing travels by level" + kRemedy);
  if (sparse.tiles.size() != sparse.drop.size())
    throw Error(subject + " of " + std::to_string(sparse.tiles.size()) +
                " layers: expected those of " + std::to_string(sparse.drop.size()) + kRemedy);
  for (std::size_t layer = 0; layer < sparse.tiles.size(); ++layer) {
    const std::vector<std::int32_t>& by_level = sparse.tiles[layer];
    const std::string of = subject + " of layer " + std::to_string(layer) + ": ";
    if (static_cast<std::int32_t>(by_level.size()) != sparse.levels() - 1)
      throw Error(of + std::to_string(by_level.size()) + " numbers: expected " +
                  std::to_string(sparse.levels() - 1) + ", of levels 2 to " +
                  std::to_string(sparse.levels()) + kRemedy);
    for (const std::int32_t count : by_level) {
      if (count < 1 || count > kMostTiles)
        throw Error(of + std::to_string(count) + ": expected 1 to " + std::to_string(kMostTiles) +
                    kRemedy);
    }
  }
}

void check_sparse(const Plan& plan) {
  if (!plan.sparse) return;
  const Strategy& strategy = find_strategy(plan.strategy);
  if (!strategy.sharding.exchanges_rows()) {
    throw Error("plan: sparse attention: expected none with strategy '" + plan.strategy + "'" +
                kRemedy);
  }
  check_tiles(*plan.sparse, strategy);
  const std::span<const model::DeviceIndex> ranks(plan.layout.order);
  plan.sparse->validate(
      plan.cluster.devices(), plan.master,
      strategy.sharding.sparse_by_rank() ? ranks : std::span<const model::DeviceIndex>(),
      plan.model);
}

void check_capacity(const Capacity& capacity) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  for (const std::int64_t value :
       {capacity.rows, capacity.positions, capacity.sequences, capacity.steps}) {
    if (0 <= value && value < kMost) continue;
    throw Error("plan: capacity: " + std::to_string(value) + ": expected 0 to " +
                std::to_string(kMost - 1) + kRemedy);
  }
}

void check_steps(const Plan& plan) {
  if (plan.capacity.steps <= 1) return;
  if (!sharding_of(plan).splits_layers()) {
    throw Error("plan: capacity: " + std::to_string(plan.capacity.steps) +
                " steps in flight with strategy '" + plan.strategy +
                "', whose devices all work on one step: expected 1" + kRemedy);
  }
  if (splits_head(plan)) {
    throw Error("plan: capacity: " + std::to_string(plan.capacity.steps) +
                " steps in flight, but all devices compute logits of a step: expected 1; plan with "
                "'--in-flight 1' or '--head master'");
  }
  if (has_rounds(plan)) {
    throw Error("plan: capacity: " + std::to_string(plan.capacity.steps) +
                " steps in flight, but a step goes round several times: expected 1; plan with "
                "'--in-flight 1' or '--rounds 1'");
  }
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    if (!plan.devices[d].window.streams()) continue;
    throw Error("plan: capacity: " + std::to_string(plan.capacity.steps) +
                " steps in flight, but device '" + plan.cluster.devices()[d].name +
                "' streams its weights: expected 1; plan with '--in-flight 1' or '--window all'");
  }
}

void check_layout(const Plan& plan, bool splits) {
  const std::vector<model::DeviceIndex>& order = plan.layout.order;
  const std::size_t devices = splits ? plan.cluster.devices().size() : 0;
  check_size(order.size(), devices, "layout's order");
  check_size(plan.layout.group.size(), devices, "layout's groups");
  std::vector<bool> seen(devices);
  for (const model::DeviceIndex device : order) {
    require(0 <= device && device < plan.cluster.size(), "plan: layout outside the cluster");
    const auto d = static_cast<std::size_t>(device);
    if (seen[d]) {
      throw Error("plan: layout: order has device '" + plan.cluster.devices()[d].name +
                  "' twice: expected every device once" + kRemedy);
    }
    seen[d] = true;
  }
  if (!order.empty() && order.front() != plan.master) {
    const auto& all = plan.cluster.devices();
    throw Error("plan: layout: order begins with device '" +
                all[static_cast<std::size_t>(order.front())].name + "': expected the master, '" +
                all[static_cast<std::size_t>(plan.master)].name + "'" + kRemedy);
  }
}

// A device's part of a row is whole blocks of the weights' format.
void check_blocks(const Plan& plan, Range columns, const std::string& subject) {
  const std::int64_t block = plan.model.column_block();
  if (columns.begin % block == 0 && columns.end % block == 0) return;
  throw Error(subject + ": FFN columns [" + std::to_string(columns.begin) + ", " +
              std::to_string(columns.end) + "): expected multiples of " + std::to_string(block) +
              " with weights in " + plan.model.formats.text() + kRemedy);
}

void check_part(const Plan& plan, const model::Share& share, const std::string& subject) {
  const model::Part& part = share.part;
  const Strategy& strategy = find_strategy(plan.strategy);
  if (!strategy.sharding.splits_positions() && !part.positions.empty()) {
    throw Error(subject + ": keeps positions of the prompt: expected none with strategy '" +
                plan.strategy + "'" + kRemedy);
  }
  if (!strategy.sharding.divides_work() || plan.gather_weights) {
    check_within(part.positions, plan.workload.prompt_tokens,
                 subject + ": positions that it keeps");
    model::Part known{.positions = part.positions};
    if (strategy.sharding.shares_token_ffn()) {
      known.columns = part.columns;
      check_within(part.columns, plan.model.intermediate,
                   subject + ": FFN columns that it computes");
      check_blocks(plan, part.columns, subject);
    }
    if (part == known) return;
    throw Error(subject + ": computes a part of its share: expected none with strategy '" +
                plan.strategy + "'" + (plan.gather_weights ? " whose weights travel" : "") +
                kRemedy);
  }
  check_within(part.heads, plan.model.heads, subject + ": heads that it computes");
  check_within(part.columns, plan.model.intermediate, subject + ": FFN columns that it computes");
  check_blocks(plan, part.columns, subject);
}

void check_vocabulary(const Plan& plan, const model::Share& share, const std::string& subject) {
  if (share.vocabulary == Range{}) return;
  const auto refuse = [&](const std::string& expected) {
    throw Error(subject + ": rows [" + std::to_string(share.vocabulary.begin) + ", " +
                std::to_string(share.vocabulary.end) + ") of the LM head: expected " + expected +
                kRemedy);
  };
  if (!sharding_of(plan).may_split_head()) refuse("none with strategy '" + plan.strategy + "'");
  if (!share.head) refuse("none of a device that does not say that it has them ('head')");
  if (share.vocabulary.empty()) refuse("some, or no such range");
  check_within(share.vocabulary, plan.model.head_rows(), subject + ": rows of the LM head");
}

void check_candidates(const Plan& plan) {
  if (plan.candidates == 0) return;
  const auto refuse = [&](const std::string& expected) {
    throw Error("plan: candidates " + std::to_string(plan.candidates) + ": expected " + expected +
                kRemedy);
  };
  if (plan.candidates < 0 || plan.candidates > model::kMostCandidates)
    refuse("1 to " + std::to_string(model::kMostCandidates) + ", or none");
  if (!splits_head(plan)) refuse("none, as the master has the whole LM head");
  if (plan.model.head_rows() > model::kMostCandidateIds)
    refuse("none with a vocabulary of more than " + std::to_string(model::kMostCandidateIds));
}

// Levels give key/value heads ratios of their own, which one latent row for all does not have.
void check_latent_rows(const Plan& plan) {
  if (!plan.sparse || !plan.model.latent) return;
  throw Error("plan: sparse attention: model " + plan.model.name +
              " has latent attention, expected keys and values by heads; leave out '--levels' and "
              "'--drop'");
}

// The blocks that the window counts are more than the window, or else nothing would be streamed.
void check_window(const Plan& plan, std::size_t d, const std::string& subject) {
  const Window window = plan.devices[d].window;
  if (window.blocks < 0 || window.retain < 0 || window.retain > plan.model.layers ||
      (window.retain > 0 && !window.streams())) {
    throw Error(subject + ": window of " + std::to_string(window.blocks) + " blocks, retain " +
                std::to_string(window.retain) +
                ": expected at least 0 blocks, and with a window 0 to " +
                std::to_string(plan.model.layers) + " (layers) to retain" + kRemedy);
  }
  if (!window.streams()) return;
  const std::size_t blocks = streamed_blocks(plan.model, plan.devices[d].share, window).size();
  if (static_cast<std::size_t>(window.blocks) >= blocks) {
    throw Error(subject + ": window of " + std::to_string(window.blocks) +
                " blocks: expected fewer than the " + std::to_string(blocks) +
                " that the device streams, or 0 for no streaming" + kRemedy);
  }
  if (plan.cluster.devices()[d].disk_bandwidth.value() > 0.0) return;
  throw Error(subject +
              ": streams weights, but has no disk: expected a positive "
              "'tandem:disk_bandwidth' in the platform; give it one, or plan with '--window all'");
}

}  // namespace

void Plan::validate() const {
  const Strategy& lowering = find_strategy(strategy);
  model.validate();
  if (model.layers > kMaxLayers) {
    throw Error("plan: model " + model.name + ": " + std::to_string(model.layers) +
                " layers: expected at most " + std::to_string(kMaxLayers) + kRemedy);
  }
  if (model.layers * cluster.size() > kMaxDeviceLayers) {
    throw Error("plan: " + std::to_string(cluster.size()) + " devices with " +
                std::to_string(model.layers) + " layers each: expected at most " +
                std::to_string(kMaxDeviceLayers) + " in all" + kRemedy);
  }
  workload.validate(model);
  if (master < 0 || master >= cluster.size()) {
    throw Error("plan: master " + std::to_string(master) + ": expected a device index below " +
                std::to_string(cluster.size()) + kRemedy);
  }
  check_size(devices.size(), cluster.devices().size(), "device plans");
  check_size(profiles.size(), cluster.devices().size(), "profiles");
  const bool divides = lowering.sharding.has_partition();
  if (partition.empty() == divides) {
    throw Error("plan: partition '" + partition + "': expected " + (divides ? "a name" : "none") +
                " with strategy '" + strategy + "'" + kRemedy);
  }
  check_allreduce(*this, joins(*this));
  check_layout(*this, joins(*this));
  check_group_strategy(*this);
  check_moves(*this);
  check_gathering(*this);
  check_tiles(*this);
  check_sparse(*this);
  check_model_support(lowering, model);
  check_latent_rows(*this);
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const std::string subject = "plan: device '" + cluster.devices()[d].name + "'";
    const model::Share& share = devices[d].share;
    for (std::size_t run = 0; run < share.layers.run_count(); ++run)
      check_within(share.layers.run(run), model.layers, subject + ": layers");
    check_within(share.heads, model.heads, subject + ": heads");
    check_within(share.columns, model.intermediate, subject + ": FFN columns");
    check_blocks(*this, share.columns, subject);
    check_part(*this, share, subject);
    check_vocabulary(*this, share, subject);
    check_bytes(devices[d].memory, subject);
    check_window(*this, d, subject);
    profiles[d].validate(subject + ": profile");
  }
  check_capacity(capacity);
  check_steps(*this);
  check_candidates(*this);
  lowering.check(*this);
}

}  // namespace tandem::planner
