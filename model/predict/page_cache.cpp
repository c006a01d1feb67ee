#include "model/predict/page_cache.hpp"

#include <algorithm>

#include "model/base/error.hpp"

namespace tandem::model {

Bytes repeated_read(const CachedFile& cached) {
  require(cached.file.value() >= 0.0 && cached.cache.value() >= 0.0,
          "repeated_read: expected sizes of at least 0");
  const Bytes excess{std::max(0.0, (cached.file - cached.cache).value())};
  switch (cached.rule) {
    case CacheRule::least_recent:
      return excess.value() > 0.0 ? cached.file : Bytes{};
    case CacheRule::retaining:
      return excess;
  }
  return cached.file;
}

BytesPerSecond repeated_rate(const CachedFile& cached, const PageCacheRates& rates) {
  require(cached.file.value() > 0.0, "repeated_rate: expected a file that is not empty");
  require(rates.disk.value() > 0.0 && rates.memory.value() > 0.0,
          "repeated_rate: expected positive rates");
  const Bytes read = repeated_read(cached);
  return cached.file / (read / rates.disk + (cached.file - read) / (rates.memory / 2.0));
}

}  // namespace tandem::model
