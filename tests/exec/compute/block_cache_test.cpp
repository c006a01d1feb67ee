#include "exec/compute/block_cache.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "exec/kernels/cached_row.hpp"
#include "model/base/error.hpp"
#include "model/graph/cache_copies.hpp"
#include "tests/exec/compute/compute_fixture.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/storage_fixture.hpp"

namespace tandem::exec::block_cache_test {
namespace {

using namespace testing;
using model::Batch;
using model::CacheFormat;
using model::CacheOp;
using model::CacheOpKind;
using model::Range;
using model::Transformer;

constexpr std::int32_t kSequences = 5;
constexpr auto kBlock = static_cast<std::int32_t>(model::kCacheBlock);

// A block cache, and beside it what each sequence has: a vector of keys and values of a position
// for every layer and key/value head.
class Twins {
 public:
  Twins(const Transformer& t, const model::Share& share, std::int64_t positions)
      : head_dim_(t.head_dim),
        layers_(share.layers),
        heads_(t.kv_heads_for(share.heads)),
        declared_(model::share_buffers(t, share)),
        cache_(t, share, positions) {}

  [[nodiscard]] std::int32_t length(std::size_t s) const {
    return static_cast<std::int32_t>(plain_[s].size());
  }

  void step(const Batch& batch) {
    // As every prediction says without knowing of blocks.
    const model::CopiedPositions copied = copies_.next(batch);
    CHECK(cache_.begin(batch) ==
          model::copied_bytes(model::find_buffer(declared_, {model::BufferKind::key_value}), copied)
              .value());
    copies_seen_ += copied.any() ? 1 : 0;
    for (const CacheOp& op : batch.cache) {
      auto& mine = plain_[static_cast<std::size_t>(op.sequence)];
      const auto& from = plain_[static_cast<std::size_t>(op.from)];
      if (op.kind == CacheOpKind::free) mine.clear();
      if (op.kind == CacheOpKind::fork) mine.assign(from.begin(), from.begin() + op.positions);
      if (op.kind == CacheOpKind::truncate) mine.resize(static_cast<std::size_t>(op.positions));
    }
    for (const model::Segment& segment : batch.segments) {
      for (std::int32_t p = segment.past; p < segment.past + segment.rows; ++p)
        write(segment.sequence, p);
    }
  }

  void check() const {
    std::size_t wrong = 0;
    for (std::int32_t s = 0; s < kSequences; ++s) {
      const auto& mine = plain_[static_cast<std::size_t>(s)];
      CHECK(cache_.table().length(s) == static_cast<std::int32_t>(mine.size()));
      for (std::size_t p = 0; p < mine.size(); ++p) {
        if (read(s, static_cast<std::int32_t>(p)) != mine[p]) ++wrong;
      }
    }
    CHECK(wrong == 0);
  }

  [[nodiscard]] const BlockCache& cache() const { return cache_; }
  // Steps that copied something.
  [[nodiscard]] int copies_seen() const { return copies_seen_; }

 private:
  // Keys, then values, of all heads of all layers.
  using Position = std::vector<float>;

  template <class Body>
  void for_heads(std::int32_t sequence, const Body& body) const {
    const auto blocks = cache_.table().blocks(sequence);
    for (const std::int32_t layer : layers_) {
      for (std::int32_t head = heads_.begin; head < heads_.end; ++head)
        body(cache_.head(blocks, layer, head));
    }
  }

  void write(std::int32_t sequence, std::int32_t position) {
    Position all;
    for_heads(sequence, [&](const CachedHead& head) {
      CHECK(store_key(numbers().data(), position, head, head_dim_));
      all.insert(all.end(), row_.begin(), row_.end());
      CHECK(store_value(numbers().data(), position, head, head_dim_));
      all.insert(all.end(), row_.begin(), row_.end());
    });
    plain_[static_cast<std::size_t>(sequence)].push_back(std::move(all));
  }

  [[nodiscard]] Position read(std::int32_t sequence, std::int32_t position) const {
    Position all;
    for_heads(sequence, [&](const CachedHead& head) {
      std::vector<float> row(static_cast<std::size_t>(head_dim_));
      load_key(head, position, head_dim_, row.data());
      all.insert(all.end(), row.begin(), row.end());
      load_value(head, position, head_dim_, row.data());
      all.insert(all.end(), row.begin(), row.end());
    });
    return all;
  }

