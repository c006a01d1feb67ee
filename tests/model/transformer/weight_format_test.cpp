#include <doctest/doctest.h>

#include <string>

#include "model/graph/memory.hpp"
#include "model/graph/work.hpp"
#include "model/predict/cost_model.hpp"
#include "tests/model/model_fixtures.hpp"

namespace tandem::model::weight_format_test {
namespace {

Transformer in(Transformer t, WeightFormat format) {
  t.formats = WeightFormats(format);
  return t;
}

Share whole(const Transformer& t) {
  return {.layers = {0, static_cast<std::int32_t>(t.layers)},
          .heads = test::all_heads(t),
          .columns = test::all_columns(t),
          .embedding = true,
          .head = true};
}

}  // namespace

TEST_CASE("model/weight_format: names come back, and nothing else is one") {
  for (const WeightFormat format : kWeightFormats)
    CHECK(find_weight_format(to_string(format)) == format);
  for (const char* const name : {"", "F32", "q8", "q4_k_m", "f32 "})
    CHECK(!find_weight_format(name).has_value());
  WeightFormats mixed(WeightFormat::q4_0);
  CHECK(mixed.text() == "q4_0");
  mixed.set(WeightMatrix::head, WeightFormat::f16);
  CHECK(mixed.text() ==
        "query_key_value q4_0, out q4_0, gate_up q4_0, down q4_0, embedding q4_0, head f16");
  mixed.set(WeightMatrix::value, WeightFormat::q8_0);
  mixed.set(WeightMatrix::down, 3, WeightFormat::bf16);
  CHECK(mixed.text() ==
        "query q4_0, key q4_0, value q8_0, out q4_0, gate_up q4_0, down q4_0, embedding q4_0, "
        "head f16, layer 3's down bf16");
  CHECK(mixed.has(WeightFormat::bf16));
  CHECK(mixed.of(WeightMatrix::down, 3) == WeightFormat::bf16);
  CHECK(mixed.of(WeightMatrix::down, 2) == WeightFormat::q4_0);
  mixed.set(WeightMatrix::down, 3, WeightFormat::q4_0);  // as all others: no exception
  CHECK(mixed.exceptions().empty());
  CHECK_THROWS_AS(mixed.set(WeightMatrix::head, 0, WeightFormat::f32), std::logic_error);
}

TEST_CASE(
    "model/weight_format: matrices of single layers may differ, and bytes, time and plans do") {
  Transformer t = in(test::named_model("tinyllama-1.1b"), WeightFormat::q4_0);
  const Range heads{0, static_cast<std::int32_t>(t.heads)};
  const Range columns{0, static_cast<std::int32_t>(t.intermediate)};
  const double before = weight_bytes(t, whole(t));
  t.formats.set(WeightMatrix::value, 1, WeightFormat::q8_0);
  t.formats.set(WeightMatrix::down, 2, WeightFormat::f16);
  CHECK_NOTHROW(t.validate());
  const std::int64_t more_value =
      std::int64_t{4} * 64 *
      (row_bytes(WeightFormat::q8_0, 2048) - row_bytes(WeightFormat::q4_0, 2048));
  const std::int64_t more_down =
      2048 * (row_bytes(WeightFormat::f16, 5632) - row_bytes(WeightFormat::q4_0, 5632));
  CHECK(t.attention_bytes(1, heads) - t.attention_bytes(0, heads) == more_value);
  CHECK(t.ffn_bytes(2, columns) - t.ffn_bytes(0, columns) == more_down);
  CHECK(weight_bytes(t, whole(t)) == before + static_cast<double>(more_value + more_down));
  // A task's time is that of its matrices, each at its format's rate.
  const Batch batch{{{0, 0, 1}}};
  Task task{.kind = TaskKind::project_qkv, .layer = 1, .rows = {0, 1}, .columns = heads};
  const Work mixed = work_of(t, batch, task);
  CHECK(mixed.streamed_bytes == static_cast<double>(t.attention_bytes(1, heads) -
                                                    2048 * row_bytes(WeightFormat::q4_0, 2048)) -
                                    4.0 * 2048);
  DeviceProfile profile = nominal_profile(test::device("d"));
  for (FormatRates& rates : profile.formats) {
    if (rates.format != WeightFormat::q8_0) continue;
    for (KindRate& rate : rates.rate) {
      for (RatePoint& point : rate.points) point.seconds_per_byte *= 3.0;
    }
  }
  const CostModel costs(t, {profile});
  task.layer = 0;
  const double plain = costs.compute_time(batch, task).value();
  const double a_byte = plain / work_of(t, batch, task).streamed_bytes;
  const Transformer q8 = in(t, WeightFormat::q8_0);
  const double a_byte_of_q8 = CostModel(q8, {profile}).compute_time(batch, task).value() /
                              work_of(q8, batch, task).streamed_bytes;
  CHECK(a_byte_of_q8 > 1.5 * a_byte);
  task.layer = 1;
  const double value =
      static_cast<double>(std::int64_t{4} * 64 * row_bytes(WeightFormat::q8_0, 2048));
  CHECK(costs.compute_time(batch, task).value() ==
        doctest::Approx(a_byte * (mixed.streamed_bytes - value) + a_byte_of_q8 * value));
  // Beyond its layers a model has none.
  CHECK(t.first_layers(2).formats.exceptions().size() == 1);
  t.formats.set(WeightMatrix::down, 22, WeightFormat::f16);
  CHECK(test::contains(test::error_of([&] { t.validate(); }), "a layer with formats of its own"));
}

TEST_CASE("model/weight_format: rows are whole blocks, one that is begun included") {
  CHECK(row_bytes(WeightFormat::f32, 33) == 132);
  CHECK(row_bytes(WeightFormat::f16, 33) == 66);
  CHECK(row_bytes(WeightFormat::bf16, 0) == 0);
  CHECK(row_bytes(WeightFormat::q8_0, 4096) == 4096 / 32 * 34);
  CHECK(row_bytes(WeightFormat::q4_0, 4096) == 4096 / 32 * 18);
  CHECK(row_bytes(WeightFormat::q4_0, 33) == 36);
}

TEST_CASE("model/weight_format: memory of a model is its matrices' blocks and norms in f32") {
  const Transformer t = test::named_model("llama-2-7b");
  const double norms = 4096.0 * 65;
  const double matrices = static_cast<double>(t.parameters()) - norms;
  CHECK(weight_bytes(t, whole(t)) == 4.0 * static_cast<double>(t.parameters()));
  SUBCASE("f16: 2 bytes") {
    CHECK(weight_bytes(in(t, WeightFormat::f16), whole(t)) == 2.0 * matrices + 4.0 * norms);
  }
  SUBCASE("q8_0: 34 / 32 bytes") {
    CHECK(weight_bytes(in(t, WeightFormat::q8_0), whole(t)) == 34.0 / 32 * matrices + 4.0 * norms);
  }
  SUBCASE("q4_0: 18 / 32 bytes") {
    CHECK(weight_bytes(in(t, WeightFormat::q4_0), whole(t)) == 18.0 / 32 * matrices + 4.0 * norms);
  }
  SUBCASE("f32 is 4 bytes a parameter, of every model and part") {
    for (const char* const name : {"llama-2-7b", "gpt2", "bert-l", "opt-l", "glm-4-9b-1m"}) {
      CAPTURE(name);
      const Transformer m = test::named_model(name);
      const Range some{1, 3};
      CHECK(m.attention_bytes(0, some) == 4 * m.attention_parameters(some));
      CHECK(m.attention_bytes(0, {}) == 4 * m.attention_parameters({}));
      CHECK(m.ffn_bytes(0, some) == 4 * m.ffn_parameters(some));
      CHECK(m.ffn_bytes(0, {}) == 4 * m.ffn_parameters({}));
      CHECK(m.embedding_bytes() == 4 * m.embedding_parameters());
      CHECK(m.head_bytes() == 4 * m.head_parameters());
    }
  }
  SUBCASE("a tied head is the embedding, in its format") {
    Transformer tied = in(test::named_model("gpt2"), WeightFormat::bf16);
    tied.formats.set(WeightMatrix::head, WeightFormat::f32);
    CHECK(tied.format_of(WeightMatrix::head, -1) == WeightFormat::bf16);
    CHECK(tied.head_row_bytes() == tied.embedding_row_bytes());
  }
}

TEST_CASE("model/weight_format: rows that are no whole blocks are refused by name") {
  Transformer t = test::named_model("tinyllama-1.1b");
  t.intermediate = 5600 + 8;
  for (const WeightFormat format : {WeightFormat::f32, WeightFormat::f16, WeightFormat::bf16})
    CHECK_NOTHROW(in(t, format).validate());
  const std::string error = test::error_of([&] { in(t, WeightFormat::q8_0).validate(); });
  CHECK(test::contains(error, "the intermediate size is 5608, expected a multiple of 32"));
  CHECK(test::contains(error, "q8_0"));
  Transformer heads = in(t, WeightFormat::f32);
  heads.head_dim = 46;
  heads.formats.set(WeightMatrix::out, WeightFormat::q4_k);
  CHECK(test::contains(test::error_of([&] { heads.validate(); }), "heads * head_dim is 1472"));
}

TEST_CASE("model/weight_format: tasks stream what their matrix's format has, at its rate") {
  const Transformer f32 = test::named_model("llama-2-7b");
  const Transformer q4 = in(f32, WeightFormat::q4_0);
  const Batch batch{{{.past = 5, .rows = 3}}};
  const Task up{.kind = TaskKind::ffn_up, .rows = {0, 3}, .columns = {0, 64}};
  const Work of_f32 = work_of(f32, batch, up);
  const Work of_q4 = work_of(q4, batch, up);
  CHECK(of_q4.streamed_bytes == 2.0 * 64 * 4096 / 32 * 18);
  CHECK(of_q4.flops == of_f32.flops);
  CHECK(of_q4.intensity == of_f32.intensity);
  CHECK(of_q4.bytes_written == of_f32.bytes_written);
  CHECK(of_q4.format == WeightFormat::q4_0);
  CHECK(of_f32.format == WeightFormat::f32);
  const Task attend{.kind = TaskKind::attend, .rows = {0, 3}, .columns = {0, 4}, .keys = {0, 9}};
  CHECK(work_of(q4, batch, attend).streamed_bytes == work_of(f32, batch, attend).streamed_bytes);
  const Task fetch{.kind = TaskKind::fetch, .rows = {0, 3}, .columns = {0, 4096}};
  CHECK(work_of(q4, batch, fetch).bytes_disk == 3.0 * 4096 / 32 * 18);
  const Task load{.kind = TaskKind::load, .block = WeightBlock::ffn, .columns = {0, 64}};
  CHECK(work_of(q4, batch, load).bytes_disk == 3.0 * 64 * 4096 / 32 * 18 + 4.0 * 4096);

  SUBCASE("nominal: the roofline, whatever the format") {
    const Device device = test::device("d");
    for (const WeightFormat format : kWeightFormats) {
      const CostModel costs(in(f32, format), {nominal_profile(device)});
      for (const std::int32_t rows : {1, 2, 5, 40}) {
        const Batch step{{{.past = 5, .rows = rows}}};
        const Task task{.kind = TaskKind::ffn_down, .rows = {0, rows}, .columns = {0, 256}};
        const Work work = work_of(in(f32, format), step, task);
        CHECK(costs.compute_time(step, task).value() ==
              doctest::Approx(std::max(work.streamed_bytes / 20e9, work.flops / 50e9))
                  .epsilon(1e-12));
      }
    }
  }
  SUBCASE("a profile that does not know the format is refused by name") {
    DeviceProfile profile = nominal_profile(test::device("d"));
    profile.source = "some machine";
    profile.formats.clear();
    CHECK_NOTHROW(CostModel(f32, {profile}));
    const std::string error = test::error_of([&] { return CostModel(q4, {profile}); });
    CHECK(test::contains(error, "some machine"));
    CHECK(test::contains(error, "tandem profile --dtype q4_0"));
  }
}

TEST_CASE("model/weight_format: profiles keep rates of formats, and refuse others") {
  const DeviceProfile nominal = nominal_profile(test::device("d"));
  CHECK(nominal.formats.size() == kAllFormats.size() - 1);
  CHECK(parse_profile_json(to_json(nominal), "p.json") == nominal);
  const DeviceProfile some = for_formats(nominal, WeightFormats(WeightFormat::q8_0));
  REQUIRE(some.formats.size() == 1);
  CHECK(parse_profile_json(to_json(some), "p.json") == some);
  const DeviceProfile none = for_formats(nominal, WeightFormats());
  CHECK(!test::contains(to_json(none), "formats"));
  CHECK(slowed(some, 3.0)
            .rate_of(TaskKind::lm_head, WeightFormat::q8_0)
            ->points[0]
            .seconds_per_byte ==
        3.0 * some.rate_of(TaskKind::lm_head, WeightFormat::q8_0)->points[0].seconds_per_byte);
  std::string text = to_json(some);
  text.replace(text.find("q8_0"), 4, "q9_0");
  CHECK(test::contains(test::error_of([&] { return parse_profile_json(text, "p.json"); }),
                       "formats"));
}

}  // namespace tandem::model::weight_format_test
