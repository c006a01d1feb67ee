#include "exec/weights/store/block_store.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "exec/weights/random_weights.hpp"
#include "exec/weights/store/resident_blocks.hpp"
#include "model/base/error.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/block_support.hpp"

namespace tandem::exec::block_store_test {
namespace {

using model::Share;
using model::Transformer;
using namespace testing;

namespace fs = std::filesystem;

const Share kShare{{0, 3}, {1, 4}, {5, 18}, false, false};

struct Home {
  Home() { write_random_weights(t, 7, model::DType::f16, weights, 20000); }
  [[nodiscard]] std::vector<MadeBlock> make(const Share& share, BlockStore& into,
                                            bool verify = false) {
    return blocks_of(
        weights, t, share, into,
        {.verify = verify, .on_damage = [&](const std::string& text) { said.push_back(text); }});
  }
  TemporaryFolder folder;
  Transformer t = small_llama();
  fs::path weights = folder.path() / "weights";
  fs::path cache = folder.path() / "cache";
  BlockStore store{cache};
  std::vector<std::string> said;
};

std::string contents(const std::vector<MadeBlock>& blocks) {
  std::string bytes;
  for (const MadeBlock& block : blocks) bytes += read_all(block.file.path);
  return bytes;
}

TEST_CASE("exec/block store: blocks equal the shard in memory, and are sliced once") {
  Home home;
  const std::string whole = testing::contents_of(Shard::slice(home.weights, home.t, kShare));
  const auto blocks = home.make(kShare, home.store);
  CHECK(contents(blocks) == whole);
  CHECK(names_in(home.cache).size() == 4 * blocks.size());

  // Mark a block: if it comes back marked, it was not made again.
  std::string marked = read_all(blocks[2].file.path);
  marked[100] = static_cast<char>(marked[100] + 1);
  write_text(blocks[2].file.path, marked);
  CHECK(read_all(home.make(kShare, home.store)[2].file.path) == marked);
  CHECK(home.said.empty());

  SUBCASE("a block that is gone is made again, quietly") {
    fs::remove(blocks[2].file.path);
    CHECK(contents(home.make(kShare, home.store)) == whole);
    CHECK(home.said.empty());
  }
  SUBCASE("a share of other layers has the blocks of those that both have") {
    Share fewer = kShare;
    fewer.layers = {1, 3};
    const auto some = home.make(fewer, home.store);
    CHECK(some[0].label.id() == blocks[2].label.id());
    CHECK(names_in(home.cache).size() == 4 * blocks.size());
  }
  SUBCASE("changed weights are sliced again") {
    write_random_weights(home.t, 8, model::DType::f16, home.weights, 20000);
    CHECK(contents(home.make(kShare, home.store)) ==
          testing::contents_of(Shard::slice(home.weights, home.t, kShare)));
  }
  SUBCASE("other weights of the same size, name and time of modification are sliced again") {
    fs::path one;
    for (const auto& file : fs::directory_iterator(home.weights))
      if (file.path().extension() == ".safetensors") one = file.path();
    const auto modified = fs::last_write_time(one);
    std::string bytes = read_all(one);
    for (std::size_t at = bytes.size() / 2; at < bytes.size(); at += 7)
      bytes[at] = static_cast<char>(bytes[at] ^ 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the granularity of file times
    write_text(one, bytes);
    fs::last_write_time(one, modified);
    const std::string other = testing::contents_of(Shard::slice(home.weights, home.t, kShare));
    CHECK(other != whole);
    CHECK(contents(home.make(kShare, home.store)) == other);
  }
  SUBCASE("index entries of other blocks, which look alike, are not believed") {
    std::vector<fs::path> entries;
    for (const auto& entry : fs::directory_iterator(home.cache / "index"))
      entries.push_back(entry.path());
    std::vector<std::string> texts;
    for (const fs::path& entry : entries) texts.push_back(read_all(entry));
    write_text(blocks[2].file.path,
               whole.substr(blocks[0].file.bytes + blocks[1].file.bytes, blocks[2].file.bytes));
    for (std::size_t shift = 1; shift < entries.size(); ++shift) {
      for (std::size_t i = 0; i < entries.size(); ++i)
        write_text(entries[i], texts[(i + shift) % entries.size()]);
      CHECK(contents(home.make(kShare, home.store)) == whole);
    }
    CHECK(home.said.size() == entries.size() * (entries.size() - 1));
  }
  SUBCASE("weights that are written while a session slices end it") {
    const BlockMaker maker(home.weights, home.t, home.store);
    const ShardLayout layout = layout_of(home.t, kShare);
    CHECK(maker.make(layout.blocks[0]).label.id() == blocks[0].label.id());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (const auto& file : fs::directory_iterator(home.weights))
      if (file.path().extension() == ".safetensors") write_text(file.path(), read_all(file.path()));
    const std::string error = error_of([&] { static_cast<void>(maker.make(layout.blocks[1])); });
    CHECK(has(error, "changed while it was read"));
    CHECK(has(error_of([&] { static_cast<void>(Shard::slice(maker.weights(), home.t, kShare)); }),
              "changed while it was read"));
  }
  SUBCASE("an index entry that is no digest is not followed") {
    for (const auto& entry : fs::directory_iterator(home.cache / "index"))
      write_text(entry.path(), "../../../../etc/passwd");
    CHECK(contents(home.make(kShare, home.store)) == whole);
  }
}

TEST_CASE("exec/block store: what is damaged is made again, and said") {
  Home home;
  const auto blocks = home.make(kShare, home.store);
  const fs::path block = blocks[1].file.path;
  const fs::path label = home.cache / "labels" / blocks[1].label.id();
  const std::string sound = read_all(block);
  const std::string sound_label = read_all(label);
  // Another process: it has seen nothing yet.
  BlockStore later(home.cache);
  static_cast<void>(home.make(kShare, later, true));
  CHECK(home.said.empty());

  fs::path damaged = block;
  SUBCASE("a byte differs") {
    std::string bad = sound;
    bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] + 1);
    write_text(block, bad);
  }
  SUBCASE("a byte of the padding differs") {
    write_text(block, sound.substr(0, sound.size() - 1) + '!');
  }
  SUBCASE("it was cut short") { write_text(block, sound.substr(0, 100)); }
  SUBCASE("it is longer") { write_text(block, sound + "!"); }
  SUBCASE("a folder has its place") {
    fs::remove(block);
    write_text(block / "in" / "it", "x");
  }
  SUBCASE("a pipe that nobody writes to has its place") {
    fs::remove(block);
    REQUIRE(mkfifo(block.c_str(), 0600) == 0);
  }
  SUBCASE("a link to nowhere has its place") {
    fs::remove(block);
    fs::create_symlink("nowhere", block);
  }
  SUBCASE("its label") {
    damaged = label;
    SUBCASE("is garbage") { write_text(label, "garbage"); }
    SUBCASE("is a pipe") {
      fs::remove(label);
      REQUIRE(mkfifo(label.c_str(), 0600) == 0);
    }
    SUBCASE("is another's") {
      write_text(label, read_all(home.cache / "labels" / blocks[0].label.id()));
    }
  }
  SUBCASE("the index entry") {
    for (const auto& entry : fs::directory_iterator(home.cache / "index")) {
      if (read_all(entry.path()).starts_with(blocks[1].label.id())) damaged = entry.path();
    }
    SUBCASE("is too long") { write_text(damaged, std::string(1000, 'a')); }
    SUBCASE("is empty") { write_text(damaged, ""); }
    SUBCASE("is a pipe") {
      fs::remove(damaged);
      REQUIRE(mkfifo(damaged.c_str(), 0600) == 0);
    }
    SUBCASE("is a folder") {
      fs::remove(damaged);
      write_text(damaged / "in" / "it", "x");
    }
    SUBCASE("names another block") {
      write_text(damaged, blocks[0].label.id() + read_all(damaged).substr(64));
    }
  }
  const auto again = home.make(kShare, later, true);
  CHECK(again[1].label.id() == blocks[1].label.id());
  CHECK(read_all(block) == sound);
  CHECK(read_all(label) == sound_label);
  REQUIRE(home.said.size() == 1);
  CHECK(has(home.said[0], damaged.string()));
  static_cast<void>(home.make(kShare, later, true));
  CHECK(home.said.size() == 1);
}

TEST_CASE("exec/block store: bytes that were seen are not read again until the file changes") {
  Home home;
  const auto blocks = home.make(kShare, home.store);
  for (const MadeBlock& block : blocks) CHECK(home.store.check(block.file, block.label));
  CHECK(home.store.bytes_checked() == 0);  // it wrote them itself
  BlockStore later(home.cache, std::nullopt, Trust::nothing);
  for (int round = 0; round < 2; ++round) {
    for (const MadeBlock& block : blocks) {
      const auto found = later.find(block.label);
      REQUIRE(found);
      CHECK(later.check(*found, block.label));
    }
    CHECK(later.bytes_checked() == layout_of(home.t, kShare).bytes);
  }
  std::string bad = read_all(blocks[0].file.path);
  bad[5] = static_cast<char>(bad[5] + 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the granularity of file times
  write_text(blocks[0].file.path, bad);
  CHECK_FALSE(later.check(blocks[0].file, blocks[0].label));
  CHECK_FALSE(later.find(blocks[0].label));
}

TEST_CASE("exec/block store: the limit evicts what was used longest ago, never what is in use") {
  Home home;
  const std::uint64_t bytes = layout_of(home.t, kShare).bytes;
  const auto share_of = [](std::int32_t columns) {
    Share share = kShare;
    share.heads = {0, 0};
    share.columns = {0, columns};
    return share;
  };
  static_cast<void>(bytes);
  const std::uint64_t one = layout_of(home.t, share_of(18)).bytes;
  BlockStore store(home.cache, 3 * one);
  const auto present = [&] {
    std::uint64_t total = 0;
    for (const auto& file : fs::directory_iterator(home.cache / "blocks"))
      total += file.file_size();
    return total;
  };
  const auto later = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  std::optional<BlockLabel> oldest;
  std::optional<BlockLabel> second;
  {
    oldest = home.make(share_of(18), store)[0].label;
    later();
    second = home.make(share_of(17), store)[0].label;
    later();
    static_cast<void>(home.make(share_of(16), store));
    later();
  }
  REQUIRE(present() <= 3 * one);
  SUBCASE("who is looked for is used") {
    CHECK(store.find(*oldest).has_value());
    static_cast<void>(home.make(share_of(15), store));
    CHECK(present() <= 3 * one);
    CHECK(store.find(*oldest).has_value());
    CHECK_FALSE(store.find(*second).has_value());
  }
  SUBCASE("another process' session keeps its blocks") {
    BlockStore elsewhere(home.cache);
    const auto held = elsewhere.find(*oldest);
    REQUIRE(held);
    for (const std::int32_t columns : {15, 14, 13, 12}) {
      later();
      static_cast<void>(home.make(share_of(columns), store));
    }
    CHECK(present() <= 3 * one);
    CHECK(store.find(*oldest).has_value());
    CHECK_FALSE(store.find(*second).has_value());
  }
  SUBCASE("what another process is writing is not evicted") {
    AtomicFile partial(home.cache / "blocks", /*unnamed=*/false);
    partial.write(std::string(3 * one, 'x'));
    static_cast<void>(home.make(share_of(15), store));
    partial.commit("whole");
    CHECK(fs::file_size(home.cache / "blocks" / "whole") == 3 * one);
  }
  SUBCASE("files of versions before this one go first") {
    write_text(home.cache / "shards" / "old.shard", std::string(1000, 'x'));
    fs::last_write_time(home.cache / "shards" / "old.shard",
                        fs::file_time_type::clock::now() - std::chrono::hours(1));
    static_cast<void>(home.make(share_of(15), store));
    CHECK_FALSE(fs::exists(home.cache / "shards" / "old.shard"));
  }
  SUBCASE("more in use than the limit allows is one error") {
    BlockStore small(home.folder.path() / "small", one / 2);
    const std::string error = error_of([&] { static_cast<void>(home.make(share_of(18), small)); });
    CHECK(has(error, "raise '--cache-size'"));
    CHECK(names_in(home.folder.path() / "small").size() < 9);
  }
}

TEST_CASE("exec/block store: a disk that refuses bytes is one clear error and leaves nothing") {
  Home home;
  // The process' own limit on file sizes stands for a full disk.
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{3000, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string sliced = error_of([&] { static_cast<void>(home.make(kShare, home.store)); });
  const std::string written = error_of(
      [&] { write_random_weights(home.t, 7, model::DType::f32, home.folder.path() / "more"); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(has(sliced, "cannot write"));
  CHECK(has(written, "cannot write"));
  CHECK(names_in(home.cache).empty());
  CHECK(names_in(home.folder.path() / "more").empty());
}

TEST_CASE("exec/block store: who is called off while it checks leaves a sound block where it is") {
  Home home;
  const auto blocks = home.make(kShare, home.store);
  BlockStore later(home.cache, std::nullopt, Trust::nothing);
  const WeightProgress call_off = [](std::uint64_t, std::uint64_t) { throw Error("interrupted"); };
  CHECK(error_of([&] {
          static_cast<void>(later.check(blocks[0].file, blocks[0].label, call_off));
        }) == "interrupted");
  CHECK(later.check(blocks[0].file, blocks[0].label));
}

TEST_CASE("exec/resident blocks: what is kept is read once, what is not needed is given back") {
  Home home;
  const auto blocks = home.make(kShare, home.store);
  ResidentBlocks memory;
  for (int round = 0; round < 2; ++round) {
    for (const MadeBlock& block : blocks) {
      const auto loaded = memory.load(block.file);
      CHECK(read_all(block.file.path) ==
            std::string(reinterpret_cast<const char*>(loaded->data()), loaded->size()));
    }
    CHECK(memory.bytes_read() == layout_of(home.t, kShare).bytes);
  }
  CHECK(memory.bytes() == static_cast<double>(layout_of(home.t, kShare).bytes));
  memory.keep_only({blocks[1].label.id()});
  CHECK(memory.bytes() == static_cast<double>(blocks[1].file.bytes));
  CHECK(memory.contains(blocks[1].label.id()));
  CHECK_FALSE(memory.contains(blocks[0].label.id()));
}

TEST_CASE("exec/block store: the cache folder follows XDG_CACHE_HOME, then HOME") {
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
  CHECK(default_cache_dir().empty());
  if (!home.empty()) setenv("HOME", home.c_str(), 1);
  if (!cache.empty()) setenv("XDG_CACHE_HOME", cache.c_str(), 1);
}

TEST_CASE("exec/block store: without a folder it says so where one is needed") {
  BlockStore store({});
  CHECK_FALSE(store.has_folder());
  CHECK(has(error_of([&] { store.make_room(1); }), "set one, or give '--cache DIR'"));
  CHECK(has(error_of([&] { static_cast<void>(store.label_of("a")); }), "cache folder: neither"));
  CHECK(has(error_of([&] { store.discard("a"); }), "cache folder: neither"));
}

}  // namespace
}  // namespace tandem::exec::block_store_test
