#include "exec/weights/source/safetensors.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/json_value.hpp"

namespace tandem::exec {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxIndexBytes = 100'000'000;
constexpr int kMaxDepth = 8;  // an entry's shape is at 3; what is written out is walked recursively
constexpr const char* kCopyAgain = "; the file is damaged, copy or download it again";

std::uint64_t dtype_bytes(const std::string& dtype, const std::string& subject) {
  static constexpr std::array<std::pair<std::string_view, std::uint64_t>, 14> kSizes{
      {{"F32", 4},
       {"F16", 2},
       {"BF16", 2},
       {"F64", 8},
       {"I64", 8},
       {"I32", 4},
       {"I16", 2},
       {"I8", 1},
       {"U64", 8},
       {"U32", 4},
       {"U16", 2},
       {"U8", 1},
       {"BOOL", 1},
       {"F8_E4M3", 1}}};
  for (const auto& [name, bytes] : kSizes) {
    if (name == dtype) return bytes;
  }
  throw Error(subject + ": dtype " + dtype +
              ", expected F32, F16 or BF16; convert the weights to one of them");
}

json parse_header(std::string_view text, const std::string& source) {
  return model::parse_json(text, source, std::string(kCopyAgain).substr(2),
                           {.bytes = text.size(), .depth = kMaxDepth});
}

std::uint64_t unsigned_of(const json& value, const std::string& subject, const char* field) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  throw Error(subject + ": " + field + " " +
              shown_name(value.dump(-1, ' ', true, json::error_handler_t::replace)) +
              ", expected whole numbers from 0" + kCopyAgain);
}

const json& field_of(const json& entry, const char* field, const std::string& subject) {
  if (entry.is_object()) {
    const auto it = entry.find(field);
    if (it != entry.end()) return *it;
  }
  throw Error(subject + ": no " + field + ", expected dtype, shape and data_offsets" + kCopyAgain);
}

StoredTensor parse_tensor(const json& entry, std::uint64_t data_begin, std::uint64_t data_bytes,
                          const std::string& subject) {
  StoredTensor tensor;
  const json& dtype = field_of(entry, "dtype", subject);
  const json& shape = field_of(entry, "shape", subject);
  const json& offsets = field_of(entry, "data_offsets", subject);
  if (!dtype.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2) {
    throw Error(subject +
                ": ill-typed entry, expected a string dtype, an array shape and two data_offsets" +
                kCopyAgain);
  }
  tensor.dtype = shown_name(dtype.get<std::string>());
  for (const json& size : shape) {
    const std::uint64_t n = unsigned_of(size, subject, "shape");
    if (n > static_cast<std::uint64_t>(INT64_MAX)) {
      throw Error(subject + ": shape " + std::to_string(n) + ", expected at most 2^63 - 1" +
                  kCopyAgain);
    }
    tensor.shape.push_back(static_cast<std::int64_t>(n));
  }
  const std::uint64_t begin = unsigned_of(offsets[0], subject, "data_offsets");
  const std::uint64_t end = unsigned_of(offsets[1], subject, "data_offsets");
  if (begin > end || end > data_bytes) {
    throw Error(subject + ": data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) +
                "], expected within the file's " + std::to_string(data_bytes) + " bytes of data" +
                kCopyAgain);
  }
  tensor.offset = data_begin + begin;
  tensor.bytes = end - begin;
  const std::uint64_t expected =
      tensor_bytes(tensor.shape, dtype_bytes(tensor.dtype, subject), subject);
  if (expected != tensor.bytes) {
    throw Error(subject + ": " + std::to_string(tensor.bytes) + " bytes, expected " +
                std::to_string(expected) + " from its shape and dtype " + tensor.dtype +
                kCopyAgain);
  }
  return tensor;
}

// No byte of the data belongs to two tensors or to none.
void check_coverage(const StoredTensors& tensors, std::uint64_t data_begin,
                    std::uint64_t file_bytes, const std::string& source) {
  std::vector<std::pair<std::uint64_t, const StoredTensors::value_type*>> by_offset;
  for (const auto& entry : tensors) by_offset.emplace_back(entry.second.offset, &entry);
  std::ranges::sort(by_offset, {}, [](const auto& item) {
    return std::pair{item.first, item.second->second.bytes};
  });
  std::uint64_t at = data_begin;
  for (const auto& [offset, entry] : by_offset) {
    if (offset != at) {
      throw Error(source + ": " + shown_name(entry->first) + ": data begins at byte " +
                  std::to_string(offset) + ", expected " + std::to_string(at) +
                  (offset < at ? " (tensors overlap)" : " (bytes of no tensor)") + kCopyAgain);
    }
    at += entry->second.bytes;
  }
  if (at != file_bytes) {
    throw Error(source + ": " + std::to_string(file_bytes) + " bytes, expected " +
                std::to_string(at) + " from the header" + kCopyAgain);
  }
}

StoredTensors read_header(const ReadFile& file) {
  const std::string source = file.path().string();
  std::array<std::byte, kLengthBytes> length_bytes{};
  if (file.size() < kLengthBytes) {
    throw Error(source + ": " + std::to_string(file.size()) +
                " bytes, expected at least 8; not a safetensors file, or cut short");
  }
  file.read_at(0, length_bytes);
  std::uint64_t length = 0;
  std::memcpy(&length, length_bytes.data(), sizeof length);
  if (length > kMaxSafetensorsHeader || length > file.size() - kLengthBytes) {
    throw Error(source + ": header of " + std::to_string(length) + " bytes, expected at most " +
                std::to_string(std::min(kMaxSafetensorsHeader, file.size() - kLengthBytes)) +
                "; not a safetensors file, or cut short");
  }
  std::string header(length, '\0');
  file.read_at(kLengthBytes, std::as_writable_bytes(std::span(header)));
  return parse_safetensors_header(header, file.size(), source);
}

}  // namespace

