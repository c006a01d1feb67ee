#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <tuple>

#include "exec/kernels/attention.hpp"
#include "exec/weights/formats/block_codec.hpp"
#include "exec/weights/source/layout.hpp"
#include "model/base/error.hpp"
#include "tests/exec/compute/compute_fixture.hpp"
#include "tests/support/sampled.hpp"
#include "tests/support/storage_fixture.hpp"

namespace tandem::exec::compute_test {
namespace {

using namespace testing;
using model::Batch;
using model::BufferKind;
using model::BufferRef;
using model::Range;
using model::Share;
using model::Task;
using model::TaskKind;
using model::Transformer;
using model::WeightBlock;

// `range` in tiles of at most `size`.
std::vector<Range> tiles(Range range, std::int32_t size) {
  std::vector<Range> parts;
  for (std::int32_t at = range.begin; at < range.end; at += size) {
    parts.push_back({at, std::min(at + size, range.end)});
  }
  return parts;
}

struct Tiling {
  std::int32_t rows = 1 << 20;
  std::int32_t heads = 1 << 20;
  std::int32_t columns = 1 << 20;
};

// Several devices' shards of one model in one process: what a lowering does, by hand. Device 0
// embeds, has the head and sums the others' partial results.
class Ensemble {
 public:
  Ensemble(const Transformer& t, const std::vector<Share>& shares, ComputeLimits limits,
           Tiling tiling = {})
      : t_(t), shares_(shares), tiling_(tiling) {
    for (const Share& share : shares) {
      limits.buffers = tandem::test::buffers_of(t, share, 1);
      devices_.push_back(make(t, share, limits));
    }
  }

  // Runs one step; returns the logits of each segment's last row.
  std::vector<std::vector<float>> step(const Batch& batch, const std::vector<std::int32_t>& ids) {
    const Range rows{0, batch.rows()};
    for (Compute& device : devices_) device.begin(batch);
    Compute& master = devices_.front();
    master.set_tokens(ids);
    run(0, batch, {.kind = TaskKind::embed, .rows = rows, .output = kHidden});
    for (std::int32_t layer = 0; layer < t_.layers; ++layer) {
      norm(batch, layer, WeightBlock::attention);
      block(batch, layer, WeightBlock::attention);
      norm(batch, layer, WeightBlock::ffn);
      block(batch, layer, WeightBlock::ffn);
    }
    run(0, batch,
        {.kind = TaskKind::norm,
         .block = WeightBlock::head,
         .rows = rows,
         .input = kHidden,
         .output = kNormed});
    std::vector<std::vector<float>> logits;
    std::int32_t end = 0;
    for (const model::Segment& segment : batch.segments) {
      end += segment.rows;
      for (const Range columns : tiles({0, static_cast<std::int32_t>(t_.vocab)}, tiling_.columns)) {
        run(0, batch,
            {.kind = TaskKind::lm_head,
             .rows = {end - 1, end},
             .columns = columns,
             .input = kNormed,
             .output = kLogits});
      }
      logits.emplace_back(master.logits().begin(), master.logits().end());
    }
    return logits;
  }

  [[nodiscard]] Compute& device(std::size_t i) { return devices_[i]; }

 private:
  void run(std::size_t device, const Batch& batch, Task task) {
    task.device = static_cast<model::DeviceIndex>(device);
    devices_[device].execute(batch, task);
  }

  void norm(const Batch& batch, std::int32_t layer, WeightBlock which) {
    // A device has the norms of the blocks that it has a share in.
    const auto owner = static_cast<std::size_t>(
        std::ranges::find_if(
            shares_,
            [&](const Share& share) {
              return !(which == WeightBlock::attention ? share.heads : share.columns).empty();
            }) -
        shares_.begin());
    for (const Range rows : tiles({0, batch.rows()}, tiling_.rows)) {
      copy(kHidden, rows, 0, owner);
      run(owner, batch,
          {.kind = TaskKind::norm,
           .block = which,
           .layer = layer,
           .rows = rows,
           .input = kHidden,
           .output = kNormed});
      copy(kNormed, rows, owner, 0);
    }
  }

