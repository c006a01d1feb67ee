#include "exec/weights/files/block_record.hpp"

#include <chrono>
#include <cstdint>
#include <ctime>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>

#include "exec/weights/files/atomic_file.hpp"
#include "exec/weights/files/boot_id.hpp"
#include "model/base/digest.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostRecordBytes = 1024;
constexpr int kBootLine = 8;

bool record_is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

// Bytes were read from the disk, not from what a process had just written.
constexpr std::string_view kDurable = "any";

// Its own witness: an entry in another's place, or with one digit changed, is not believed.
std::string witnessed(const std::string& text) { return text + model::sha256_hex(text) + "\n"; }

// `boot`: the start of the machine in which it holds.
std::string text_of(const std::string& id, const FileStamp& stamp, std::string_view boot) {
  std::string text = "tandem-seen 1\n" + id + "\n";
  for (const auto number :
       {static_cast<std::int64_t>(stamp.device), static_cast<std::int64_t>(stamp.inode),
        static_cast<std::int64_t>(stamp.bytes), stamp.modified_ns, stamp.changed_ns})
    text += std::to_string(number) + "\n";
  return witnessed(text.append(boot).append("\n"));
}

std::string note_text(const std::string& claim) {
  return witnessed("tandem-note 1\n" + model::sha256_hex(claim) + "\n");
}

constexpr int kDigestLine = 3;

std::string digest_text(const std::string& claim, const std::string& digest) {
  return witnessed("tandem-digest 1\n" + model::sha256_hex(claim) + "\n" + digest + "\n");
}

// Returns the contents of `record`; empty if it cannot be read.
std::string text_in(const fs::path& record) {
  if (!record_is_there(record)) return "";
  try {
    return read_text(record, kMostRecordBytes);
  } catch (const Error&) {
    return "";
  }
}

// Throws Error if the disk refuses.
void put(const fs::path& record, const std::string& text) {
  std::error_code ignored;
  if (fs::is_directory(record, ignored)) fs::remove_all(record, ignored);
  AtomicFile out(record.parent_path());
  out.write(text);
  out.commit(record.filename());
}

// In which start of the machine `record` holds of that block and file; nothing: in none.
std::optional<std::string> boot_in(const fs::path& record, const std::string& id,
                                   const FileStamp& stamp) {
  const std::string text = text_in(record);
  std::istringstream lines(text);
  std::string boot;
  for (int line = 0; line < kBootLine; ++line) std::getline(lines, boot);
  if (boot.empty() || text != text_of(id, stamp, boot)) return std::nullopt;
  return boot;
}

// The kernel gives files the time of its last tick, of up to 10 ms: a write within the same tick
// would not be detected.
void let_a_tick_pass(std::int64_t since_ns) {
  constexpr int kAttempts = 20;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    timespec now{};
    if (clock_gettime(CLOCK_REALTIME_COARSE, &now) != 0) return;
    if (std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec > since_ns) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void put_note(const fs::path& folder, const std::string& claim, const std::string& text,
              std::int64_t since_ns) {
  if (folder.empty()) return;
  let_a_tick_pass(since_ns);
  try {
    put(folder / model::sha256_hex(claim), text);
  } catch (const Error&) {
    return;  // looked at once more next time: no reason to end a run
  }
}

}  // namespace

bool is_recorded(const fs::path& record, const std::string& id, const FileStamp& stamp) {
  const auto boot = boot_in(record, id, stamp);
  return boot && (*boot == kDurable || *boot == boot_id());
}

bool record_block(const fs::path& record, const std::string& id, const fs::path& block,
                  const FileStamp& stamp) {
  try {
    // A file unchanged since the machine was started came from the disk.
    const std::string here = boot_id();
    const auto before = boot_in(record, id, stamp);
    const std::string boot = before && *before != here ? std::string(kDurable) : here;
    if (boot.empty()) return false;
    let_a_tick_pass(stamp.changed_ns);
    if (stamp_of(block) != stamp) return false;
    put(record, text_of(id, stamp, boot));
    return true;
  } catch (const Error&) {
    return false;  // without it the block is hashed once more: no reason to end a run
  }
}

bool is_noted(const fs::path& folder, const std::string& claim) {
  return !folder.empty() && text_in(folder / model::sha256_hex(claim)) == note_text(claim);
}

void note(const fs::path& folder, const std::string& claim, std::int64_t since_ns) {
  put_note(folder, claim, note_text(claim), since_ns);
}

std::optional<std::string> noted_digest(const fs::path& folder, const std::string& claim) {
  if (folder.empty()) return std::nullopt;
  std::istringstream lines(text_in(folder / model::sha256_hex(claim)));
  std::string digest;
  for (int line = 0; line < kDigestLine; ++line) std::getline(lines, digest);
  if (digest.empty() || lines.str() != digest_text(claim, digest)) return std::nullopt;
  return digest;
}

void note_digest(const fs::path& folder, const std::string& claim, const std::string& digest,
                 std::int64_t since_ns) {
  put_note(folder, claim, digest_text(claim, digest), since_ns);
}

}  // namespace tandem::exec
