#include "model/base/system_fault.hpp"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <new>
#include <optional>
#include <system_error>

#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"

namespace tandem::model {
namespace {

// Nothing: there is no limit.
std::optional<std::uint64_t> soft_limit(decltype(RLIMIT_NOFILE) resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

std::string address_space_limit() {
  const auto limit = soft_limit(RLIMIT_AS);
  if (!limit) return "";
  return "this process may have " + to_text(Bytes{static_cast<double>(*limit)}) +
         " of memory: raise `ulimit -v`";
}

std::string memory_remedy() {
  const std::string limit = address_space_limit();
  return (limit.empty() ? "" : limit + ", ") + "close other programs, or take a smaller model" +
         (limit.empty() ? "" : " or share");
}

std::string thread_remedy() {
  const auto limit = soft_limit(RLIMIT_NPROC);
  const std::string memory = address_space_limit();  // a thread's stack counts
  return "no new thread or process; " + (memory.empty() ? "" : memory + ", or ") +
         "this user may have " + (limit ? std::to_string(*limit) : "too few") +
         ": raise `ulimit -u`";
}

}  // namespace

bool is_exhaustion(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

std::string system_fault(int error, std::string_view remedy) {
  const std::string reason = std::generic_category().message(error) + "; ";
  switch (error) {
    case EMFILE:
      return reason + "this process may open " + std::to_string(open_file_limit()) +
             ": raise `ulimit -n`";
    case ENFILE:
      return reason + "the limit is the whole system's (fs.file-max): close other programs";
    case ENOMEM:
      return reason + memory_remedy();
    case EAGAIN:
      return reason + thread_remedy();
    default:
      return reason + std::string(remedy);
  }
}

std::string memory_fault() { return "not enough memory; " + memory_remedy(); }

std::string describe(const std::exception& fault) {
  if (dynamic_cast<const std::bad_alloc*>(&fault) != nullptr) return memory_fault();
  const auto* const refused = dynamic_cast<const std::system_error*>(&fault);
  if (refused == nullptr) return fault.what();
  const std::error_condition condition = refused->code().default_error_condition();
  if (condition.category() != std::generic_category()) return fault.what();
  return "the system refuses: " +
         system_fault(condition.value(), "raise the limit that is meant (see `ulimit -a`)");
}

std::uint64_t open_file_limit() {
  return soft_limit(RLIMIT_NOFILE).value_or(std::numeric_limits<std::uint64_t>::max());
}

void raise_open_file_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));  // as it was, if the system refuses
}

void require_open_files(std::uint64_t more, std::string_view purpose) {
  constexpr std::uint64_t kMostCounted = 1 << 20;  // more than a process has open by far
  constexpr std::uint64_t kInherited = 1024;       // numbers that may be open beyond the limit
  const std::uint64_t limit = open_file_limit();
  if (limit > kMostCounted) return;
  std::uint64_t open = 0;
  std::uint64_t within = 0;  // the limit, which is one of numbers
  for (std::uint64_t file = 0; file < std::max(limit, kInherited); ++file) {
    if (::fcntl(static_cast<int>(file), F_GETFD) < 0) continue;
    ++open;
    if (file < limit) ++within;
  }
  if (within + more <= limit) return;
  throw Error("open files: this process may open " + std::to_string(limit) +
              ", expected at least " + std::to_string(open + more) + " for " +
              std::string(purpose) + "; raise `ulimit -n`");
}

}  // namespace tandem::model
