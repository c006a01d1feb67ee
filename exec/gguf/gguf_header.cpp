#include "exec/gguf/gguf_header.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::exec {
namespace {

constexpr std::string_view kGgufMagic = "GGUF";
constexpr const char* kAgain = "; the file is damaged, copy or download it again";
constexpr std::uint64_t kMostEntries = std::uint64_t{1} << 20U;
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 25U;  // of an array
constexpr std::uint64_t kMostKeyBytes = 65535;
constexpr std::uint64_t kMostTextBytes = std::uint64_t{16} << 20U;
constexpr std::uint64_t kMostHeaderBytes = std::uint64_t{1} << 29U;
constexpr std::uint64_t kMostAlignment = std::uint64_t{1} << 20U;
constexpr std::uint32_t kMostDimensions = 4;

// Numbers and sizes as in ggml.h and ggml-common.h.
constexpr std::array kGgmlTypes{GgmlType{0, "F32", 1, 4},         GgmlType{1, "F16", 1, 2},
                                GgmlType{2, "Q4_0", 32, 18},      GgmlType{3, "Q4_1", 32, 20},
                                GgmlType{6, "Q5_0", 32, 22},      GgmlType{7, "Q5_1", 32, 24},
                                GgmlType{8, "Q8_0", 32, 34},      GgmlType{9, "Q8_1", 32, 36},
                                GgmlType{10, "Q2_K", 256, 84},    GgmlType{11, "Q3_K", 256, 110},
                                GgmlType{12, "Q4_K", 256, 144},   GgmlType{13, "Q5_K", 256, 176},
                                GgmlType{14, "Q6_K", 256, 210},   GgmlType{15, "Q8_K", 256, 292},
                                GgmlType{16, "IQ2_XXS", 256, 66}, GgmlType{17, "IQ2_XS", 256, 74},
                                GgmlType{18, "IQ3_XXS", 256, 98}, GgmlType{19, "IQ1_S", 256, 50},
                                GgmlType{20, "IQ4_NL", 32, 18},   GgmlType{21, "IQ3_S", 256, 110},
                                GgmlType{22, "IQ2_S", 256, 82},   GgmlType{23, "IQ4_XS", 256, 136},
                                GgmlType{24, "I8", 1, 1},         GgmlType{25, "I16", 1, 2},
                                GgmlType{26, "I32", 1, 4},        GgmlType{27, "I64", 1, 8},
                                GgmlType{28, "F64", 1, 8},        GgmlType{29, "IQ1_M", 256, 56},
                                GgmlType{30, "BF16", 1, 2},       GgmlType{34, "TQ1_0", 256, 54},
                                GgmlType{35, "TQ2_0", 256, 66},   GgmlType{39, "MXFP4", 32, 17}};

// Types of values, by number.
enum class ValueKind : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  text,
  array,
  u64,
  i64,
  f64
};
constexpr std::uint32_t kKinds = 13;

// Bytes of a value in the file; of a text, of its length.
std::uint64_t least_bytes(ValueKind kind) {
  switch (kind) {
    case ValueKind::u8:
    case ValueKind::i8:
    case ValueKind::boolean:
      return 1;
    case ValueKind::u16:
    case ValueKind::i16:
      return 2;
    case ValueKind::u32:
    case ValueKind::i32:
    case ValueKind::f32:
      return 4;
    case ValueKind::text:
    case ValueKind::array:
    case ValueKind::u64:
    case ValueKind::i64:
    case ValueKind::f64:
      return 8;
  }
  return 8;
}

std::string in_quotes(std::string_view text) { return "'" + model::one_line(text, 80) + "'"; }

class HeaderParser {
 public:
  HeaderParser(const GgufBytes& bytes, std::uint64_t file_bytes, const std::string& source)
      : bytes_(bytes), file_bytes_(file_bytes), source_(source) {}

