#include "exec/gguf/gguf_header.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "exec/gguf/gguf_file.hpp"
#include "tests/exec/gguf/gguf_support.hpp"
#include "tests/exec/weights/weights_support.hpp"

namespace tandem::exec::gguf_header_test {
namespace {

using testing::entry;
using testing::error_of;
using testing::gguf_text;
using testing::GgufParts;
using testing::has;
using testing::raw;
using testing::tensor_entry;
using testing::u32;
using testing::u64;

GgufHeader parse(const std::string& text) {
  return parse_gguf_header(
      [&](std::uint64_t offset, std::span<std::byte> bytes) {
        REQUIRE(offset + bytes.size() <= text.size());
        std::memcpy(bytes.data(), text.data() + offset, bytes.size());
      },
      text.size(), "f.gguf");
}

TEST_CASE("exec/gguf: values of every type and tensors are where the file has them") {
  GgufParts parts;
  parts.entries = {
      entry("a", 0, raw<std::uint8_t>(200)),
      entry("b", 1, raw<std::int8_t>(-3)),
      entry("c", 2, raw<std::uint16_t>(60000)),
      entry("d", 3, raw<std::int16_t>(-30000)),
      entry("e", 4000000000U),
      entry("f", 5, raw<std::int32_t>(-7)),
      entry("g", 6, raw(1.5F)),
      entry("h", 7, raw<std::uint8_t>(1)),
      entry("i", "text"),
      entry("j", 9, u32(8) + u64(2) + gguf_text("x") + gguf_text("")),
      entry("k", 9, u32(6) + u64(2) + raw(0.5F) + raw(-1.0F)),
      entry("l", 9,
            u32(5) + u64(3) + raw<std::int32_t>(1) + raw<std::int32_t>(-2) + raw<std::int32_t>(3)),
      entry("m", 10, u64(1) + ""),
      entry("n", 11, raw<std::int64_t>(-9)),
      entry("o", 12, raw(0.25)),
      entry("p", 9, u32(7) + u64(0))};
  parts.tensors = {tensor_entry("t", {4, 3}, 0, 0), tensor_entry("q", {64, 2}, 8, 64)};
  parts.data = 64 + 136;
  const std::string text = parts.text();
  const GgufHeader header = parse(text);
  CHECK(header.version == 3);
  CHECK(header.alignment == 32);
  const auto whole = [&](const char* key) {
    return std::get<std::int64_t>(header.values.at(key).value);
  };
  CHECK(whole("a") == 200);
  CHECK(whole("b") == -3);
  CHECK(whole("c") == 60000);
  CHECK(whole("d") == -30000);
  CHECK(whole("e") == 4000000000);
  CHECK(whole("f") == -7);
  CHECK(std::get<double>(header.values.at("g").value) == 1.5);
  CHECK(std::get<bool>(header.values.at("h").value));
  CHECK(std::get<std::string>(header.values.at("i").value) == "text");
  CHECK(std::get<GgufValue::Texts>(header.values.at("j").value) == GgufValue::Texts{"x", ""});
  CHECK(std::get<GgufValue::Reals>(header.values.at("k").value) == GgufValue::Reals{0.5, -1.0});
  CHECK(std::get<GgufValue::Numbers>(header.values.at("l").value) == GgufValue::Numbers{1, -2, 3});
  CHECK(whole("m") == 1);
  CHECK(whole("n") == -9);
  CHECK(std::get<double>(header.values.at("o").value) == 0.25);
  CHECK(std::get<GgufValue::Numbers>(header.values.at("p").value).empty());
  CHECK(header.tensors.at("t").shape == std::vector<std::int64_t>{3, 4});
  CHECK(header.tensors.at("t").bytes == 48);
  CHECK(header.tensors.at("t").offset == text.size() - 200);
  CHECK(header.tensors.at("q").type.name == "Q8_0");
  CHECK(header.tensors.at("q").shape == std::vector<std::int64_t>{2, 64});
  CHECK(header.tensors.at("q").bytes == 2 * 2 * 34);
  CHECK(header.tensors.at("q").offset == text.size() - 136);
}

struct Bad {
  const char* name;
  std::string text;
  std::vector<const char*> parts;  // of the message
};

std::string with_tensor(const std::string& tensor, std::size_t data) {
  return GgufParts{.tensors = {tensor}, .data = data}.text();
}
std::string with_entry(const std::string& one) { return GgufParts{.entries = {one}}.text(); }

std::vector<Bad> bad_files() {
  const std::string head = std::string("GGUF") + u32(3);
  return {
      {"empty", "", {"0 bytes", "cut short"}},
      {"cut within the counts", head + u64(1), {"16 bytes", "cut short"}},
      {"another magic", GgufParts{.magic = "GGML"}.text(), {"'GGML'", "expected 'GGUF'"}},
      {"version 1", GgufParts{.version = 1}.text(), {"version 1,", "expected 2 or 3"}},
      {"version 4", GgufParts{.version = 4}.text(), {"version 4,", "expected 2 or 3"}},
      {"big-endian", GgufParts{.version = 0x03000000}.text(), {"big-endian", "little-endian"}},
      {"too many keys", head + u64(0) + u64(std::uint64_t{1} << 40U), {"keys", "at most"}},
      {"too many tensors", head + u64(~std::uint64_t{0}) + u64(0), {"tensors", "at most"}},
      {"a key longer than the file", head + u64(0) + u64(1) + u64(1000), {"key", "1000 bytes"}},
      {"a text of 2^63 bytes",
       with_entry(gguf_text("a") + u32(8) + u64(std::uint64_t{1} << 63U)),
       {"key 'a'", "9223372036854775808 bytes"}},
      {"a value cut short", with_entry(gguf_text("a") + u32(10) + u32(0)), {"ends within"}},
      {"an unknown type of value", with_entry(entry("a", 13, "")), {"'a'", "13", "0 to 12"}},
      {"a boolean of 2", with_entry(entry("a", 7, raw<std::uint8_t>(2))), {"is 2", "0 or 1"}},
      {"2^64 - 1", with_entry(entry("a", 10, u64(~std::uint64_t{0}))), {"2^63 - 1"}},
      {"an array longer than the file",
       with_entry(entry("a", 9, u32(0) + u64(100))),
       {"array of 100", "at most 0"}},
      {"an array whose bytes overflow",
       with_entry(entry("a", 9, u32(10) + u64((std::uint64_t{1} << 61U) + 1) + u64(0))),
       {"array of", "at most 1"}},
      {"an array of arrays",
       with_entry(entry("a", 9, u32(9) + u64(1) + u32(0) + u64(0))),
       {"array of arrays"}},
      {"an array of an unknown type", with_entry(entry("a", 9, u32(99) + u64(0))), {"99"}},
      {"a key twice",
       GgufParts{.entries = {entry("a", 1U), entry("a", 2U)}}.text(),
       {"key 'a'", "twice"}},
      {"alignment 0", with_entry(entry("general.alignment", 0U)), {"is 0", "power of two"}},
      {"alignment 48", with_entry(entry("general.alignment", 48U)), {"is 48", "power of two"}},
      {"an alignment that is text", with_entry(entry("general.alignment", "32")), {"no number"}},
      {"an alignment of 2^31",
       with_entry(entry("general.alignment", 0x80000000U)),
       {"2147483648", "power of two"}},
      {"no dimension", with_tensor(tensor_entry("t", {}, 0, 0), 32), {"0 dimensions"}},
      {"five dimensions",
       with_tensor(tensor_entry("t", {1, 1, 1, 1, 1}, 0, 0), 32),
       {"5 dimensions"}},
      {"a size of 0", with_tensor(tensor_entry("t", {4, 0}, 0, 0), 32), {"size 0"}},
      {"sizes that overflow",
       with_tensor(tensor_entry("t", {std::uint64_t{1} << 40U, std::uint64_t{1} << 40U}, 0, 0), 32),
       {"below 2^63"}},
      {"bytes that overflow",
       with_tensor(tensor_entry("t", {std::uint64_t{1} << 62U}, 0, 0), 32),
       {"below 2^64"}},
      {"an unknown element type",
       with_tensor(tensor_entry("t", {4}, 4, 0), 32),
       {"'t'", "element type 4"}},
      {"rows that are no whole blocks",
       with_tensor(tensor_entry("t", {48}, 8, 0), 64),
       {"rows of 48", "multiples of 32"}},
      {"an offset off the alignment",
       with_tensor(tensor_entry("t", {4}, 0, 8), 64),
       {"byte 8", "alignment"}},
      {"data out of the file",
       with_tensor(tensor_entry("t", {16}, 0, 0), 32),
       {"64 bytes", "within its 32"}},
      {"data behind the file",
       with_tensor(tensor_entry("t", {4}, 0, 1 << 20), 32),
       {"1048576", "within its 32"}},
      {"no data at all", with_tensor(tensor_entry("t", {4}, 0, 0), 0), {"within its 0"}},
      {"a tensor twice",
       GgufParts{.tensors = {tensor_entry("t", {4}, 0, 0), tensor_entry("t", {4}, 0, 32)},
                 .data = 64}
           .text(),
       {"tensor 't'", "twice"}},
      {"tensors that overlap",
       GgufParts{.tensors = {tensor_entry("t", {16}, 0, 0), tensor_entry("u", {4}, 0, 32)},
                 .data = 64}
           .text(),
       {"'t' (F32) and 'u' overlap"}},
      {"bytes in front of the first tensor",
       with_tensor(tensor_entry("t", {4}, 0, 32), 64),
       {"32 bytes of no tensor in front of tensor 't'"}},
      {"bytes between two tensors",
       GgufParts{.tensors = {tensor_entry("u", {4}, 0, 64), tensor_entry("t", {4}, 0, 0)},
                 .data = 96}
           .text(),
       {"32 bytes of no tensor between tensors 't' (F32) and 'u'"}},
      {"bytes behind the last tensor",
       with_tensor(tensor_entry("t", {4}, 0, 0), 33),
       {"1 bytes of no tensor behind tensor 't' (F32)"}},
      {"bytes behind a header without tensors",
       GgufParts{.data = 33}.text(),
       {"33 bytes of no tensor behind the header"}},
      {"two files that were joined",
       with_tensor(tensor_entry("t", {4}, 0, 0), 32) + GgufParts{}.text(),
       {"behind tensor 't'", "another GGUF file", "cat", "--merge"}},
      {"two tensors at one place",
       GgufParts{.tensors = {tensor_entry("t", {4}, 0, 0), tensor_entry("u", {4}, 0, 0)},
                 .data = 64}
           .text(),
       {"overlap"}},
      {"a tensor without a name", with_tensor(tensor_entry("", {4}, 0, 0), 32), {"without a name"}},
      {"a name that would drive the terminal",
       with_tensor(tensor_entry("t\x1b[2J", {4}, 4, 0), 32),
       {"element type 4"}}};
}

TEST_CASE("exec/gguf: a damaged or hostile file is refused by what is wrong with it") {
  for (const Bad& bad : bad_files()) {
    CAPTURE(bad.name);
    const std::string error = error_of([&] { (void)parse(bad.text); });
    CAPTURE(error);
    CHECK(has(error, "f.gguf: "));
    CHECK(!has(error, "\x1b"));
    for (const char* part : bad.parts) CHECK(has(error, part));
  }
}

TEST_CASE("exec/gguf: a sound file that is cut anywhere is refused") {
  GgufParts parts;
  parts.entries = {entry("a", "text"),
                   entry("b", 9, u32(8) + u64(2) + gguf_text("x") + gguf_text("yz"))};
  parts.tensors = {tensor_entry("t", {4}, 0, 0), tensor_entry("u", {32}, 2, 32)};
  parts.data = 50;
  const std::string text = parts.text();
  CHECK(parse(text).tensors.size() == 2);
  for (std::size_t length = 0; length < text.size(); ++length) {
    CAPTURE(length);
    CHECK(!error_of([&] { (void)parse(text.substr(0, length)); }).empty());
  }
}

// The data of each tensor is what its type takes, up to the alignment: with any other type that
// takes another number of bytes the file is refused, whichever of the tensors it is.
TEST_CASE("exec/gguf: a tensor of another declared type is refused wherever the sizes differ") {
  struct Type {
    std::uint32_t id;
    std::size_t bytes;  // of 256 elements
  };
  const std::vector<Type> types{{0, 1024}, {1, 512},  {30, 512}, {2, 144},  {3, 160},
                                {6, 176},  {7, 192},  {8, 272},  {20, 144}, {12, 144},
                                {13, 176}, {14, 210}, {24, 256}};
  const auto padded = [](std::size_t bytes) { return (bytes + 31) / 32 * 32; };
  std::size_t refused = 0;
  for (const Type& written : types) {
    for (const Type& declared : types) {
      for (std::size_t which = 0; which < 3; ++which) {
        CAPTURE(written.id);
        CAPTURE(declared.id);
        CAPTURE(which);
        GgufParts parts;
        for (std::size_t i = 0; i < 3; ++i)
          parts.tensors.push_back(tensor_entry(std::string(1, static_cast<char>('a' + i)), {256},
                                               i == which ? declared.id : written.id,
                                               i * padded(written.bytes)));
        parts.data = 3 * padded(written.bytes);
        const bool same = padded(written.bytes) == padded(declared.bytes);
        if (same) {
          CHECK_NOTHROW((void)parse(parts.text()));
          continue;
        }
        const std::string error = error_of([&] { (void)parse(parts.text()); });
        CAPTURE(error);
        CHECK((has(error, "bytes of no tensor") || has(error, "overlap") ||
               has(error, "expected within its")));
        ++refused;
      }
    }
  }
  CHECK(refused > 400);
}

// The parts of a split: number, count and tensors as they say.
std::string part(std::uint32_t number, std::uint32_t count, const char* tensor,
                 std::uint32_t tensors, const std::vector<std::string>& more = {}) {
  GgufParts parts{.entries = {entry("split.no", 2, raw(static_cast<std::uint16_t>(number))),
                              entry("split.count", 2, raw(static_cast<std::uint16_t>(count))),
                              entry("split.tensors.count", tensors)},
                  .tensors = {tensor_entry(tensor, {4}, 0, 0)},
                  .data = 16};
  parts.entries.insert(parts.entries.end(), more.begin(), more.end());
  return parts.text();
}

TEST_CASE("exec/gguf: a split model is all of its files, each as its name says") {
  const testing::TemporaryFolder folder;
  const auto path = [&](const char* name) { return folder.path() / name; };
  const auto write = [&](const char* name, const std::string& text) {
    testing::write_text(path(name), text);
  };
  write("m-00001-of-00002.gguf", part(0, 2, "t", 2));
  const auto open = [&](const char* name) {
    return error_of([&] { const GgufFile file(path(name)); });
  };
  CHECK(has(open("m-00001-of-00002.gguf"), "m-00002-of-00002.gguf"));
  write("m-00002-of-00002.gguf", part(1, 2, "u", 2));
  const GgufFile file(path("m-00001-of-00002.gguf"));
  CHECK(file.tensors().size() == 2);
  CHECK(file.tensors().at("u").file == 1);
  CHECK(has(open("m-00002-of-00002.gguf"), "part 2 of 2"));

  write("m-00002-of-00002.gguf", part(0, 2, "u", 2));
  CHECK(has(open("m-00001-of-00002.gguf"), "split.no is 0, expected 1"));
  write("m-00002-of-00002.gguf", part(1, 3, "u", 2));
  CHECK(has(open("m-00001-of-00002.gguf"), "split.count is 3, expected 2"));
  write("m-00002-of-00002.gguf", part(1, 2, "t", 2));
  CHECK(has(open("m-00001-of-00002.gguf"), "tensor t is in m-00001-of-00002.gguf as well"));
  write("m-00002-of-00002.gguf", part(1, 2, "u", 2));
  write("m-00001-of-00002.gguf", part(0, 2, "t", 5));
  CHECK(has(open("m-00001-of-00002.gguf"), "split.tensors.count is 5, expected 2"));
  const std::vector<std::string> model{entry("general.architecture", "llama"),
                                       entry("llama.block_count", 2U)};
  write("m-00001-of-00002.gguf", part(0, 2, "t", 2, model));
  write("m-00002-of-00002.gguf",
        part(1, 2, "u", 2, {entry("general.url", "x"), model[0], model[1]}));
  CHECK(GgufFile(path("m-00001-of-00002.gguf")).tensors().size() == 2);
  write("m-00002-of-00002.gguf", part(1, 2, "u", 2, {entry("llama.block_count", 3U)}));
  CHECK(has(open("m-00001-of-00002.gguf"), "llama.block_count is said by a later part"));
  write("m-00002-of-00002.gguf", part(1, 2, "u", 2, {entry("llama.rope.scale_linear", 3U)}));
  CHECK(has(open("m-00001-of-00002.gguf"), "llama.rope.scale_linear is said by a later part"));
  write("m-00002-of-00002.gguf", part(1, 2, "u", 2, {entry("general.architecture", "qwen2")}));
  CHECK(has(open("m-00001-of-00002.gguf"), "general.architecture is said by a later part"));
  // One of several under another name.
  write("one.gguf", part(0, 2, "t", 2));
  CHECK(has(open("one.gguf"),
            "split.count is 2: part 1 of a model that was split, expected a name "
            "that ends in '-00001-of-00002.gguf'"));
  write("one.gguf", part(1, 2, "t", 2));
  CHECK(has(open("one.gguf"), "part 2 of a model that was split"));
  write("m-00001-of-00002.gguf", part(1, 2, "t", 2));
  CHECK(has(open("m-00001-of-00002.gguf"), "split.no is 1, expected 0"));
}

TEST_CASE("exec/gguf: a whole file works under any name, and what is none says what to do") {
  const testing::TemporaryFolder folder;
  const auto path = [&](const std::string& name) { return folder.path() / name; };
  const std::string whole = GgufParts{.entries = {entry("split.count", 2, raw(std::uint16_t{0}))},
                                      .tensors = {tensor_entry("t", {64}, 0, 0)},
                                      .data = 256}
                                .text();
  for (const char* name : {"m-00001-of-00013.gguf", "m-00002-of-00013.gguf", "m.gguf.part1of2",
                           "sha256-0123456789abcdef", "m.GGUF", "a b.gguf.bak"}) {
    CAPTURE(name);
    testing::write_text(path(name), whole);
    CHECK(is_gguf(path(name)));
    const GgufFile file(path(name));
    CHECK(file.tensors().size() == 1);
    CHECK(file.files().size() == 1);
  }
  // Pieces of a file that was cut, the first and another.
  const std::size_t half = whole.size() / 2;
  for (const auto& [first, second, joined] :
       {std::array{"m.gguf.part1of2", "m.gguf.part2of2", "cat m.gguf.* > m.gguf"},
        std::array{"m.gguf-split-a", "m.gguf-split-b", "cat m.gguf-* > m.gguf"},
        std::array{"m.gguf.00", "m.gguf.01", "cat m.gguf.* > m.gguf"}}) {
    testing::write_text(path(first), whole.substr(0, half));
    testing::write_text(path(second), whole.substr(half));
    for (const char* name : {first, second}) {
      CAPTURE(name);
      CHECK(is_gguf(path(name)));
      const std::string error = error_of([&] { const GgufFile file(path(name)); });
      CAPTURE(error);
      CHECK(has(error, "not a whole GGUF file"));
      CHECK(has(error, joined));
    }
  }
  // Another file is none for having ".gguf" in its name, nor is a folder.
  testing::write_text(path("m.gguf.json"), "{}");
  CHECK(!is_gguf(path("m.gguf.json")));
  std::filesystem::create_directory(path("m.gguf-files"));
  CHECK(!is_gguf(path("m.gguf-files")));
}

}  // namespace
}  // namespace tandem::exec::gguf_header_test
