#pragma once

// Where the weights of a model come from: files with named tensors, whatever their form.

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

// A name or text of a file in a message: one line of at most 120 characters.
[[nodiscard]] std::string shown_name(std::string_view text);

struct TensorSlice;  // exec/weights/source/layout.hpp

// "[3, 4]", for messages.
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

// What a slice's tensor is in certain files.
struct StoredPlace {
  std::string tensor;
  std::vector<std::int64_t> shape;  // of the whole tensor
  bool transposed = false;          // stored as [in, out]
  // Rows of a head, if the file has them in pairs: its row 2 i + s is the model's i + s rows / 2
  // (GGUF, for rotations of neighbours); else 0.
  std::int64_t paired_rows = 0;
  bool less_one = false;  // its numbers are the model's less 1
};

// Where a tensor's bytes are.
struct StoredBytes {
  std::size_t file = 0;  // of WeightSource::files
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// Thread-safe after construction.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // Where `slice`, of `layer` (-1: of none), is stored, or would have to be.
  [[nodiscard]] virtual StoredPlace place_of(const TensorSlice& slice,
                                             std::int32_t layer) const = 0;
  // Throws Error (file, tensor, what was expected, remedy) if a tensor of the model is missing, or
  // one is there that the model does not compute with.
  virtual void check_tensors(const model::Transformer& transformer) const = 0;

  // What was given: a folder or a file.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] bool contains(const std::string& tensor) const { return tensors_.contains(tensor); }
  // Throws Error if `tensor` is missing.
  void need(const std::string& tensor) const;
  // Throws Error if the tensor is missing, of another shape, or of a type that cannot be read.
  void need_readable(const StoredPlace& place) const;
  // Of all tensors, in order.
  [[nodiscard]] std::vector<std::string> names() const;
  // What `tensor`, which is there, is stored as: "F32", "BF16", "Q8_0", or what cannot be read.
  [[nodiscard]] const std::string& dtype_of(const std::string& tensor) const {
    return tensors_.at(tensor).dtype;
  }
  // The same; nothing if it cannot be read.
  [[nodiscard]] std::optional<model::WeightFormat> format_of(const std::string& tensor) const {
    return tensors_.at(tensor).format;
  }
  [[nodiscard]] const std::vector<std::int64_t>& shape_of(const std::string& tensor) const {
    return tensors_.at(tensor).shape;
  }
  // The file that holds `tensor`, which is there.
  [[nodiscard]] const std::filesystem::path& file_of(const std::string& tensor) const;
  // All files, open, each with its stamp from before anything of it was read.
  [[nodiscard]] const std::vector<std::shared_ptr<const ReadFile>>& files() const { return files_; }
  [[nodiscard]] const std::vector<FileStamp>& stamps() const { return opened_; }
  // Of `tensor`, which is there.
  [[nodiscard]] StoredBytes bytes_of(const std::string& tensor) const;
  // Whether both, which are there, have the same type, shape and bytes: reads them.
  [[nodiscard]] bool equal(const std::string& a, const std::string& b) const;

  // The tensor's rows and columns as f32, packed row-major into `out`. `shape` is the whole
  // tensor's: [n] (rows are {0, 1}) or [rows, columns]. Throws Error if the tensor is missing, has
  // another shape, a type that cannot be read, numbers that are not finite, or cannot be read;
  // logic_error if `out` has another size.
  void read(const std::string& tensor, std::span<const std::int64_t> shape, model::Range rows,
            model::Range columns, std::span<float> out) const;
  // The same as it is stored, in whole blocks: logic_error unless the columns begin and end with
  // them. Numbers may be anything.
  void read_stored(const std::string& tensor, std::span<const std::int64_t> shape,
                   model::Range rows, model::Range columns, std::span<std::byte> out) const;

  // What the tensors' bytes depend on, without reading them: the files' paths, and what tells their
  // contents of now from others (FileStamp).
  [[nodiscard]] std::string fingerprint() const;
  // Throws Error if a file was written since it was opened, so that what was read before and after
  // may not belong together. A file that another one replaced stays as it was.
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
  // `remedy`: of tensors that are missing or of other shapes.
  WeightSource(std::filesystem::path path, std::string remedy);
  WeightSource(const WeightSource&) = default;
  WeightSource& operator=(const WeightSource&) = default;
  WeightSource(WeightSource&&) = default;
  WeightSource& operator=(WeightSource&&) = default;
  // `stamp`: from before anything of it was read. Returns its number.
  std::size_t add_file(std::shared_ptr<const ReadFile> file, const FileStamp& stamp);
  // Throws Error if another file has it too: it would be this or that, depending on who reads it.
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
