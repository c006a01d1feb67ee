// Reading past the page cache, the window of weights, and the disk lane, each alone.

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "exec/runtime/disk_lane.hpp"
#include "exec/streaming/direct_file.hpp"
#include "exec/streaming/weight_window.hpp"
#include "exec/weights/formats/block_codec.hpp"
#include "exec/weights/random_weights.hpp"
#include "exec/weights/store/resident_blocks.hpp"
#include "exec/weights/tensors.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/block_support.hpp"

namespace tandem::exec::streaming_test {
namespace {

using namespace std::chrono_literals;
using model::Share;
using model::Transformer;
using model::WeightBlock;
using namespace testing;

const std::atomic<bool> kGoOn{false};

std::string numbered_bytes(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>((i * 31 + i / 4096) % 251);
  return text;
}

TEST_CASE("exec/direct reads: every way of reading gives the file's bytes") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  const std::string text = numbered_bytes(std::size_t{4096} * 1031);  // several requests, a prime
  write_text(path, text);
  for (const bool direct : {true, false}) {
    const DirectFile file(path, {.direct = direct});
    CHECK(file.size() == text.size());
    if (!direct) CHECK_FALSE(file.direct());
    for (const bool uring : {true, false}) {
      DirectReader reader({.uring = uring});
      CAPTURE(reader.method(file));
      for (const std::size_t first : {std::size_t{0}, std::size_t{3}, std::size_t{1030}}) {
        const std::uint64_t offset = first * 4096;
        AlignedBuffer buffer(text.size() - offset);
        reader.read(file, offset, {buffer.data(), buffer.size()}, kGoOn);
        CHECK(std::memcmp(buffer.data(), text.data() + offset, buffer.size()) == 0);
      }
    }
  }
}

TEST_CASE("exec/direct reads: a file that is too short, changed or none is one error") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  write_text(path, numbered_bytes(std::size_t{4096} * 700));
  AlignedBuffer buffer(std::size_t{4096} * 700);
  const std::span<std::byte> bytes(buffer.data(), buffer.size());
  for (const bool direct : {true, false}) {
    for (const bool uring : {true, false}) {
      const DirectFile file(path, {.direct = direct});
      DirectReader reader({.uring = uring});
      CAPTURE(reader.method(file));
      const std::string error = error_of([&] { reader.read(file, 4096, bytes, kGoOn); });
      CHECK(has(error, path.string()));
      CHECK(has(error, "ends at byte 2867200, expected 4096 more"));
      const std::atomic<bool> stop{true};
      CHECK(error_of([&] { reader.read(file, 0, bytes, stop); }) == "cancelled");
      reader.read(file, 0, bytes, kGoOn);  // and goes on afterwards
      file.check_unchanged();
    }
  }
  const DirectFile file(path);
  std::filesystem::resize_file(path, 4096 * 3 + 17);
  DirectReader reader;
  CHECK(has(error_of([&] { reader.read(file, 0, bytes, kGoOn); }), "ends at byte 12305"));
  CHECK(has(error_of([&] { file.check_unchanged(); }), "changed while it was in use"));
  CHECK(has(error_of([&] { DirectFile none(folder.path() / "none"); }), "cannot open"));
  CHECK(has(error_of([&] { DirectFile none(folder.path()); }), "not a regular file"));
  REQUIRE(mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  CHECK(has(error_of([&] { DirectFile none(folder.path() / "pipe"); }), "not a regular file"));
}

struct Sharded {
  explicit Sharded(const Transformer& t, const Share& share) : transformer(t) {
    write_random_weights(t, 7, model::DType::f32, folder.path() / "weights");
    files = testing::files_of(testing::blocks_of(folder.path() / "weights", t, share, store));
    whole.emplace(Shard::slice(folder.path() / "weights", t, share));
  }
  TemporaryFolder folder;
  Transformer transformer;
  BlockStore store{folder.path() / "cache"};
  std::vector<BlockFile> files;
  std::optional<Shard> whole;
};

std::vector<WindowBlock> blocks_of(const Transformer& t, std::int32_t tile) {
  std::vector<WindowBlock> blocks;
  for (std::int32_t layer = 0; layer < t.layers; ++layer) {
    blocks.push_back({.block = WeightBlock::attention, .layer = layer});
    if (layer != 1) blocks.push_back({.block = WeightBlock::ffn, .layer = layer});
  }
  const auto rows = static_cast<std::int32_t>(t.head_rows());
  for (std::int32_t row = 0; row < rows; row += tile) {
    const auto end = std::min(row + tile, rows);
    blocks.push_back({.block = WeightBlock::head, .rows = {row, end}});
  }
  return blocks;
}

bool same(const MatrixView& a, const MatrixView& b) {
  return a.rows == b.rows && a.columns == b.columns && a.format == b.format && a.data != nullptr &&
         std::memcmp(a.data, b.data, static_cast<std::size_t>(a.rows * a.row_bytes())) == 0;
}

bool equal(std::span<const float> a, std::span<const float> b) { return std::ranges::equal(a, b); }

bool same(const NormView& a, const NormView& b) {
  return !a.weight.empty() && equal(a.weight, b.weight) && equal(a.bias, b.bias);
}

TEST_CASE(
    "exec/weight window: what is bound equals the whole shard, tied matrices and formats or not") {
  struct Case {
    model::Family family;
    bool tied;
    model::WeightFormat format = model::WeightFormat::f32;
  };
  for (const auto& [family, tied, format] :
       {Case{model::Family::llama, false}, Case{model::Family::llama, true},
        Case{model::Family::llama, false, model::WeightFormat::bf16},
        Case{model::Family::llama, true, model::WeightFormat::q8_0},
        Case{model::Family::llama, false, model::WeightFormat::q4_0},
        Case{model::Family::gpt2, false}, Case{model::Family::opt, true},
        Case{model::Family::bert, true}}) {
    for (const bool direct : {true, false}) {
      Transformer t = small_llama();
      t.family = family;
      t.token_types = family == model::Family::bert ? 2 : 0;
      if (family != model::Family::llama) {  // config.json has neither size
        t.kv_heads = t.heads;
        t.hidden = t.heads * t.head_dim;
      }
      CAPTURE(static_cast<int>(family));
      CAPTURE(tied);
      CAPTURE(direct);
      t.tied_embeddings = tied;
      if (format != model::WeightFormat::f32) t = in_blocks(t, format);
      const Sharded s(t, whole_share(t));
      const Shard::Tensors& whole = s.whole->tensors();
      const std::vector<WindowBlock> blocks = blocks_of(t, 13);
      // Slots by class, or three that take any block.
      const SlotCounts slots{.attention = direct ? 2 : 0, .ffn = 3};
      WeightWindow window(s.files, t, whole_share(t), blocks, slots, {.file = {.direct = direct}});
      ResidentBlocks memory;
      Shard shard = window.read_resident([&](const BlockFile& file) { return memory.load(file); });
      CHECK(same(shard.tensors().final_norm, whole.final_norm));
      CHECK(same(shard.tensors().layers[1].down, whole.layers[1].down));
      CHECK(shard.tensors().layers[1].query.data == nullptr);
      CHECK(shard.tensors().embedding.data == nullptr);
      CHECK(shard.tensors().head.data == nullptr);
      CHECK((whole.positions.data == nullptr || same(shard.tensors().positions, whole.positions)));
      CHECK((whole.token_types.data == nullptr ||
             same(shard.tensors().token_types, whole.token_types)));
      for (int round = 0; round < 2; ++round) {
        for (std::size_t i = 0; i < blocks.size(); ++i) {
          CAPTURE(i);
          shard.bind(window.load(i, kGoOn));
          if (blocks[i].block == WeightBlock::head) {
            MatrixView rows = whole.head;
            rows.data = rows.row(blocks[i].rows.begin);
            rows.rows = blocks[i].rows.size();
            CHECK(same(shard.tensors().head, rows));
            CHECK(shard.tensors().head_begin == blocks[i].rows.begin);
            continue;
          }
          const auto layer = static_cast<std::size_t>(blocks[i].layer);
          const LayerTensors& bound = shard.tensors().layers[layer];
          if (blocks[i].block == WeightBlock::attention) {
            CHECK(same(bound.attention_norm, whole.layers[layer].attention_norm));
            CHECK(same(bound.query, whole.layers[layer].query));
            CHECK(same(bound.key, whole.layers[layer].key));
            CHECK(same(bound.value, whole.layers[layer].value));
            CHECK(same(bound.out, whole.layers[layer].out));
            CHECK(equal(bound.qkv_bias, whole.layers[layer].qkv_bias));
            CHECK(equal(bound.out_bias, whole.layers[layer].out_bias));
          } else {
            CHECK(same(bound.ffn_norm, whole.layers[layer].ffn_norm));
            CHECK((bound.gate.data == nullptr) == (whole.layers[layer].gate.data == nullptr));
            if (bound.gate.data != nullptr) CHECK(same(bound.gate, whole.layers[layer].gate));
            CHECK(same(bound.up, whole.layers[layer].up));
            CHECK(same(bound.down, whole.layers[layer].down));
            CHECK(equal(bound.up_bias, whole.layers[layer].up_bias));
            CHECK(equal(bound.down_bias, whole.layers[layer].down_bias));
          }
          shard.unbind(blocks[i].block, blocks[i].layer);
          CHECK(bound.down.data == (layer == 1 ? shard.tensors().layers[1].down.data : nullptr));
        }
      }
      std::vector<float> row(static_cast<std::size_t>(t.hidden));
      for (const std::int32_t token : {0, 1, 130, 258}) {
        window.read_row(token, row);
        std::vector<float> wanted(row.size());
        decode(whole.embedding.format,
               {whole.embedding.row(token), static_cast<std::size_t>(whole.embedding.row_bytes())},
               wanted);
        CHECK(equal(row, wanted));
      }
    }
  }
}

TEST_CASE("exec/weight window: one slot takes the largest block, or as much as was planned") {
  const Transformer t = small_llama();
  const Sharded s(t, whole_share(t));
  const std::vector<WindowBlock> blocks = blocks_of(t, 13);
  const auto allocated = [&](const SlotCounts& slots) {
    return WeightWindow(s.files, t, whole_share(t), blocks, slots).allocated_bytes();
  };
  const double apart = allocated({.attention = 1, .ffn = 1});
  const double alike = allocated({.attention = 0, .ffn = 1});
  CHECK(alike < apart);
  CHECK(allocated({.attention = 0, .ffn = 3}) == 3 * alike);
  CHECK(allocated({.attention = 0, .ffn = 2, .ffn_bytes = 1 << 20}) == 2 * (1 << 20));
}

TEST_CASE("exec/weight window: a shard that is not what it should be is one error") {
  const Transformer t = small_llama();
  const Sharded s(t, whole_share(t));
  const std::vector<WindowBlock> blocks = blocks_of(t, 100);
  const auto open = [&] {
    return std::make_unique<WeightWindow>(s.files, t, whole_share(t), blocks,
                                          SlotCounts{.attention = 1, .ffn = 1});
  };
  // What is loaded first, and last: the attention of layer 0, and rows of the head.
  const std::filesystem::path first = s.files[1].path;
  const std::filesystem::path last = s.files.back().path;
  const std::string good = read_all(first);
  SUBCASE("cut short before") {
    std::filesystem::resize_file(first, good.size() - 4096);
    CHECK(has(error_of([&] { open(); }), "expected " + std::to_string(good.size())));
    CHECK(has(error_of([&] { open(); }), "the attention of layer 0"));
  }
  SUBCASE("cut short while running") {
    const auto window = open();
    static_cast<void>(window->load(0, kGoOn));
    std::filesystem::resize_file(last, 4096);
    CHECK(has(error_of([&] { static_cast<void>(window->load(blocks.size() - 1, kGoOn)); }),
              "cut short"));
  }
  SUBCASE("altered while running") {
    const auto window = open();
    static_cast<void>(window->load(0, kGoOn));
    std::this_thread::sleep_for(20ms);  // file times have the granularity of a tick
    write_text(first, good);
    CHECK(has(error_of([&] { static_cast<void>(window->load(0, kGoOn)); }),
              "changed while it was in use"));
  }
  SUBCASE("removed, or replaced by an equal one, while running: the open one is read on") {
    const auto window = open();
    std::this_thread::sleep_for(20ms);
    std::filesystem::copy_file(first, first.string() + "-copy");
    std::filesystem::rename(first.string() + "-copy", first);
    CHECK_NOTHROW(static_cast<void>(window->load(0, kGoOn)));
    std::filesystem::remove(first);
    CHECK_NOTHROW(static_cast<void>(window->load(0, kGoOn)));
  }
  SUBCASE("altered while running, its time of writing put back") {
    const auto window = open();
    const auto written = std::filesystem::last_write_time(first);
    std::this_thread::sleep_for(20ms);
    write_text(first, good);
    std::filesystem::last_write_time(first, written);
    CHECK(has(error_of([&] { static_cast<void>(window->load(0, kGoOn)); }),
              "changed while it was in use"));
  }
}

// Loads that are recorded, each taking a while.
class FakeLoader : public BlockLoader {
 public:
  std::size_t find(const model::Task& task) const override {
    return static_cast<std::size_t>(task.layer);
  }
  LoadedBlock load(std::size_t block, const std::atomic<bool>& stop) override {
    std::this_thread::sleep_for(pause);
    if (stop) throw Error("cancelled");
    if (block == fails) throw Error("disk: broken");
    const std::lock_guard lock(mutex);
    order.push_back(block);
    return {.weights = &values[block % 8]};
  }
  std::size_t count() {
    const std::lock_guard lock(mutex);
    return order.size();
  }
  // Whether it comes to have loaded so many, however long a busy machine takes.
  bool comes_to(std::size_t loads) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (count() < loads && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(1ms);
    return count() >= loads;
  }
  std::chrono::microseconds pause{0};
  std::size_t fails = 1000;
  std::mutex mutex;
  std::vector<std::size_t> order;
  std::array<std::byte, 8> values{};
};

// `blocks` loads, each after the release `window` blocks before; releases are the events, the last
// `window` of them carried.
DiskProgram ring(std::int32_t blocks, std::int32_t window, double bytes = 0.0) {
  DiskProgram program;
  program.events = blocks;
  const auto event_of = [&](std::int32_t block) {
    const std::int32_t from_end = blocks - 1 - block;
    return from_end < window ? window - 1 - from_end : window + block;
  };
  for (std::int32_t b = 0; b < blocks; ++b) {
    DiskLoad load{.task = b, .block = static_cast<std::size_t>(b), .bytes = bytes};
    if (b >= window) {
      load.events.push_back(event_of(b - window));
    } else {
      load.earlier_events.push_back(event_of(blocks + b - window));
    }
    program.loads.push_back(load);
  }
  return program;
}

std::int32_t event_of(const DiskProgram& program, std::int32_t block, std::int32_t window) {
  const auto blocks = static_cast<std::int32_t>(program.loads.size());
  const std::int32_t from_end = blocks - 1 - block;
  return from_end < window ? window - 1 - from_end : window + block;
}

void settle() { std::this_thread::sleep_for(15ms); }

TEST_CASE("exec/disk lane: loads as far ahead as the window lets it, also into the next step") {
  for (const std::int32_t window : {1, 2, 3, 5}) {
    CAPTURE(window);
    constexpr std::int32_t kBlocks = 7;
    FakeLoader loader;
    DiskLane lane(loader, {});
    const DiskProgram program = ring(kBlocks, window);
    lane.reserve(program);
    constexpr std::int32_t kSteps = 3;
    for (std::int32_t s = 0; s < kSteps; ++s) {
      lane.begin(program, s + 1 < kSteps ? &program : nullptr);
      for (std::int32_t b = 0; b < kBlocks; ++b) {
        CHECK(lane.await(b).weights == &loader.values[static_cast<std::size_t>(b)]);
        if (b == kBlocks - 1 || b == 2) {
          const auto ahead =
              static_cast<std::size_t>(std::min(s * kBlocks + b + window, kSteps * kBlocks));
          CHECK(loader.comes_to(ahead));
          settle();  // and no further
          CHECK(loader.count() == ahead);
        }
        lane.done(event_of(program, b, window), std::chrono::steady_clock::now());
      }
      lane.finish();
    }
    CHECK(loader.comes_to(kSteps * kBlocks));
    settle();
    CHECK(loader.count() == kSteps * kBlocks);
  }
}

TEST_CASE("exec/disk lane: an emulated disk takes bytes / rate from when a load may start") {
  FakeLoader loader;
  DiskLane lane(loader, {.rate = 1e6});
  const DiskProgram program = ring(3, 1, 5000.0);  // 5 ms each
  lane.reserve(program);
  const auto origin = std::chrono::steady_clock::now() + 50ms;
  lane.available(origin);
  lane.begin(program, &program);
  const auto at = [&](int ms) { return origin + std::chrono::milliseconds(ms); };
  for (int s = 0; s < 2; ++s) {
    // Released 2 ms after the load before is done: 5, 5 + 2 + 5, ... whatever the clock says.
    for (int b = 0; b < 3; ++b) {
      static_cast<void>(lane.await(b));
      const int start = (s * 3 + b) * 7;
      CHECK(lane.times(b).start == at(start));
      CHECK(lane.times(b).end == at(start + 5));
      lane.done(event_of(program, b, 1), at(start + 7));
    }
    lane.finish();
    if (s == 0) lane.begin(program, nullptr);
  }
}

TEST_CASE("exec/disk lane: a failed load and a cancel end every wait, with one reason") {
  FakeLoader loader;
  std::string told;
  const DiskProgram program = ring(3, 2);
  SUBCASE("a load fails") {
    loader.fails = 1;
    const DiskProgram narrow = ring(3, 1);  // load 1 waits for the release of block 0
    DiskLane lane(loader, {.on_failure = [&](const std::string& reason) { told = reason; }});
    lane.reserve(narrow);
    lane.begin(narrow, nullptr);
    static_cast<void>(lane.await(0));
    lane.done(1, DiskLane::TimePoint{});  // the events begin with the carried one
    CHECK(error_of([&] { static_cast<void>(lane.await(1)); }) == "disk: broken");
    CHECK(error_of([&] { lane.finish(); }) == "disk: broken");
    lane.stop();
    CHECK(told == "disk: broken");
  }
  SUBCASE("cancelled by another thread") {
    loader.pause = 20ms;
    DiskLane lane(loader, {});
    lane.reserve(program);
    lane.begin(program, nullptr);
    std::thread other([&] { lane.cancel("enough"); });
    CHECK(error_of([&] { lane.finish(); }) == "enough");
    other.join();
    CHECK(error_of([&] { lane.begin(program, nullptr); }) == "enough");
  }
  SUBCASE("nothing comes, which only a cancel ends") {
    DiskLane lane(loader, {});
    lane.reserve(program);
    lane.begin(program, nullptr);
    std::thread other([&] {
      std::this_thread::sleep_for(50ms);
      lane.cancel("enough");
    });
    CHECK(error_of([&] { static_cast<void>(lane.await(2)); }) == "enough");
    other.join();
  }
}

}  // namespace
}  // namespace tandem::exec::streaming_test
