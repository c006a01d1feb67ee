#include "planner/search/memory_remedies.hpp"

#include "model/base/error.hpp"
#include "model/graph/memory.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/plan/window.hpp"

namespace tandem::planner {
namespace {

std::string in_fewer_bits(const model::Transformer& transformer) {
  const std::optional<model::CacheFormat> narrow = narrowest_cache(transformer);
  return narrow ? "keys and values in fewer bits (--cache-type " + std::string(to_string(*narrow)) +
                      "), "
                : std::string();
}

// Whether `changed`, a plan with the shares of `plan`, has room for all weights of its devices.
bool all_stay(const Plan& plan, const Plan& changed) {
  const std::vector<model::MemoryUse> memory = predicted_memory(changed);
  for (std::size_t d = 0; d < memory.size(); ++d) {
    const double whole = memory[d].total() - memory[d].weights +
                         weight_bytes(plan.model, plan.devices[d].share, Window{});
    if (whole > plan.cluster.devices()[d].memory.value()) return false;
  }
  return true;
}

}  // namespace

std::optional<model::CacheFormat> narrowest_cache(const model::Transformer& transformer) {
  if (!transformer.architecture().generates()) return std::nullopt;
  for (auto format = model::kCacheFormats.rbegin(); *format != transformer.cache; ++format) {
    model::Transformer narrow = transformer;
    narrow.cache = *format;
    try {
      narrow.validate();
      return *format;
    } catch (const Error&) {
      // Its heads are not whole blocks.
    }
  }
  return std::nullopt;
}

std::string more_memory(const model::Transformer& transformer) {
  return "remedy: fewer tokens, more devices or memory, " + in_fewer_bits(transformer) +
         "weights in fewer bits (--dtype), or a smaller model";
}

std::string without_streams(const Plan& plan) {
  if (!plan.streams() || !plan.model.architecture().generates()) return "";
  std::string text;
  const Capacity reserved = plan.reserved();
  if (plan.capacity.sequences == 0 && reserved.rows > 1) {
    Plan chunks = plan;
    chunks.capacity = reserved;
    chunks.capacity.rows = 1;
    if (all_stay(plan, chunks)) text += "prompts in chunks (--chunk auto), ";
  }
  if (const auto narrow = narrowest_cache(plan.model)) {
    Plan rounded = plan;
    rounded.model.cache = *narrow;
    if (all_stay(plan, rounded)) text += in_fewer_bits(plan.model);
  }
  return text;
}

}  // namespace tandem::planner
