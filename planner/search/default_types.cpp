#include "planner/search/default_types.hpp"

#include <algorithm>

#include "planner/search/affordable_types.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

constexpr std::int64_t kNarrowBits = 16;

bool is_narrow(model::WeightFormat format) {
  const model::FormatBlock block = model::block_of(format);
  return 8 * block.bytes <= kNarrowBits * block.elements;
}

// The profile without a rate over the cache that weights suggest; null: none.
const model::DeviceProfile* lacking(const Request& request) {
  if (!request.open.cache || request.budget ||
      default_cache(request.model) == model::CacheFormat::f32)
    return nullptr;
  const model::WeightFormat kept = model::rated_as(default_cache(request.model));
  const auto found =
      std::ranges::find_if(request.profiles, [&](const model::DeviceProfile& profile) {
        return profile.rate_of(model::TaskKind::attend, kept) == nullptr;
      });
  return found == request.profiles.end() ? nullptr : &*found;
}

// "auto" is no strategy yet.
bool sends_nothing(const Request& request) {
  const auto known = std::ranges::find(strategies(), request.strategy, &Strategy::name);
  return known != strategies().end() && known->sharding.is_local();
}

}  // namespace

bool has_narrow_weights(const model::Transformer& transformer) {
  return std::ranges::all_of(transformer.formats_used(), is_narrow);
}

model::WireFormat default_wire(const model::Transformer& transformer) {
  return has_narrow_weights(transformer) ? model::WireFormat::bf16 : model::WireFormat::f32;
}

model::CacheFormat default_cache(const model::Transformer& transformer) {
  return has_narrow_weights(transformer) ? model::CacheFormat::f16 : model::CacheFormat::f32;
}

Request with_default_types(Request request) {
  if (request.budget) {
    if (request.open.wire) request.wire = affordable_wires(request).front();
    if (request.open.cache) request.model.cache = affordable_caches(request).front();
    return request;
  }
  if (request.open.wire)
    request.wire = sends_nothing(request) ? model::WireFormat::f32 : default_wire(request.model);
  if (request.open.cache) {
    request.model.cache =
        lacking(request) == nullptr ? default_cache(request.model) : model::CacheFormat::f32;
  }
  return request;
}

std::string default_cache_remark(Request request,
                                 const std::vector<model::WeightFormats>& formats) {
  if (!formats.empty()) request.model.formats = formats.front();
  const model::DeviceProfile* profile = lacking(request);
  for (const model::WeightFormats& one : formats) {
    if (profile != nullptr) break;
    request.model.formats = one;
    profile = lacking(request);
  }
  if (profile == nullptr) return "";
  const std::string name(to_string(default_cache(request.model)));
  return "profile '" + profile->source + "' has no rate for attention over a cache in " + name +
         ": keys and values are kept in f32; 'tandem profile --cache-type " + name +
         "' measures it";
}

}  // namespace tandem::planner
