#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>
#include <string>
#include <vector>

#include "exec/weights/random.hpp"
#include "exec/weights/shard.hpp"
#include "exec/weights/shard_file.hpp"
#include "model/digest.hpp"
#include "model/error.hpp"
#include "weights_support.hpp"

namespace tandem::exec {
namespace {

using model::Share;
using model::Transformer;
using testing::error_of;
using testing::has;
using testing::names_in;
using testing::read_all;
using testing::small_llama;
using testing::TemporaryFolder;
using testing::write_text;

constexpr Share kShare{{0, 3}, {1, 4}, {5, 18}, false, false};

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

TEST_CASE("exec/shard file: equals the shard in memory, and the second call does not slice") {
  const Transformer t = small_llama();
  const TemporaryFolder folder;
  const auto weights = folder.path() / "weights";
  const auto cache = folder.path() / "cache";
  write_random_weights(t, 7, model::DType::f16, weights, 20000);
  const Shard shard = Shard::slice(weights, t, kShare);
  const ShardFile file = make_shard_file(weights, t, kShare, cache);
  CHECK(file.sha256 == shard.content_id());
  CHECK(file.bytes == Shard::file_bytes(t, kShare));
  CHECK(bytes_of(read_all(file.path)) == shard.serialize());
  CHECK(names_in(cache).size() == 2);

  // Mark the cached file: if it comes back marked, it was not made again.
  std::string marked = read_all(file.path);
  marked.back() = '!';
  write_text(file.path, marked);
  const ShardFile again = make_shard_file(weights, t, kShare, cache);
  CHECK(again.sha256 == file.sha256);
  CHECK(read_all(again.path) == marked);

  SUBCASE("a file that is gone or of another size is made again") {
    write_text(file.path, marked.substr(1));
    CHECK(bytes_of(read_all(make_shard_file(weights, t, kShare, cache).path)) == shard.serialize());
    std::filesystem::remove(file.path);
    CHECK(bytes_of(read_all(make_shard_file(weights, t, kShare, cache).path)) == shard.serialize());
  }
  SUBCASE("another share is another file") {
    Share other = kShare;
    other.head = true;
    CHECK(make_shard_file(weights, t, other, cache).sha256 != file.sha256);
  }
  SUBCASE("changed weights are sliced again") {
    write_random_weights(t, 8, model::DType::f16, weights, 20000);
    const ShardFile changed = make_shard_file(weights, t, kShare, cache);
    CHECK(changed.sha256 == Shard::slice(weights, t, kShare).content_id());
    CHECK(changed.sha256 != file.sha256);
  }
  SUBCASE("an index entry that is no digest is not followed") {
    for (const auto& entry : std::filesystem::directory_iterator(cache / "index")) {
      write_text(entry.path(), "../../../../etc/passwd");
    }
    CHECK(bytes_of(read_all(make_shard_file(weights, t, kShare, cache).path)) == shard.serialize());
  }
}

TEST_CASE("exec/shard file: what is damaged in the cache is made again, and said") {
  const Transformer t = small_llama();
  const TemporaryFolder folder;
  const auto weights = folder.path() / "weights";
  const auto cache = folder.path() / "cache";
  write_random_weights(t, 7, model::DType::f16, weights, 20000);
  const ShardFile file = make_shard_file(weights, t, kShare, cache);
  CHECK(file.checked);
  const std::string sound = read_all(file.path);
  std::vector<std::string> said;
  const ShardFileOptions options{
      .verify = true, .on_damage = [&](const std::string& warning) { said.push_back(warning); }};
  CHECK(make_shard_file(weights, t, kShare, cache, options).checked);
  CHECK(said.empty());

  std::filesystem::path damaged = file.path;
  const std::filesystem::path entry = std::filesystem::directory_iterator(cache / "index")->path();
  SUBCASE("a byte of the shard differs") {
    write_text(file.path, sound.substr(0, sound.size() - 1) + '!');
  }
  SUBCASE("a byte of its header differs") { write_text(file.path, '!' + sound.substr(1)); }
  SUBCASE("it was cut short") { write_text(file.path, sound.substr(0, 100)); }
  SUBCASE("it is longer") { write_text(file.path, sound + "!"); }
  SUBCASE("a folder has its place") {
    std::filesystem::remove(file.path);
    write_text(file.path / "in" / "it", "x");
  }
  SUBCASE("a link to nowhere has its place") {
    std::filesystem::remove(file.path);
    std::filesystem::create_symlink("nowhere", file.path);
  }
  SUBCASE("the index entry") {
    damaged = entry;
    SUBCASE("is too long") { write_text(entry, std::string(1000, 'a')); }
    SUBCASE("is garbage") { write_text(entry, "\x01garbage"); }
    SUBCASE("is empty") { write_text(entry, ""); }
    SUBCASE("is a folder") {
      std::filesystem::remove(entry);
      write_text(entry / "in" / "it", "x");
    }
    SUBCASE("names the shard of another share") {
      Share other = kShare;
      other.heads = {2, 5};
      const ShardFile swapped = make_shard_file(weights, t, other, cache);
      CHECK(swapped.bytes == file.bytes);
      write_text(entry, swapped.sha256);
      damaged = swapped.path;
    }
  }
  const ShardFile again = make_shard_file(weights, t, kShare, cache, options);
  CHECK(again.path == file.path);
  CHECK(again.sha256 == file.sha256);
  CHECK(read_all(file.path) == sound);
  CHECK(read_all(entry) == file.sha256);
  REQUIRE(said.size() == 1);
  CHECK(has(said[0], damaged.string()));
  static_cast<void>(make_shard_file(weights, t, kShare, cache, options));
  CHECK(said.size() == 1);
}

TEST_CASE("exec/shard file: who is called off while it checks leaves a sound file where it is") {
  const TemporaryFolder folder;
  const std::vector<std::byte> bytes(std::size_t{17} << 20U, std::byte{7});
  const ShardFile file = store_shard(folder.path(), model::sha256_hex(bytes), bytes);
  const ShardProgress call_off = [](std::uint64_t, std::uint64_t) { throw Error("interrupted"); };
  CHECK(error_of([&] { const auto found = find_shard(folder.path(), file.sha256, call_off); }) ==
        "interrupted");
  CHECK(find_shard(folder.path(), file.sha256).has_value());
}

TEST_CASE("exec/shard file: a folder or a link in a shard's place is not found, and replaced") {
  const TemporaryFolder folder;
  const std::string sha256 = model::sha256_hex("right");
  const auto place = folder.path() / "shards" / (sha256 + ".shard");
  SUBCASE("folder") { write_text(place / "in" / "it", "x"); }
  SUBCASE("link") {
    std::filesystem::create_directories(place.parent_path());
    std::filesystem::create_symlink("nowhere", place);
  }
  SUBCASE("folder, nobody looked") {
    write_text(place / "in" / "it", "x");
    CHECK(store_shard(folder.path(), sha256, bytes_of("right")).path == place);
  }
  CHECK(find_shard(folder.path(), sha256).has_value() == std::filesystem::is_regular_file(place));
  CHECK(store_shard(folder.path(), sha256, bytes_of("right")).checked);
  CHECK(read_all(place) == "right");
}

TEST_CASE("exec/shard file: a received shard is stored under its digest and found again") {
  const TemporaryFolder folder;
  const std::string text = "any bytes will do for the cache: it knows digests only";
  const std::string sha256 = model::sha256_hex(text);
  CHECK(!find_shard(folder.path(), sha256));
  {
    ShardReceiver receiver(folder.path(), sha256, text.size());
    const auto bytes = bytes_of(text);
    for (std::size_t i = 0; i < bytes.size(); i += 7) {
      receiver.append(std::span(bytes).subspan(i, std::min<std::size_t>(7, bytes.size() - i)));
      CHECK(!find_shard(folder.path(), sha256));
    }
    CHECK(receiver.received() == text.size());
    const ShardFile stored = receiver.finish();
    CHECK(stored.bytes == text.size());
    CHECK(read_all(stored.path) == text);
  }
  const auto found = find_shard(folder.path(), sha256);
  REQUIRE(found);
  CHECK(found->sha256 == sha256);
  std::string sent;
  send_shard(*found, 10, [&](std::span<const std::byte> piece) {
    CHECK(piece.size() <= 10);
    sent.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  CHECK(sent == text);

  SUBCASE("a damaged file is removed and not found") {
    write_text(found->path, "Any bytes will do for the cache: it knows digests only");
    CHECK(!find_shard(folder.path(), sha256));
    CHECK(names_in(folder.path()).empty());
  }
  SUBCASE("a file that shrank is not sent") {
    write_text(found->path, "short");
    CHECK(has(error_of([&] { send_shard(*found, 10, [](auto) {}); }), "expected 54"));
  }
}

TEST_CASE("exec/shard file: a wrong digest, too few and too many bytes leave nothing behind") {
  const TemporaryFolder folder;
  const std::string right = model::sha256_hex("right");
  CHECK(has(error_of([&] { store_shard(folder.path(), right, bytes_of("wrong")); }), "SHA-256"));
  CHECK(has(error_of([&] {
              ShardReceiver receiver(folder.path(), right, 5);
              receiver.append(bytes_of("righ"));
              receiver.finish();
            }),
            "4 bytes arrived, expected 5"));
  CHECK(has(error_of([&] {
              ShardReceiver receiver(folder.path(), right, 5);
              receiver.append(bytes_of("rig"));
              receiver.append(bytes_of("hts"));
            }),
            "more than the announced 5"));
  CHECK(names_in(folder.path()).empty());
  CHECK(store_shard(folder.path(), right, bytes_of("right")).bytes == 5);
}

TEST_CASE("exec/shard file: a digest from a peer must be a digest") {
  const TemporaryFolder folder;
  for (const std::string& name :
       {std::string(), std::string("../../x"), std::string(64, 'g'), std::string(64, 'A'),
        std::string(63, 'a'), std::string(65, 'a'), std::string(61, 'a') + "/.."}) {
    CAPTURE(name);
    CHECK(has(error_of([&] { const ShardReceiver receiver(folder.path(), name, 1); }),
              "64 lower-case hexadecimal"));
    CHECK(has(error_of([&] { const auto found = find_shard(folder.path(), name); }),
              "64 lower-case hexadecimal"));
  }
  CHECK(names_in(folder.path()).empty());
}

TEST_CASE("exec/shard file: a disk that refuses bytes is one clear error and leaves nothing") {
  const Transformer t = small_llama();
  const TemporaryFolder folder;
  write_random_weights(t, 7, model::DType::f32, folder.path() / "weights");
  const auto cache = folder.path() / "cache";
  // The process' own limit on file sizes stands for a full disk.
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{10000, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string sliced = error_of(
      [&] { const auto f = make_shard_file(folder.path() / "weights", t, kShare, cache); });
  const std::string written =
      error_of([&] { write_random_weights(t, 7, model::DType::f32, folder.path() / "more"); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(has(sliced, "cannot write"));
  CHECK(has(written, "cannot write"));
  CHECK(names_in(cache).empty());
  CHECK(names_in(folder.path() / "more").empty());
}

TEST_CASE("exec/shard file: the cache folder follows XDG_CACHE_HOME, then HOME") {
  const auto value = [](const char* name) {
    const char* text = std::getenv(name);
    return text == nullptr ? std::string() : std::string(text);
  };
  const std::string cache = value("XDG_CACHE_HOME");
  const std::string home = value("HOME");
  setenv("HOME", "/home/someone", 1);
  setenv("XDG_CACHE_HOME", "/var/cache/someone", 1);
  CHECK(default_cache_dir() == "/var/cache/someone/tandem");
  setenv("XDG_CACHE_HOME", "relative", 1);  // the XDG specification: ignore it
  CHECK(default_cache_dir() == "/home/someone/.cache/tandem");
  unsetenv("XDG_CACHE_HOME");
  CHECK(default_cache_dir() == "/home/someone/.cache/tandem");
  unsetenv("HOME");
  CHECK(has(error_of([] { const auto dir = default_cache_dir(); }), "HOME"));
  if (!home.empty()) setenv("HOME", home.c_str(), 1);
  if (!cache.empty()) setenv("XDG_CACHE_HOME", cache.c_str(), 1);
}

}  // namespace
}  // namespace tandem::exec
