#include "cli/flags/file_roles.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "cli/files/files.hpp"
#include "exec/gguf/gguf_file.hpp"

namespace tandem::cli {
namespace fs = std::filesystem;
namespace {

// What a path leads to. Two are the same thing if their numbers are, or, of what does not exist,
// their resolved paths.
struct Target {
  bool exists = false;
  bool is_shared = false;  // a character device: as many may write to it as like
  dev_t device = 0;
  ino_t inode = 0;
  fs::path resolved;
};

Target target_of(const fs::path& path) {
  Target target;
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0) {
    target.exists = true;
    target.is_shared = S_ISCHR(facts.st_mode);
    target.device = facts.st_dev;
    target.inode = facts.st_ino;
    return target;
  }
  std::error_code fault;
  target.resolved = fs::weakly_canonical(fs::absolute(path, fault), fault);
  if (fault) target.resolved = path.lexically_normal();
  // A folder's name may end in a slash.
  if (!target.resolved.has_filename()) target.resolved = target.resolved.parent_path();
  return target;
}

bool same(const Target& a, const Target& b) {
  if (a.is_shared || b.is_shared || a.exists != b.exists) return false;
  return a.exists ? a.device == b.device && a.inode == b.inode : a.resolved == b.resolved;
}

std::string flag_role(std::string_view flag) { return "flag '--" + std::string(flag) + "'"; }

// Names of what exec reads of a model's folder.
bool is_model_file(const fs::path& file) {
  constexpr std::array kNames{"config.json",           "generation_config.json",
                              "tokenizer.model",       "tokenizer.json",
                              "tokenizer_config.json", "special_tokens_map.json",
                              "added_tokens.json",     "model.safetensors.index.json"};
  return file.extension() == ".safetensors" ||
         std::ranges::find(kNames, file.filename().string()) != kNames.end();
}

}  // namespace

void FileRoles::reads(const std::string& role, const fs::path& path) {
  inputs_.push_back({.role = role, .path = path});
}

void FileRoles::reads(const Options& options, std::string_view flag) {
  for (const std::string& path : options.all(flag)) reads(flag_role(flag), path);
}

void FileRoles::reads_model(const std::string& role, const fs::path& folder) {
  reads(role, folder);
  std::error_code fault;
  if (fs::is_regular_file(folder, fault)) {
    for (const fs::path& part : exec::gguf_parts(folder)) {
      if (part != folder) reads("a part of " + role, part);
    }
  }
  if (!fs::is_directory(folder, fault)) return;
  const std::string files = "a file of " + role;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, fault)) {
    if (is_model_file(entry.path())) reads(files, entry.path());
  }
}

void FileRoles::writes(const std::string& role, const fs::path& path) {
  outputs_.push_back({.role = role, .path = path});
}

void FileRoles::writes(const Options& options, std::string_view flag) {
  if (const auto path = options.text(flag)) writes(flag_role(flag), *path);
}

void FileRoles::writes_in(const std::string& role, const fs::path& folder,
                          const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::string entry = role;
    entry.append(" (").append(name).append(")");
    outputs_.push_back({.role = std::move(entry), .path = folder / name, .is_file = false});
  }
}

void FileRoles::writes_folder(const std::string& role, const fs::path& folder) {
  outputs_.push_back({.role = role, .path = folder, .is_file = false});
}

void FileRoles::check() const {
  std::vector<Target> read;
  read.reserve(inputs_.size());
  for (const Entry& input : inputs_) read.push_back(target_of(input.path));
  std::vector<Target> written;
  for (const Entry& output : outputs_) {
    if (output.path == "-")
      throw Usage(output.role +
                  ": '-' is standard output, which has something else to say, expected the name of "
                  "a file; './-' is the file of that name");
    const Target target = target_of(output.path);
    for (std::size_t i = 0; i < read.size(); ++i) {
      if (same(read[i], target))
        throw Usage(output.role + " would overwrite '" + output.path.string() + "', which is " +
                    inputs_[i].role + " and is read; choose another place");
    }
    for (std::size_t i = 0; i < written.size(); ++i) {
      if (same(written[i], target))
        throw Usage(output.role + " and " + outputs_[i].role + " are one file, '" +
                    output.path.string() + "', and one would be lost; give two names");
    }
    written.push_back(target);
  }
  for (const Entry& output : outputs_) {
    if (output.is_file) check_writable(output.path);
  }
}

}  // namespace tandem::cli
