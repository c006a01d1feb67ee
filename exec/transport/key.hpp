#pragma once

// The secret that the devices of one home share: 32 bytes, in a file as 64 hexadecimal characters.

#include <array>
#include <cstddef>
#include <filesystem>

namespace tandem::exec {

using Key = std::array<std::byte, 32>;

[[nodiscard]] Key random_key();

// Throws Error (path, fault, remedy) if the file is missing, readable by group or others, or not
// one line of 64 hexadecimal characters.
[[nodiscard]] Key read_key_file(const std::filesystem::path& path);

// Writes a new file of mode 0600, which is on the disk on return. Throws Error if there is one or
// it cannot be written.
void write_key_file(const std::filesystem::path& path, const Key& key);
void generate_key_file(const std::filesystem::path& path);  // of a random key

// An open file of mode 0600 in memory that holds the key, for a child process to inherit; there,
// read_key_file("/proc/self/fd/N") reads it. The caller closes it.
[[nodiscard]] int key_memory_file(const Key& key);

}  // namespace tandem::exec
