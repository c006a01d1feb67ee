#pragma once

// A GGUF file, or all files of one that was split.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/gguf/gguf_header.hpp"
#include "exec/weights/files/read_file.hpp"

namespace tandem::exec {

// Returns whether `path` is meant as a GGUF file: its name ends in .gguf, it is no folder and has
// the name of a piece of a file that was cut ("m.gguf.part1of2", "m.gguf-split-a"), or it is a
// regular file that begins as one (Ollama's blobs have no suffix).
[[nodiscard]] bool is_gguf(const std::filesystem::path& path);

// Returns the files that a split of that name has ("-00001-of-00003.gguf"), whether or not they
// exist; of another name, the path itself.
[[nodiscard]] std::vector<std::filesystem::path> gguf_parts(const std::filesystem::path& path);

// Whether the name is that of a part, of whatever number, of a split.
[[nodiscard]] bool is_gguf_part(const std::filesystem::path& path);

// Headers are read at once, tensors when asked for. Const functions may be called by several
// threads at once, but those of values, which note what was asked for.
class GgufFile {
 public:
  // Reads the file, and the other parts if its split.count says that it is one of several, whatever
  // its name. Throws Error as parse_gguf_header, for a piece of a file that was cut (join them),
  // and unless the first part of a split is given, all parts are there, are numbered as their names
  // say, and have as many tensors as the first says, each once.
  explicit GgufFile(const std::filesystem::path& path);

  // The file that was named.
  [[nodiscard]] const std::filesystem::path& path() const { return files_.front()->path(); }

  // Values by key; nothing if there is none. Throw Error (file, key, value, expected) for a value
  // of another kind. A key that was asked for counts as known.
  [[nodiscard]] const GgufValue* find(const std::string& key) const;
  [[nodiscard]] std::optional<std::int64_t> integer(const std::string& key, std::int64_t least,
                                                    std::int64_t most) const;
  [[nodiscard]] std::optional<double> real(const std::string& key) const;
  [[nodiscard]] std::optional<bool> boolean(const std::string& key) const;
  [[nodiscard]] std::optional<std::string> text(const std::string& key) const;
  [[nodiscard]] const GgufValue::Texts* texts(const std::string& key) const;
  [[nodiscard]] const GgufValue::Numbers* numbers(const std::string& key) const;
  [[nodiscard]] const GgufValue::Reals* reals(const std::string& key) const;
  // Throws Error (file, key, what it was, what was expected).
  [[noreturn]] void fail(const std::string& key, const std::string& expected) const;
  // Of all keys that begin with `prefix` and nobody has asked for, in order.
  [[nodiscard]] std::vector<std::string> unknown(std::string_view prefix) const;
  // The value, for messages.
  [[nodiscard]] std::string shown(const std::string& key) const;

  // All of them, by key.
  [[nodiscard]] const std::map<std::string, GgufValue>& values() const { return values_; }

  struct Place {
    std::size_t file = 0;
    GgufTensor tensor;
  };
  [[nodiscard]] const std::map<std::string, Place>& tensors() const { return tensors_; }
  // In the order of Place::file, each with its stamp from before it was read.
  [[nodiscard]] const std::vector<std::shared_ptr<const ReadFile>>& files() const { return files_; }
  [[nodiscard]] const std::vector<FileStamp>& stamps() const { return stamps_; }

 private:
  struct Part;
  static Part open(const std::filesystem::path& path);
  void add(Part part, std::size_t number, std::size_t count);
  std::vector<std::shared_ptr<const ReadFile>> files_;
  std::vector<FileStamp> stamps_;
  std::map<std::string, GgufValue> values_;
  mutable std::set<std::string> asked_;
  std::map<std::string, Place> tensors_;
};

}  // namespace tandem::exec