std::uint64_t tensor_bytes(std::span<const std::int64_t> shape, std::uint64_t element_bytes,
                           const std::string& tensor) {
  std::uint64_t bytes = element_bytes;
  bool overflow = false;
  for (const std::int64_t size : shape) {
    overflow = overflow || size < 0 ||
               __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes);
  }
  if (overflow) {
    throw Error(tensor + ": shape " + shown_name(shape_text(shape)) +
                ", expected a product of bytes below 2^64" + kCopyAgain);
  }
  return bytes;
}

StoredTensors parse_safetensors_header(std::string_view header, std::uint64_t file_bytes,
                                       const std::string& source) {
  const std::uint64_t data_begin = kLengthBytes + header.size();
  if (file_bytes < data_begin) {
    throw Error(source + ": " + std::to_string(file_bytes) + " bytes, expected at least " +
                std::to_string(data_begin) + kCopyAgain);
  }
  const json parsed = parse_header(header, source);
  StoredTensors tensors;
  for (const auto& [name, entry] : parsed.items()) {
    if (name == "__metadata__") continue;
    const std::string subject = source + ": " + shown_name(name);
    tensors.emplace(name, parse_tensor(entry, data_begin, file_bytes - data_begin, subject));
  }
  check_coverage(tensors, data_begin, file_bytes, source);
  return tensors;
}

std::map<std::string, std::string> parse_safetensors_index(std::string_view text,
                                                           const std::string& source) {
  const json parsed = parse_header(text, source);
  const auto map = parsed.find("weight_map");
  if (map == parsed.end() || !map->is_object() || map->empty()) {
    throw Error(source + ": no weight_map, expected an object from tensor to file" + kCopyAgain);
  }
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    const bool plain = name.ends_with(".safetensors") && name.front() != '.' &&
                       name.find_first_of("/\\") == std::string::npos && shown_name(name) == name;
    if (!plain) {
      throw Error(source + ": weight_map: file of " + shown_name(tensor) + " is " +
                  shown_name(file.dump(-1, ' ', true, json::error_handler_t::replace)) +
                  ", expected the plain name of a .safetensors file in the same folder" +
                  kCopyAgain);
    }
    files.emplace(tensor, name);
  }
  return files;
}

SafetensorsFolder::SafetensorsFolder(const std::filesystem::path& folder)
    : WeightSource(folder, "check that config.json and the weights belong to one model") {
  const auto single = folder / "model.safetensors";
  const auto index = folder / "model.safetensors.index.json";
  if (is_present(single)) {
    add(single);
    return;
  }
  if (!is_present(index)) {
    throw Error(folder.string() +
                ": neither model.safetensors nor model.safetensors.index.json, expected one of "
                "them; give the folder of a Hugging Face model");
  }
  const auto map = parse_safetensors_index(read_text(index, kMaxIndexBytes), index.string());
  std::set<std::string> names;
  for (const auto& [tensor, file] : map) names.insert(file);
  for (const std::string& name : names) add(folder / name);
  for (const auto& [tensor, file] : map) {
    if (contains(tensor) && file_of(tensor).filename() == file) continue;
    throw Error((folder / file).string() + ": no tensor " + shown_name(tensor) + ", which " +
                index.filename().string() + " expects there; copy or download both again");
  }
}

// Adds all of its tensors, whether an index lists them or not.
void SafetensorsFolder::add(const std::filesystem::path& path) {
  auto file = std::make_shared<const ReadFile>(path);
  const std::size_t number = add_file(file, file->stamp());
  for (auto& [name, tensor] : read_header(*file)) {
    std::optional<model::WeightFormat> format;
    if (tensor.dtype == "F32") format = model::WeightFormat::f32;
    if (tensor.dtype == "F16") format = model::WeightFormat::f16;
    if (tensor.dtype == "BF16") format = model::WeightFormat::bf16;
    add_tensor(name, {.file = number,
                      .dtype = tensor.dtype,
                      .format = format,
                      .shape = tensor.shape,
                      .offset = tensor.offset,
                      .bytes = tensor.bytes});
  }
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& folder, model::DType dtype,
                                     std::span<const TensorToWrite> tensors)
    : file_(folder) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::uint64_t at = 0;
  for (const TensorToWrite& tensor : tensors) {
    const model::DType stored = tensor.dtype.value_or(dtype);
    const std::uint64_t bytes =
        tensor_bytes(tensor.shape, static_cast<std::uint64_t>(model::size_of(stored)), tensor.name);
    header[tensor.name] = {{"dtype", model::to_string(stored)},
                           {"shape", tensor.shape},
                           {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins 8-aligned
  const std::uint64_t length = text.size();
  file_.write(std::as_bytes(std::span(&length, 1)));
  file_.write(text);
  expected_bytes_ = file_.written() + at;
}

void SafetensorsWriter::commit(const std::string& name) {
  require(file_.written() == expected_bytes_, "safetensors: not all promised bytes were appended");
  file_.commit(name);
}

}  // namespace tandem::exec
