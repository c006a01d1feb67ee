// The work of layers with experts and of latent attention.

#include <doctest/doctest.h>

#include "model/graph/work.hpp"
#include "model/predict/cost_model.hpp"
#include "tests/model/model_fixtures.hpp"

namespace tandem::model::experts_work_test {
namespace {

Batch one(std::int32_t past, std::int32_t rows) { return {{{.past = past, .rows = rows}}}; }

Task task(TaskKind kind, std::int32_t rows, Range columns, std::int32_t layer = 0) {
  return {.kind = kind, .layer = layer, .rows = {0, rows}, .columns = columns};
}

double parts(const Work& w) {
  double bytes = 0.0;
  for (const Work::Part& part : w.others) bytes += part.bytes;
  return bytes;
}

Seconds seconds(const Transformer& t, const Task& task, std::int32_t rows) {
  const CostModel costs(t, {nominal_profile(test::device("d"))});
  return costs.compute_time(0, task.kind, work_of(t, one(0, rows), task));
}

}  // namespace

TEST_CASE("model/experts work: one expert of one is the dense model, to the last bit") {
  for (const WeightFormat format : {WeightFormat::f32, WeightFormat::f16, WeightFormat::q8_0}) {
    Transformer dense = test::named_model("mistral-7b");
    dense.formats = WeightFormats(format);
    Transformer single = dense;
    single.experts = Experts{.count = 1, .chosen = 1};
    single.validate();
    CHECK(single.parameters() == dense.parameters());
    CHECK(single.active_parameters() == dense.parameters());
    for (const std::int32_t rows : {1, 2, 7, 300}) {
      for (const Range columns : {Range{0, 14336}, Range{64, 4096}}) {
        for (const TaskKind kind : {TaskKind::ffn_up, TaskKind::ffn_down}) {
          CAPTURE(rows);
          const Task of = task(kind, rows, columns);
          const Work a = work_of(dense, one(0, rows), of);
          const Work b = work_of(single, one(0, rows), of);
          CHECK(a.flops == b.flops);
          CHECK(a.streamed_bytes == b.streamed_bytes);
          CHECK(a.bytes_read == b.bytes_read);
          CHECK(a.bytes_written == b.bytes_written);
          CHECK(a.intensity == b.intensity);
          CHECK(parts(b) == 0.0);
          CHECK(seconds(dense, of, rows) == seconds(single, of, rows));
        }
      }
      CHECK(dense.ffn_bytes(3, {0, 14336}) == single.ffn_bytes(3, {0, 14336}));
    }
  }
}

TEST_CASE("model/experts work: Mixtral 8x7B") {
  const Transformer t = test::named_model("mixtral-8x7b");
  const double expert = 4096.0 * 14336;  // numbers of one matrix
  const Range all{0, 14336};
  SUBCASE("a token: 2 rows of gate and up, 4 expert flops each, and the router's 2 8 4096") {
    const Work w = work_of(t, one(9, 1), task(TaskKind::ffn_up, 1, all));
    CHECK(w.flops == 2.0 * 2 * 2 * expert + 2.0 * 8 * 4096);
    CHECK(w.streamed_bytes == 4.0 * (2 * 2 * expert + 8 * 4096));
    CHECK(w.intensity == 1.0);
    CHECK(w.rows == 2.0);
  }
  SUBCASE("two tokens use 3.5 experts on average, of 4 / 3.5 rows each") {
    const Work w =
        work_of(t, {{{.past = 9}, {.sequence = 1, .past = 3}}}, task(TaskKind::ffn_down, 2, all));
    CHECK(w.flops == doctest::Approx(2.0 * 2 * 2 * expert).epsilon(1e-12));
    CHECK(w.streamed_bytes == doctest::Approx(4.0 * 3.5 * expert).epsilon(1e-12));
    CHECK(w.intensity == doctest::Approx(4.0 / 3.5).epsilon(1e-12));
  }
  SUBCASE("a long prompt reads all 8 once, 128 rows each") {
    const Work w = work_of(t, one(0, 512), task(TaskKind::ffn_down, 512, all));
    CHECK(w.flops == doctest::Approx(2.0 * 512 * 2 * expert).epsilon(1e-12));
    CHECK(w.streamed_bytes == doctest::Approx(4.0 * 8 * expert).epsilon(1e-12));
    CHECK(w.intensity == doctest::Approx(128.0).epsilon(1e-12));
  }
  SUBCASE("a load reads all experts") {
    Task load{.kind = TaskKind::load, .lane = LaneKind::disk, .block = WeightBlock::ffn};
    load.layer = 4;
    load.columns = all;
    CHECK(work_of(t, one(9, 1), load).bytes_disk == static_cast<double>(t.ffn_bytes(4, all)));
  }
}

TEST_CASE("model/experts work: flops of a token are 2 a used parameter, and attention") {
  for (const char* const name :
       {"mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v2-lite", "llama-4-maverick", "glm-4.5-air"}) {
    CAPTURE(name);
    const Transformer t = test::named_model(name);
    double flops = 0.0;
    double norms = static_cast<double>(t.hidden);  // the last, and biases
    for (std::int32_t layer = 0; layer < t.layers; ++layer) {
      for (const TaskKind kind : {TaskKind::project_qkv, TaskKind::project_out})
        flops += work_of(t, one(0, 1), task(kind, 1, test::all_heads(t), layer)).flops;
      for (const TaskKind kind : {TaskKind::ffn_up, TaskKind::ffn_down})
        flops += work_of(t, one(0, 1), task(kind, 1, test::all_columns(t), layer)).flops;
      norms += 2.0 * static_cast<double>(t.hidden);
    }
    flops +=
        work_of(t, one(0, 1), task(TaskKind::lm_head, 1, {0, static_cast<std::int32_t>(t.vocab)}))
            .flops;
    const double used = static_cast<double>(t.active_parameters() - t.vocab * t.hidden) - norms;
    CHECK(flops == doctest::Approx(2.0 * used).epsilon(1e-4));  // biases, norms of heads and ranks
    CHECK(flops <= 2.0 * used * (1.0 + 1e-4));
  }
}

TEST_CASE("model/experts work: products of two devices sum to the whole's, the router aside") {
  const Transformer t = test::named_model("deepseek-v2-lite");
  for (const std::int32_t layer : {0, 5}) {
    for (const std::int32_t rows : {1, 40}) {
      const Work whole = work_of(t, one(0, rows), task(TaskKind::ffn_up, rows, {0, 1408}, layer));
      double flops = 0.0;
      double bytes = 0.0;
      for (const Range part : {Range{0, 500}, Range{500, 1408}}) {
        const Work w = work_of(t, one(0, rows), task(TaskKind::ffn_up, rows, part, layer));
        flops += w.flops;
        bytes += w.streamed_bytes;
      }
      const double router = layer == 0 ? 0.0 : 64.0 * 2048;
      CHECK(flops == doctest::Approx(whole.flops + 2.0 * rows * router).epsilon(1e-12));
      CHECK(bytes == doctest::Approx(whole.streamed_bytes + 4.0 * router).epsilon(1e-12));
    }
  }
}

TEST_CASE("model/latent attention work: all heads share the latent row") {
  Transformer t = test::named_model("deepseek-v3");
  t.cache = CacheFormat::f16;
  // Over 1000 keys: 2 H (2 512 + 64) flops a key, 2 (512 + 64) bytes.
  const Work w = work_of(t, one(999, 1), task(TaskKind::attend, 1, {0, 128}));
  CHECK(w.flops == 2.0 * 128 * (2 * 512 + 64) * 1000);
  CHECK(w.streamed_bytes == 2.0 * (512 + 64) * 1000);
  CHECK(w.flops == doctest::Approx(w.streamed_bytes * w.intensity).epsilon(1e-12));
  SUBCASE("half of the heads: half the flops, the same bytes") {
    const Work half = work_of(t, one(999, 1), task(TaskKind::attend, 1, {64, 128}));
    CHECK(half.flops == w.flops / 2.0);
    CHECK(half.streamed_bytes == w.streamed_bytes);
  }
  SUBCASE("a sparse model attends to 2048 keys, and scores all") {
    Transformer sparse = test::named_model("deepseek-v3.2");
    sparse.cache = CacheFormat::f16;
    const Work few = work_of(sparse, one(999, 1), task(TaskKind::attend, 1, {0, 128}));
    CHECK(few.flops == w.flops + 2.0 * 64 * 128 * 1000);
    const Work many = work_of(sparse, one(9999, 1), task(TaskKind::attend, 1, {0, 128}));
    CHECK(many.flops == 2.0 * 128 * (2 * 512 + 64) * 2048 + 2.0 * 64 * 128 * 10000);
    CHECK(many.streamed_bytes == 2.0 * (512 + 64) * 2048 + 2.0 * 128 * 10000);
  }
}

TEST_CASE("model/experts cost: more rows never take less, and less than as many single rows") {
  const Transformer t = test::named_model("qwen3-30b-a3b");
  const Range all = test::all_columns(t);
  const double single = seconds(t, task(TaskKind::ffn_up, 1, all), 1).value();
  double before = 0.0;
  for (std::int32_t rows = 1; rows <= 512; rows *= 2) {
    CAPTURE(rows);
    const double now = seconds(t, task(TaskKind::ffn_up, rows, all), rows).value();
    CHECK(now >= before);
    CHECK(now <= single * rows * (1.0 + 1e-12));
    before = now;
  }
}

}  // namespace tandem::model::experts_work_test
