// Attention where keys are: two devices that hold a part of the positions each give what one gives
// that holds all of them, and their caches take the blocks of their own positions.

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "exec/compute/compute.hpp"
#include "exec/weights/random_weights.hpp"
#include "model/graph/memory.hpp"
#include "tests/exec/weights/weights_support.hpp"

namespace tandem::exec::merge_compute_test {
namespace {

using model::Batch;
using model::BufferKind;
using model::BufferRef;
using model::Range;
using model::Task;
using model::TaskKind;

constexpr std::int32_t kPrompt = 90;
constexpr std::int32_t kCut = 50;  // positions before it are the first device's
constexpr std::int32_t kOpen = model::kCausal.end;

std::vector<model::BufferDeclaration> declared(const model::Transformer& t, std::int16_t blocks) {
  std::vector<model::BufferDeclaration> buffers = model::share_buffers(t, testing::whole_share(t));
  for (model::BufferDeclaration& buffer : buffers) {
    if (buffer.name.kind == BufferKind::key_value) buffer.blocks = blocks;
  }
  buffers.push_back({.name = {BufferKind::attention, 1}, .columns = t.heads * t.head_dim});
  for (std::int16_t slot = 0; slot < 2; ++slot)
    buffers.push_back({.name = {BufferKind::softmax, slot}, .columns = 2 * t.heads});
  return buffers;
}

class Device {
 public:
  Device(const model::Transformer& t, const std::filesystem::path& weights, std::int16_t blocks)
      : t_(t),
        compute_(t, Shard::slice(weights, t, testing::whole_share(t)),
                 {.max_rows = kPrompt,
                  .cache_positions = 2 * model::kCacheBlock,
                  .buffers = declared(t, blocks)}) {}
  [[nodiscard]] Compute& compute() { return compute_; }

  // Queries of `rows` of the batch, and keys and values, of layer 1.
  void project(const Batch& batch, Range rows) {
    std::vector<std::int32_t> ids;
    for (std::int32_t i = 0; i < batch.rows(); ++i)
      ids.push_back((17 + (batch.segments[0].past + i) * 31) % 250);
    compute_.set_tokens(ids);
    run(batch, {.kind = TaskKind::embed, .rows = rows, .output = {BufferKind::hidden}});
    run(batch, {.kind = TaskKind::norm,
                .block = model::WeightBlock::attention,
                .layer = 1,
                .rows = rows,
                .input = {BufferKind::hidden},
                .output = {BufferKind::normed}});
    run(batch, {.kind = TaskKind::project_qkv,
                .layer = 1,
                .rows = rows,
                .columns = heads(),
                .input = {BufferKind::normed},
                .output = {BufferKind::query}});
  }
  void attend(const Batch& batch, Range rows, Range keys, std::int32_t window, bool told) {
    run(batch, {.kind = TaskKind::attend,
                .layer = 1,
                .rows = rows,
                .columns = heads(),
                .keys = keys,
                .window = window,
                .statistics = told,
                .input = {BufferKind::query},
                .output = {BufferKind::attention}});
  }
  void merge(const Batch& batch, Range rows) {
    run(batch, {.kind = TaskKind::merge,
                .layer = 1,
                .rows = rows,
                .columns = heads(),
                .input = {BufferKind::attention, 1},
                .output = {BufferKind::attention, 0}});
  }
  [[nodiscard]] std::vector<float> attended(Range rows) const {
    const auto width = static_cast<std::int32_t>(t_.heads * t_.head_dim);
    std::vector<float> all(static_cast<std::size_t>(rows.size()) * static_cast<std::size_t>(width));
    compute_.read_rows({BufferKind::attention}, rows, {0, width}, all);
    return all;
  }
  [[nodiscard]] Range heads() const { return {0, static_cast<std::int32_t>(t_.heads)}; }

