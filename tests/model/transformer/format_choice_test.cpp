#include "model/transformer/format_choice.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "model/graph/work.hpp"
#include "tests/model/model_fixtures.hpp"

namespace tandem::model::format_choice_test {
namespace {

WeightFormats chosen(const std::string& name, const Transformer& t) {
  const auto formats = chosen_formats(name, t);
  REQUIRE(formats.has_value());
  return *formats;
}

std::set<std::int32_t> layers_in(const WeightFormats& formats, WeightMatrix matrix,
                                 WeightFormat format, std::int64_t layers) {
  std::set<std::int32_t> in;
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    if (formats.of(matrix, layer) == format) in.insert(layer);
  }
  return in;
}

}  // namespace

TEST_CASE("model/format choice: mixes are llama.cpp's") {
  const Transformer t = test::named_model("tinyllama-1.1b");
  // Of 22 layers: the first two, the last three, and every third between.
  const std::set<std::int32_t> longer{0, 1, 4, 7, 10, 13, 16, 19, 20, 21};
  for (const auto& [name, most] :
       {std::pair{"q4_k_m", WeightFormat::q4_k}, std::pair{"q5_k_m", WeightFormat::q5_k}}) {
    CAPTURE(name);
    const WeightFormats mix = chosen(name, t);
    CHECK(mix.of(WeightMatrix::head) == WeightFormat::q6_k);
    for (const WeightMatrix matrix :
         {WeightMatrix::query, WeightMatrix::key, WeightMatrix::out, WeightMatrix::gate,
          WeightMatrix::up, WeightMatrix::embedding})
      CHECK(layers_in(mix, matrix, most, 22).size() == 22);
    for (const WeightMatrix matrix : {WeightMatrix::value, WeightMatrix::down}) {
      CHECK(layers_in(mix, matrix, WeightFormat::q6_k, 22) == longer);
      CHECK(layers_in(mix, matrix, most, 22).size() == 12);
    }
  }
  SUBCASE("a tied head makes the embedding longer") {
    Transformer tied = t;
    tied.tied_embeddings = true;
    CHECK(chosen("q4_k_m", tied).of(WeightMatrix::embedding) == WeightFormat::q6_k);
  }
  SUBCASE("what GPT-2 and Phi 3 fuse with values has their format") {
    Transformer phi3 = t;
    phi3.family = Family::phi3;
    for (const Transformer& fused : {test::named_model("gpt2"), phi3}) {
      CAPTURE(fused.layers);
      // Of GPT-2's 12 layers: the first, the last two, and every third between.
      const std::set<std::int32_t> more =
          fused.family == Family::gpt2 ? std::set<std::int32_t>{0, 3, 6, 9, 10, 11} : longer;
      for (const auto& [name, most] :
           {std::pair{"q4_k_m", WeightFormat::q4_k}, std::pair{"q5_k_m", WeightFormat::q5_k}}) {
        const WeightFormats mix = chosen(name, fused);
        for (const WeightMatrix matrix :
             {WeightMatrix::query, WeightMatrix::key, WeightMatrix::value}) {
          CHECK(layers_in(mix, matrix, WeightFormat::q6_k, fused.layers) == more);
          CHECK(layers_in(mix, matrix, most, fused.layers).size() ==
                static_cast<std::size_t>(fused.layers) - more.size());
        }
      }
    }
  }
}

TEST_CASE("model/format choice: 80 layers are a model of 70B in two families") {
  // What llama.cpp's quantiser gives 40 of the 80 values of q4_k_m; the others have q6_k.
  const struct {
    Family family;
    bool grouped;
    WeightFormat others;
  } cases[] = {
      {Family::llama, true, WeightFormat::q5_k},   {Family::llama, false, WeightFormat::q4_k},
      {Family::qwen2, true, WeightFormat::q5_k},   {Family::qwen2, false, WeightFormat::q5_k},
      {Family::qwen3, true, WeightFormat::q4_k},   {Family::granite, true, WeightFormat::q4_k},
      {Family::gemma2, true, WeightFormat::q4_k},  {Family::gemma3, true, WeightFormat::q4_k},
      {Family::phi3, true, WeightFormat::q4_k},    {Family::phi3, false, WeightFormat::q4_k},
      {Family::smollm3, true, WeightFormat::q4_k}, {Family::gpt2, false, WeightFormat::q4_k},
  };
  Transformer t = test::named_model("tinyllama-1.1b");
  t.layers = 80;
  for (const auto& one : cases) {
    CAPTURE(to_string(one.family));
    CAPTURE(one.grouped);
    t.family = one.family;
    t.kv_heads = one.grouped ? t.heads / 4 : t.heads;
    const WeightFormats mix = chosen("q4_k_m", t);
    CHECK(layers_in(mix, WeightMatrix::value, one.others, 80).size() == 40);
    CHECK(layers_in(mix, WeightMatrix::value, WeightFormat::q6_k, 80).size() == 40);
    CHECK(layers_in(chosen("q5_k_m", t), WeightMatrix::value, WeightFormat::q5_k, 80).size() == 40);
  }
  SUBCASE("Ministral's files are no llama's") {
    t.family = Family::llama;
    t.kv_heads = t.heads / 4;
    t.query_growth = 0.1;
    CHECK(layers_in(chosen("q4_k_m", t), WeightMatrix::value, WeightFormat::q4_k, 80).size() == 40);
  }
}

