#pragma once

// A GGUF file, or all files of a split one.

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

// Returns whether `path` denotes a GGUF file: its name ends in .gguf; or it is not a folder and has
// the name of a piece of a cut file ("m.gguf.part1of2", "m.gguf-split-a"); or it is a regular file
// that begins as one (Ollama's blobs have no suffix).
[[nodiscard]] bool is_gguf(const std::filesystem::path& path);

// Returns the files of a split with that name ("-00001-of-00003.gguf"), whether or not they exist;
// for any other name, the path itself.
[[nodiscard]] std::vector<std::filesystem::path> gguf_parts(const std::filesystem::path& path);

// Returns whether the name is that of any part of a split.
[[nodiscard]] bool is_gguf_part(const std::filesystem::path& path);

// Headers are read at once, tensors on demand. Const functions may be called by several threads at
// once, except those that read values, which record the keys.
class GgufFile {
 public:
  // Reads the file, and the other parts if its split.count announces several, whatever its name.
  // Throws Error as parse_gguf_header; for a piece of a cut file (join them); and unless the first
  // part of a split is given, all parts exist with the numbers of their names, and they have as
  // many tensors as the first announces, each once.
  explicit GgufFile(const std::filesystem::path& path);

  // Returns the path that was given.
  [[nodiscard]] const std::filesystem::path& path() const { return files_.front()->path(); }

  // Return values by key; nothing if there is none. Throw Error (file, key, value, expected) for a
  // value of another kind. Mark the key as known.
  [[nodiscard]] const GgufValue* find(const std::string& key) const;
  [[nodiscard]] std::optional<std::int64_t> integer(const std::string& key, std::int64_t least,
                                                    std::int64_t most) const;
  [[nodiscard]] std::optional<double> real(const std::string& key) const;
  [[nodiscard]] std::optional<bool> boolean(const std::string& key) const;
  [[nodiscard]] std::optional<std::string> text(const std::string& key) const;
  [[nodiscard]] const GgufValue::Texts* texts(const std::string& key) const;
  [[nodiscard]] const GgufValue::Numbers* numbers(const std::string& key) const;
  [[nodiscard]] const GgufValue::Reals* reals(const std::string& key) const;
  // Throws Error (file, key, its value, what was expected).
  [[noreturn]] void fail(const std::string& key, const std::string& expected) const;
  // Returns, in order, all keys with `prefix` that were never read.
  [[nodiscard]] std::vector<std::string> unknown(std::string_view prefix) const;
  // Returns the value as text for messages.
  [[nodiscard]] std::string shown(const std::string& key) const;

  // Returns all values by key.
  [[nodiscard]] const std::map<std::string, GgufValue>& values() const { return values_; }

  struct Place {
    std::size_t file = 0;
    GgufTensor tensor;
  };
  [[nodiscard]] const std::map<std::string, Place>& tensors() const { return tensors_; }
  // Returns the files in the order of Place::file, each with its stamp from before it was read.
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
