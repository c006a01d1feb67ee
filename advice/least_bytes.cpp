#include "advice/least_bytes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "model/graph/memory.hpp"
#include "model/predict/device_profile.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/plan/capacity.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::study {

using planner::Request;

namespace {

double program_bytes(const Request& request, std::size_t device) {
  if (!request.profiles.empty()) return request.profiles[device].program_bytes;
  return model::nominal_profile(request.cluster.devices()[device]).program_bytes;
}

}  // namespace

model::Share everything(const model::Transformer& transformer) {
  const auto whole = [](std::int64_t size) {
    return model::Range{0, static_cast<std::int32_t>(size)};
  };
  return {.layers = whole(transformer.layers),
          .heads = whole(transformer.heads),
          .columns = whole(transformer.intermediate),
          .embedding = true,
          .head = true};
}

double layer_bytes(const model::Transformer& transformer) {
  model::Share layers = everything(transformer);
  layers.embedding = false;
  layers.head = false;
  return model::weight_bytes(transformer, layers);
}

double cache_bytes(const Request& request) {
  const planner::Capacity capacity = larger(request.workload.capacity(), request.capacity);
  const double blocks = static_cast<double>(capacity.positions) / model::kCacheBlock;
  return blocks *
         static_cast<double>(model::cache_block_bytes(request.model, everything(request.model)));
}

double least_bytes(const Request& request, const std::vector<bool>& devices) {
  double bytes =
      model::weight_bytes(request.model, everything(request.model)) + cache_bytes(request);
  for (std::size_t d = 0; d < devices.size(); ++d) {
    if (devices[d]) bytes += program_bytes(request, d);
  }
  return bytes;
}

bool may_be_resident(const Request& request) {
  const planner::Sharding& sharding = planner::find_strategy(request.strategy).sharding;
  const bool each_has_all = sharding.replicates() && !request.gather_weights;
  const double layers = layer_bytes(request.model);
  double memory = 0.0;
  const std::size_t devices = request.cluster.devices().size();
  for (std::size_t d = 0; d < devices; ++d) {
    model::Bytes has = request.cluster.devices()[d].memory;
    if (request.memory_limit) has = std::min(has, *request.memory_limit);
    if (each_has_all && has.value() - program_bytes(request, d) < layers) return false;
    memory += has.value();
  }
  return memory >= least_bytes(request, std::vector<bool>(devices, true));
}

}  // namespace tandem::study
