#include "exec/weights/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "exec/weights/convert.hpp"
#include "model/error.hpp"
#include "model/json_value.hpp"
#include "model/plain_text.hpp"

namespace tandem::exec {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxIndexBytes = 100'000'000;
constexpr int kMaxDepth = 8;  // an entry's shape is at 3; what is written out is walked recursively
constexpr const char* kAgain = "; the file is damaged, copy or download it again";

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
  return model::parse_json(text, source, std::string(kAgain).substr(2),
                           {.bytes = text.size(), .depth = kMaxDepth});
}

// Names from files go into messages.
std::string shown(std::string_view text) { return model::one_line(text, 120); }

std::uint64_t unsigned_of(const json& value, const std::string& subject, const char* field) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  throw Error(subject + ": " + field + " " +
              shown(value.dump(-1, ' ', true, json::error_handler_t::replace)) +
              ", expected whole numbers from 0" + kAgain);
}

const json& field_of(const json& entry, const char* field, const std::string& subject) {
  if (entry.is_object()) {
    const auto it = entry.find(field);
    if (it != entry.end()) return *it;
  }
  throw Error(subject + ": no " + field + ", expected dtype, shape and data_offsets" + kAgain);
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
                kAgain);
  }
  tensor.dtype = shown(dtype.get<std::string>());
  for (const json& size : shape) {
    const std::uint64_t n = unsigned_of(size, subject, "shape");
    if (n > static_cast<std::uint64_t>(INT64_MAX)) {
      throw Error(subject + ": shape " + std::to_string(n) + ", expected at most 2^63 - 1" +
                  kAgain);
    }
    tensor.shape.push_back(static_cast<std::int64_t>(n));
  }
  const std::uint64_t begin = unsigned_of(offsets[0], subject, "data_offsets");
  const std::uint64_t end = unsigned_of(offsets[1], subject, "data_offsets");
  if (begin > end || end > data_bytes) {
    throw Error(subject + ": data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) +
                "], expected within the file's " + std::to_string(data_bytes) + " bytes of data" +
                kAgain);
  }
  tensor.offset = data_begin + begin;
  tensor.bytes = end - begin;
  const std::uint64_t expected =
      tensor_bytes(tensor.shape, dtype_bytes(tensor.dtype, subject), subject);
  if (expected != tensor.bytes) {
    throw Error(subject + ": " + std::to_string(tensor.bytes) + " bytes, expected " +
                std::to_string(expected) + " from its shape and dtype " + tensor.dtype + kAgain);
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
      throw Error(source + ": " + shown(entry->first) + ": data begins at byte " +
                  std::to_string(offset) + ", expected " + std::to_string(at) +
                  (offset < at ? " (tensors overlap)" : " (bytes of no tensor)") + kAgain);
    }
    at += entry->second.bytes;
  }
  if (at != file_bytes) {
    throw Error(source + ": " + std::to_string(file_bytes) + " bytes, expected " +
                std::to_string(at) + " from the header" + kAgain);
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

std::optional<model::DType> readable(const std::string& dtype) {
  for (const auto candidate : {model::DType::f32, model::DType::f16, model::DType::bf16}) {
    if (dtype == model::to_string(candidate)) return candidate;
  }
  return std::nullopt;
}

// What is not finite may vanish in an activation, and leave results that look sound.
bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000U;
  std::uint32_t bad = 0;
  for (const float value : values) {
    bad |=
        static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent);
  }
  return bad == 0;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
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
    throw Error(tensor + ": shape " + shown(shape_text(shape)) +
                ", expected a product of bytes below 2^64" + kAgain);
  }
  return bytes;
}