  void copy(BufferRef buffer, Range rows, std::size_t from, std::size_t to) {
    if (from == to) return;
    const Range hidden{0, static_cast<std::int32_t>(t_.hidden)};
    std::vector<float> packed(static_cast<std::size_t>(rows.size() * hidden.size()));
    devices_[from].read_rows(buffer, rows, hidden, packed);
    devices_[to].write_rows(buffer, rows, hidden, packed);
  }

  void block(const Batch& batch, std::int32_t layer, WeightBlock which) {
    const Range hidden{0, static_cast<std::int32_t>(t_.hidden)};
    for (const Range rows : tiles({0, batch.rows()}, tiling_.rows)) {
      std::vector<float> packed(static_cast<std::size_t>(rows.size() * hidden.size()));
      devices_.front().read_rows(kNormed, rows, hidden, packed);
      for (std::size_t i = 0; i < devices_.size(); ++i) {
        const Share& share = shares_[i];
        if (i != 0) devices_[i].write_rows(kNormed, rows, hidden, packed);
        const bool attention = which == WeightBlock::attention;
        const Range columns = attention ? share.heads : share.columns;
        Task task{.layer = layer, .rows = rows};
        for (const Range tile : tiles(columns, attention ? tiling_.heads : tiling_.columns)) {
          task.columns = tile;
          if (attention) {
            run(i, batch, with(task, TaskKind::project_qkv, kNormed, kQuery));
            run(i, batch, with(task, TaskKind::attend, kQuery, kAttention));
          } else {
            run(i, batch, with(task, TaskKind::ffn_up, kNormed, kActivation));
          }
        }
        for (const Range tile : tiles(columns, attention ? tiling_.heads : tiling_.columns)) {
          task.columns = tile;
          run(i, batch,
              attention ? with(task, TaskKind::project_out, kAttention, kPartial)
                        : with(task, TaskKind::ffn_down, kActivation, kPartial));
          sum(i, batch, rows);
        }
      }
    }
  }

  // Adds device i's partial sum to the master's residual stream.
  void sum(std::size_t i, const Batch& batch, Range rows) {
    const Range hidden{0, static_cast<std::int32_t>(t_.hidden)};
    BufferRef from = kPartial;
    if (i != 0) {
      std::vector<float> packed(static_cast<std::size_t>(rows.size() * hidden.size()));
      devices_[i].read_rows(kPartial, rows, hidden, packed);
      from = {BufferKind::receive, 0};
      devices_.front().write_rows(from, rows, hidden, packed);
    }
    run(0, batch,
        {.kind = TaskKind::add, .rows = rows, .columns = hidden, .input = from, .output = kHidden});
  }

  static Task with(Task task, TaskKind kind, BufferRef input, BufferRef output) {
    task.kind = kind;
    task.input = input;
    task.output = output;
    return task;
  }

  Transformer t_;
  std::vector<Share> shares_;
  Tiling tiling_;
  std::vector<Compute> devices_;
};

std::vector<std::int32_t> some_tokens(const Transformer& t, std::int32_t count,
                                      std::int32_t seed = 3) {
  std::vector<std::int32_t> ids;
  ids.reserve(static_cast<std::size_t>(count));
  for (std::int32_t i = 0; i < count; ++i) {
    ids.push_back((seed + i * 7 + i * i) % static_cast<std::int32_t>(t.vocab));
  }
  return ids;
}

// RandomWeights as they are in the formats of `t`.
struct Rounded {
  Transformer t;
  using Place = std::tuple<exec::WeightName, std::int32_t, std::int64_t, std::int64_t>;
  struct Blocks {
    std::map<Place, std::vector<float>> all;
    Place last;  // what is asked for is nearly always in the same block
    const std::vector<float>* values = nullptr;
  };
  std::shared_ptr<Blocks> blocks = std::make_shared<Blocks>();

  float operator()(const exec::WeightElement& e) const {
    const auto matrix = exec::weight_matrix(e.name);
    if (!matrix) return RandomWeights{}(e);
    const model::WeightFormat format = t.format_of(*matrix, e.layer);
    const std::int64_t block = model::block_of(format).elements;
    const Place place{e.name, e.layer, e.row, e.column / block};
    if (!blocks->values || blocks->last != place) {
      blocks->values = &rounded(place, format, block);
      blocks->last = place;
    }
    return (*blocks->values)[static_cast<std::size_t>(e.column % block)];
  }

