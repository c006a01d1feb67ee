#include "exec/weights/files/block_record.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exec/weights/files/boot_id.hpp"
#include "exec/weights/random_weights.hpp"
#include "exec/weights/store/block_store.hpp"
#include "model/base/digest.hpp"
#include "model/base/error.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/block_support.hpp"

namespace tandem::exec::block_record_test {
namespace {

using namespace testing;

namespace fs = std::filesystem;

const model::Share kShare{{0, 3}, {1, 4}, {5, 18}, false, false};

// Blocks that one process has made; others look at them.
struct Made {
  Made() {
    write_random_weights(t, 7, model::DType::f16, folder.path() / "weights", 20000);
    BlockStore store(cache);
    blocks = blocks_of(folder.path() / "weights", t, kShare, store);
    for (const MadeBlock& block : blocks) bytes += block.file.bytes;
  }
  // What another process hashes of all blocks; those that it finds damaged are counted.
  [[nodiscard]] std::uint64_t hashed(Trust trust = Trust::records) {
    BlockStore store(cache, std::nullopt, trust);
    damaged = 0;
    for (const MadeBlock& block : blocks) {
      const auto found = store.find(block.label);
      REQUIRE(found);
      if (!store.check(*found, block.label)) ++damaged;
    }
    return store.bytes_checked();
  }
  [[nodiscard]] fs::path record(std::size_t i) const {
    return cache / "seen" / blocks[i].label.id();
  }
  TemporaryFolder folder;
  model::Transformer t = small_llama();
  fs::path cache = folder.path() / "cache";
  std::vector<MadeBlock> blocks;
  std::uint64_t bytes = 0;
  int damaged = 0;
};

TEST_CASE("exec/block record: a file that was hashed when it was written is not read again") {
  Made made;
  CHECK(made.hashed() == 0);
  CHECK(made.hashed(Trust::nothing) == made.bytes);
  CHECK(made.damaged == 0);
  CHECK(made.hashed() == 0);
}

TEST_CASE("exec/block record: any change of a file's identity has it hashed again") {
  Made made;
  const fs::path block = made.blocks[1].file.path;
  const std::uint64_t bytes = made.blocks[1].file.bytes;
  const auto modified = fs::last_write_time(block);
  const std::string sound = read_all(block);
  SUBCASE("a copy with its time of modification, another inode") {
    const fs::path copy = made.folder.path() / "copy";
    write_text(copy, sound);
    fs::last_write_time(copy, modified);
    fs::rename(copy, block);
    CHECK(made.hashed() == bytes);
    CHECK(made.damaged == 0);
  }
  SUBCASE("another time of modification") {
    fs::last_write_time(block, modified + std::chrono::seconds(1));
    CHECK(made.hashed() == bytes);
    CHECK(made.damaged == 0);
  }
  SUBCASE("another time of change alone") {
    fs::permissions(block, fs::perms::owner_all);
    CHECK(made.hashed() == bytes);
    CHECK(made.damaged == 0);
  }
  SUBCASE("other bytes, written at once, and the old time of modification") {
    std::string bad = sound;
    bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] + 1);
    write_text(block, bad);
    fs::last_write_time(block, modified);
    CHECK(made.hashed() == bytes);
    CHECK(made.damaged == 1);
    CHECK_FALSE(fs::exists(block));
    CHECK_FALSE(fs::exists(made.record(1)));
    return;
  }
  CHECK(made.hashed() == 0);  // recorded anew
}

