#include "exec/weights/source/safetensors.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "exec/weights/formats/convert.hpp"
#include "tests/exec/weights/weights_support.hpp"

namespace tandem::exec::safetensors_test {
namespace {

using testing::error_of;
using testing::has;
using testing::safetensors_text;
using testing::TemporaryFolder;
using testing::write_text;

// A tensor of 0, 1, 2, ... as `dtype`, alone in its file.
void write_counting(const std::filesystem::path& folder, model::DType dtype,
                    const std::vector<std::int64_t>& shape) {
  const auto elements = static_cast<std::size_t>(shape[0] * shape[1]);
  std::vector<float> values(elements);
  for (std::size_t i = 0; i < elements; ++i) values[i] = static_cast<float>(i);
  std::vector<std::byte> bytes(elements * static_cast<std::size_t>(model::size_of(dtype)));
  from_f32(dtype, values, bytes);
  const std::vector<TensorToWrite> tensors{{"x", shape}};
  SafetensorsWriter writer(folder, dtype, tensors);
  writer.append(bytes);
  writer.commit("model.safetensors");
}

TEST_CASE("exec/safetensors: reads any rectangle of what was written, in every dtype") {
  for (const auto dtype : {model::DType::f32, model::DType::f16, model::DType::bf16}) {
    const TemporaryFolder folder;
    constexpr std::int32_t kRows = 13;
    constexpr std::int32_t kColumns = 17;
    write_counting(folder.path(), dtype, {kRows, kColumns});
    const SafetensorsFolder weights(folder.path());
    const std::vector<std::int64_t> shape{kRows, kColumns};
    for (const model::Range rows : {model::Range{0, kRows}, {3, 4}, {5, 13}, {0, 0}}) {
      for (const model::Range columns : {model::Range{0, kColumns}, {16, 17}, {2, 9}, {4, 4}}) {
        CAPTURE(rows.begin);
        CAPTURE(columns.begin);
        std::vector<float> out(static_cast<std::size_t>(rows.size() * columns.size()), -1.0F);
        weights.read("x", shape, rows, columns, out);
        std::vector<float> expected;
        for (int r = rows.begin; r < rows.end; ++r) {
          for (int c = columns.begin; c < columns.end; ++c) {
            expected.push_back(static_cast<float>(r * kColumns + c));
          }
        }
        CHECK(out == expected);
      }
    }
  }
}

TEST_CASE("exec/safetensors: matrices larger than one piece are read whole") {
  const TemporaryFolder folder;
  constexpr std::int32_t kRows = 1501;
  constexpr std::int32_t kColumns = 1009;  // 6 MB: two pieces
  write_counting(folder.path(), model::DType::f32, {kRows, kColumns});
  const SafetensorsFolder weights(folder.path());
  const std::vector<std::int64_t> shape{kRows, kColumns};
  std::vector<float> out(static_cast<std::size_t>(kRows) * 1000);
  weights.read("x", shape, {0, kRows}, {7, 1007}, out);
  int wrong = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t row = i / 1000;
    wrong += out[i] != static_cast<float>(row * kColumns + i % 1000 + 7);
  }
  CHECK(wrong == 0);
}

TEST_CASE("exec/safetensors: a damaged header costs one clear error") {
  struct Case {
    const char* name;
    std::string text;
    const char* part;
  };
  const std::string entry = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  const std::vector<Case> cases{
      {"empty file", "", "at least 8"},
      {"seven bytes", "1234567", "at least 8"},
      {"length beyond the file", std::string("\x09\0\0\0\0\0\0\0{}", 10), "header of 9 bytes"},
      {"length beyond 100 MB", std::string("\0\0\0\0\0\0\0\x80{}", 10), "header of"},
      {"not JSON", safetensors_text("{\"x\":", 0), "not JSON"},
      {"not UTF-8", safetensors_text("{\"\xff\":1}", 0), "not JSON"},
      {"an array", safetensors_text("[]", 0), "expected a JSON object"},
      {"tensor is a number", safetensors_text(R"({"x":3})", 0), "no dtype"},
      {"no shape", safetensors_text(R"({"x":{"dtype":"F32","data_offsets":[0,8]}})", 8),
       "no shape"},
      {"unknown dtype",
       safetensors_text(R"({"x":{"dtype":"F4","shape":[2],"data_offsets":[0,8]}})", 8), "F4"},
      {"dtype is a number",
       safetensors_text(R"({"x":{"dtype":4,"shape":[2],"data_offsets":[0,8]}})", 8), "ill-typed"},
      {"negative size",
       safetensors_text(R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8), "-2"},
      {"fractional size",
       safetensors_text(R"({"x":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", 8), "2.5"},
      {"size beyond 63 bits",
       safetensors_text(
           R"({"x":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})", 8),
       "2^63"},
      {"shape product overflows",
       safetensors_text(
           R"({"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", 8),
       "product"},
      {"shape and bytes disagree",
       safetensors_text(R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
       "expected 12"},
      {"three offsets",
       safetensors_text(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}})", 8),
       "data_offsets"},
      {"reversed offsets",
       safetensors_text(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), "[8, 0]"},
      {"offsets beyond the file",
       safetensors_text(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 8),
       "within the file's 8"},
      {"cut short", safetensors_text("{\"x\":{" + entry + "}}", 7), "within the file's 7"},
      {"bytes left over", safetensors_text("{\"x\":{" + entry + "}}", 9), "expected"},
      {"overlap",
       safetensors_text(
           "{\"x\":{" + entry + R"(},"y":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12),
       "overlap"},
      {"hole",
       safetensors_text(
           "{\"x\":{" + entry + R"(},"y":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})", 16),
       "bytes of no tensor"},
      {"a tensor twice", safetensors_text("{\"x\":{" + entry + "},\"x\":{" + entry + "}}", 8),
       "twice"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const TemporaryFolder folder;
    write_text(folder.path() / "model.safetensors", c.text);
    const std::string error = error_of([&] { const SafetensorsFolder weights(folder.path()); });
    CHECK(has(error, "model.safetensors"));
    CHECK_MESSAGE(has(error, c.part), error);
  }
}

TEST_CASE(
    "exec/safetensors: a header nested beyond all bounds is an error, not the end of the stack") {
  constexpr std::size_t kDepth = 1'000'000;
  const std::string deep = std::string(kDepth, '[') + std::string(kDepth, ']');
  const std::string header =
      R"({"x":{"dtype":"F32","shape":[)" + deep + R"(],"data_offsets":[0,8]}})";
  CHECK(has(error_of([&] {
              const auto ignored = parse_safetensors_header(header, 8 + header.size() + 8, "f");
            }),
            "nested"));
  const std::string index = R"({"weight_map":{"x":)" + deep + "}}";
  CHECK(has(error_of([&] { const auto ignored = parse_safetensors_index(index, "index"); }),
            "nested"));
}

TEST_CASE("exec/safetensors: names in messages carry no control characters and are not endless") {
  const std::string name = "\\u001b[31m\\n" + std::string(1000, 'x');
  const std::string error = error_of([&] {
    const auto ignored = parse_safetensors_header("{\"" + name + "\":3}", 8 + name.size() + 7, "f");
  });
  CHECK(!has(error, "\x1b"));
  CHECK(error.size() < 300);
}

TEST_CASE("exec/safetensors: tensors of other dtypes may lie beside, until they are read") {
  const TemporaryFolder folder;
  write_text(folder.path() / "model.safetensors",
             safetensors_text(R"({"__metadata__":{"format":"pt"},)"
                              R"("i":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
                              R"("x":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
                              12));
  const SafetensorsFolder weights(folder.path());
  float out = 1.0F;
  const std::vector<std::int64_t> shape{1};
  weights.read("x", shape, {0, 1}, {0, 1}, {&out, 1});
  CHECK(out == 0.0F);
  const auto read = [&](const std::string& tensor, const std::vector<std::int64_t>& wanted) {
    return error_of([&] { weights.read(tensor, wanted, {0, 1}, {0, 1}, {&out, 1}); });
  };
  CHECK(has(read("i", shape), "I64"));
  CHECK(has(read("y", shape), "y is missing"));
  CHECK(has(read("x", {1, 1}), "shape [1], expected [1, 1]"));
}

TEST_CASE("exec/safetensors: an index must not lead out of its folder") {
  const auto index = [](const std::string& file) { return R"({"weight_map":{"x":)" + file + "}}"; };
  for (const std::string file :
       {R"("../model.safetensors")", R"("/etc/model.safetensors")", R"("a/b.safetensors")",
        R"("a\\b.safetensors")", R"("..")", R"("")", R"(".safetensors")", R"("a.bin")", "3", "null",
        R"("a\u0000.safetensors")", R"("a\n.safetensors")", R"(["a.safetensors"])"}) {
    CAPTURE(file);
    const std::string error =
        error_of([&] { const auto ignored = parse_safetensors_index(index(file), "index"); });
    CHECK(has(error, "index: weight_map: file of x"));
  }
  CHECK(parse_safetensors_index(index(R"("a-1.safetensors")"), "index").at("x") ==
        "a-1.safetensors");
  for (const std::string text : {"{}", "[]", "", R"({"weight_map":[]})", R"({"weight_map":{}})"}) {
    CAPTURE(text);
    CHECK(has(error_of([&] { const auto ignored = parse_safetensors_index(text, "index"); }),
              "index: "));
  }
}

TEST_CASE("exec/safetensors: an index's file or tensor that is not there is named") {
  const TemporaryFolder folder;
  write_text(folder.path() / "model.safetensors.index.json",
             R"({"weight_map":{"x":"a.safetensors","y":"a.safetensors"}})");
  CHECK(has(error_of([&] { const SafetensorsFolder weights(folder.path()); }), "a.safetensors"));
  write_text(folder.path() / "a.safetensors",
             safetensors_text(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4));
  CHECK(has(error_of([&] { const SafetensorsFolder weights(folder.path()); }), "no tensor y"));
}

TEST_CASE("exec/safetensors: a tensor that two files have is refused, whichever the index names") {
  const TemporaryFolder folder;
  const char* const header = R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  write_text(folder.path() / "a.safetensors", safetensors_text(header, 4));
  write_text(folder.path() / "b.safetensors",
             safetensors_text(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
                                  "y":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                              8));
  write_text(folder.path() / "model.safetensors.index.json",
             R"({"weight_map":{"x":"a.safetensors","y":"b.safetensors"}})");
  const std::string error = error_of([&] { const SafetensorsFolder weights(folder.path()); });
  CHECK(has(error, "b.safetensors: tensor x is in a.safetensors as well"));
}

TEST_CASE("exec/safetensors: a folder without weights says what is expected") {
  const TemporaryFolder folder;
  CHECK(has(error_of([&] { const SafetensorsFolder weights(folder.path()); }),
            "neither model.safetensors nor"));
  std::filesystem::create_directory(folder.path() / "model.safetensors");
  CHECK(has(error_of([&] { const SafetensorsFolder weights(folder.path()); }), "regular file"));
  // A pipe without a writer is not waited for.
  std::filesystem::remove(folder.path() / "model.safetensors");
  REQUIRE(::mkfifo((folder.path() / "model.safetensors").c_str(), 0600) == 0);
  CHECK(has(error_of([&] { const SafetensorsFolder weights(folder.path()); }), "regular file"));
}

TEST_CASE("exec/safetensors: a file cut short after it was opened is an error, not a crash") {
  const TemporaryFolder folder;
  write_counting(folder.path(), model::DType::f32, {4, 4});
  const SafetensorsFolder weights(folder.path());
  const auto file = folder.path() / "model.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 8);
  std::vector<float> out(16);
  const std::vector<std::int64_t> shape{4, 4};
  CHECK(has(error_of([&] { weights.read("x", shape, {0, 4}, {0, 4}, out); }), "cut short"));
}

TEST_CASE("exec/safetensors: an unfinished file leaves nothing behind") {
  const TemporaryFolder folder;
  const std::vector<TensorToWrite> tensors{{"x", {2}}};
  {
    SafetensorsWriter writer(folder.path(), model::DType::f32, tensors);
    writer.append(std::vector<std::byte>(4));
    CHECK_THROWS_AS(writer.commit("model.safetensors"), std::logic_error);
  }
  CHECK(testing::names_in(folder.path()).empty());
}

TEST_CASE("exec/safetensors: a folder that cannot be made is one clear error") {
  const TemporaryFolder folder;
  write_text(folder.path() / "file", "");
  const std::vector<TensorToWrite> tensors{{"x", {2}}};
  const std::string error = error_of([&] {
    const SafetensorsWriter writer(folder.path() / "file" / "sub", model::DType::f32, tensors);
  });
  CHECK(has(error, "cannot make"));
}

TEST_CASE("exec/safetensors: of a type that is not read, those are named that a folder can have") {
  const TemporaryFolder folder;
  write_text(folder.path() / "model.safetensors",
             safetensors_text(R"({"x":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}})", 8));
  const SafetensorsFolder weights(folder.path());
  const std::vector<std::int64_t> shape{2};
  std::vector<float> out(2);
  CHECK(has(error_of([&] {
              weights.read("x", shape, {0, 1}, {0, 2}, out);
            }),
            "x: dtype I32, expected one of F32, F16, BF16; convert"));
}

}  // namespace
}  // namespace tandem::exec::safetensors_test
