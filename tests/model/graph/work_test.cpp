#include "model/graph/work.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "tests/model/model_fixtures.hpp"

namespace tandem::model::work_test {
namespace {

Batch one(std::int32_t past, std::int32_t rows) { return {{{.past = past, .rows = rows}}}; }

Task task(TaskKind kind, Range rows, Range columns) {
  return {.kind = kind, .rows = rows, .columns = columns};
}

// Keys that row `i` of a segment sees, as the vocabulary defines them.
double keys_of_row(const Segment& segment, std::int32_t i, Range keys) {
  return Range{0, segment.past + i + 1}.intersect(keys).size();
}

// Flops of one step of all layers and the head, on one device.
double step_flops(const Transformer& t, const Batch& batch) {
  const Range rows{0, batch.rows()};
  double flops = 0.0;
  for (std::int64_t layer = 0; layer < t.layers; ++layer) {
    for (const TaskKind kind : {TaskKind::project_qkv, TaskKind::attend, TaskKind::project_out}) {
      flops += work_of(t, batch, task(kind, rows, test::all_heads(t))).flops;
    }
    for (const TaskKind kind : {TaskKind::ffn_up, TaskKind::ffn_down}) {
      flops += work_of(t, batch, task(kind, rows, test::all_columns(t))).flops;
    }
  }
  return flops +
         work_of(t, batch, task(TaskKind::lm_head, rows, {0, static_cast<std::int32_t>(t.vocab)}))
             .flops;
}

}  // namespace

TEST_CASE("model/work: Llama 2-7B") {
  const Transformer t = test::named_model("llama-2-7b");
  const double norms = 4096.0 * 65;
  const double embedding = 32000.0 * 4096;
  const double matrices = static_cast<double>(t.parameters()) - norms - embedding;
  SUBCASE("one token after 999: 2 * 6,607,077,376 + 32 * 4 * 4096 * 1000 flops") {
    CHECK(matrices == 6607077376.0);
    CHECK(step_flops(t, one(999, 1)) == 2.0 * matrices + 32.0 * 4 * 4096 * 1000);
  }
  SUBCASE("a prompt of 3: 3 * 2 * matrices + 32 * 4 * 4096 * (1 + 2 + 3) flops") {
    CHECK(step_flops(t, one(0, 3)) == 6.0 * matrices + 32.0 * 4 * 4096 * 6);
  }
  SUBCASE("Wq, Wk, Wv: 4 * 4096 * 3 * 4096 bytes, reused by each row") {
    const Work w = work_of(t, one(0, 7), task(TaskKind::project_qkv, {0, 7}, {0, 32}));
    CHECK(w.streamed_bytes == 4.0 * 4096 * 3 * 4096);
    CHECK(w.intensity == 7.0);
    CHECK(w.bytes_read == w.streamed_bytes + 4.0 * 7 * 4096);
    CHECK(w.bytes_written == 4.0 * 7 * 3 * 4096);
  }
}

TEST_CASE("model/work: Llama 2-70B's key/value heads are an eighth of its heads") {
  const Transformer t = test::named_model("llama-2-70b");
  const Work qkv = work_of(t, one(0, 1), task(TaskKind::project_qkv, {0, 1}, {0, 64}));
  CHECK(qkv.streamed_bytes == 4.0 * 8192 * (8192 + 2 * 1024));
  const Work attend = work_of(t, one(99, 1), task(TaskKind::attend, {0, 1}, {0, 64}));
  CHECK(attend.streamed_bytes == 4.0 * 2 * 100 * 1024);
  CHECK(attend.intensity == 8.0);
  CHECK(attend.flops == 4.0 * 8192 * 100);
}

TEST_CASE("model/work: matrices and attention do half a flop a streamed byte and reuse") {
  const Transformer t = test::small_llama();
  const Batch batch{{{.past = 3, .rows = 5}, {.sequence = 1, .past = 0, .rows = 1}, {2, 11, 2}}};
  for (std::int32_t begin = 0; begin < 6; ++begin) {
    for (std::int32_t end = begin + 1; end <= 6; ++end) {
      for (const TaskKind kind : {TaskKind::project_qkv, TaskKind::attend, TaskKind::project_out,
                                  TaskKind::ffn_up, TaskKind::ffn_down, TaskKind::lm_head}) {
        CAPTURE(begin);
        CAPTURE(end);
        CAPTURE(to_string(kind));
        const Work w = work_of(t, batch, task(kind, {1, 8}, {begin, end}));
        CHECK(w.flops > 0.0);
        CHECK(w.flops == doctest::Approx(0.5 * w.streamed_bytes * w.intensity).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("model/work: uneven shares sum to the whole, copies of key/value heads aside") {
  const Transformer t = test::small_llama();
  const Batch batch = one(2, 3);
  const Range rows{0, 3};
  const Range shares[] = {{0, 1}, {1, 4}, {4, 6}};  // heads 0 and 1 share key/value head 0
  for (const TaskKind kind : {TaskKind::attend, TaskKind::project_out}) {
    double flops = 0.0;
    for (const Range share : shares) flops += work_of(t, batch, task(kind, rows, share)).flops;
    CHECK(flops == work_of(t, batch, task(kind, rows, {0, 6})).flops);
  }
  double qkv = 0.0;
  std::int32_t copies = -3;
  for (const Range share : shares) {
    qkv += work_of(t, batch, task(TaskKind::project_qkv, rows, share)).streamed_bytes;
    copies += t.kv_heads_for(share).size();
  }
  CHECK(copies == 1);  // key/value head 0 is held twice
  const double whole = work_of(t, batch, task(TaskKind::project_qkv, rows, {0, 6})).streamed_bytes;
  CHECK(qkv == whole + copies * 4.0 * 24 * 2 * 4);
  const double up = work_of(t, batch, task(TaskKind::ffn_up, rows, {0, 40})).flops;
  CHECK(work_of(t, batch, task(TaskKind::ffn_up, rows, {0, 13})).flops +
            work_of(t, batch, task(TaskKind::ffn_up, rows, {13, 40})).flops ==
        up);
}

TEST_CASE("model/work: attention's closed form is the sum over its rows") {
  const Transformer t = test::small_llama();
  std::mt19937 random(7);
  const auto draw = [&](std::int32_t below) {
    return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(below));
  };
  for (int round = 0; round < 500; ++round) {
    Batch batch;
    const int segments = 1 + draw(3);
    for (int s = 0; s < segments; ++s) batch.segments.push_back({s, draw(40), 1 + draw(9)});
    const std::int32_t first = draw(batch.rows());
    const Range rows{first, first + 1 + draw(batch.rows() - first)};
    Task attend = task(TaskKind::attend, rows, {1, 6});
    if (round % 2 == 0) {
      attend.keys.begin = draw(30);
      attend.keys.end = attend.keys.begin + draw(30);
    }
    double keys = 0.0;
    double streamed = 0.0;
    std::int32_t row = 0;
    for (const Segment& segment : batch.segments) {
      double of_segment = 0.0;
      int count = 0;
      for (std::int32_t i = 0; i < segment.rows; ++i, ++row) {
        if (!rows.contains(row)) continue;
        of_segment += keys_of_row(segment, i, attend.keys);
        ++count;
      }
      keys += of_segment;
      if (count > 0) streamed += of_segment / count;
    }
    CAPTURE(round);
    const Work w = work_of(t, batch, attend);
    CHECK(w.flops == doctest::Approx(4.0 * 5 * 4 * keys).epsilon(1e-12));
    CHECK(w.streamed_bytes == doctest::Approx(4.0 * 2 * 3 * 4 * streamed).epsilon(1e-12));
    CHECK(std::isfinite(w.intensity));
  }
}

TEST_CASE("model/work: a causal attention split by keys has the flops of the whole") {
  const Transformer t = test::small_llama();
  const Batch batch = one(5, 8);
  Task attend = task(TaskKind::attend, {0, 8}, {0, 6});
  const double whole = work_of(t, batch, attend).flops;
  double parts = 0.0;
  for (std::int32_t begin = 0; begin < 13; begin += 5) {
    attend.keys = {begin, begin + 5};
    parts += work_of(t, batch, attend).flops;
  }
  CHECK(parts == whole);
}

TEST_CASE("model/work: activations, messages and loads") {
  const Transformer t = test::small_llama();
  const Batch batch = one(0, 5);
  SUBCASE("add of 5 x 24: reads twice, writes once") {
    const Work w = work_of(t, batch, task(TaskKind::add, {0, 5}, {0, 24}));
    CHECK(w.flops == 120.0);
    CHECK(w.streamed_bytes == 12.0 * 120);
    CHECK(w.intensity == 1.0);
  }
  SUBCASE("embed copies rows: 2 * 4 * 5 * 24 bytes") {
    CHECK(work_of(t, batch, task(TaskKind::embed, {0, 5}, {})).streamed_bytes == 8.0 * 120);
  }
  SUBCASE("norm: two passes over the rows and one over its weight") {
    CHECK(work_of(t, batch, task(TaskKind::norm, {0, 5}, {})).streamed_bytes == 8.0 * 120 + 96);
  }
  SUBCASE("sample reads the logits of its row: 4 * 50 bytes, and writes an id") {
    CHECK(work_of(t, batch, task(TaskKind::sample, {4, 5}, {})).streamed_bytes == 204.0);
  }
  SUBCASE("transfer of 3 rows, 10 columns: 120 bytes") {
    Task transfer = task(TaskKind::transfer, {1, 4}, {4, 14});
    transfer.lane = LaneKind::channel;
    transfer.peer = 1;
    CHECK(work_of(t, batch, transfer).bytes_wire == 120.0);
  }
  SUBCASE("load of a block: its parameters, 4 bytes each; release is free") {
    Task load = task(TaskKind::load, {}, {1, 3});
    load.lane = LaneKind::disk;
    load.block = WeightBlock::attention;
    CHECK(work_of(t, batch, load).bytes_disk == 4.0 * (24 * (8 + 16 + 8) + 24));
    load.block = WeightBlock::ffn;
    CHECK(work_of(t, batch, load).bytes_disk == 4.0 * (3 * 24 * 2 + 24));
    load.columns = {0, 50};
    load.block = WeightBlock::head;
    CHECK(work_of(t, batch, load).bytes_disk == 4.0 * 50 * 24);
    load.kind = TaskKind::release;
    CHECK(work_of(t, batch, load).bytes_disk == 0.0);
  }
}

TEST_CASE("model/work: without a causal mask every row sees every key, no step has a head") {
  Transformer t = test::small_llama();
  t.family = Family::bert;
  t.token_types = 2;
  const auto heads = static_cast<std::int32_t>(t.heads);
  SUBCASE("a pass of 7: 4 heads d 7 * 7 flops, and each key is reused by 7 rows") {
    const Work w = work_of(t, one(0, 7), task(TaskKind::attend, {0, 7}, {0, heads}));
    CHECK(w.flops == 4.0 * static_cast<double>(heads * t.head_dim) * 49);
    CHECK(w.intensity == 7.0 * static_cast<double>(t.group()));
    CHECK(w.flops == doctest::Approx(w.streamed_bytes * w.intensity / 2.0));
  }
  SUBCASE("two segments do not see each other: 4 heads d (3 * 3 + 5 * 5)") {
    const Batch batch{{{.sequence = 0, .rows = 3}, {.sequence = 1, .rows = 5}}};
    const Work w = work_of(t, batch, task(TaskKind::attend, {0, 8}, {0, heads}));
    CHECK(w.flops == 4.0 * static_cast<double>(heads * t.head_dim) * (9 + 25));
  }
  SUBCASE("a row of the embedding is the sum of three, a norm has two vectors") {
    const double h = static_cast<double>(t.hidden);
    CHECK(work_of(t, one(0, 2), task(TaskKind::embed, {0, 2}, {})).bytes_read == 4.0 * 2 * 3 * h);
    CHECK(work_of(t, one(0, 2), task(TaskKind::norm, {0, 2}, {})).bytes_read ==
          4.0 * (2 * h + 2 * h));
  }
  CHECK(t.head_rows() == 0);
}

}  // namespace tandem::model::work_test
