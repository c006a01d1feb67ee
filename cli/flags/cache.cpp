#include "cli/flags/cache.hpp"

#include "exec/weights/store/block_store.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"

namespace tandem::cli {

Cache cache_of(const Options& options) {
  Cache cache;
  const auto folder = options.text("cache");
  cache.folder = folder ? std::filesystem::path(*folder) : exec::default_cache_dir();
  const auto size = options.text("cache-size");
  if (!size) return cache;
  constexpr double kMost = 1e18;
  const double bytes = model::parse_bytes(*size, "flag '--cache-size'").value();
  if (!(bytes >= 1.0 && bytes <= kMost)) {
    throw Error("flag '--cache-size': " + *size + ", expected 1B to 1e18B");
  }
  cache.bytes = static_cast<std::uint64_t>(bytes);
  return cache;
}

}  // namespace tandem::cli
