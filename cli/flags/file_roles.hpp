#pragma once

// Nothing that a command writes is something that it reads, or writes elsewhere.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flags/options.hpp"

namespace tandem::cli {

// What one command line reads and writes, file by file or folder by folder. Gathered before any
// work, then checked.
class FileRoles {
 public:
  // `role` names the file in messages: "flag '--key'", "argument plan.json".
  void reads(const std::string& role, const std::filesystem::path& path);
  // The value of a flag, if it is given.
  void reads(const Options& options, std::string_view flag);
  // The files in `folder` of which a model is made, and the folder itself.
  void reads_model(const std::string& role, const std::filesystem::path& folder);

  void writes(const std::string& role, const std::filesystem::path& path);
  void writes(const Options& options, std::string_view flag);
  // Files called `names` in `folder`, which may not exist yet.
  void writes_in(const std::string& role, const std::filesystem::path& folder,
                 const std::vector<std::string>& names);
  // A folder whose files' names are not known.
  void writes_folder(const std::string& role, const std::filesystem::path& folder);

  // Throws Usage naming both roles if something is written that is read or written by another name
  // too: the same device and inode, or, of what does not exist yet, the same path once links are
  // resolved. /dev/null and terminals may be named more than once. Then throws Error as
  // check_writable() for a file that cannot be written.
  void check() const;

 private:
  struct Entry {
    std::string role;
    std::filesystem::path path;
    bool is_file = true;
  };
  std::vector<Entry> inputs_;
  std::vector<Entry> outputs_;
};

}  // namespace tandem::cli
