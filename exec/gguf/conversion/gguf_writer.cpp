#include "exec/gguf/conversion/gguf_writer.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <type_traits>

#include "exec/gguf/gguf_header.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr std::uint64_t kAlignment = 32;

// Numbers of the types of values.
constexpr std::uint32_t kI32 = 5;
constexpr std::uint32_t kU32 = 4;
constexpr std::uint32_t kF32 = 6;
constexpr std::uint32_t kBool = 7;
constexpr std::uint32_t kText = 8;
constexpr std::uint32_t kArray = 9;

template <class T>
void put(std::string& out, T value) {
  static_assert(std::is_arithmetic_v<T>);
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void put_text(std::string& out, std::string_view text) {
  put(out, static_cast<std::uint64_t>(text.size()));
  out += text;
}

struct Put {
  std::string* out;
  void operator()(std::uint32_t value) const {
    put(*out, kU32);
    put(*out, value);
  }
  void operator()(std::int32_t value) const {
    put(*out, kI32);
    put(*out, value);
  }
  void operator()(float value) const {
    put(*out, kF32);
    put(*out, value);
  }
  void operator()(bool value) const {
    put(*out, kBool);
    put(*out, static_cast<std::uint8_t>(value ? 1 : 0));
  }
  void operator()(const std::string& value) const {
    put(*out, kText);
    put_text(*out, value);
  }
  void operator()(const std::vector<std::string>& values) const {
    begin_array(kText, values.size());
    for (const std::string& value : values) put_text(*out, value);
  }
  void operator()(const std::vector<float>& values) const {
    begin_array(kF32, values.size());
    for (const float value : values) put(*out, value);
  }
  void operator()(const std::vector<std::int32_t>& values) const {
    begin_array(kI32, values.size());
    for (const std::int32_t value : values) put(*out, value);
  }
  void begin_array(std::uint32_t type, std::size_t count) const {
    put(*out, kArray);
    put(*out, type);
    put(*out, static_cast<std::uint64_t>(count));
  }
};

std::uint64_t padded(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

GgmlType type_of(model::WeightFormat format) {
  std::string name(model::to_string(format));
  std::ranges::transform(name, name.begin(), [](char c) {
    return 'a' <= c && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  const auto type = find_ggml_type(std::string_view(name));
  require(type.has_value(), "a format that GGUF has");
  return *type;
}

}  // namespace

std::uint64_t GgufTensorToWrite::bytes() const {
  std::uint64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= static_cast<std::uint64_t>(shape[i]);
  return rows * static_cast<std::uint64_t>(model::row_bytes(format, shape.back()));
}

GgufWriter::GgufWriter(const std::filesystem::path& folder, const GgufEntries& entries,
                       std::vector<GgufTensorToWrite> tensors)
    : file_(folder), tensors_(std::move(tensors)) {
  std::string header = "GGUF";
  put(header, std::uint32_t{3});
  put(header, static_cast<std::uint64_t>(tensors_.size()));
  put(header, static_cast<std::uint64_t>(entries.size()));
  for (const auto& [key, value] : entries) {
    put_text(header, key);
    std::visit(Put{&header}, value);
  }
  std::uint64_t at = 0;
  for (const GgufTensorToWrite& tensor : tensors_) {
    put_text(header, tensor.name);
    put(header, static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size)
      put(header, static_cast<std::uint64_t>(*size));
    put(header, type_of(tensor.format).id);
    put(header, at);
    at += padded(tensor.bytes());
  }
  file_.write(header);
  pad();
}

void GgufWriter::pad() {
  constexpr std::array<std::byte, kAlignment> kZeros{};
  file_.write(std::span(kZeros).first(padded(file_.written()) - file_.written()));
}

void GgufWriter::append(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  require(tensor_ < tensors_.size() && bytes.size() <= tensors_[tensor_].bytes() - written_,
          "GGUF: more bytes than were promised");
  file_.write(bytes);
  written_ += bytes.size();
  if (written_ < tensors_[tensor_].bytes()) return;
  pad();
  ++tensor_;
  written_ = 0;
}

void GgufWriter::commit(const std::string& name) {
  require(tensor_ == tensors_.size(), "GGUF: not all promised bytes were appended");
  file_.commit(name);
}

}  // namespace tandem::exec