TEST_CASE("exec/block record: every number of the identity counts") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "file";
  write_text(file, "bytes");
  const auto stamp = stamp_of(file);
  REQUIRE(stamp);
  const fs::path record = folder.path() / "seen" / "name";
  CHECK_FALSE(is_recorded(record, "name", *stamp));
  CHECK(record_block(record, "name", file, *stamp));
  CHECK(is_recorded(record, "name", *stamp));
  CHECK_FALSE(is_recorded(record, "other", *stamp));
  const std::vector<std::function<void(FileStamp&)>> changes{
      [](FileStamp& s) { ++s.device; }, [](FileStamp& s) { ++s.inode; },
      [](FileStamp& s) { ++s.bytes; }, [](FileStamp& s) { ++s.modified_ns; },
      [](FileStamp& s) { ++s.changed_ns; }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(i);
    FileStamp other = *stamp;
    changes[i](other);
    CHECK_FALSE(is_recorded(record, "name", other));
    // Of a file that is another one by now nothing is recorded.
    CHECK_FALSE(record_block(folder.path() / "seen" / "more", "more", file, other));
    CHECK_FALSE(fs::exists(folder.path() / "seen" / "more"));
  }
  CHECK_FALSE(record_block(record, "name", folder.path() / "none", *stamp));
}

TEST_CASE("exec/block record: what is damaged or another's is as if it were not there") {
  Made made;
  const fs::path record = made.record(1);
  const std::string sound = read_all(record);
  SUBCASE("gone") { fs::remove(record); }
  SUBCASE("empty") { write_text(record, ""); }
  SUBCASE("garbage") { write_text(record, std::string(300, '\xff')); }
  SUBCASE("huge") { write_text(record, std::string(5'000'000, '1')); }
  SUBCASE("cut short") { write_text(record, sound.substr(0, sound.size() - 2)); }
  SUBCASE("longer") { write_text(record, sound + "\n"); }
  SUBCASE("another block's") { write_text(record, read_all(made.record(0))); }
  SUBCASE("a digit differs") {
    std::string other = sound;
    char& digit = other[other.size() - 110];  // of the time of change
    digit = digit == '1' ? '2' : '1';
    write_text(record, other);
  }
  SUBCASE("a folder") {
    fs::remove(record);
    write_text(record / "in" / "it", "x");
  }
  SUBCASE("a pipe that nobody writes to") {
    fs::remove(record);
    REQUIRE(mkfifo(record.c_str(), 0600) == 0);
  }
  SUBCASE("a link to nowhere") {
    fs::remove(record);
    fs::create_symlink("nowhere", record);
  }
  CHECK(made.hashed() == made.blocks[1].file.bytes);
  CHECK(made.damaged == 0);
  CHECK(read_all(record) == sound);
  CHECK(made.hashed() == 0);
}

// A record as `boot` would have it.
std::string in_boot(const std::string& record, const std::string& boot) {
  std::string text = record.substr(0, record.size() - 65);
  text = text.substr(0, text.find_last_of('\n', text.size() - 2) + 1) + boot + "\n";
  return text + model::sha256_hex(text) + "\n";
}

TEST_CASE("exec/block record: after the machine was started again it is hashed once more") {
  Made made;
  const fs::path record = made.record(1);
  const std::string sound = read_all(record);
  REQUIRE(in_boot(sound, boot_id()) == sound);
  write_text(record, in_boot(sound, "another-boot"));
  CHECK(made.hashed() == made.blocks[1].file.bytes);
  // Its bytes came from the disk: it holds in every boot to come.
  CHECK(read_all(record) == in_boot(sound, "any"));
  CHECK(made.hashed() == 0);
}

TEST_CASE("exec/block record: where nothing can be recorded blocks are used as before") {
  Made made;
  fs::remove_all(made.cache / "seen");
  write_text(made.cache / "seen", "a file where the folder would be");
  CHECK(made.hashed() == made.bytes);
  CHECK(made.damaged == 0);
  CHECK(made.hashed() == made.bytes);
}

TEST_CASE("exec/block record: what is evicted leaves no record") {
  Made made;
  std::uint64_t largest = 0;
  for (MadeBlock& block : made.blocks) {
    largest = std::max(largest, block.file.bytes);
    block.file.use.reset();
  }
  BlockStore small(made.cache, largest);
  small.make_room(largest);
  CHECK(fs::is_empty(made.cache / "blocks"));
  CHECK(fs::is_empty(made.cache / "seen"));
}

}  // namespace
}  // namespace tandem::exec::block_record_test