 private:
  [[nodiscard]] const std::vector<float>& rounded(const Place& place, model::WeightFormat format,
                                                  std::int64_t block) const {
    std::vector<float>& values = blocks->all[place];
    if (values.empty()) {
      const auto& [name, layer, row, at] = place;
      for (std::int64_t column = at * block; column < (at + 1) * block; ++column)
        values.push_back(RandomWeights{}({name, layer, row, column}));
      std::vector<std::byte> stored(static_cast<std::size_t>(model::block_of(format).bytes));
      exec::encode(format, values, stored);
      exec::decode(format, stored, values);
    }
    return values;
  }
};

// Rounding through two layers whose activations are of order one.
constexpr double kLogitTolerance = 2e-5;
// The same with every product's inputs in 8 bits, each at most half of a 127th of the largest
// beside it from what it stands for. The products themselves are held to the last bit elsewhere.
constexpr double kIntegerTolerance = 2e-2;

void check_row(const std::vector<float>& got, const Matrix& all, std::int64_t row,
               double tolerance = kLogitTolerance) {
  Matrix wanted(1, all.columns);
  for (std::int64_t c = 0; c < all.columns; ++c) wanted.at(0, c) = all.at(row, c);
  CAPTURE(row);
  testing::check_close(got, wanted, tolerance);
}

// A prompt and single tokens after it, against the reference over the whole text.
void check_generation(Ensemble& devices, const Transformer& t, std::int32_t prompt,
                      std::int32_t further) {
  const std::vector<std::int32_t> ids = some_tokens(t, prompt + further);
  const Matrix wanted = testing::reference_logits(t, RandomWeights{}, ids);
  const std::vector<std::int32_t> first(ids.begin(), ids.begin() + prompt);
  check_row(devices.step({{{0, 0, prompt}}}, first).front(), wanted, prompt - 1);
  for (std::int32_t i = prompt; i < prompt + further; ++i) {
    check_row(devices.step({{{0, i, 1}}}, {ids[static_cast<std::size_t>(i)]}).front(), wanted, i);
  }
}

}  // namespace

TEST_CASE("compute: prompt and further tokens equal the reference, whatever the threads") {
  const Transformer t = tiny();
  for (const int threads : {1, 2, 3}) {
    for (const std::int32_t prompt : {1, 2, 5, 8, 9, 41}) {
      CAPTURE(threads);
      CAPTURE(prompt);
      Ensemble one(t, {whole(t)}, {.max_rows = 41, .cache_positions = 64, .threads = threads});
      check_generation(one, t, prompt, 3);
    }
  }
}

TEST_CASE("compute: weights in formats compute with the numbers that they decode to") {
  testing::Sampled taken(4);
  for (const model::WeightFormat format : model::kWeightFormats) {
    if (!taken()) continue;
    CAPTURE(to_string(format));
    Transformer t = tiny();
    // Heads of 128 share blocks of 256: the third is in one with the fourth.
    const bool longer = model::block_of(format).elements > 32;
    const std::int32_t columns = longer ? 256 : 32;
    t.hidden = longer ? 256 : 64;
    t.head_dim = longer ? 128 : 32;
    t.intermediate = std::int64_t{3} * columns;
    t.formats = model::WeightFormats(format);
    const double tolerance =
        model::multiplies_integers(format)
            ? kIntegerTolerance * (longer ? 2.0 : 1.0)  // sums of four times as many numbers
            : kLogitTolerance;
    const std::int32_t heads = longer ? 3 : 4;
    const Share first{{0, 2}, {0, heads}, {0, columns}, true, true};
    const Share second{{0, 2}, {heads, 6}, {columns, 3 * columns}, false, false};
    const std::vector<std::int32_t> ids = some_tokens(t, 15);
    const Matrix wanted = testing::reference_logits(t, Rounded{t}, ids);
    for (const std::vector<Share>& shares :
         {std::vector<Share>{whole(t)}, std::vector<Share>{first, second}}) {
      Ensemble devices(t, shares, {.max_rows = 41, .cache_positions = 64, .threads = 2});
      check_row(devices.step({{{0, 0, 12}}}, {ids.begin(), ids.begin() + 12}).front(), wanted, 11,
                tolerance);
      for (std::int32_t i = 12; i < 15; ++i) {
        check_row(devices.step({{{0, i, 1}}}, {ids[static_cast<std::size_t>(i)]}).front(), wanted,
                  i, tolerance);
      }
    }
  }
}

TEST_CASE("compute: matrices of one layer may have any formats, prompts and tokens alike") {
  Transformer t = tiny();
  t.hidden = 64;
  t.head_dim = 32;
  t.intermediate = 96;
  t.formats = model::WeightFormats(model::WeightFormat::bf16);
  t.formats.set(model::WeightMatrix::value, model::WeightFormat::f16);
  t.formats.set(model::WeightMatrix::up, model::WeightFormat::f32);
  t.formats.set(model::WeightMatrix::key, 1, model::WeightFormat::f32);
  t.formats.set(model::WeightMatrix::gate, 1, model::WeightFormat::f16);
  t.formats.set(model::WeightMatrix::down, 0, model::WeightFormat::f32);
  const Share first{{0, 2}, {0, 4}, {0, 31}, true, true};
  const Share second{{0, 2}, {4, 6}, {31, 96}, false, false};
  for (const std::vector<Share>& shares :
       {std::vector<Share>{whole(t)}, std::vector<Share>{first, second}}) {
    Ensemble devices(t, shares, {.max_rows = 41, .cache_positions = 64, .threads = 2});
    const std::vector<std::int32_t> ids = some_tokens(t, 15);
    const Matrix wanted = testing::reference_logits(t, Rounded{t}, ids);
    check_row(devices.step({{{0, 0, 12}}}, {ids.begin(), ids.begin() + 12}).front(), wanted, 11);
    for (std::int32_t i = 12; i < 15; ++i) {
      check_row(devices.step({{{0, i, 1}}}, {ids[static_cast<std::size_t>(i)]}).front(), wanted, i);
    }
  }
}

TEST_CASE("compute: every grouping of heads, head size, tied embeddings and rope scaling") {
  struct Geometry {
    std::int64_t heads, kv_heads, head_dim;
  };
  for (const Geometry g :
       {Geometry{1, 1, 2}, {4, 4, 6}, {4, 1, 16}, {5, 1, 32}, {8, 2, 64}, {7, 7, 18}, {9, 3, 8}}) {
    for (const bool tied : {false, true}) {
      Transformer t = tiny();
      t.heads = g.heads;
      t.kv_heads = g.kv_heads;
      t.head_dim = g.head_dim;
      t.tied_embeddings = tied;
      CAPTURE(g.heads);
      CAPTURE(g.kv_heads);
      CAPTURE(g.head_dim);
      CAPTURE(tied);
      Ensemble one(t, {whole(t)}, {.max_rows = 19, .cache_positions = 24});
      check_generation(one, t, 19, 2);
    }
  }
  for (const auto kind : {model::RopeScaling::Kind::linear, model::RopeScaling::Kind::llama3}) {
    Transformer t = tiny();
    t.rope_scaling = model::RopeScaling{kind, 4.0, 1.0, 4.0, 32};
    Ensemble one(t, {whole(t)}, {.max_rows = 40, .cache_positions = 48});
    check_generation(one, t, 40, 2);
  }
}

TEST_CASE("compute: tiles of rows, heads and columns sum to the whole") {
  const Transformer t = tiny();
  for (const Tiling tiling : {Tiling{1, 1, 1}, {3, 2, 5}, {7, 5, 16}, {100, 4, 31}}) {
    for (const int threads : {1, 2}) {
      CAPTURE(tiling.rows);
      CAPTURE(tiling.heads);
      CAPTURE(tiling.columns);
      Ensemble one(t, {whole(t)}, {.max_rows = 20, .cache_positions = 24, .threads = threads},
                   tiling);
      check_generation(one, t, 20, 2);
    }
  }
}

TEST_CASE("compute: shares of several devices sum to the whole, key/value heads replicated") {
  const Transformer t = tiny();  // 6 heads in groups of 3
  const auto share = [&](Range heads, Range columns, bool master) {
    return Share{{0, 2}, heads, columns, master, master};
  };
  const std::vector<std::vector<Share>> splits = {
      {share({0, 3}, {0, 30}, true), share({3, 6}, {30, 67}, false)},
      {share({0, 2}, {0, 1}, true), share({2, 5}, {1, 66}, false), share({5, 6}, {66, 67}, false)},
      {share({0, 1}, {0, 10}, true), share({1, 2}, {10, 20}, false), share({2, 3}, {20, 31}, false),
       share({3, 4}, {31, 41}, false), share({4, 6}, {41, 67}, false)},
      {share({0, 0}, {0, 67}, true), share({0, 6}, {67, 67}, false)},
  };
  for (const auto& shares : splits) {
    CAPTURE(shares.size());
    for (const Tiling tiling : {Tiling{}, Tiling{9, 1, 7}}) {
      Ensemble devices(t, shares, {.max_rows = 17, .cache_positions = 20}, tiling);
      check_generation(devices, t, 17, 3);
    }
  }
}

TEST_CASE("compute: sequences of one batch keep to their own caches") {
  const Transformer t = tiny();
  for (const Tiling tiling : {Tiling{}, Tiling{2, 2, 16}}) {
    Ensemble one(t, {whole(t)},
                 {.max_rows = 16, .cache_positions = 3 * 64, .sequences = 3, .threads = 2}, tiling);
    const auto a = some_tokens(t, 9, 1);
    const auto b = some_tokens(t, 9, 20);
    const auto c = some_tokens(t, 9, 33);
    const Matrix want_a = testing::reference_logits(t, RandomWeights{}, a);
    const Matrix want_b = testing::reference_logits(t, RandomWeights{}, b);
    const Matrix want_c = testing::reference_logits(t, RandomWeights{}, c);

    // a's prompt alone; then b's prompt beside a's first token; then one token of each.
    check_row(one.step({{{0, 0, 5}}}, {a.begin(), a.begin() + 5}).front(), want_a, 4);
    std::vector<std::int32_t> ids{a[5]};
    ids.insert(ids.end(), b.begin(), b.begin() + 4);
    auto logits = one.step({{{0, 5, 1}, {2, 0, 4}}}, ids);
    check_row(logits[0], want_a, 5);
    check_row(logits[1], want_b, 3);
    logits = one.step({{{1, 0, 3}, {2, 4, 1}, {0, 6, 2}}}, {c[0], c[1], c[2], b[4], a[6], a[7]});
    check_row(logits[0], want_c, 2);
    check_row(logits[1], want_b, 4);
    check_row(logits[2], want_a, 7);

    one.device(0).reset();
    check_row(one.step({{{0, 0, 5}}}, {a.begin(), a.begin() + 5}).front(), want_a, 4);
  }
}

TEST_CASE("compute: an LM head over rows of several sequences fills one row of logits for each") {
  const Transformer t = tiny();
  Compute c = make(t, whole(t), {.max_rows = 8, .cache_positions = 8, .sequences = 3});
  const Batch batch{{{0, 0, 1}, {1, 0, 1}, {2, 0, 1}}};
  const auto x = testing::random_floats(3 * t.hidden, 1);
  c.write_rows(kNormed, {0, 3}, {0, 44}, x);
  c.execute(batch, {.kind = TaskKind::lm_head,
                    .rows = {0, 3},
                    .columns = {0, 53},
                    .input = kNormed,
                    .output = kLogits});
  std::vector<float> logits(std::size_t{3} * 53);
  c.read_rows(kLogits, {0, 3}, {0, 53}, logits);
  const Matrix head =
      testing::weight_matrix(RandomWeights{}, WeightName::head, -1, t.vocab, t.hidden);
  testing::check_close(logits, testing::times_transposed(testing::as_matrix(x, 3, 44), head),
                       testing::tolerance(44));
}

}  // namespace tandem::exec::compute_test
