// What a task reads and writes is what schedules believe: its operands, and what compute.hpp says
// that its kind uses besides.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "exec/compute/compute_state.hpp"
#include "exec/weights/random_weights.hpp"
#include "model/graph/accesses.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/storage_fixture.hpp"

namespace tandem::exec::compute_touches_test {
namespace {

using model::BufferKind;
using model::BufferRef;
using model::Range;
using model::Task;
using model::TaskKind;

constexpr std::int32_t kRows = 4;
constexpr std::int32_t kPositions = 64;

constexpr std::array kBuffers{
    BufferRef{BufferKind::hidden},      BufferRef{BufferKind::normed},
    BufferRef{BufferKind::query},       BufferRef{BufferKind::attention},
    BufferRef{BufferKind::activation},  BufferRef{BufferKind::partial},
    BufferRef{BufferKind::logits},      BufferRef{BufferKind::receive, 0},
    BufferRef{BufferKind::receive, 1},  BufferRef{BufferKind::attention, 1},
    BufferRef{BufferKind::softmax, 0},  BufferRef{BufferKind::softmax, 1},
    BufferRef{BufferKind::candidates},  BufferRef{BufferKind::query, 1},
    BufferRef{BufferKind::gathered, 1}, BufferRef{BufferKind::scores, 0},
    BufferRef{BufferKind::scores, 1},   BufferRef{BufferKind::packed_kv},
    BufferRef{BufferKind::selection, 1}};

// What a device has, a second part of attention, with the softmax of both, and what sparse
// attention needs.
std::vector<model::BufferDeclaration> declared(const model::Transformer& t) {
  auto buffers = tandem::test::buffers_of(t, testing::whole_share(t), 2);
  buffers.push_back({.name = {BufferKind::attention, 1}, .columns = t.heads * t.head_dim});
  for (std::int16_t slot = 0; slot < 2; ++slot)
    buffers.push_back({.name = {BufferKind::softmax, slot}, .columns = 2 * t.heads});
  buffers.push_back(
      {.name = {BufferKind::candidates}, .rows = model::RowCount::sequences, .columns = 14});
  buffers.push_back({.name = {BufferKind::query, 1}, .columns = t.heads * t.head_dim});
  buffers.push_back({.name = {BufferKind::gathered, 1}, .columns = 2 * t.kv_heads * t.head_dim});
  for (std::int16_t slot = 0; slot < 2; ++slot)
    buffers.push_back({.name = {BufferKind::scores, slot}, .columns = t.kv_heads});
  buffers.push_back({.name = {BufferKind::selection, 1},
                     .columns = t.kv_heads,
                     .format = model::ElementFormat::i32});
  buffers.push_back({.name = {BufferKind::packed_kv},
                     .rows = model::RowCount::positions,
                     .columns = 2 * t.head_dim});
  return buffers;
}

// One device's memory, with its insides open: every buffer, and the cache of every layer.
struct Device {
  Device(const model::Transformer& t, const std::filesystem::path& weights)
      : state(t, Shard::slice(weights, t, testing::whole_share(t)),
              {.max_rows = kRows,
               .cache_positions = std::int64_t{2} * kPositions,
               .sequences = 2,
               .buffers = declared(t)}) {
    std::iota(state.tokens.begin(), state.tokens.end(), 1);
    state.token_count = kRows;
  }
  [[nodiscard]] std::span<float> buffer(BufferRef ref) const {
    const Compute::State::Buffer b = state.buffer(ref);
    return {b.data, static_cast<std::size_t>(b.rows * b.width)};
  }
  Compute::State state;
};

// A buffer, or the cache of a layer.
struct Place {
  BufferRef buffer;
  std::int32_t layer = -1;
};

std::vector<Place> places(const model::Transformer& t) {
  std::vector<Place> all;
  all.reserve(kBuffers.size() + static_cast<std::size_t>(t.layers));
  for (const BufferRef ref : kBuffers) all.push_back({ref});
  for (std::int32_t layer = 0; layer < t.layers; ++layer) {
    all.push_back({{BufferKind::key_value}, layer});
  }
  return all;
}

std::span<float> floats_of(Device& device, const Place& place) {
  if (place.buffer.kind == BufferKind::key_value) {
    const std::span<std::byte> bytes = device.state.cache.layer(place.layer);
    return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
  }
  return device.buffer(place.buffer);
}

// Values as computing leaves them, different everywhere.
void fill(Device& device, const Place& place, float phase) {
  float value = phase;
  for (float& x : floats_of(device, place)) x = std::sin(value += 0.37F);
}

// Whether a task uses the rows that it names of it, only.
bool by_rows(const Place& place) {
  return place.layer < 0 && !model::of_sampled_rows(place.buffer.kind) &&
         place.buffer.kind != BufferKind::packed_kv;
}

// Of rows of the batch, or of those that are not among them.
std::span<float> floats_of(Device& device, const Place& place, Range rows) {
  const std::span<float> all = floats_of(device, place);
  const std::size_t width = all.size() / kRows;
  return all.subspan(static_cast<std::size_t>(rows.begin) * width,
                     static_cast<std::size_t>(rows.size()) * width);
}
std::vector<Range> other_rows(Range rows) { return {{0, rows.begin}, {rows.end, kRows}}; }

std::vector<std::uint32_t> bits(std::span<const float> floats) {
  std::vector<std::uint32_t> all(floats.size());
  std::ranges::transform(floats, all.begin(),
                         [](float x) { return std::bit_cast<std::uint32_t>(x); });
  return all;
}
std::vector<std::uint32_t> bits(Device& device, const Place& place) {
  return bits(floats_of(device, place));
}

bool among(BufferKind kind, std::span<const BufferKind> kinds) {
  return std::ranges::find(kinds, kind) != kinds.end();
}

bool may_write(const Task& task, const Place& place) {
  if (place.layer >= 0 && place.layer != task.layer) return false;
  if (place.buffer.kind == BufferKind::packed_kv) return reads_gathered(task);
  return (place.layer < 0 &&
          (place.buffer == task.output || place.buffer == softmax_written(task))) ||
         (place.buffer.slot == 0 && among(place.buffer.kind, also_written(task.kind)));
}

bool may_read(const Task& task, const Place& place) {
  if (place.layer >= 0 && place.layer != task.layer) return false;
  return may_write(task, place) || place.buffer == task.input ||
         (place.layer < 0 && place.buffer == softmax_read(task)) ||
         place.buffer == keys_read(task) || place.buffer == list_read(task) ||
         among(place.buffer.kind, also_read(task.kind));
}

Task task_of(TaskKind kind, const model::Transformer& t) {
  const auto whole = [](std::int64_t size) { return Range{0, static_cast<std::int32_t>(size)}; };
  Task task;
  task.kind = kind;
  task.layer = 1;
  task.rows = {0, kRows};
  switch (kind) {
    case TaskKind::embed:
    case TaskKind::fetch:
      task.layer = -1;
      task.output = {BufferKind::hidden};
      break;
    case TaskKind::norm:
      task.block = model::WeightBlock::ffn;
      task.input = {BufferKind::hidden};
      task.output = {BufferKind::normed};
      break;
    case TaskKind::project_qkv:
      task.columns = whole(t.heads);
      task.input = {BufferKind::normed};
      task.output = {BufferKind::query};
      break;
    case TaskKind::attend:
      task.columns = whole(t.heads);
      task.input = {BufferKind::query};
      task.output = {BufferKind::attention};
      break;
    case TaskKind::project_out:
      task.columns = whole(t.heads);
      task.input = {BufferKind::attention};
      task.output = {BufferKind::partial};
      break;
    case TaskKind::ffn_up:
      task.columns = whole(t.intermediate);
      task.input = {BufferKind::normed};
      task.output = {BufferKind::activation};
      break;
    case TaskKind::ffn_down:
      task.columns = whole(t.intermediate);
      task.input = {BufferKind::activation};
      task.output = {BufferKind::receive, 1};
      break;
    case TaskKind::add:
      task.columns = whole(t.hidden);
      task.input = {BufferKind::receive, 0};
      task.output = {BufferKind::partial};
      break;
    case TaskKind::lm_head:
      task.rows = {kRows - 1, kRows};
      task.columns = whole(t.vocab);
      task.layer = -1;
      task.input = {BufferKind::normed};
      task.output = {BufferKind::logits};
      break;
    case TaskKind::merge:
      task.columns = whole(t.heads);
      task.input = {BufferKind::attention, 1};
      task.output = {BufferKind::attention, 0};
      break;
    case TaskKind::shortlist:
      task.rows = {kRows - 1, kRows};
      task.columns = {3, 40};
      task.chosen = {5, 12};
      task.layer = -1;
      task.input = {BufferKind::logits};
      task.output = {BufferKind::candidates};
      break;
    case TaskKind::select:
      task.columns = whole(t.heads);
      task.input = {BufferKind::scores};
      task.output = {BufferKind::selection, 1};
      break;
    case TaskKind::gather:
      task.columns = whole(t.heads);
      task.input = {BufferKind::key_value};
      task.output = {BufferKind::gathered, 1};
      break;
    case TaskKind::score:
      task.columns = whole(t.heads);
      task.input = {BufferKind::query, 1};
      task.output = {BufferKind::scores, 1};
      break;
    case TaskKind::sample:
    case TaskKind::load:
    case TaskKind::release:
    case TaskKind::transfer:
    case TaskKind::capture:
    case TaskKind::deliver:
      FAIL("not executed by Compute");
  }
  return task;
}

TEST_CASE(
    "exec/compute: tasks touch their rows of operands and of what their kind is said to use, "
    "only") {
  const model::Transformer t = testing::small_llama();
  const testing::TemporaryFolder folder;
  write_random_weights(t, 5, model::DType::f32, folder.path());
  struct Rows final : EmbeddingRows {
    void read_row(std::int32_t token, std::span<float> row) override {
      std::ranges::fill(row, static_cast<float>(token));
    }
  } rows;
  const std::vector<Place> all = places(t);
  // Of one text, of one after others, and of two texts at once, which takes another way.
  const model::Batch batches[] = {{{{.sequence = 0, .past = 0, .rows = kRows, .sampled = 1}}},
                                  {{{.sequence = 1, .past = 20, .rows = kRows, .sampled = 1}}},
                                  {{{.sequence = 0, .past = 3, .rows = 2, .sampled = 1},
                                    {.sequence = 1, .past = 9, .rows = 2, .sampled = 1}}}};
  // All rows of each, and some in the middle.
  std::vector<std::pair<model::Batch, Range>> cases;
  for (const model::Batch& batch : batches) {
    cases.emplace_back(batch, Range{0, kRows});
    cases.emplace_back(batch, Range{1, 3});
  }
  for (const TaskKind kind :
       {TaskKind::embed, TaskKind::fetch, TaskKind::norm, TaskKind::project_qkv, TaskKind::attend,
        TaskKind::project_out, TaskKind::ffn_up, TaskKind::ffn_down, TaskKind::add,
        TaskKind::lm_head, TaskKind::merge, TaskKind::shortlist, TaskKind::select, TaskKind::gather,
        TaskKind::score}) {
    for (const auto& [batch, rows_used] : cases) {
      Task task = task_of(kind, t);
      const bool of_one = kind == TaskKind::gather || kind == TaskKind::score;
      if (of_one && batch.segments.size() > 1) continue;
      if (kind == TaskKind::select || kind == TaskKind::score) task.keys = rows_used;
      // Of what was gathered, too.
      const bool gathered = kind == TaskKind::attend && batch.segments.front().past == 20;
      if (gathered) {
        task.input.slot = 1;
        task.keys = rows_used;
      }
      // Part of the keys, of the larger half of the cases.
      if (kind == TaskKind::attend && rows_used.begin > 0) {
        task.statistics = true;
        task.output.slot = 1;
      }
      if (kind != TaskKind::lm_head && kind != TaskKind::shortlist) task.rows = rows_used;
      CAPTURE(model::to_string(kind));
      CAPTURE(task.rows.begin);
      Device plain(t, folder.path());
      Device poisoned(t, folder.path());
      for (Device* device : {&plain, &poisoned}) {
        device->state.embedding_rows = &rows;
        for (const model::Segment& segment : batch.segments)
          device->state.cache.append(segment.sequence, {0, segment.past});
        device->state.cache.begin(batch);
        float phase = 0.0F;
        for (const Place& place : all) fill(*device, place, phase += 1.0F);
      }
      for (const Place& place : all) {
        constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();
        if (!may_read(task, place)) {
          std::ranges::fill(floats_of(poisoned, place), kPoison);
        } else if (by_rows(place)) {
          for (const Range others : other_rows(task.rows))
            std::ranges::fill(floats_of(poisoned, place, others), kPoison);
        }
      }
      std::vector<std::vector<std::uint32_t>> before;
      before.reserve(all.size());
      for (const Place& place : all) before.push_back(bits(plain, place));
      std::vector<std::vector<std::uint32_t>> others;
      for (const Place& place : all) {
        if (!by_rows(place)) continue;
        for (const Range rows_left : other_rows(task.rows))
          others.push_back(bits(floats_of(plain, place, rows_left)));
      }
      plain.state.execute(batch, task);
      poisoned.state.execute(batch, task);
      for (std::size_t i = 0; i < all.size(); ++i) {
        CAPTURE(model::to_string(all[i].buffer.kind));
        CAPTURE(all[i].layer);
        const bool changed = bits(plain, all[i]) != before[i];
        if (changed) CHECK(may_write(task, all[i]));
        if (all[i].layer < 0 && all[i].buffer == task.output) CHECK(changed);
        // Nothing that it is not said to read has a part in what it leaves.
        if (!may_write(task, all[i])) continue;
        if (!by_rows(all[i])) {
          CHECK(bits(poisoned, all[i]) == bits(plain, all[i]));
        } else {
          CHECK(bits(floats_of(poisoned, all[i], task.rows)) ==
                bits(floats_of(plain, all[i], task.rows)));
        }
      }
      auto left = others.begin();
      for (const Place& place : all) {
        if (!by_rows(place)) continue;
        CAPTURE(model::to_string(place.buffer.kind));
        for (const Range rows_left : other_rows(task.rows))
          CHECK(bits(floats_of(plain, place, rows_left)) == *left++);
      }
    }
  }
}

}  // namespace
}  // namespace tandem::exec::compute_touches_test
