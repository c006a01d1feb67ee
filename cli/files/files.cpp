#include "cli/files/files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <utility>

#include "exec/weights/files/atomic_file.hpp"
#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"
#include "model/base/word_list.hpp"

namespace tandem::cli {
namespace fs = std::filesystem;
namespace {

constexpr std::uintmax_t kLargestFile = std::uintmax_t{1} << 30;

// What is no regular file, such as a terminal or a pipe, is written to as it is.
class SpecialFile {
 public:
  explicit SpecialFile(const fs::path& path) : path_(path) {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail(errno);
  }
  SpecialFile(const SpecialFile&) = delete;
  SpecialFile& operator=(const SpecialFile&) = delete;
  ~SpecialFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  void write(std::string_view contents) {
    while (!contents.empty()) {
      const ssize_t written = ::write(descriptor_, contents.data(), contents.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail(errno);
      contents.remove_prefix(static_cast<std::size_t>(written));
    }
    const int descriptor = std::exchange(descriptor_, -1);
    if (::close(descriptor) != 0) fail(errno);
  }

 private:
  [[noreturn]] void fail(int code) const {
    throw Error(path_.string() + ": cannot write: " +
                model::system_fault(code, "choose a place that exists, is writable and has room"));
  }

  fs::path path_;
  int descriptor_ = -1;
};

fs::path executable_folder() {
  std::error_code fault;
  const fs::path executable = fs::read_symlink("/proc/self/exe", fault);
  if (fault) throw Error("/proc/self/exe: " + fault.message() + "; is /proc mounted?");
  return executable.parent_path();
}

// Suffixes of files that commands read by path. A name such as "llama-3.1-70b" has none of them.
bool is_path(const std::string& name) {
  constexpr std::array<std::string_view, 5> kSuffixes{".gguf", ".json", ".safetensors", ".txt",
                                                      ".xml"};
  return name.find('/') != std::string::npos ||
         std::ranges::any_of(kSuffixes, [&](std::string_view suffix) {
           return model::lower_case(name).ends_with(suffix);
         });
}

}  // namespace

std::string path_from(const std::string& path, const std::optional<std::string>& from) {
  const fs::path absolute = fs::absolute(path);
  if (!from) return absolute.string();
  std::error_code fault;  // of a pipe, as /dev/stdin may be one
  const fs::path relative = fs::proximate(absolute, fs::absolute(*from).parent_path(), fault);
  return (fault ? absolute : relative).string();
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string unknown_name(const std::string& name, const std::string& wanted,
                         const std::vector<std::string>& known, const std::string& remedy) {
  if (is_path(name))
    return name + (fs::path(name).has_extension() ? ": no such file" : ": no such file or folder") +
           ", expected a " + wanted + "; check the path";
  return name + ": no such " + wanted + model::did_you_mean(name, {known.begin(), known.end()}) +
         "; " + remedy;
}

std::string read_file(const fs::path& path) {
  std::error_code fault;
  const fs::file_status status = fs::status(path, fault);
  if (!fs::exists(status))
    throw Error(path.string() + ": cannot read: " +
                model::system_fault(fault ? fault.value() : ENOENT, "check the path"));
  if (fs::is_directory(status))
    throw Error(path.string() + ": is a folder, expected a file; check the path");
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Error(path.string() +
                ": cannot read: " + model::system_fault(errno, "check its permissions"));
  // Read until the end rather than trust a size: pipes and /dev/zero have none.
  std::string contents;
  std::string chunk(std::size_t{1} << 20, '\0');
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())), file.gcount() > 0) {
    contents.append(chunk.data(), static_cast<std::size_t>(file.gcount()));
    if (contents.size() > kLargestFile)
      throw Error(path.string() + ": more than 1 GiB, expected a text file; check the path");
  }
  if (file.bad())
    throw Error(path.string() + ": cannot read: " + model::system_fault(errno, "check the disk"));
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (contents.starts_with(kByteOrderMark)) contents.erase(0, kByteOrderMark.size());
  return contents;
}

void check_writable(const fs::path& path) {
  std::error_code fault;
  if (fs::is_directory(path, fault))
    throw Error(path.string() + ": is a folder, expected the name of a file to write");
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, fault))
    throw Error(path.string() + ": folder '" + folder.string() + "' does not exist; create it");
  const bool special = fs::exists(path, fault) && !fs::is_regular_file(path, fault);
  if (::access(special ? path.c_str() : folder.c_str(), W_OK) != 0)
    throw Error(path.string() +
                ": cannot write: " + model::system_fault(errno, "choose a writable place"));
}

void write_file(const fs::path& path, std::string_view contents) {
  check_writable(path);
  std::error_code fault;
  if (fs::exists(path, fault) && !fs::is_regular_file(path, fault)) {
    SpecialFile(path).write(contents);
    return;
  }
  // Through a symbolic link the file behind it is replaced, not the link.
  fs::path target = fs::weakly_canonical(path, fault);
  if (fault) target = path;
  try {
    exec::AtomicFile file(target.has_parent_path() ? target.parent_path() : fs::path("."));
    file.write(contents);
    file.commit(target.filename());
  } catch (const Error& error) {
    throw Error(path.string() + ": cannot write: " + error.what());
  }
}

fs::path make_folder(const fs::path& path) {
  std::error_code fault;
  fs::create_directories(path, fault);
  if (fault || !fs::is_directory(path))
    throw Error(path.string() + ": cannot make this folder" +
                (fault ? ": " + fault.message() : "") + "; choose a place that is writable");
  return path;
}

fs::path resource_folder(std::string_view name) {
  if (name == "scenarios") {
    if (const char* chosen = std::getenv("TANDEM_SCENARIOS");
        chosen != nullptr && *chosen != '\0') {
      if (!fs::is_directory(chosen))
        throw Error(std::string("TANDEM_SCENARIOS: '") + chosen +
                    "' is no folder; unset it or name the scenarios folder");
      return chosen;
    }
  }
  const fs::path here = executable_folder();
  const fs::path installed = here / "../share/tandem" / name;
  if (fs::is_directory(installed)) return installed.lexically_normal();
  const fs::path source = here / "../../.." / name;
  if (fs::is_directory(source)) return source.lexically_normal();
  throw Error(std::string(name) + ": folder not found, neither " +
              installed.lexically_normal().string() + " nor " + source.lexically_normal().string() +
              "; reinstall tandem" + (name == "scenarios" ? " or set TANDEM_SCENARIOS" : ""));
}

std::vector<std::string> scenario_names(std::string_view folder, std::string_view extension) {
  std::vector<std::string> names;
  const fs::path path = resource_folder("scenarios") / folder;
  std::error_code fault;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, fault)) {
    if (entry.path().extension() == extension) names.push_back(entry.path().stem().string());
  }
  if (fault)
    throw Error(path.string() +
                ": cannot list: " + model::system_fault(fault.value(), "reinstall tandem"));
  std::sort(names.begin(), names.end());
  return names;
}

fs::path find_platform(const std::string& name) {
  std::error_code fault;
  if (fs::exists(name, fault)) return name;
  // Only a bare name is looked up: a path that does not exist is a mistake, not a name.
  if (name.find('/') == std::string::npos) {
    fs::path file = resource_folder("scenarios") / "platforms" / (name + ".xml");
    if (fs::is_regular_file(file, fault)) return file;
  }
  const std::vector<std::string> known = scenario_names("platforms", ".xml");
  throw Error(
      unknown_name(name, "platform file or scenario", known, "known scenarios: " + listed(known)));
}

}  // namespace tandem::cli