TEST_CASE("model/format choice: rows that are no whole blocks fall back") {
  Transformer t = test::named_model("tinyllama-1.1b");
  t.intermediate = 5600;  // 32 * 175
  t.hidden = 2064;        // 16 * 129
  CHECK(chosen("q4_k", t).of(WeightMatrix::down) == WeightFormat::q5_0);
  CHECK(chosen("q5_k", t).of(WeightMatrix::down) == WeightFormat::q5_1);
  CHECK(chosen("q6_k", t).of(WeightMatrix::down) == WeightFormat::q8_0);
  CHECK(chosen("q4_k", t).of(WeightMatrix::up) == WeightFormat::f16);
  CHECK(chosen("q4_k", t).of(WeightMatrix::out) == WeightFormat::q4_k);  // 32 heads of 64
  const WeightFormats mix = chosen("q4_k_m", t);
  CHECK(mix.of(WeightMatrix::down, 0) == WeightFormat::q8_0);
  CHECK(mix.of(WeightMatrix::down, 2) == WeightFormat::q5_0);
  CHECK(chosen("q8_0", test::named_model("tinyllama-1.1b")) == WeightFormats(WeightFormat::q8_0));
}

TEST_CASE("model/format choice: matrices that cannot have a format are named, with the reason") {
  using tandem::model::substitution_remark;
  Transformer t = test::named_model("tinyllama-1.1b");
  for (const std::string_view name : model::format_choices())
    CHECK(substitution_remark(name, t).empty());
  CHECK(substitution_remark("none", t).empty());
  CHECK(substitution_remark("q4_k", test::named_model("llama-2-3b")) ==
        "q4_k is impossible for rows of 3200 and 8640 numbers, no multiples of 256: all matrices "
        "in q5_0 instead");
  t.intermediate = 5600;  // 32 * 175
  CHECK(substitution_remark("q4_k", t) ==
        "q4_k is impossible for rows of 5600 numbers, no multiples of 256: down in q5_0 instead");
  CHECK(substitution_remark("q4_k_m", t) ==
        "q4_k is impossible for rows of 5600 numbers, no multiples of 256: down in q5_0 instead; "
        "q6_k is impossible for rows of 5600 numbers, no multiples of 256: down in q8_0 instead");
  CHECK(substitution_remark("q8_0", t).empty());
}

TEST_CASE("model/format choice: names are those of formats to write, and the mixes") {
  const Transformer t = test::named_model("tinyllama-1.1b");
  for (const std::string_view name : format_choices()) {
    CAPTURE(name);
    Transformer chosen_one = t;
    chosen_one.formats = chosen(std::string(name), t);
    CHECK_NOTHROW(chosen_one.validate());
  }
  CHECK(format_choices().back() == "q5_k_m");
  CHECK(!chosen_formats("q2_k", t));
  CHECK(!chosen_formats("q4_k_s", t));
}

TEST_CASE("model/format choice: what was chosen has its name, anything else is told in full") {
  Transformer t = test::named_model("tinyllama-1.1b");
  for (const std::string_view name : format_choices()) {
    t.formats = chosen_formats(name, t).value();
    CHECK(format_name(t) == name);
  }
  t.formats.set(WeightMatrix::value, 3, WeightFormat::f16);
  CHECK(format_name(t) == t.formats.text());
}

TEST_CASE("model/format choice: a mix has its name whichever of two formats layers except") {
  Transformer t = test::named_model("tinyllama-1.1b");
  t.layers = 24;  // 3 + 6 + 3 of which keep more bits
  const WeightFormats mix = chosen("q4_k_m", t);
  t.formats = mix;
  for (const WeightMatrix matrix : {WeightMatrix::value, WeightMatrix::down}) {
    CHECK(layers_in(mix, matrix, WeightFormat::q6_k, 24).size() == 12);
    t.formats.set(matrix, WeightFormat::q6_k);
    for (std::int32_t layer = 0; layer < 24; ++layer)
      t.formats.set(matrix, layer, mix.of(matrix, layer));
  }
  CHECK(t.formats != mix);
  CHECK(format_name(t) == "q4_k_m");
  t.formats.set(WeightMatrix::down, 5, WeightFormat::q8_0);
  CHECK(format_name(t) == t.formats.text());
}

TEST_CASE("model/formats: a share of Wo is stored and multiplied in whole blocks") {
  Transformer t = test::named_model("tinyllama-1.1b");  // 32 heads of 64
  CHECK(t.head_unit() == 1);
  CHECK(t.out_columns(0, {3, 5}) == Range{192, 320});
  t.formats = WeightFormats(WeightFormat::q4_k);
  CHECK(t.head_unit() == 4);
  CHECK(t.out_columns(0, {3, 5}) == Range{0, 512});  // heads 3 and 4 share blocks with 0 to 7
  CHECK(t.out_columns(0, {4, 8}) == Range{256, 512});
  CHECK(t.out_columns(0, {7, 7}).empty());
  // Two blocks a row of Wo beside whole rows of q, k and v, and a norm.
  const std::int64_t row = row_bytes(WeightFormat::q4_k, 2048);
  CHECK(t.attention_bytes(0, {3, 5}) == (128 + 2 * 64) * row + 2048 * 2 * 144 + 4 * 2048);
  const Batch batch{{{.past = 5, .rows = 3}}};
  const Task out{.kind = TaskKind::project_out, .rows = {0, 3}, .columns = {3, 5}};
  CHECK(work_of(t, batch, out).streamed_bytes == 2048.0 * 2 * 144);
  CHECK(work_of(t, batch, out).flops == 2.0 * 3 * 512 * 2048);
  t.head_dim = 80;
  t.heads = 32;
  CHECK(t.head_unit() == 16);  // lcm(80, 256) / 80
  t.formats = WeightFormats(WeightFormat::q8_0);
  CHECK_NOTHROW(t.validate());  // 2560 columns are whole blocks, heads of 80 are not
  CHECK(t.out_columns(0, {1, 2}) == Range{64, 160});
}

}  // namespace tandem::model::format_choice_test
