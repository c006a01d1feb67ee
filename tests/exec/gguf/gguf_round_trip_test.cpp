// Conversions at random: what is exact comes back as it was, and threads change no byte.

#include <doctest/doctest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "exec/gguf/conversion/model_conversion.hpp"
#include "exec/gguf/gguf_file.hpp"
#include "exec/weights/model_folder.hpp"
#include "exec/weights/random_weights.hpp"
#include "exec/weights/shard.hpp"
#include "exec/weights/weights_digest.hpp"
#include "model/transformer/format_choice.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/block_support.hpp"

namespace tandem::exec::gguf_round_trip_test {
namespace {

namespace fs = std::filesystem;
using model::DType;
using model::Transformer;
using testing::contents_of;
using testing::error_of;
using testing::has;
using testing::read_all;
using testing::TemporaryFolder;

std::int64_t one_of(std::mt19937& engine, std::vector<std::int64_t> values) {
  return values[engine() % values.size()];
}

// A Llama of a random geometry; rows that are whole blocks of 256, of 32, or of neither.
Transformer random_llama(std::mt19937& engine) {
  Transformer t = testing::small_llama();
  t.layers = one_of(engine, {1, 2, 3});
  t.kv_heads = one_of(engine, {1, 2});
  t.heads = t.kv_heads * one_of(engine, {1, 2, 4});
  t.head_dim = one_of(engine, {8, 32, 64});
  t.hidden = one_of(engine, {40, 64, 256});
  t.intermediate = one_of(engine, {24, 96, 512});
  t.vocab = one_of(engine, {259, 300});
  t.tied_embeddings = engine() % 2 == 0;
  t.validate();
  return t;
}

std::string digest_of(const fs::path& weights) {
  const Transformer t = read_geometry(weights);
  return *weights_sha256(*open_weights(weights, t), t);
}

// All weights as f32.
std::string numbers_of(const fs::path& weights) {
  Transformer t = read_geometry(weights);
  t.formats = model::WeightFormats();
  return contents_of(Shard::slice(weights, t, testing::whole_share(t)));
}

}  // namespace

TEST_CASE("exec/gguf round trip: folder, GGUF and folder are equal in every plain type") {
  std::mt19937 engine(31);
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    const Transformer t = random_llama(engine);
    const TemporaryFolder home;
    const fs::path folder = home.path() / "a";
    const fs::path file = home.path() / "b.gguf";
    const fs::path back = home.path() / "c";
    const DType dtype = std::vector{DType::f32, DType::f16, DType::bf16}[engine() % 3];
    write_random_weights(t, engine(), dtype, folder);
    CHECK(convert_model({.weights = folder, .out = file, .threads = 1}).empty());
    CHECK(convert_model({.weights = file, .out = back, .threads = 3}).empty());
    CHECK(read_all(back / "config.json") == read_all(folder / "config.json"));
    CHECK(read_all(back / "model.safetensors") == read_all(folder / "model.safetensors"));
    CHECK(digest_of(back) == digest_of(folder));
    CHECK(numbers_of(file) == numbers_of(folder));
  }
}

TEST_CASE("exec/gguf round trip: every format says the same in a copy and widened to a folder") {
  std::mt19937 engine(32);
  for (const std::string_view name : model::format_choices()) {
    CAPTURE(name);
    Transformer t = random_llama(engine);
    t.hidden = 256;
    t.intermediate = 512;
    t.head_dim = 64;
    t.heads = 4;
    const TemporaryFolder home;
    const fs::path folder = home.path() / "a";
    const fs::path one = home.path() / "one.gguf";
    const fs::path three = home.path() / "three.gguf";
    write_random_weights(t, engine(), DType::f32, folder);
    const auto formats = model::chosen_formats(name, t);
    (void)convert_model({.weights = folder, .out = one, .formats = formats, .threads = 1});
    (void)convert_model({.weights = folder, .out = three, .formats = formats, .threads = 3});
    CHECK(read_all(one) == read_all(three));
    const fs::path copy = home.path() / "copy.gguf";
    CHECK(convert_model({.weights = one, .out = copy}).empty());
    CHECK(read_all(copy) == read_all(one));
    CHECK(digest_of(copy) == digest_of(one));
    const fs::path widened = home.path() / "wide";
    CHECK(
        convert_model({.weights = one, .out = widened, .formats = model::chosen_formats("f32", t)})
            .empty());
    CHECK(numbers_of(widened) == numbers_of(one));
  }
}

TEST_CASE("exec/gguf round trip: several threads name the fault that one thread names") {
  const Transformer t = testing::small_llama();
  const TemporaryFolder home;
  write_random_weights(t, 1, DType::f32, home.path() / "a");
  const fs::path weights = home.path() / "a" / "model.safetensors";
  std::string bytes = read_all(weights);
  // Infinities in the last numbers of two tensors.
  for (const std::size_t at : {bytes.size() / 2 / 4 * 4, bytes.size() - 4})
    bytes.replace(at, 4, std::string("\0\0\x80\x7f", 4));
  testing::write_text(weights, bytes);
  std::string fault;
  for (const int threads : {1, 2, 5}) {
    CAPTURE(threads);
    const fs::path out = home.path() / "b.gguf";
    const std::string text = error_of([&] {
      (void)convert_model({.weights = home.path() / "a", .out = out, .threads = threads});
    });
    CHECK(has(text, "NaN or infinity"));
    if (fault.empty()) fault = text;
    CHECK(text == fault);
    CHECK_FALSE(fs::exists(out));
  }
}

}  // namespace tandem::exec::gguf_round_trip_test
