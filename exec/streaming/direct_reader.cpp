#include <liburing.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "exec/streaming/direct_file.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

// Large enough that a request's cost is small, small enough that several are in flight in a block.
constexpr std::size_t kRequestBytes = std::size_t{512} * 1024;
constexpr unsigned kInFlight = 8;

}  // namespace

struct DirectReader::Ring {
  io_uring ring{};
  Ring() = default;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() { io_uring_queue_exit(&ring); }
};

DirectReader::DirectReader(const DirectReaderOptions& options) {
  if (!options.uring) return;
  io_uring ring{};
  // Refused by old kernels, container policies and io_uring_disabled; pread does the same work.
  if (io_uring_queue_init(kInFlight, &ring, 0) != 0) return;
  ring_ = std::make_unique<Ring>();
  ring_->ring = ring;
}

DirectReader::~DirectReader() = default;

std::string DirectReader::method(const DirectFile& file) const {
  return std::string(file.direct() ? "O_DIRECT" : "page cache") +
         (ring_ ? ", io_uring" : ", pread");
}

void DirectReader::read(const DirectFile& file, std::uint64_t offset, std::span<std::byte> bytes,
                        const std::atomic<bool>& stop) {
  require(offset % kDirectAlignment == 0 && bytes.size() % kDirectAlignment == 0,
          "DirectReader: an aligned read");
  if (ring_) return read_by_ring(file, offset, bytes, stop);
  for (std::size_t at = 0; at < bytes.size(); at += kRequestBytes) {
    if (stop) throw Error("cancelled");
    const auto part = bytes.subspan(at, std::min(kRequestBytes, bytes.size() - at));
    file.read_at(offset + at, part);
  }
}

void DirectReader::read_by_ring(const DirectFile& file, std::uint64_t offset,
                                std::span<std::byte> bytes, const std::atomic<bool>& stop) {
  const std::size_t requests = (bytes.size() + kRequestBytes - 1) / kRequestBytes;
  const auto part = [&](std::size_t request) {
    const std::size_t at = request * kRequestBytes;
    return bytes.subspan(at, std::min(kRequestBytes, bytes.size() - at));
  };
  std::size_t submitted = 0;
  std::size_t done = 0;
  int error = 0;
  std::size_t failed = 0;
  // After a failure too, until nothing writes to `bytes` any more.
  while (done < submitted || (submitted < requests && error == 0 && !stop)) {
    while (submitted < requests && submitted - done < kInFlight && error == 0 && !stop) {
      io_uring_sqe* entry = io_uring_get_sqe(&ring_->ring);
      if (entry == nullptr) break;
      const auto to = part(submitted);
      io_uring_prep_read(entry, file.descriptor(), to.data(), static_cast<unsigned>(to.size()),
                         offset + submitted * kRequestBytes);
      io_uring_sqe_set_data64(entry, submitted);
      ++submitted;
    }
    if (submitted == done) break;  // stopped
    const int waited = io_uring_submit_and_wait(&ring_->ring, 1);
    if (waited < 0 && waited != -EINTR && waited != -EAGAIN && waited != -EBUSY) {
      // The state of requests in flight is unknown: the ring must be destroyed before the buffer.
      ring_.reset();
      file.fail(offset, -waited);
    }
    io_uring_cqe* entry = nullptr;
    while (io_uring_peek_cqe(&ring_->ring, &entry) == 0) {
      const std::size_t request = io_uring_cqe_get_data64(entry);
      const int result = entry->res;
      io_uring_cqe_seen(&ring_->ring, entry);
      ++done;
      const auto to = part(request);
      if (result == static_cast<int>(to.size())) continue;
      if (result < 0 && result != -EINTR && result != -EAGAIN) {
        failed = error == 0 ? request : std::min(failed, request);
        error = -result;
        continue;
      }
      // Interrupted or short: reads the rest, or gets the error.
      const auto got = direct_floor(static_cast<std::uint64_t>(std::max(result, 0)));
      try {
        file.read_at(offset + request * kRequestBytes + got, to.subspan(got));
      } catch (const Error&) {
        // Thrown again below, by the same read, once nothing is in flight.
        failed = error == 0 ? request : std::min(failed, request);
        error = EIO;
      }
    }
  }
  if (error != 0) {
    file.read_at(offset + failed * kRequestBytes, part(failed));
    file.fail(offset + failed * kRequestBytes, error);
  }
  if (submitted < requests) throw Error("cancelled");
  file.forget(offset, bytes.size());
}

}  // namespace tandem::exec