  // A row of whole numbers that every type has, as 127 is among each 32: another each time.
  const std::vector<float>& numbers() {
    row_.resize(static_cast<std::size_t>(head_dim_));
    for (float& x : row_) x = next_ = next_ < 126.0F ? next_ + 1.0F : -126.0F;
    for (std::size_t i = static_cast<std::size_t>(rows_++) % 7; i < row_.size(); i += 32)
      row_[i] = 127.0F;
    return row_;
  }

  std::int64_t head_dim_;
  model::LayerRuns layers_;
  Range heads_;
  std::vector<model::BufferDeclaration> declared_;
  BlockCache cache_;
  model::CacheCopies copies_;
  int copies_seen_ = 0;
  std::array<std::vector<Position>, kSequences> plain_;
  std::vector<float> row_;
  int rows_ = 0;
  float next_ = 0.0F;
};

std::vector<std::int32_t> tokens_of(const Transformer& t, std::int32_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (std::int32_t& id : ids)
    id = static_cast<std::int32_t>(random() % static_cast<unsigned>(t.vocab));
  return ids;
}

Transformer long_tiny() {
  Transformer t = tiny();
  t.max_context = 512;
  return t;
}

std::span<const std::int32_t> part(const std::vector<std::int32_t>& ids, std::int32_t begin,
                                   std::int32_t end) {
  return std::span(ids).subspan(static_cast<std::size_t>(begin),
                                static_cast<std::size_t>(end - begin));
}

// The same bits, or almost.
void check_logits(const std::vector<std::vector<float>>& got,
                  const std::vector<std::vector<float>>& wanted, bool exact) {
  if (exact) {
    CHECK(got == wanted);
    return;
  }
  REQUIRE(got.size() == wanted.size());
  float largest = 0.0F;
  float difference = 0.0F;
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK(std::ranges::max_element(got[i]) - got[i].begin() ==
          std::ranges::max_element(wanted[i]) - wanted[i].begin());
    for (std::size_t j = 0; j < got[i].size(); ++j) {
      largest = std::max(largest, std::abs(wanted[i][j]));
      difference = std::max(difference, std::abs(got[i][j] - wanted[i][j]));
    }
  }
  CHECK(difference <= 1e-6F * largest);
}

}  // namespace

TEST_CASE("exec/block cache: after any operations every sequence has what it was given") {
  // All layers and heads, and a device's share of both: layer 1, key/value head 1.
  for (const auto& [share, format] : {std::pair{whole(tiny()), CacheFormat::f32},
                                      {whole(tiny()), CacheFormat::f16},
                                      {whole(tiny()), CacheFormat::q8_0},
                                      {model::Share{{1, 2}, {4, 6}, {0, 1}}, CacheFormat::f32},
                                      {model::Share{{1, 2}, {4, 6}, {0, 1}}, CacheFormat::q8_0}}) {
    const Transformer t = testing::with_cache(tiny(), format);
    int copies = 0;
    for (unsigned seed = 0; seed < 12; ++seed) {
      CAPTURE(seed);
      std::mt19937 random(seed);
      const auto below = [&](std::int32_t n) {
        return static_cast<std::int32_t>(random() % static_cast<unsigned>(n));
      };
      Twins twins(t, share, std::int64_t{40} * kBlock);
      for (int i = 0; i < 60; ++i) {
        Batch batch;
        std::array<std::int32_t, kSequences> length{};
        for (std::size_t s = 0; s < length.size(); ++s) length[s] = twins.length(s);
        const auto at = [](std::int32_t s) { return static_cast<std::size_t>(s); };
        for (std::int32_t ops = below(3); ops > 0; --ops) {
          const std::int32_t s = below(kSequences);
          const std::int32_t from = below(kSequences);
          if (length[at(s)] == 0 && s != from) {
            const std::int32_t n = below(length[at(from)] + 1);
            batch.cache.push_back({CacheOpKind::fork, s, from, n});
            length[at(s)] = n;
          } else if (below(2) == 0) {
            batch.cache.push_back({CacheOpKind::free, s});
            length[at(s)] = 0;
          } else {
            length[at(s)] = below(length[at(s)] + 1);
            batch.cache.push_back({CacheOpKind::truncate, s, 0, length[at(s)]});
          }
        }
        for (std::int32_t s = 0; s < kSequences; ++s) {
          const std::int32_t rows = below(4) == 0 ? 1 + below(90) : below(3);
          if (rows > 0 && length[at(s)] + rows <= 8 * kBlock)
            batch.segments.push_back({.sequence = s, .past = length[at(s)], .rows = rows});
        }
        twins.step(batch);
        twins.check();
      }
      copies += twins.copies_seen();
    }
    CHECK(copies > 20);
  }
}

