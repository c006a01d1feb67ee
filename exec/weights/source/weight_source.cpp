#include "exec/weights/source/weight_source.hpp"

#include <algorithm>
#include <bit>
#include <system_error>
#include <utility>

#include "exec/weights/formats/block_codec.hpp"
#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::exec {

std::string shown_name(std::string_view text) { return model::one_line(text, 120); }

namespace {

// Numbers that are not finite may vanish in an activation, and leave results that look sound.
bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000U;
  std::uint32_t bad = 0;
  for (const float value : values) {
    bad |=
        static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent);
  }
  return bad == 0;
}

bool fits(std::span<const std::int64_t> shape, model::Range rows, model::Range columns) {
  return !shape.empty() && shape.size() <= 2 && columns.end <= shape.back() &&
         rows.end <= (shape.size() == 2 ? shape[0] : 1);
}

}  // namespace

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

WeightSource::WeightSource(std::filesystem::path path, std::string remedy)
    : path_(std::move(path)), remedy_(std::move(remedy)) {}

std::size_t WeightSource::add_file(std::shared_ptr<const ReadFile> file, const FileStamp& stamp) {
  files_.push_back(std::move(file));
  opened_.push_back(stamp);
  return files_.size() - 1;
}

void WeightSource::add_tensor(const std::string& name, Location location) {
  const std::size_t file = location.file;
  const auto [there, is_new] = tensors_.emplace(name, std::move(location));
  if (is_new) return;
  throw Error(files_[file]->path().string() + ": tensor " + shown_name(name) + " is in " +
              files_[there->second.file]->path().filename().string() +
              " as well, expected every tensor in one file; copy or download all of them again");
}

void WeightSource::need(const std::string& tensor) const {
  if (contains(tensor)) return;
  throw Error(path_.string() + ": tensor " + tensor + " is missing among " +
              std::to_string(tensors_.size()) + "; " + remedy_);
}

void WeightSource::need_readable(const StoredPlace& place) const {
  static_cast<void>(find(place.tensor, place.shape));
}

std::vector<std::string> WeightSource::names() const {
  std::vector<std::string> names;
  for (const auto& [name, ignored] : tensors_) names.push_back(name);
  return names;
}

bool WeightSource::equal(const std::string& a, const std::string& b) const {
  const Location& x = tensors_.at(a);
  const Location& y = tensors_.at(b);
  if (x.dtype != y.dtype || x.shape != y.shape) return false;
  constexpr std::uint64_t kPortion = std::uint64_t{1} << 20U;
  std::vector<std::byte> first(std::min(kPortion, x.bytes));
  std::vector<std::byte> second(first.size());
  for (std::uint64_t at = 0; at < x.bytes; at += first.size()) {
    const auto bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(first.size(), x.bytes - at));
    files_[x.file]->read_at(x.offset + at, std::span(first).first(bytes));
    files_[y.file]->read_at(y.offset + at, std::span(second).first(bytes));
    if (!std::equal(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(bytes),
                    second.begin()))
      return false;
  }
  return true;
}

StoredBytes WeightSource::bytes_of(const std::string& tensor) const {
  const Location& location = tensors_.at(tensor);
  return {location.file, location.offset, location.bytes};
}

const std::filesystem::path& WeightSource::file_of(const std::string& tensor) const {
  return files_[tensors_.at(tensor).file]->path();
}

const WeightSource::Location& WeightSource::find(const std::string& tensor,
                                                 std::span<const std::int64_t> shape) const {
  need(tensor);
  const Location& location = tensors_.find(tensor)->second;
  const std::string file = files_[location.file]->path().string();
  if (!std::ranges::equal(location.shape, shape)) {
    throw Error(file + ": " + tensor + ": shape " + shown_name(shape_text(location.shape)) +
                ", expected " + shape_text(shape) + "; " + remedy_);
  }
  if (location.format) return location;
  std::string known;
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path_, ignored);  // safetensors: no blocks
  for (const model::WeightFormat format : model::kWeightFormats) {
    if (folder && model::block_of(format).elements > 1) continue;
    std::string name(model::to_string(format));
    std::ranges::transform(name, name.begin(), [](char c) {
      return 'a' <= c && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    });
    known += (known.empty() ? "" : ", ") + name;
  }
  throw Error(file + ": " + tensor + ": dtype " + location.dtype + ", expected one of " + known +
              "; convert the weights to one of them");
}

