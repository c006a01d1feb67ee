// The digest of a model's weights: of what is stored, remembered by the files' identities.

#include "exec/weights/weights_digest.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <string>

#include "exec/weights/model_folder.hpp"
#include "exec/weights/random_weights.hpp"
#include "exec/weights/source/safetensors.hpp"
#include "tests/exec/weights/weights_support.hpp"

namespace tandem::exec::weights_digest_test {
namespace {

namespace fs = std::filesystem;
using model::DType;
using testing::read_all;
using testing::small_llama;
using testing::TemporaryFolder;
using testing::write_text;

std::string digest_of(const fs::path& weights, const DigestOptions& options = {}) {
  const model::Transformer t = small_llama();
  return weights_sha256(*open_weights(weights, t), t, options).value_or("none");
}

// Changes one bit of a number without changing its type, or the size of the file.
void flip_last_bit(const fs::path& file) {
  std::string bytes = read_all(file);
  bytes[bytes.size() - 4] = static_cast<char>(bytes[bytes.size() - 4] ^ 1);
  write_text(file, bytes);
}

}  // namespace

TEST_CASE("exec/weights digest: depends on names, types and numbers, and on nothing else") {
  const model::Transformer t = small_llama();
  const TemporaryFolder home;
  write_random_weights(t, 1, DType::f32, home.path() / "one");
  const std::string digest = digest_of(home.path() / "one");
  CHECK(digest.size() == 64);
  SUBCASE("the same in several files, with any number of threads") {
    write_random_weights(t, 1, DType::f32, home.path() / "many", 40000);
    CHECK(digest_of(home.path() / "many") == digest);
    CHECK(digest_of(home.path() / "many", {.threads = 3}) == digest);
  }
  SUBCASE("another seed, another type") {
    write_random_weights(t, 2, DType::f32, home.path() / "other");
    CHECK(digest_of(home.path() / "other") != digest);
    write_random_weights(t, 1, DType::bf16, home.path() / "half");
    CHECK(digest_of(home.path() / "half") != digest);
  }
  SUBCASE("one bit") {
    flip_last_bit(home.path() / "one" / "model.safetensors");
    CHECK(digest_of(home.path() / "one") != digest);
  }
}

TEST_CASE("exec/weights digest: is remembered until a file changes, and no longer") {
  const model::Transformer t = small_llama();
  const TemporaryFolder home;
  const fs::path folder = home.path() / "model";
  write_random_weights(t, 1, DType::f32, folder);
  const DigestOptions options{.notes = home.path() / "seen"};
  const std::string digest = digest_of(folder, options);
  REQUIRE(fs::directory_iterator(options.notes) != fs::directory_iterator());
  const fs::path note = fs::directory_iterator(options.notes)->path();
  const std::string text = read_all(note);

  // The note is believed: with `believe`, a stopped digest is there all the same.
  const std::atomic<bool> stop = true;
  CHECK(digest_of(folder, {.notes = options.notes, .stop = &stop}) == digest);
  CHECK(digest_of(folder, {.notes = options.notes, .believe = false, .stop = &stop}) == "none");
  CHECK(digest_of(folder, {.stop = &stop}) == "none");

  // A damaged one is not.
  for (const std::size_t at : {std::size_t{3}, text.find(digest) + 5, text.size() - 2}) {
    std::string damaged = text;
    damaged[at] = damaged[at] == '0' ? '1' : '0';
    write_text(note, damaged);
    CHECK(digest_of(folder, {.notes = options.notes, .stop = &stop}) == "none");
  }
  write_text(note, text);

  // Nor one of what the file was before, though its size and time of modification are the same.
  const fs::path file = folder / "model.safetensors";
  const auto modified = fs::last_write_time(file);
  flip_last_bit(file);
  fs::last_write_time(file, modified);
  const std::string changed = digest_of(folder, options);
  CHECK(changed != digest);
  CHECK(changed == digest_of(folder));
}

TEST_CASE("exec/weights digest: nothing of a file that is written while it is open") {
  const model::Transformer t = small_llama();
  const TemporaryFolder home;
  write_random_weights(t, 1, DType::f32, home.path());
  const auto source = open_weights(home.path(), t);
  REQUIRE(weights_sha256(*source, t));
  flip_last_bit(home.path() / "model.safetensors");
  CHECK_FALSE(weights_sha256(*source, t));
}

}  // namespace tandem::exec::weights_digest_test