TEST_CASE("exec/block cache: has the bytes that are predicted, for shares without heads too") {
  Transformer t = testing::with_cache(tiny(), CacheFormat::q8_0);
  for (const model::Share& share :
       {whole(t), model::Share{{1, 2}, {4, 6}, {0, 1}}, model::Share{{0, 2}, {3, 3}, {0, 5}}}) {
    t.cache = CacheFormat::f32;
    const double whole_bytes = BlockCache(t, share, kBlock + 1).bytes();
    for (const CacheFormat format : model::kCacheFormats) {
      t.cache = format;
      const BlockCache cache(t, share, kBlock + 1);
      CHECK(cache.bytes() == tandem::test::memory_of(t, share, 1, kBlock + 1).kv_cache);
      CHECK(cache.table().size() == 2);
      CHECK(4.0 * cache.bytes() == whole_bytes * model::cache_number_bytes(format));
    }
  }
}

// Steps of one row, of two to eight and of more add up products in an order of their own (decision
// 0004).
TEST_CASE("compute: a prompt in chunks gives the logits of the prompt in one, bit for bit") {
  const Transformer t = long_tiny();
  const std::vector<std::int32_t> ids = tokens_of(t, 200, 3);
  for (const int threads : {1, 2}) {
    Compute c = make(t, whole(t), {.max_rows = 200, .cache_positions = 256, .threads = threads});
    const auto wanted = whole_step(c, {{{0, 0, 200}}}, ids);
    std::vector<std::vector<float>> of_few;
    for (const std::int32_t chunk : {1, 2, 7, 8, 16, 20, 50, 63, 64, 66, 130}) {
      CAPTURE(chunk);
      c.reset();
      std::vector<std::vector<float>> got;
      for (std::int32_t at = 0; at < 200; at += chunk) {
        const std::int32_t end = std::min(at + chunk, 200);
        got = whole_step(c, {{{0, at, end - at}}}, part(ids, at, end));
      }
      const std::int32_t last = 200 % chunk == 0 ? chunk : 200 % chunk;
      check_logits(got, wanted, last > 8);
      if (chunk == 2) of_few = got;
      if (chunk == 7 || chunk == 8) CHECK(got == of_few);
    }
  }
}

TEST_CASE("compute: sequences of one batch get the logits that they get alone") {
  const Transformer t = long_tiny();
  constexpr std::int32_t kCount = 9;
  constexpr std::int32_t kSteps = 4;
  const auto prompt_of = [](std::int32_t s) { return 12 + s * 13; };  // 576 together
  for (const auto& [thread_count, later_rows] :
       {std::pair{1, 1}, {1, 2}, {1, 10}, {2, 1}, {2, 9}}) {
    const int threads = thread_count;
    const std::int32_t rows = later_rows;
    CAPTURE(threads);
    CAPTURE(rows);  // of a step after the prompt
    std::vector<std::vector<std::int32_t>> ids;
    ids.reserve(kCount);
    for (std::int32_t s = 0; s < kCount; ++s)
      ids.push_back(tokens_of(t, prompt_of(s) + kSteps * rows, static_cast<unsigned>(s)));
    const ComputeLimits limits{.max_rows = 700,
                               .cache_positions = std::int64_t{kCount} * 3 * kBlock,
                               .sequences = kCount,
                               .threads = threads};
    Compute alone = make(t, whole(t), limits);
    Compute together = make(t, whole(t), limits);
    for (std::int32_t step = 0; step <= kSteps; ++step) {
      Batch batch;
      std::vector<std::int32_t> tokens;
      std::vector<std::vector<float>> wanted;
      for (std::int32_t i = 0; i < kCount; ++i) {
        const std::int32_t s = step % 2 == 0 ? i : kCount - 1 - i;  // another order
        const std::int32_t begin = step == 0 ? 0 : prompt_of(s) + (step - 1) * rows;
        const std::int32_t end = prompt_of(s) + step * rows;
        // Sequences are named by whatever numbers.
        const model::Segment segment{.sequence = 1000 * s + 7, .past = begin, .rows = end - begin};
        const auto mine = part(ids[static_cast<std::size_t>(s)], begin, end);
        batch.segments.push_back(segment);
        tokens.insert(tokens.end(), mine.begin(), mine.end());
        wanted.push_back(whole_step(alone, {{segment}}, mine).front());
      }
      check_logits(whole_step(together, batch, tokens), wanted, step == 0 || rows > 8);
    }
  }
}

