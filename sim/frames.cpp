#include "sim/frames.hpp"

#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

#include "model/error.hpp"

namespace tandem::sim {
namespace {

static_assert(std::is_trivially_copyable_v<model::Span>);

// The first word of a frame: what the rest of it holds.
enum class Content : std::uint64_t {
  spans,  // how many there are in the next block
  blend,
  step,
};

static_assert(std::is_trivially_copyable_v<model::Segment>);

void send_frame(const std::function<void(Bytes)>& send, Content content, Bytes bytes) {
  std::vector<std::byte> frame(sizeof content + bytes.size());
  std::memcpy(frame.data(), &content, sizeof content);
  if (!bytes.empty()) std::memcpy(frame.data() + sizeof content, bytes.data(), bytes.size());
  send(frame);
}

template <class T>
void send_frame(const std::function<void(Bytes)>& send, Content content, const T& what) {
  send_frame(send, content, std::as_bytes(std::span(&what, 1)));
}

template <class T>
T read_as(Bytes bytes) {
  require(bytes.size() == sizeof(T), "simulation process: a frame of another size");
  T what;
  std::memcpy(&what, bytes.data(), sizeof what);
  return what;
}

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(),
                          std::string("simulation process: ") + what);
}

}  // namespace

SpanBlocks::SpanBlocks() {
  void* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("shared memory");
  shared_ = static_cast<Shared*>(memory);
  if (::sem_init(&shared_->free, 1, kBlocks) != 0) {
    ::munmap(memory, sizeof(Shared));
    fail("semaphore");
  }
}

SpanBlocks::~SpanBlocks() {
  ::sem_destroy(&shared_->free);
  ::munmap(shared_, sizeof(Shared));
}

std::span<model::Span> SpanBlocks::take() {
  while (::sem_wait(&shared_->free) != 0) {
    if (errno != EINTR) fail("semaphore");
  }
  return block(next_++);
}

std::span<const model::Span> SpanBlocks::read(std::size_t count) const {
  require(count <= kSpans, "simulation process: more spans than a block holds");
  return block(next_).first(count);
}

void SpanBlocks::give_back() {
  ++next_;
  ::sem_post(&shared_->free);
}

std::span<model::Span> SpanBlocks::block(std::size_t number) const {
  return std::span(shared_->spans).subspan(number % kBlocks * kSpans, kSpans);
}

FrameWriter::FrameWriter(const std::function<void(Bytes)>& send, SpanBlocks& blocks)
    : send_(&send), blocks_(&blocks) {}

void FrameWriter::add(const model::StepBlend& blend) {
  flush();
  send_frame(*send_, Content::blend, blend);
}

void FrameWriter::add(const model::ScheduledStep& step) {
  flush();
  const Bytes begin = std::as_bytes(std::span(&step.not_before_s, 1));
  const Bytes ended = std::as_bytes(std::span(&step.ended, 1));
  const Bytes segments = std::as_bytes(std::span<const model::Segment>(step.batch.segments));
  std::vector<std::byte> bytes(begin.begin(), begin.end());
  bytes.insert(bytes.end(), ended.begin(), ended.end());
  bytes.insert(bytes.end(), segments.begin(), segments.end());
  send_frame(*send_, Content::step, Bytes(bytes));
}

void FrameWriter::flush() {
  if (held_ > 0) send_frame(*send_, Content::spans, std::uint64_t{held_});
  block_ = {};
  held_ = 0;
}

void read_frame(Bytes frame, SpanBlocks& blocks, const FrameReader& reader) {
  Content content{};
  require(frame.size() >= sizeof content, "simulation process: a frame of another size");
  std::memcpy(&content, frame.data(), sizeof content);
  const Bytes bytes = frame.subspan(sizeof content);
  switch (content) {
    case Content::spans:
      reader.spans(blocks.read(read_as<std::uint64_t>(bytes)));
      blocks.give_back();
      return;
    case Content::blend: {
      reader.blend(read_as<model::StepBlend>(bytes));
      return;
    }
    case Content::step: {
      model::ScheduledStep step;
      std::memcpy(&step.not_before_s, bytes.data(), sizeof step.not_before_s);
      const Bytes ended = bytes.subspan(sizeof step.not_before_s);
      std::memcpy(&step.ended, ended.data(), sizeof step.ended);
      const Bytes segments = ended.subspan(sizeof step.ended);
      step.batch.segments.resize(segments.size() / sizeof(model::Segment));
      std::memcpy(step.batch.segments.data(), segments.data(), segments.size());
      reader.step(step);
      return;
    }
  }
}

}  // namespace tandem::sim