StoredTensors parse_safetensors_header(std::string_view header, std::uint64_t file_bytes,
                                       const std::string& source) {
  const std::uint64_t data_begin = kLengthBytes + header.size();
  if (file_bytes < data_begin) {
    throw Error(source + ": " + std::to_string(file_bytes) + " bytes, expected at least " +
                std::to_string(data_begin) + kAgain);
  }
  const json parsed = parse_header(header, source);
  StoredTensors tensors;
  for (const auto& [name, entry] : parsed.items()) {
    if (name == "__metadata__") continue;
    const std::string subject = source + ": " + shown(name);
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
    throw Error(source + ": no weight_map, expected an object from tensor to file" + kAgain);
  }
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    const bool plain = name.ends_with(".safetensors") && name.front() != '.' &&
                       name.find_first_of("/\\") == std::string::npos && shown(name) == name;
    if (!plain) {
      throw Error(source + ": weight_map: file of " + shown(tensor) + " is " +
                  shown(file.dump(-1, ' ', true, json::error_handler_t::replace)) +
                  ", expected the plain name of a .safetensors file in the same folder" + kAgain);
    }
    files.emplace(tensor, name);
  }
  return files;
}

SafetensorsFolder::SafetensorsFolder(const std::filesystem::path& folder) : folder_(folder) {
  const auto single = folder / "model.safetensors";
  const auto index = folder / "model.safetensors.index.json";
  std::error_code ignored;  // the message below says what to do
  if (std::filesystem::exists(single, ignored)) {
    add(single);
    return;
  }
  if (!std::filesystem::exists(index, ignored)) {
    throw Error(folder.string() +
                ": neither model.safetensors nor model.safetensors.index.json, expected one of "
                "them; give the folder of a Hugging Face model");
  }
  const auto map = parse_safetensors_index(read_text(index, kMaxIndexBytes), index.string());
  std::set<std::string> names;
  for (const auto& [tensor, file] : map) names.insert(file);
  for (const std::string& name : names) add(folder / name);
  for (const auto& [tensor, file] : map) {
    const auto found = tensors_.find(tensor);
    if (found != tensors_.end() && files_[found->second.file].path().filename() == file) continue;
    throw Error((folder / file).string() + ": no tensor " + shown(tensor) + ", which " +
                index.filename().string() + " expects there; copy or download both again");
  }
}

// All of its tensors, whether an index lists them or not. One that two files have would be this or
// that, depending on who reads it.
void SafetensorsFolder::add(const std::filesystem::path& path) {
  files_.emplace_back(path);
  opened_.push_back(files_.back().stamp());
  for (auto& [name, tensor] : read_header(files_.back())) {
    const auto [there, is_new] = tensors_.emplace(name, Location{files_.size() - 1, tensor});
    if (is_new) continue;
    throw Error(path.string() + ": tensor " + shown(name) + " is in " +
                files_[there->second.file].path().filename().string() +
                " as well, expected every tensor in one file; copy or download all of them again");
  }
}

void SafetensorsFolder::need(const std::string& tensor) const {
  if (contains(tensor)) return;
  throw Error(folder_.string() + ": tensor " + tensor + " is missing among " +
              std::to_string(tensors_.size()) +
              "; check that config.json and the weights belong to one model");
}

std::vector<std::string> SafetensorsFolder::names() const {
  std::vector<std::string> names;
  for (const auto& [name, ignored] : tensors_) names.push_back(name);
  return names;
}

bool SafetensorsFolder::equal(const std::string& a, const std::string& b) const {
  const Location& x = tensors_.at(a);
  const Location& y = tensors_.at(b);
  if (x.tensor.dtype != y.tensor.dtype || x.tensor.shape != y.tensor.shape) return false;
  constexpr std::uint64_t kPortion = std::uint64_t{1} << 20U;
  std::vector<std::byte> first(std::min(kPortion, x.tensor.bytes));
  std::vector<std::byte> second(first.size());
  for (std::uint64_t at = 0; at < x.tensor.bytes; at += first.size()) {
    const auto bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(first.size(), x.tensor.bytes - at));
    files_[x.file].read_at(x.tensor.offset + at, std::span(first).first(bytes));
    files_[y.file].read_at(y.tensor.offset + at, std::span(second).first(bytes));
    if (!std::equal(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(bytes),
                    second.begin()))
      return false;
  }
  return true;
}

const std::filesystem::path& SafetensorsFolder::file_of(const std::string& tensor) const {
  return files_[tensors_.at(tensor).file].path();
}