void WeightSource::read_stored(const std::string& tensor, std::span<const std::int64_t> shape,
                               model::Range rows, model::Range columns,
                               std::span<std::byte> out) const {
  const Location& location = find(tensor, shape);
  const model::WeightFormat format = *location.format;
  const model::FormatBlock block = model::block_of(format);
  require(fits(shape, rows, columns) && columns.begin % block.elements == 0 &&
              columns.end % block.elements == 0,
          "weights: the part to read does not fit the tensor or its blocks");
  const auto width = static_cast<std::size_t>(model::row_bytes(format, columns.size()));
  const auto row_count = static_cast<std::size_t>(rows.size());
  require(out.size() == row_count * width, "weights: the output has another size");
  if (out.empty()) return;
  const auto row_bytes = static_cast<std::size_t>(model::row_bytes(format, shape.back()));
  const ReadFile& file = *files_[location.file];
  const std::uint64_t begin = location.offset + static_cast<std::uint64_t>(rows.begin) * row_bytes +
                              static_cast<std::uint64_t>(model::row_bytes(format, columns.begin));
  if (width == row_bytes) return file.read_at(begin, out);
  // A piece of whole rows is contiguous in the file; without its last row's unused columns.
  constexpr std::size_t kPiece = std::size_t{1} << 20U;
  const std::size_t rows_at_once = std::clamp<std::size_t>(kPiece / row_bytes, 1, row_count);
  std::vector<std::byte> piece(rows_at_once * row_bytes);
  for (std::size_t row = 0; row < row_count; row += rows_at_once) {
    const std::size_t count = std::min(rows_at_once, row_count - row);
    file.read_at(begin + row * row_bytes, std::span(piece).first((count - 1) * row_bytes + width));
    for (std::size_t i = 0; i < count; ++i)
      std::copy_n(piece.begin() + static_cast<std::ptrdiff_t>(i * row_bytes), width,
                  out.begin() + static_cast<std::ptrdiff_t>((row + i) * width));
  }
}

void WeightSource::read(const std::string& tensor, std::span<const std::int64_t> shape,
                        model::Range rows, model::Range columns, std::span<float> out) const {
  const Location& location = find(tensor, shape);
  const model::WeightFormat format = *location.format;
  const auto width = static_cast<std::size_t>(columns.size());
  require(fits(shape, rows, columns) && out.size() == static_cast<std::size_t>(rows.size()) * width,
          "weights: the part to read does not fit the tensor or the output");
  if (out.empty()) return;

  // Whole blocks around the columns.
  const auto elements = static_cast<std::int32_t>(model::block_of(format).elements);
  const model::Range wide{columns.begin / elements * elements,
                          (columns.end + elements - 1) / elements * elements};
  const auto wide_bytes = static_cast<std::size_t>(model::row_bytes(format, wide.size()));
  constexpr std::size_t kPiece = std::size_t{1} << 20U;
  const auto rows_at_once = static_cast<std::int32_t>(
      std::clamp<std::size_t>(kPiece / wide_bytes, 1, static_cast<std::size_t>(rows.size())));
  std::vector<std::byte> piece(static_cast<std::size_t>(rows_at_once) * wide_bytes);
  std::vector<float> decoded(wide == columns ? 0 : static_cast<std::size_t>(wide.size()));
  for (std::int32_t row = rows.begin; row < rows.end; row += rows_at_once) {
    const model::Range some{row, std::min(row + rows_at_once, rows.end)};
    const auto count = static_cast<std::size_t>(some.size());
    const std::span<std::byte> bytes = std::span(piece).first(count * wide_bytes);
    read_stored(tensor, shape, some, wide, bytes);
    const std::span<float> values =
        out.subspan(static_cast<std::size_t>(row - rows.begin) * width, count * width);
    if (decoded.empty()) {
      decode(format, bytes, values);
    } else {
      for (std::size_t i = 0; i < count; ++i) {
        decode(format, bytes.subspan(i * wide_bytes, wide_bytes), decoded);
        std::copy_n(decoded.begin() + (columns.begin - wide.begin), width,
                    values.begin() + static_cast<std::ptrdiff_t>(i * width));
      }
    }
    if (all_finite(values)) continue;
    throw Error(file_of(tensor).string() + ": " + tensor +
                ": holds NaN or infinity, expected finite numbers; the file is damaged, copy or "
                "download it again");
  }
}

std::string WeightSource::fingerprint() const {
  std::string text;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    std::error_code error;
    const auto real = std::filesystem::canonical(files_[i]->path(), error);
    const FileStamp& stamp = opened_[i];
    text += (error ? files_[i]->path() : real).string();
    for (const auto number :
         {static_cast<std::int64_t>(stamp.device), static_cast<std::int64_t>(stamp.inode),
          static_cast<std::int64_t>(stamp.bytes), stamp.modified_ns, stamp.changed_ns}) {
      text += "\n" + std::to_string(number);
    }
    text += "\n";
  }
  return text;
}

void WeightSource::check_unchanged() const {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (files_[i]->stamp() == opened_[i]) continue;
    throw Error(files_[i]->path().string() +
                ": changed while it was read, expected weights that stay as they are; start again");
  }
}

}  // namespace tandem::exec
