#include "cli/views/standard_output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <ostream>
#include <string>
#include <system_error>

#include "model/base/error.hpp"

namespace tandem::cli {

bool reader_gone() noexcept {
  pollfd output{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  return ::poll(&output, 1, 0) > 0 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

void flush_output(std::ostream& out) {
  errno = 0;
  if (out.flush()) return;
  const int fault = errno;
  if (fault == EPIPE || reader_gone()) throw ReaderGone();
  throw Error("standard output: cannot write: " +
              (fault == 0 ? "stream failed" : std::system_category().message(fault)) +
              "; is its disk full, or is it closed?");
}

void occupy_standard_descriptors() noexcept {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    // The lowest free number is given out, which is this one.
    (void)::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace tandem::cli