const SafetensorsFolder::Location& SafetensorsFolder::find(
    const std::string& tensor, std::span<const std::int64_t> shape) const {
  need(tensor);
  const auto it = tensors_.find(tensor);
  const StoredTensor& stored = it->second.tensor;
  if (!std::ranges::equal(stored.shape, shape)) {
    throw Error(files_[it->second.file].path().string() + ": " + tensor + ": shape " +
                shown(shape_text(stored.shape)) + ", expected " + shape_text(shape) +
                "; check that config.json belongs to these weights");
  }
  return it->second;
}

void SafetensorsFolder::read(const std::string& tensor, std::span<const std::int64_t> shape,
                             model::Range rows, model::Range columns, std::span<float> out) const {
  const Location& location = find(tensor, shape);
  const ReadFile& file = files_[location.file];
  const auto dtype = readable(location.tensor.dtype);
  if (!dtype) {
    throw Error(file.path().string() + ": " + tensor + ": dtype " + location.tensor.dtype +
                ", expected F32, F16 or BF16; convert the weights to one of them");
  }
  const auto width = static_cast<std::size_t>(columns.size());
  require(!shape.empty() && shape.size() <= 2 && columns.end <= shape.back() &&
              rows.end <= (shape.size() == 2 ? shape[0] : 1) &&
              out.size() == static_cast<std::size_t>(rows.size()) * width,
          "safetensors: the part to read does not fit the tensor or the output");
  if (out.empty()) return;

  const auto element = static_cast<std::size_t>(model::size_of(*dtype));
  const std::size_t row_bytes = static_cast<std::size_t>(shape.back()) * element;
  const std::size_t first_byte = static_cast<std::size_t>(columns.begin) * element;
  const auto row_count = static_cast<std::size_t>(rows.size());
  // A piece of whole rows is contiguous in the file; without its last row's unused columns.
  constexpr std::size_t kPiece = std::size_t{1} << 20U;
  const std::size_t rows_at_once = std::clamp<std::size_t>(kPiece / row_bytes, 1, row_count);
  std::vector<std::byte> piece(std::min(rows_at_once, row_count) * row_bytes);
  for (std::size_t row = 0; row < row_count; row += rows_at_once) {
    const std::size_t count = std::min(rows_at_once, row_count - row);
    const std::size_t bytes = (count - 1) * row_bytes + width * element;
    const std::uint64_t at = location.tensor.offset +
                             (static_cast<std::uint64_t>(rows.begin) + row) * row_bytes +
                             first_byte;
    file.read_at(at, std::span(piece).first(bytes));
    if (width * element == row_bytes) {
      to_f32(*dtype, std::span(piece).first(bytes), out.subspan(row * width, count * width));
    } else {
      for (std::size_t i = 0; i < count; ++i) {
        to_f32(*dtype, std::span(piece).subspan(i * row_bytes, width * element),
               out.subspan((row + i) * width, width));
      }
    }
    if (all_finite(out.subspan(row * width, count * width))) continue;
    throw Error(file.path().string() + ": " + tensor +
                ": holds NaN or infinity, expected finite numbers" + kAgain);
  }
}

std::string SafetensorsFolder::fingerprint() const {
  std::string text;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    std::error_code error;
    const auto real = std::filesystem::canonical(files_[i].path(), error);
    const FileStamp& stamp = opened_[i];
    text += (error ? files_[i].path() : real).string();
    for (const auto number :
         {static_cast<std::int64_t>(stamp.inode), static_cast<std::int64_t>(stamp.bytes),
          stamp.modified_ns, stamp.changed_ns}) {
      text += "\n" + std::to_string(number);
    }
    text += "\n";
  }
  return text;
}

void SafetensorsFolder::check_unchanged() const {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (files_[i].stamp() == opened_[i]) continue;
    throw Error(files_[i].path().string() +
                ": changed while it was read, expected weights that stay as they are; start again");
  }
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& folder, model::DType dtype,
                                     std::span<const TensorToWrite> tensors)
    : file_(folder) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::uint64_t at = 0;
  for (const TensorToWrite& tensor : tensors) {
    const std::uint64_t bytes =
        tensor_bytes(tensor.shape, static_cast<std::uint64_t>(model::size_of(dtype)), tensor.name);
    header[tensor.name] = {{"dtype", model::to_string(dtype)},
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
