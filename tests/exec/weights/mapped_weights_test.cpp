// Weights used where their files have them.

#include "exec/weights/mapped_weights.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exec/gguf/conversion/model_conversion.hpp"
#include "exec/kernels/thread_pool.hpp"
#include "exec/session/master.hpp"
#include "exec/weights/files/block_record.hpp"
#include "exec/weights/formats/block_codec.hpp"
#include "exec/weights/model_folder.hpp"
#include "exec/weights/random_weights.hpp"
#include "exec/weights/shard.hpp"
#include "exec/weights/tensors.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/sampled.hpp"
#include "tests/support/serial_executor.hpp"

namespace tandem::exec::mapped_weights_test {
namespace {

namespace fs = std::filesystem;
using model::Family;
using model::Transformer;
using model::WeightFormat;
using testing::error_of;
using testing::has;
using testing::read_all;
using testing::TemporaryFolder;
using testing::whole_share;
using testing::write_text;

const std::vector<std::int32_t> kPrompt{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2};

Transformer model_of(Family family, WeightFormat format) {
  Transformer t = testing::in_blocks(testing::small_llama(), format);
  t.formats = {};
  t.family = family;
  t.norm_epsilon = 1e-6;
  if (family == Family::gpt2) {
    t.activation = model::Activation::gelu_tanh;
    t.hidden = t.heads * t.head_dim;
    t.kv_heads = t.heads;
    t.tied_embeddings = true;
    t.rope_theta = 10000.0;
    t.max_context = 40;
  }
  if (family == Family::gemma2) {
    t.activation = model::Activation::gelu_tanh;
    t.tied_embeddings = true;
    t.embedding_scale = std::sqrt(static_cast<double>(t.hidden));
    t.window = 5;
    t.score_cap = 50.0;
    t.logit_cap = 30.0;
    for (std::int64_t layer = 0; layer < t.layers; ++layer)
      t.windowed.push_back((layer + 1) % 2 != 0);
  }
  if (family == Family::phi3) t.rotary_dims = t.head_dim / 2;
  return t;
}

// The model of `weights` in the formats that it is stored in.
Transformer stored(const fs::path& weights) {
  Transformer t = read_geometry(weights);
  t.formats = stored_formats(*open_weights(weights, t), t);
  return t;
}

Shard map(const fs::path& weights, const Transformer& t, const fs::path& notes = {}) {
  return Shard::mapped(*open_weights(weights, t), t, whole_share(t),
                       {.threads = 2, .notes = notes});
}

planner::Plan plan_of(const Transformer& t) {
  return testing::plan_for(t, "local", 1, "equal", static_cast<std::int64_t>(kPrompt.size()), 4);
}

std::vector<std::vector<float>> logits_of(const planner::Plan& plan, Shard shard) {
  std::vector<Shard> shards;
  shards.push_back(std::move(shard));
  testing::SerialExecutor serial(plan, std::move(shards));
  std::vector<std::vector<float>> logits;
  static_cast<void>(serial.generate(kPrompt, 4, logits));
  return logits;
}

// Bytes of all matrices, learned positions included.
double matrix_bytes(const Transformer& t) {
  double bytes = 0.0;
  for (const LayoutBlock& block : layout_of(t, whole_share(t)).blocks) {
    for (const TensorSlice& slice : block.slices)
      if (slice.shape.size() == 2) bytes += static_cast<double>(slice.bytes());
  }
  return bytes;
}

// All matrices but those whose rows are looked up.
Shard moved(Shard shard, const Transformer& t) {
  const double before = shard.mapped_bytes();
  const double all = shard.bytes();
  ThreadPool pool(2);
  for (std::int64_t place = 0; place <= t.layers; ++place) {
    CHECK(shard.copy_mapped(static_cast<std::size_t>(place), pool) == 1.0);
    const double mapped = shard.mapped_bytes();
    // Nothing is left of it.
    CHECK(shard.copy_mapped(static_cast<std::size_t>(place), pool) == 1.0);
    CHECK(shard.mapped_bytes() == mapped);
  }
  if (before > 0.0) CHECK(shard.mapped_bytes() < before);
  CHECK(shard.mapped_bytes() >= 0.0);
  CHECK(shard.bytes() == doctest::Approx(all).epsilon(0.3));  // whole pages, which are many here
  return shard;
}

// The same, a matrix a call; and before, some matrices of a layer that are then left after all.
Shard moved_in_pieces(Shard shard, const Transformer& t) {
  ThreadPool pool(2);
  const double mapped = shard.mapped_bytes();
  const std::chrono::nanoseconds at_once(0);
  if (mapped == matrix_bytes(t)) {
    CHECK(shard.copy_mapped(1, pool, at_once).value() < 1.0);
    CHECK_THROWS_AS(shard.copy_mapped(0, pool, at_once), std::logic_error);
    CHECK(shard.copy_mapped(1, pool, at_once).value() < 1.0);
    CHECK(shard.mapped_bytes() == mapped);
    shard.leave_mapped();
    CHECK(shard.mapped_bytes() == mapped);
  }
  for (std::int64_t place = 0; place <= t.layers; ++place) {
    double part = 0.0;
    while (part < 1.0) {
      const double now = shard.copy_mapped(static_cast<std::size_t>(place), pool, at_once).value();
      REQUIRE(now > part);
      part = now;
    }
  }
  if (mapped > 0.0) CHECK(shard.mapped_bytes() < mapped);
  return shard;
}

// A layer whose copy was begun and left.
Shard left(Shard shard) {
  ThreadPool pool(2);
  static_cast<void>(shard.copy_mapped(0, pool, std::chrono::nanoseconds(0)));
  static_cast<void>(shard.copy_mapped(0, pool, std::chrono::nanoseconds(0)));
  shard.leave_mapped();
  return shard;
}

// Mapped, moved and copied, the same bits. Returns the part of the matrices that was mapped.
double check_same(const fs::path& weights) {
  const Transformer t = stored(weights);
  const planner::Plan plan = plan_of(t);
  Shard mapped = map(weights, t);
  const double share = mapped.mapped_bytes() / matrix_bytes(t);
  CHECK(mapped.bytes() >= mapped.mapped_bytes());
  const auto expected = logits_of(plan, Shard::slice(weights, t, whole_share(t)));
  const std::vector<std::function<Shard()>> ways{
      [&] { return std::move(mapped); }, [&] { return moved(map(weights, t), t); },
      [&] { return moved_in_pieces(map(weights, t), t); }, [&] { return left(map(weights, t)); }};
  for (std::size_t way = 0; way < ways.size(); ++way) {
    CAPTURE(way);
    const auto actual = logits_of(plan, ways[way]());
    REQUIRE(expected.size() == actual.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      REQUIRE(expected[i].size() == actual[i].size());
      CHECK(std::memcmp(expected[i].data(), actual[i].data(), 4 * expected[i].size()) == 0);
    }
  }
  return share;
}

TEST_CASE("exec/mapped weights: logits are those of copied weights, bit for bit") {
  testing::Sampled taken(7);
  for (const Family family :
       {Family::llama, Family::qwen3, Family::gemma2, Family::phi3, Family::gpt2}) {
    for (const WeightFormat format : {WeightFormat::f32, WeightFormat::q4_k}) {
      const Transformer t = model_of(family, format);
      const TemporaryFolder home;
      const fs::path folder = home.path() / "a";
      write_random_weights(t, 3, model::DType::f32, folder);
      const bool transposed = family == Family::gpt2;
      const auto check_files = [&](WeightFormat of) {
        if (!taken()) return;
        CAPTURE(model::to_string(family));
        CAPTURE(model::to_string(of));
        const fs::path file = home.path() / "b.gguf";
        static_cast<void>(
            convert_model({.weights = folder, .out = file, .formats = model::WeightFormats(of)}));
        CHECK(check_same(file) == 1.0);  // permuted queries and keys, too
        if (model::block_of(of).elements > 1) return;
        const fs::path back = home.path() / "c";
        static_cast<void>(convert_model({.weights = file, .out = back}));
        const double share = check_same(back);
        CHECK((transposed ? share < 0.5 && share > 0.0 : share == 1.0));
      };
      if (format == WeightFormat::f32) {
        for (const WeightFormat of : {WeightFormat::f32, WeightFormat::f16, WeightFormat::bf16,
                                      WeightFormat::q8_0, WeightFormat::q4_0, WeightFormat::q5_1})
          check_files(of);
      } else {
        for (const WeightFormat of : {WeightFormat::q4_k, WeightFormat::q6_k}) check_files(of);
      }
    }
  }
}

TEST_CASE("exec/mapped weights: what is wanted in another format, or misaligned, is copied") {
  const TemporaryFolder home;
  Transformer t = model_of(Family::llama, WeightFormat::f32);
  const fs::path folder = home.path() / "a";
  write_random_weights(t, 3, model::DType::f32, folder);
  SUBCASE("another format") {
    t.formats = model::WeightFormats(WeightFormat::bf16);
    CHECK(map(folder, t).mapped_bytes() == 0.0);
  }
  SUBCASE("one matrix of another format") {
    t.formats.set(model::WeightMatrix::down, 1, WeightFormat::f16);
    const Shard shard = map(folder, t);
    CHECK(shard.mapped_bytes() == matrix_bytes(t) - 2.0 * 160 * 64);
  }
  SUBCASE("tensors at odd bytes") {
    const fs::path file = folder / "model.safetensors";
    std::string text = read_all(file);
    std::uint64_t length = 0;
    std::memcpy(&length, text.data(), sizeof length);
    text.insert(8 + length, " ");
    ++length;
    std::memcpy(text.data(), &length, sizeof length);
    write_text(file, text);
    CHECK(map(folder, t).mapped_bytes() == 0.0);
    CHECK(check_same(folder) == 0.0);
  }
}

TEST_CASE("exec/mapped weights: numbers are finite exactly if decoding says so") {
  std::mt19937 random(7);
  int infinite = 0;
  for (const WeightFormat format : model::kWeightFormats) {
    CAPTURE(model::to_string(format));
    const model::FormatBlock block = model::block_of(format);
    for (int round = 0; round < 2000; ++round) {
      std::vector<std::byte> stored(3 * static_cast<std::size_t>(block.bytes));
      for (std::byte& byte : stored) byte = static_cast<std::byte>(random());
      std::vector<float> values(3 * static_cast<std::size_t>(block.elements));
      decode(format, stored, values);
      const bool finite = std::ranges::all_of(values, [](float x) { return std::isfinite(x); });
      infinite += finite ? 0 : 1;
      // A scale that is not finite may meet zeros alone in a product of floats, never with NaN.
      if (all_finite(format, stored) != finite) FAIL_CHECK("differs in round " << round);
    }
  }
  CHECK(infinite > 1000);
}

TEST_CASE("exec/mapped weights: NaN and infinity are refused by file and tensor") {
  const TemporaryFolder home;
  const Transformer t = model_of(Family::llama, WeightFormat::f32);
  const fs::path folder = home.path() / "a";
  const fs::path notes = home.path() / "notes";
  write_random_weights(t, 3, model::DType::f32, folder);
  static_cast<void>(map(folder, t, notes));
  CHECK(testing::names_in(notes).size() == 1);
  static_cast<void>(map(folder, t, notes));
  CHECK(testing::names_in(notes).size() == 1);

  const fs::path file = folder / "model.safetensors";
  std::string text = read_all(file);
  const float bad = std::numeric_limits<float>::infinity();
  // The last tensor's last number.
  std::memcpy(text.data() + text.size() - sizeof bad, &bad, sizeof bad);
  const auto modified = fs::last_write_time(file);
  write_text(file, text);
  fs::last_write_time(file, modified);
  const std::string error = error_of([&] { static_cast<void>(map(folder, t, notes)); });
  CHECK(has(error, file.string()));
  CHECK(has(error, "holds NaN or infinity"));
}

TEST_CASE("exec/block record: a note is believed of its own claim, undamaged") {
  const TemporaryFolder home;
  CHECK_FALSE(is_noted(home.path(), "claim"));
  note(home.path(), "claim", 0);
  note({}, "claim", 0);
  CHECK(is_noted(home.path(), "claim"));
  CHECK_FALSE(is_noted(home.path(), "another"));
  CHECK_FALSE(is_noted({}, "claim"));
  const fs::path only = home.path() / testing::names_in(home.path()).front();
  std::string text = read_all(only);
  text.back() = '!';
  write_text(only, text);
  CHECK_FALSE(is_noted(home.path(), "claim"));
  note(home.path(), "claim", 0);
  CHECK(is_noted(home.path(), "claim"));
}

TEST_CASE("exec/mapped weights: a file that changes while it is used is an error that names it") {
  const TemporaryFolder home;
  const fs::path folder = home.path() / "a";
  const fs::path file = home.path() / "b.gguf";
  write_random_weights(model_of(Family::llama, WeightFormat::f32), 3, model::DType::f32, folder);
  static_cast<void>(convert_model({.weights = folder, .out = file}));
  const Transformer t = stored(file);
  const planner::Plan plan = plan_of(t);
  const auto expected = logits_of(plan, Shard::slice(file, t, whole_share(t)));
  Shard shard = map(file, t);
  const auto use = [&] { static_cast<void>(logits_of(plan, shard.alias())); };
  std::string wanted;
  SUBCASE("cut short") {
    fs::resize_file(file, 5000);
    wanted = ": 5000 bytes while its weights are in use";
  }
  SUBCASE("emptied") {
    fs::resize_file(file, 0);
    wanted = ": 0 bytes while its weights are in use";
  }
  SUBCASE("written, with the same bytes") {
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the granularity of file times
    out.put('G');
    out.close();
    wanted = ": written while its weights are in use";
  }
  SUBCASE("replaced or removed: nothing is lost") {
    fs::copy_file(file, home.path() / "other");
    fs::rename(home.path() / "other", file);
    fs::remove(file);
    CHECK(logits_of(plan, shard.alias()) == expected);
    return;
  }
  const std::string error = error_of(use);
  CHECK(has(error, file.string() + wanted));
  CHECK(has(error_of(use), file.string() + wanted));  // and stays one
}

TEST_CASE(
    "exec/mapped weights: runs map unless told not to, and end when their file is cut short") {
  const TemporaryFolder home;
  const fs::path folder = home.path() / "a";
  const fs::path file = home.path() / "b.gguf";
  write_random_weights(model_of(Family::llama, WeightFormat::f32), 3, model::DType::f32, folder);
  static_cast<void>(convert_model({.weights = folder, .out = file}));
  const planner::Plan plan = plan_of(stored(file));
  GenerateOptions options;
  options.weights = file;
  options.cache_dir = home.path() / "cache";
  options.prompt = kPrompt;
  options.new_tokens = 4;
  options.threads = 2;
  options.place = WeightPlace::mapped;
  Interrupt interrupt;
  const Generation mapped = generate(plan, options, interrupt);
  options.place = WeightPlace::copied;
  const Generation copied = generate(plan, options, interrupt);
  CHECK(mapped.tokens == copied.tokens);
  options.place = WeightPlace::chosen;
  CHECK(generate(plan, options, interrupt).tokens == copied.tokens);
  CHECK(mapped.run.result.devices.front().mapped_bytes > 0.0);
  CHECK(copied.run.result.devices.front().mapped_bytes == 0.0);
  const auto weights_of = [](const Generation& done) {
    return done.run.result.devices.front().peak_memory.weights;
  };
  CHECK(weights_of(mapped) == doctest::Approx(weights_of(copied)).epsilon(0.1));
  CHECK(weights_of(mapped) != weights_of(copied));

  options.place = WeightPlace::mapped;
  int told = 0;
  options.on_token = [&](std::int32_t) {
    if (++told == 2) fs::resize_file(file, 100);
  };
  const std::string error =
      error_of([&] { static_cast<void>(generate(plan, options, interrupt)); });
  CHECK(has(error, file.string() + ": 100 bytes while its weights are in use"));
  CHECK(told == 2);
}

}  // namespace
}  // namespace tandem::exec::mapped_weights_test
