#pragma once

// Records of verified weight blocks: the identity of a block's file when its bytes had the digest
// in its name. A file that still has that identity need not be hashed again.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "exec/weights/files/read_file.hpp"

namespace tandem::exec {

// Returns whether `record` confirms block `id` for a file with `stamp`. A damaged or missing
// record, or one of another block, confirms nothing. For bytes that may not have been on the disk
// yet, a record is valid only until the machine restarts.
[[nodiscard]] bool is_recorded(const std::filesystem::path& record, const std::string& id,
                               const FileStamp& stamp);

// Records that block `id`, the file `block`, was verified when it had `stamp`; waits until the
// clock has advanced, so that later writes have another time. Returns false, without a record, if
// that fails or the file is another one by now.
bool record_block(const std::filesystem::path& record, const std::string& id,
                  const std::filesystem::path& block, const FileStamp& stamp);

// Returns whether `claim`, which names files by their identities, is noted in `folder`; false for
// an empty folder or a damaged note.
[[nodiscard]] bool is_noted(const std::filesystem::path& folder, const std::string& claim);
// Notes it, after the clock has advanced from `since_ns`, the latest time of change in it. Ignores
// failures.
void note(const std::filesystem::path& folder, const std::string& claim, std::int64_t since_ns);

// Returns the SHA-256, in hexadecimal, noted in `folder` for `claim`; nothing if there is none.
[[nodiscard]] std::optional<std::string> noted_digest(const std::filesystem::path& folder,
                                                      const std::string& claim);
// Notes it, as note() does.
void note_digest(const std::filesystem::path& folder, const std::string& claim,
                 const std::string& digest, std::int64_t since_ns);

}  // namespace tandem::exec
