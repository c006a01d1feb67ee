#pragma once

// What a program reads from disk when it reads a file through the system's page cache, again and
// again in the same order, as a decoder reads its weights for every token.

#include <cstdint>

#include "model/base/units.hpp"

namespace tandem::model {

// What a full page cache evicts for a page that is read.
enum class CacheRule : std::uint8_t {
  least_recent,  // the page that was used least recently
  retaining,     // a page that was read once: new pages displace one another
};

struct CachedFile {
  Bytes file{};   // read by every pass, in the same order
  Bytes cache{};  // memory that programs leave to the page cache
  CacheRule rule = CacheRule::least_recent;
};

// Returns the bytes that each pass after the first reads from disk. The first reads all of `file`,
// unless an earlier program left it cached.
//   least_recent   0 if file <= cache, else file
//   retaining      max(0, file - cache)
// least_recent is Linux's, with active and inactive lists, for read() and mmap() with any advice:
// each page is evicted shortly before it is needed again. Measured reads are 0.91 to 1.1 of it
// (pages that became active; read-ahead that is evicted before it is used), with rare passes of
// less at 2 GiB (docs/results/measurements/0116-page-cache.md). retaining is the least that any
// rule reads, but for one page (Belady, IBM Systems Journal 5(2), 1966); no steady state of Linux
// had it.
// Throws logic_error unless both sizes are nonnegative.
[[nodiscard]] Bytes repeated_read(const CachedFile& cached);

struct PageCacheRates {
  BytesPerSecond disk{};
  BytesPerSecond memory{};  // of copies from the cache: each byte is read and written
};

// Returns the rate of passes after the first:
//   file / (repeated_read / disk + (file - repeated_read) * 2 / memory)
// the disk and the copies one after the other. Throws logic_error unless file and rates are
// positive.
[[nodiscard]] BytesPerSecond repeated_rate(const CachedFile& cached, const PageCacheRates& rates);

}  // namespace tandem::model