 private:
  void run(const Batch& batch, const Task& task) { compute_.execute(batch, task); }
  model::Transformer t_;
  Compute compute_;
};

void send(const Batch& batch, Device& from, Device& to, Range rows, BufferRef input,
          BufferRef output, std::int64_t columns) {
  const Task task{.kind = TaskKind::transfer,
                  .lane = model::LaneKind::channel,
                  .device = 0,
                  .peer = 1,
                  .layer = 1,
                  .rows = rows,
                  .columns = {0, static_cast<std::int32_t>(columns)},
                  .input = input,
                  .output = output};
  std::vector<std::byte> bytes(static_cast<std::size_t>(model::payload_bytes(task)));
  from.compute().capture(batch, task, bytes);
  to.compute().deliver(batch, task, bytes);
}

// What the other device finds among its keys for rows of `owner`.
void ask(const Batch& batch, Device& owner, Device& other, Range rows, Range keys,
         std::int32_t window, const model::Transformer& t) {
  const std::int64_t width = t.heads * t.head_dim;
  send(batch, owner, other, rows, {BufferKind::query}, {BufferKind::query}, width);
  other.attend(batch, rows, keys, window, true);
  send(batch, other, owner, rows, {BufferKind::attention}, {BufferKind::attention, 1}, width);
  send(batch, other, owner, rows, {BufferKind::softmax}, {BufferKind::softmax, 1}, 2 * t.heads);
}

void check_same(const std::vector<float>& got, const std::vector<float>& wanted) {
  REQUIRE(got.size() == wanted.size());
  float worst = 0.0F;
  float largest = 0.0F;
  for (std::size_t i = 0; i < got.size(); ++i) {
    worst = std::max(worst, std::abs(got[i] - wanted[i]));
    largest = std::max(largest, std::abs(wanted[i]));
  }
  CHECK(largest > 0.0F);
  CHECK(worst <= 1e-5F * largest);
}

TEST_CASE("exec/merge: what two devices hold apart gives what one gives that holds everything") {
  for (const model::CacheFormat cache : model::kCacheFormats) {
    for (const double cap : {0.0, 3.0}) {
      for (const std::int32_t window : {0, 25}) {
        CAPTURE(to_string(cache));
        CAPTURE(cap);
        CAPTURE(window);
        model::Transformer t = testing::with_cache(testing::small_llama(), cache);
        if (cap > 0.0) {  // a family whose scores may be capped
          t.family = model::Family::gemma2;
          t.activation = model::Activation::gelu_tanh;
          t.tied_embeddings = true;
          t.embedding_scale = std::sqrt(static_cast<double>(t.hidden));
          t.score_cap = cap;
        }
        const testing::TemporaryFolder folder;
        write_random_weights(t, 5, model::DType::f32, folder.path());
        Device whole(t, folder.path(), 0);
        Device first(t, folder.path(), 1);
        Device second(t, folder.path(), 2);
        const Batch prompt{{{.rows = kPrompt}}};
        whole.compute().begin(prompt);
        first.compute().begin(prompt, {0, kCut});
        second.compute().begin(prompt, {kCut, kPrompt});
        whole.project(prompt, {0, kPrompt});
        first.project(prompt, {0, kCut});
        second.project(prompt, {kCut, kPrompt});
        whole.attend(prompt, {0, kPrompt}, model::kCausal, window, false);
        // A prompt: later rows ask for earlier keys, which never ask for theirs.
        first.attend(prompt, {0, kCut}, {0, kCut}, window, true);
        second.attend(prompt, {kCut, kPrompt}, {kCut, kOpen}, window, true);
        ask(prompt, second, first, {kCut, kPrompt}, {0, kCut}, window, t);
        second.merge(prompt, {kCut, kPrompt});
        check_same(first.attended({0, kCut}), whole.attended({0, kCut}));
        check_same(second.attended({kCut, kPrompt}), whole.attended({kCut, kPrompt}));
        for (std::int32_t past = kPrompt; past < kPrompt + 3; ++past) {
          const Batch token{{{.past = past}}};
          whole.compute().begin(token);
          first.compute().begin(token, {});
          second.compute().begin(token, {0, 1});
          whole.project(token, {0, 1});
          second.project(token, {0, 1});
          whole.attend(token, {0, 1}, model::kCausal, window, false);
          second.attend(token, {0, 1}, {kCut, kOpen}, window, true);
          ask(token, second, first, {0, 1}, {0, kCut}, window, t);
          second.merge(token, {0, 1});
          check_same(second.attended({0, 1}), whole.attended({0, 1}));
        }
      }
    }
  }
}

TEST_CASE("exec/merge: a cache has the blocks that are declared, and no positions of others") {
  const model::Transformer t = testing::small_llama();
  const testing::TemporaryFolder folder;
  write_random_weights(t, 5, model::DType::f32, folder.path());
  Device first(t, folder.path(), 1);
  Device whole(t, folder.path(), 0);
  const double block = static_cast<double>(model::cache_block_bytes(t, testing::whole_share(t)));
  CHECK(first.compute().allocated().kv_cache == block);
  CHECK(whole.compute().allocated().kv_cache == 2.0 * block);
  const Batch prompt{{{.rows = kPrompt}}};
  first.compute().begin(prompt, {0, kCut});
  first.project(prompt, {0, kCut});
  CHECK_THROWS_AS(first.project(prompt, {kCut, kCut + 1}), std::logic_error);
  CHECK_THROWS_AS(first.attend(prompt, {0, kCut}, {0, kCut + 1}, 0, true), std::logic_error);
  SUBCASE("positions of others are not taken from memory: one block, as often as wished") {
    for (std::int32_t past = kPrompt; past < kPrompt + 10; ++past)
      first.compute().begin(Batch{{{.past = past}}}, {});
    CHECK_THROWS_AS(first.compute().begin(Batch{{{.past = kPrompt + 10}}}), std::runtime_error);
  }
}

TEST_CASE("exec/merge: before a part of the keys is complete, nobody attends it") {
  const model::Transformer t = testing::small_llama();
  const testing::TemporaryFolder folder;
  write_random_weights(t, 5, model::DType::f32, folder.path());
  Device first(t, folder.path(), 1);
  const Batch token{{{.past = 0}}};
  first.compute().begin(token, {});
  std::vector<float> query(static_cast<std::size_t>(t.heads * t.head_dim), 1.0F);
  first.compute().write_rows({BufferKind::query}, {0, 1},
                             {0, static_cast<std::int32_t>(query.size())}, query);
  first.attend(token, {0, 1}, {0, kCut}, 0, true);
  for (const float y : first.attended({0, 1})) CHECK(y == 0.0F);
}

}  // namespace
}  // namespace tandem::exec::merge_compute_test
