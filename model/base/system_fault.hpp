#pragma once

// What the operating system refused, in words: the resource that ran out, its limit and the remedy.

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace tandem::model {

// Whether `error`, an error number of the system, says that open files or memory ran out.
[[nodiscard]] bool is_exhaustion(int error);

// Returns "REASON; REMEDY" for an error number of the system. If open files, memory, or threads and
// processes ran out, the remedy names the limit that binds (`ulimit -n`, `-v`, `-u`) and its value;
// otherwise it is `remedy`.
[[nodiscard]] std::string system_fault(int error, std::string_view remedy);

// Returns the same for memory that was refused, whatever the reason.
[[nodiscard]] std::string memory_fault();

// Returns the message of `fault`. Exceptions of the standard library that report an exhausted
// resource (bad_alloc, system_error) are described as system_fault() does.
[[nodiscard]] std::string describe(const std::exception& fault);

// Returns how many files this process may have open at once (RLIMIT_NOFILE, soft); the largest
// number if there is no limit.
[[nodiscard]] std::uint64_t open_file_limit();

// Raises that limit to what the user may raise it to (the hard limit). Children inherit it.
void raise_open_file_limit() noexcept;

// Throws Error unless this process may open `more` files beside those that are open now. `purpose`
// is what they are for: "3 emulated devices".
void require_open_files(std::uint64_t more, std::string_view purpose);

}  // namespace tandem::model