TEST_CASE("compute: forks share a prefix and go their own ways") {
  const Transformer t = long_tiny();
  const std::vector<std::int32_t> prefix = tokens_of(t, 150, 1);
  for (const std::int32_t shared : {1, 63, 64, 100, 128, 150}) {
    CAPTURE(shared);
    Compute c =
        make(t, whole(t),
             {.max_rows = 170, .cache_positions = std::int64_t{9} * kBlock, .sequences = 3});
    static_cast<void>(whole_step(c, {{{0, 0, 150}}}, prefix));
    // Two more sequences with that prefix; all three continue, in one step and after.
    std::array<std::vector<std::int32_t>, 3> ids;
    for (std::size_t s = 0; s < ids.size(); ++s) {
      const std::int32_t kept = s == 0 ? 150 : shared;
      ids[s].assign(prefix.begin(), prefix.begin() + kept);
      const auto more = tokens_of(t, 20, static_cast<unsigned>(s) + 50);
      ids[s].insert(ids[s].end(), more.begin(), more.end());
    }
    Batch batch{{{0, 150, 10}, {1, shared, 10}, {2, shared, 10}},
                {{CacheOpKind::fork, 1, 0, shared}, {CacheOpKind::fork, 2, 1, shared}}};
    for (int step = 0; step < 2; ++step) {
      std::vector<std::int32_t> rows;
      for (const model::Segment& segment : batch.segments) {
        const auto mine = part(ids[static_cast<std::size_t>(segment.sequence)], segment.past,
                               segment.past + segment.rows);
        rows.insert(rows.end(), mine.begin(), mine.end());
      }
      const auto got = whole_step(c, batch, rows);
      for (std::size_t i = 0; i < got.size(); ++i) {
        const model::Segment& segment = batch.segments[i];
        const std::int32_t end = segment.past + segment.rows;
        Compute alone =
            make(t, whole(t), {.max_rows = 170, .cache_positions = std::int64_t{3} * kBlock});
        const auto wanted = whole_step(
            alone, {{{0, 0, end}}}, part(ids[static_cast<std::size_t>(segment.sequence)], 0, end));
        CHECK(got[i] == wanted.front());
      }
      batch.cache.clear();
      for (model::Segment& segment : batch.segments) segment.past += segment.rows;
    }
  }
}

TEST_CASE("compute: a truncated sequence continues as if it had never been longer") {
  const Transformer t = long_tiny();
  const std::vector<std::int32_t> ids = tokens_of(t, 140, 1);
  const std::vector<std::int32_t> wrong = tokens_of(t, 140, 2);
  Compute c = make(t, whole(t), {.max_rows = 140, .cache_positions = std::int64_t{3} * kBlock});
  const auto wanted = whole_step(c, {{{0, 0, 140}}}, ids);
  for (const std::int32_t kept : {1, 64, 70, 130}) {
    CAPTURE(kept);
    c.reset();
    std::vector<std::int32_t> drafted(ids.begin(), ids.begin() + kept);
    drafted.insert(drafted.end(), wrong.begin() + kept, wrong.end());
    static_cast<void>(whole_step(c, {{{0, 0, 140}}}, drafted));
    CHECK(whole_step(c, {{{0, kept, 140 - kept}}, {{CacheOpKind::truncate, 0, 0, kept}}},
                     part(ids, kept, 140)) == wanted);
  }
}

}  // namespace tandem::exec::block_cache_test
