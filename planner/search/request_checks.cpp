#include "planner/search/request_checks.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "model/base/error.hpp"
#include "planner/search/affordable_types.hpp"
#include "planner/search/group_search.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

void check_head(const Request& request) {
  if (request.candidates > 0 && request.head == HeadPlacement::master) {
    throw Error("candidates: " + std::to_string(request.candidates) +
                " with the LM head at the master, which has all logits: expected none; plan with "
                "'--head split' or '--head auto'");
  }
  if (request.head != HeadPlacement::split) return;
  const std::string no = head_obstacle(request);
  if (no.empty()) return;
  throw Error("LM head split: " + no +
              ", expected a decoder on several devices, one step at a time, with strategy tensor, "
              "galaxy, csps or pipeline; plan with '--head master'");
}

void check_token_ffn(const Request& request, const Strategy& strategy) {
  if (request.token_ffn == TokenFfn::owner) return;
  if (!strategy.sharding.shares_token_ffn()) {
    throw Error("FFN of new tokens: shared out with strategy '" + request.strategy +
                "', expected " + strategies_that(&Sharding::shares_token_ffn));
  }
  if (request.token_ffn == TokenFfn::shared && request.capacity.sequences > 0)
    throw Error(
        "FFN of new tokens: shared out among devices with several requests, expected each token's "
        "owner alone; give '--decode-ffn owner', or plan for one request");
  if (request.workload.steps() < 2)
    throw Error(
        "FFN of new tokens: fewer than 2 new tokens, so nothing is computed after the prompt; "
        "leave "
        "'--decode-ffn' out");
}

void check_tiles(const Request& request, const Strategy& strategy) {
  if (!request.tiles) return;
  if (!strategy.sharding.exchanges_rows() && request.group_strategy.empty()) {
    throw Error("tiles " + std::to_string(*request.tiles) + ": strategy '" + strategy.name +
                "' has none; leave them out, or use strategy " +
                strategies_that(&Sharding::exchanges_rows));
  }
  if (0 <= *request.tiles && *request.tiles <= kMostTiles) return;
  throw Error("tiles " + std::to_string(*request.tiles) + ": expected 0 to " +
              std::to_string(kMostTiles) + ", or auto");
}

void check_sparse(const Request& request, const Strategy& strategy) {
  if (!request.sparse) return;
  const auto refuse = [](const std::string& what) {
    throw Error("sparse attention (--levels, --drop): " + what);
  };
  if (!strategy.sharding.exchanges_rows())
    refuse("strategy '" + strategy.name + "' has none; use strategy " +
           strategies_that(&Sharding::exchanges_rows) + ", or leave it out");
  if (request.tiles.value_or(0) > 0)
    refuse(std::to_string(*request.tiles) +
           " tiles of all rows, expected 0, as attention needs all; leave out '--tiles'");
  for (const std::int32_t count : request.sparse->tiles) {
    if (count < 1 || count > kMostTiles)
      refuse("tiles " + std::to_string(count) + ": expected 1 to " + std::to_string(kMostTiles) +
             ", or auto");
    if (count > 1 && strategy.sharding.sparse_by_rank())
      refuse(std::to_string(count) + " tiles, expected 1 with strategy '" + strategy.name +
             "', of which nothing travels by level; leave out '--tiles'");
  }
  if (request.window.blocks.value_or(0) > 0)
    refuse("weights that stream, expected all in memory; give '--window all'");
  if (request.capacity.sequences > 0)
    refuse("a workload of requests, expected one request; leave out '--workload' or '--samples'");
}

void check_gathering(const Request& request, const Strategy& strategy) {
  if (!request.gather_weights) return;
  const auto refuse = [](const std::string& what) {
    throw Error("weights that travel (--gather-weights): " + what);
  };
  if (!strategy.sharding.gather_weights)
    refuse("strategy '" + strategy.name + "' gathers none; use strategy " +
           strategies_that(&Sharding::gather_weights) + ", or leave it out");
  if (request.sparse)
    refuse("with levels, expected none; leave out '--levels' and '--drop', or '--gather-weights'");
  if (request.window.blocks.value_or(0) > 0)
    refuse(
        "with weights that stream, expected all of a device's share in memory; give '--window "
        "all', or leave out '--gather-weights'");
  if (!can_gather(request.cluster))
    refuse("on one device, expected several; leave out '--gather-weights'");
}