  GgufHeader parse() {
    check_magic();
    const std::uint64_t tensors = number<std::uint64_t>("the number of tensors");
    const std::uint64_t values = number<std::uint64_t>("the number of keys");
    check_count("tensors", tensors);
    check_count("keys", values);
    for (std::uint64_t i = 0; i < values; ++i) read_entry();
    read_alignment();
    for (std::uint64_t i = 0; i < tensors; ++i) read_tensor();
    place_tensors();
    return std::move(header_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(source_ + ": " + what + kAgain);
  }

  void check_magic() {
    std::array<char, 4> magic{};
    if (file_bytes_ < 24)
      throw Error(source_ + ": " + std::to_string(file_bytes_) +
                  " bytes, expected at least 24; not a GGUF file, or cut short");
    read(std::as_writable_bytes(std::span(magic)), "the file's first bytes");
    if (std::string_view(magic.data(), magic.size()) != kGgufMagic)
      throw Error(source_ + ": begins with " + in_quotes({magic.data(), magic.size()}) +
                  ", expected 'GGUF'; give a GGUF file, or the folder of a Hugging Face model");
    header_.version = number<std::uint32_t>("the version");
    if (header_.version == 2 || header_.version == 3) return;
    const bool swapped = header_.version != 0 && (header_.version & 0xffffU) == 0;
    throw Error(source_ + ": GGUF version " + std::to_string(header_.version) +
                (swapped ? " (a big-endian file)" : "") +
                ", expected 2 or 3, little-endian; convert the model anew with a current "
                "llama.cpp");
  }

  void check_count(const char* what, std::uint64_t count) const {
    if (count <= kMostEntries) return;
    fail(std::to_string(count) + " " + what + ", expected at most " + std::to_string(kMostEntries));
  }

  void read(std::span<std::byte> out, const std::string& what) {
    if (out.size() > file_bytes_ - at_)
      fail("ends within " + what + ", expected " + std::to_string(out.size()) +
           " bytes more at byte " + std::to_string(at_) + " of " + std::to_string(file_bytes_));
    if (at_ + out.size() > kMostHeaderBytes)
      fail("more than " + std::to_string(kMostHeaderBytes) +
           " bytes before the tensors, expected "
           "fewer");
    // Most reads are a few bytes: served from a window.
    if (out.size() > window_.size() / 2) {
      bytes_(at_, out);
    } else {
      if (at_ < window_begin_ || at_ + out.size() > window_begin_ + window_bytes_) {
        window_begin_ = at_;
        window_bytes_ = std::min<std::uint64_t>(window_.size(), file_bytes_ - at_);
        bytes_(at_, std::span(window_).first(static_cast<std::size_t>(window_bytes_)));
      }
      std::memcpy(out.data(), window_.data() + (at_ - window_begin_), out.size());
    }
    at_ += out.size();
  }

  template <class T>
  T number(const std::string& what) {
    T value{};
    read(std::as_writable_bytes(std::span(&value, 1)), what);
    return value;
  }

  std::string text(std::uint64_t most, const std::string& what) {
    const std::uint64_t length = number<std::uint64_t>(what);
    if (length > file_bytes_ - at_ || length > most)
      fail(what + " of " + std::to_string(length) + " bytes, expected at most " +
           std::to_string(std::min(most, file_bytes_ - at_)));
    std::string result(static_cast<std::size_t>(length), '\0');
    if (length > 0) read(std::as_writable_bytes(std::span(result)), what);
    return result;
  }

  ValueKind kind_of(const std::string& what) {
    const std::uint32_t id = number<std::uint32_t>(what);
    if (id >= kKinds) fail(what + " " + std::to_string(id) + ", expected 0 to 12");
    return static_cast<ValueKind>(id);
  }

  bool boolean(const std::string& what) {
    const auto byte = number<std::uint8_t>(what);
    if (byte > 1) fail(what + " is " + std::to_string(byte) + ", expected 0 or 1");
    return byte == 1;
  }

  std::int64_t integer(ValueKind kind, const std::string& what) {
    switch (kind) {
      case ValueKind::u8:
        return number<std::uint8_t>(what);
      case ValueKind::i8:
        return number<std::int8_t>(what);
      case ValueKind::u16:
        return number<std::uint16_t>(what);
      case ValueKind::i16:
        return number<std::int16_t>(what);
      case ValueKind::u32:
        return number<std::uint32_t>(what);
      case ValueKind::i32:
        return number<std::int32_t>(what);
      case ValueKind::boolean:
        return boolean(what) ? 1 : 0;
      case ValueKind::u64: {
        const std::uint64_t value = number<std::uint64_t>(what);
        if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
          fail(what + " is " + std::to_string(value) + ", expected at most 2^63 - 1");
        return static_cast<std::int64_t>(value);
      }
      case ValueKind::i64:
        return number<std::int64_t>(what);
      case ValueKind::f32:
      case ValueKind::f64:
      case ValueKind::text:
      case ValueKind::array:
        break;
    }
    throw std::logic_error("a kind of whole number");
  }

  double real(ValueKind kind, const std::string& what) {
    return kind == ValueKind::f32 ? static_cast<double>(number<float>(what)) : number<double>(what);
  }

  GgufValue array(const std::string& what) {
    const ValueKind kind = kind_of("the element type of " + what);
    if (kind == ValueKind::array)
      fail(what + " is an array of arrays, expected an array of values");
    const std::uint64_t count = number<std::uint64_t>("the length of " + what);
    if (count > kMostElements || count > (file_bytes_ - at_) / least_bytes(kind))
      fail(what + " is an array of " + std::to_string(count) + ", expected at most " +
           std::to_string(std::min(kMostElements, (file_bytes_ - at_) / least_bytes(kind))));
    if (kind == ValueKind::text) {
      GgufValue::Texts texts;
      for (std::uint64_t i = 0; i < count; ++i) texts.push_back(text(kMostTextBytes, what));
      return {std::move(texts)};
    }
    if (kind == ValueKind::f32 || kind == ValueKind::f64) {
      GgufValue::Reals reals;
      reals.reserve(count);
      for (std::uint64_t i = 0; i < count; ++i) reals.push_back(real(kind, what));
      return {std::move(reals)};
    }
    GgufValue::Numbers numbers;
    numbers.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) numbers.push_back(integer(kind, what));
    return {std::move(numbers)};
  }

