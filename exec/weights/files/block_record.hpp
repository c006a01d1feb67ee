#pragma once

// What is remembered of a weight block's file whose bytes were seen to be what its name says: the
// file's identity then. A file that still has it is not read to be hashed again.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "exec/weights/files/read_file.hpp"

namespace tandem::exec {

// Whether `record` says that the block `id` was sound as a file with `stamp`. A record that is
// damaged, of another block, or no file says nothing. Of bytes that may not have been on the disk
// yet it says so only until the machine is started again.
[[nodiscard]] bool is_recorded(const std::filesystem::path& record, const std::string& id,
                               const FileStamp& stamp);

// Records that the block `id`, the file `block`, was seen to be sound when it had `stamp`, once the
// clock has gone on, so that whatever is written there later has another time. Returns false, and
// leaves no record, if that fails or the file is another one by now.
bool record_block(const std::filesystem::path& record, const std::string& id,
                  const std::filesystem::path& block, const FileStamp& stamp);

// Whether `claim`, which names files by their identities, is noted in `folder`; an empty folder
// holds nothing. The same of damage.
[[nodiscard]] bool is_noted(const std::filesystem::path& folder, const std::string& claim);
// Notes it, once the clock has gone on from `since_ns`, the latest time of change that is in it.
// What fails is no error.
void note(const std::filesystem::path& folder, const std::string& claim, std::int64_t since_ns);

// The SHA-256, as hexadecimal, that is noted in `folder` of what `claim` names; nothing if none is.
[[nodiscard]] std::optional<std::string> noted_digest(const std::filesystem::path& folder,
                                                      const std::string& claim);
// Notes it, as note() does.
void note_digest(const std::filesystem::path& folder, const std::string& claim,
                 const std::string& digest, std::int64_t since_ns);

}  // namespace tandem::exec
