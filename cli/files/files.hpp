#pragma once

// Files as every command reads and writes them, and the scenarios that come with the program.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::cli {

// The contents of the regular file `path`, without a byte order mark of UTF-8. Throws Error (path,
// the system's reason or the size, remedy) if it cannot be read or is larger than 1 GiB.
[[nodiscard]] std::string read_file(const std::filesystem::path& path);

// Writes `contents` to a temporary file beside `path`, then renames it, so that nobody ever sees
// half a file. What is not a regular file (/dev/null, a pipe) is written directly. Throws Error
// (path, the system's reason, remedy); leaves no temporary file behind.
void write_file(const std::filesystem::path& path, std::string_view contents);

// The folder `path`, made with its parents if need be. Throws Error (path, the system's reason,
// remedy) if that cannot be.
[[nodiscard]] std::filesystem::path make_folder(const std::filesystem::path& path);

// Throws the Error that write_file(path) would, as far as that can be known before hours of work:
// the folder of `path` exists and is writable, and `path` is no folder.
void check_writable(const std::filesystem::path& path);

// A folder that is delivered with the program: $TANDEM_SCENARIOS for "scenarios" if set, else
// ../share/tandem/NAME of an installed executable, else ../../../NAME of one in its build tree.
// Throws Error naming the places looked at.
[[nodiscard]] std::filesystem::path resource_folder(std::string_view name);

// The name by which a file at `from` (nothing: standard output) refers to `path`: relative to its
// own folder if it has one, else absolute.
[[nodiscard]] std::string path_from(const std::string& path,
                                    const std::optional<std::string>& from);

// "a, b": the names as a message lists them.
[[nodiscard]] std::string listed(const std::vector<std::string>& names);

// The message for `name`, which is neither a path that exists nor one of the `known` names: "NAME:
// no such WANTED, did you mean 'KNOWN'?; REMEDY". Names with a slash or a suffix are paths, for
// which it only says that there is no such file or folder.
[[nodiscard]] std::string unknown_name(const std::string& name, const std::string& wanted,
                                       const std::vector<std::string>& known,
                                       const std::string& remedy);

// `name` itself if such a file exists, else scenarios/platforms/NAME with `.xml`. Throws Error with
// the known names.
[[nodiscard]] std::filesystem::path find_platform(const std::string& name);

// Names in a folder of the scenarios ("models", "platforms"), sorted, without extension.
[[nodiscard]] std::vector<std::string> scenario_names(std::string_view folder,
                                                      std::string_view extension);

}  // namespace tandem::cli