  void read_entry() {
    std::string key = text(kMostKeyBytes, "a key");
    const std::string what = "key " + in_quotes(key);
    const ValueKind kind = kind_of("the type of " + what);
    GgufValue value;
    if (kind == ValueKind::text) {
      value.value = text(kMostTextBytes, what);
    } else if (kind == ValueKind::array) {
      value = array(what);
    } else if (kind == ValueKind::f32 || kind == ValueKind::f64) {
      value.value = real(kind, what);
    } else if (kind == ValueKind::boolean) {
      value.value = boolean(what);
    } else {
      value.value = integer(kind, what);
    }
    if (!header_.values.emplace(std::move(key), std::move(value)).second)
      fail(what + " comes twice, expected it once");
  }

  void read_alignment() {
    const auto found = header_.values.find("general.alignment");
    if (found == header_.values.end()) return;
    const auto* value = std::get_if<std::int64_t>(&found->second.value);
    if (value == nullptr || *value <= 0 || static_cast<std::uint64_t>(*value) > kMostAlignment ||
        !std::has_single_bit(static_cast<std::uint64_t>(*value)))
      fail("general.alignment is " + (value ? std::to_string(*value) : std::string("no number")) +
           ", expected a power of two up to " + std::to_string(kMostAlignment));
    header_.alignment = static_cast<std::uint64_t>(*value);
  }