void check_rounds(const Request& request, const Strategy& strategy) {
  if (request.rounds == 1) return;
  if (!strategy.sharding.splits_layers()) {
    throw Error("rounds: strategy '" + strategy.name +
                "' has none; leave them out, or use strategy 'pipeline'");
  }
  if (!request.rounds) return;
  const std::int64_t most = std::min<std::int64_t>(kMostRounds, request.model.layers);
  if (*request.rounds < 1 || *request.rounds > most) {
    throw Error("rounds " + std::to_string(*request.rounds) + ": expected 1 to " +
                std::to_string(most) + ", the layers of " + request.model.name +
                " at most, or auto");
  }
  if (request.capacity.steps > 1) {
    throw Error("rounds " + std::to_string(*request.rounds) + ": " +
                std::to_string(request.capacity.steps) +
                " steps in flight, each of which would go round several times: expected 1; plan "
                "with '--in-flight 1' or '--rounds 1'");
  }
}

void check_group_strategy(const Request& request) {
  if (request.group_strategy.empty()) return;
  if (request.group_strategy != kGalaxyGroups) {
    throw Error("group strategy '" + request.group_strategy + "': unknown, expected '" +
                std::string(kGalaxyGroups) + "', or none for tensor");
  }
  if (request.groups.empty()) {
    throw Error("group strategy '" + request.group_strategy +
                "': expected groups of devices; give them with --groups");
  }
}

void check_groups(const Request& request, const Strategy& strategy) {
  check_group_strategy(request);
  if (request.groups.empty()) return;
  if (!strategy.sharding.splits_layers()) {
    throw Error("groups '" + request.groups + "': strategy '" + strategy.name +
                "' has no stages; leave them out, or use strategy 'pipeline'");
  }
  if (request.rounds != 1) {
    throw Error("groups '" + request.groups +
                "': expected one round, as rounds of groups are not searched; leave out --rounds, "
                "or --groups");
  }
  if (request.group_strategy.empty() ||
      has_group(parse_groups(request.groups, request.cluster, master_of(request))))
    return;
  throw Error("group strategy '" + request.group_strategy + "': groups '" + request.groups +
              "' are of one device each, expected one of several at least; leave it out, or name "
              "larger groups");
}

void check_halda(const Request& request, const Strategy& strategy) {
  if (request.partition != kHaldaPartition || strategy.sharding.splits_layers()) return;
  throw Error("partition 'halda': of layers, which strategy '" + strategy.name +
              "' does not split; use strategy 'pipeline'");
}

}  // namespace

void check_request(const Request& request) {
  check_head(request);
  const Strategy& strategy = find_strategy(request.strategy);
  check_token_ffn(request, strategy);
  check_tiles(request, strategy);
  check_sparse(request, strategy);
  check_gathering(request, strategy);
  check_rounds(request, strategy);
  check_halda(request, strategy);
  check_groups(request, strategy);
  check_budget(request);
}

void check_window(const Request& request) {
  const std::optional<std::int32_t> blocks = request.window.blocks;
  const std::optional<std::int32_t> retain = request.window.retain;
  if (blocks && *blocks < 0) {
    throw Error("window " + std::to_string(*blocks) + ": expected at least 1 block, all or auto");
  }
  if (retain && (*retain < 0 || *retain > request.model.layers)) {
    throw Error("retain " + std::to_string(*retain) + ": expected 1 to " +
                std::to_string(request.model.layers) + ", the layers of " + request.model.name +
                ", none or auto");
  }
  if (blocks == 0 && retain.value_or(0) > 0) {
    throw Error("retain " + std::to_string(*retain) +
                ": expected none with window all, which keeps every block; leave it out");
  }
}

std::string head_obstacle(const Request& request) {
  const Strategy& strategy = find_strategy(request.strategy);
  if (!strategy.sharding.may_split_head())
    return "strategy '" + strategy.name + "' keeps the LM head at the master";
  if (request.model.head_rows() == 0) return request.model.name + " is an encoder, which has none";
  if (request.cluster.size() == 1) return "there is one device alone";
  if (request.model.vocab < request.cluster.size())
    return "a vocabulary of " + std::to_string(request.model.vocab) + " for " +
           std::to_string(request.cluster.size()) + " devices";
  if (request.capacity.steps > 1) return "several steps are in flight";
  return {};
}

bool can_gather(const model::Cluster& cluster) { return cluster.size() > 1; }

}  // namespace tandem::planner
