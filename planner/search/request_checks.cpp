#include "planner/search/request_checks.hpp"

#include <optional>
#include <string>

#include "model/base/error.hpp"

namespace tandem::planner {

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

bool can_gather(const model::Cluster& cluster) { return cluster.size() > 1; }

}  // namespace tandem::planner