  void read_tensor() {
    std::string name = text(kMostKeyBytes, "a tensor's name");
    const std::string what = "tensor " + in_quotes(name);
    if (name.empty()) fail("a tensor without a name, expected one");
    GgufTensor tensor;
    const auto dimensions = number<std::uint32_t>(what);
    if (dimensions == 0 || dimensions > kMostDimensions)
      fail(what + ": " + std::to_string(dimensions) + " dimensions, expected 1 to " +
           std::to_string(kMostDimensions));
    std::uint64_t elements = 1;
    for (std::uint32_t i = 0; i < dimensions; ++i) {
      const std::uint64_t size = number<std::uint64_t>(what);
      if (size == 0 || __builtin_mul_overflow(elements, size, &elements) ||
          elements > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        fail(what + ": size " + std::to_string(size) +
             ", expected at least 1 and a product of all below 2^63");
      tensor.shape.push_back(static_cast<std::int64_t>(size));
    }
    const auto id = number<std::uint32_t>(what);
    const auto type = find_ggml_type(id);
    if (!type)
      throw Error(source_ + ": " + what + ": element type " + std::to_string(id) +
                  ", expected one of ggml's; the file is damaged or newer than this program");
    tensor.type = *type;
    if (tensor.shape.front() % type->elements != 0)
      fail(what + ": rows of " + std::to_string(tensor.shape.front()) + " in " +
           std::string(type->name) + ", expected multiples of " + std::to_string(type->elements));
    const std::uint64_t blocks = elements / static_cast<std::uint64_t>(type->elements);
    if (__builtin_mul_overflow(blocks, static_cast<std::uint64_t>(type->bytes), &tensor.bytes))
      fail(what + ": " + std::to_string(elements) + " elements, expected bytes below 2^64");
    std::reverse(tensor.shape.begin(), tensor.shape.end());
    tensor.offset = number<std::uint64_t>(what);
    if (tensor.offset % header_.alignment != 0)
      fail(what + ": begins at byte " + std::to_string(tensor.offset) +
           ", expected a multiple of the alignment, " + std::to_string(header_.alignment));
    if (!header_.tensors.emplace(std::move(name), std::move(tensor)).second)
      fail(what + " comes twice, expected it once");
  }

  [[nodiscard]] std::uint64_t aligned(std::uint64_t offset) const {
    return (offset + header_.alignment - 1) / header_.alignment * header_.alignment;
  }

  // Offsets count from the end of the table, rounded up.
  void place_tensors() {
    const std::uint64_t begin = aligned(at_);
    const std::uint64_t data = begin > file_bytes_ ? 0 : file_bytes_ - begin;
    std::vector<std::pair<const std::string*, GgufTensor*>> by_offset;
    for (auto& [name, tensor] : header_.tensors) {
      if (tensor.offset > data || tensor.bytes > data - tensor.offset)
        fail("tensor " + in_quotes(name) + ": " + std::to_string(tensor.bytes) +
             " bytes from byte " + std::to_string(tensor.offset) +
             " of the data, expected within its " + std::to_string(data));
      tensor.offset += begin;
      by_offset.emplace_back(&name, &tensor);
    }
    std::ranges::sort(by_offset, {}, [](const auto& entry) { return entry.second->offset; });
    check_contiguous(by_offset, begin);
  }

  // The only check of a tensor's type: a declared type of another size than the written one
  // displaces all that follows.
  void check_contiguous(const std::vector<std::pair<const std::string*, GgufTensor*>>& by_offset,
                        std::uint64_t begin) const {
    std::uint64_t expected = begin;
    std::string before;  // name and type
    for (const auto& [name, tensor] : by_offset) {
      if (tensor->offset < expected)
        fail("tensors " + before + " and " + in_quotes(*name) +
             " overlap, expected each in bytes of its own");
      if (tensor->offset > expected)
        fail(std::to_string(tensor->offset - expected) + " bytes of no tensor " +
             (before.empty() ? "in front of tensor " : "between tensors " + before + " and ") +
             in_quotes(*name) +
             ", expected each right behind the one before; a type or a shape is not the one that "
             "was written");
      expected = aligned(tensor->offset + tensor->bytes);
      before = in_quotes(*name) + " (" + std::string(tensor->type.name) + ")";
    }
    if (file_bytes_ > expected) check_end(expected, before);
  }

  // For a file with more bytes than its tensors.
  void check_end(std::uint64_t end, const std::string& last) const {
    const std::uint64_t rest = file_bytes_ - end;
    const std::string what = std::to_string(rest) + " bytes of no tensor behind " +
                             (last.empty() ? "the header" : "tensor " + last);
    std::array<char, 4> magic{};
    if (rest >= magic.size()) bytes_(end, std::as_writable_bytes(std::span(magic)));
    if (std::string_view(magic.data(), magic.size()) == kGgufMagic)
      throw Error(source_ + ": " + what +
                  ", which begin another GGUF file, expected none; if parts of a model were joined "
                  "with cat, give the first part as it was, with the others beside it under the "
                  "names that they were published with, or join them with 'llama-gguf-split "
                  "--merge'");
    fail(what + ", expected none; a type or a shape is not the one that was written");
  }

  const GgufBytes& bytes_;
  std::uint64_t file_bytes_;
  const std::string& source_;
  std::uint64_t at_ = 0;
  std::array<std::byte, 65536> window_{};
  std::uint64_t window_begin_ = 0;
  std::uint64_t window_bytes_ = 0;
  GgufHeader header_;
};

}  // namespace

std::optional<GgmlType> find_ggml_type(std::uint32_t id) {
  const auto found = std::ranges::find(kGgmlTypes, id, &GgmlType::id);
  return found == kGgmlTypes.end() ? std::nullopt : std::optional(*found);
}

std::optional<GgmlType> find_ggml_type(std::string_view name) {
  const auto found = std::ranges::find(kGgmlTypes, name, &GgmlType::name);
  return found == kGgmlTypes.end() ? std::nullopt : std::optional(*found);
}

GgufHeader parse_gguf_header(const GgufBytes& bytes, std::uint64_t file_bytes,
                             const std::string& source) {
  return HeaderParser(bytes, file_bytes, source).parse();
}

}  // namespace tandem::exec
