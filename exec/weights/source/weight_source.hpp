#pragma once

// The source of a model's weights: files with named tensors, of any form.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/weights/files/read_file.hpp"
#include "model/base/range.hpp"
#include "model/transformer/transformer.hpp"
#include "model/transformer/weight_format.hpp"

namespace tandem::exec {

// Returns a name or text from a file for a message: one line of at most 120 characters.
[[nodiscard]] std::string shown_name(std::string_view text);

struct TensorSlice;  // exec/weights/source/layout.hpp

// Returns "[3, 4]", for messages.
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

// The form of a slice's tensor in a kind of files.
struct StoredPlace {
  std::string tensor;
  std::vector<std::int64_t> shape;  // of the whole tensor
  bool transposed = false;          // stored as [in, out]
  // Rows of a head, if the file stores them in pairs: its row 2 i + s is the model's i + s rows / 2
  // (GGUF, for rotations of neighbours); else 0.
  std::int64_t paired_rows = 0;
  bool less_one = false;  // stores the model's numbers less 1
};

// The place of a tensor's bytes.
struct StoredBytes {
  std::size_t file = 0;  // of WeightSource::files
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// Thread-safe after construction.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // Returns where `slice`, of `layer` (-1: of none), is or should be stored.
  [[nodiscard]] virtual StoredPlace place_of(const TensorSlice& slice,
                                             std::int32_t layer) const = 0;
  // Throws Error (file, tensor, what was expected, remedy) for a missing tensor, or for one that
  // the model does not use.
  virtual void check_tensors(const model::Transformer& transformer) const = 0;

  // Returns the given folder or file.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] bool contains(const std::string& tensor) const { return tensors_.contains(tensor); }
  // Throws Error if `tensor` is missing.
  void need(const std::string& tensor) const;
  // Throws Error if the tensor is missing, of another shape, or of an unreadable type.
  void need_readable(const StoredPlace& place) const;
  // Returns the names of all tensors, in order.
  [[nodiscard]] std::vector<std::string> names() const;
  // Returns the stored type of `tensor`, which must exist: "F32", "BF16", "Q8_0", or an unreadable
  // one.
  [[nodiscard]] const std::string& dtype_of(const std::string& tensor) const {
    return tensors_.at(tensor).dtype;
  }
  // The same as a format; nothing if it is unreadable.
  [[nodiscard]] std::optional<model::WeightFormat> format_of(const std::string& tensor) const {
    return tensors_.at(tensor).format;
  }
  [[nodiscard]] const std::vector<std::int64_t>& shape_of(const std::string& tensor) const {
    return tensors_.at(tensor).shape;
  }
  // Returns the file of `tensor`, which must exist.
  [[nodiscard]] const std::filesystem::path& file_of(const std::string& tensor) const;
  // Returns all open files, each with its stamp from before it was read.
  [[nodiscard]] const std::vector<std::shared_ptr<const ReadFile>>& files() const { return files_; }
  [[nodiscard]] const std::vector<FileStamp>& stamps() const { return opened_; }
  // Returns the bytes of `tensor`, which must exist.
  [[nodiscard]] StoredBytes bytes_of(const std::string& tensor) const;
  // Returns whether both tensors, which must exist, have the same type, shape and bytes: reads
  // them.
  [[nodiscard]] bool equal(const std::string& a, const std::string& b) const;

  // Reads the tensor's rows and columns as f32, packed row-major, into `out`. `shape` is the whole
  // tensor's: [n] (rows are {0, 1}) or [rows, columns]. Throws Error if the tensor is missing, has
  // another shape, an unreadable type or numbers that are not finite, or cannot be read;
  // logic_error if `out` has another size.
  void read(const std::string& tensor, std::span<const std::int64_t> shape, model::Range rows,
            model::Range columns, std::span<float> out) const;
  // The same as stored, in whole blocks: logic_error unless the columns begin and end with them.
  // Numbers are not checked.
  void read_stored(const std::string& tensor, std::span<const std::int64_t> shape,
                   model::Range rows, model::Range columns, std::span<std::byte> out) const;

  // Returns the identity of the tensors' bytes without reading them: the files' paths and stamps
  // (FileStamp).
  [[nodiscard]] std::string fingerprint() const;
  // Throws Error if a file was written since it was opened, as earlier and later reads may then be
  // inconsistent. An opened file that was replaced by another does not change.
  void check_unchanged() const;

 protected:
  struct Location {
    std::size_t file = 0;
    std::string dtype;
    std::optional<model::WeightFormat> format;
    std::vector<std::int64_t> shape;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  // `remedy`: for missing tensors and other shapes.
  WeightSource(std::filesystem::path path, std::string remedy);
  WeightSource(const WeightSource&) = default;
  WeightSource& operator=(const WeightSource&) = default;
  WeightSource(WeightSource&&) = default;
  WeightSource& operator=(WeightSource&&) = default;
  // `stamp`: from before it was read. Returns its number.
  std::size_t add_file(std::shared_ptr<const ReadFile> file, const FileStamp& stamp);
  // Throws Error if another file also has the tensor: readers could disagree.
  void add_tensor(const std::string& name, Location location);

 private:
  const Location& find(const std::string& tensor, std::span<const std::int64_t> shape) const;

  std::filesystem::path path_;
  std::string remedy_;
  std::vector<std::shared_ptr<const ReadFile>> files_;
  std::vector<FileStamp> opened_;
  std::map<std::string, Location> tensors_;
};

}  // namespace tandem::exec
