#include "sim/replay/frames.hpp"

#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

#include "model/base/error.hpp"

namespace tandem::sim {
namespace {

static_assert(std::is_trivially_copyable_v<model::Span>);

// The first word of a frame: the kind of its contents.
enum class Content : std::uint64_t {
  spans,  // how many there are in the next block
  blend,
  step,
};

static_assert(std::is_trivially_copyable_v<model::Segment> &&
              std::is_trivially_copyable_v<model::Place> &&
              std::is_trivially_copyable_v<model::CacheOp>);

// The head of a step's frame; segments, cache operations and places follow.
struct StepHead {
  double not_before_s = 0.0;
  std::uint64_t segments = 0;
  std::uint64_t cache = 0;
  std::uint64_t places = 0;
  std::int32_t ended = 0;
};

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

// Moves the first `count` values of `bytes` to `values`.
template <class T>
void take(Bytes& bytes, std::uint64_t count, std::vector<T>& values) {
  require(count <= bytes.size() / sizeof(T), "simulation process: a frame of another size");
  values.resize(count);
  if (count > 0) std::memcpy(values.data(), bytes.data(), count * sizeof(T));
  bytes = bytes.subspan(count * sizeof(T));
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

void Output::flush() {
  const std::span<const model::Span> spans = std::span<const model::Span>(block_).first(held_);
  block_ = {};
  held_ = 0;
  if (!spans.empty()) hand_on(spans);
}

FrameWriter::FrameWriter(const std::function<void(Bytes)>& send, SpanBlocks& blocks)
    : send_(&send), blocks_(&blocks) {}

void FrameWriter::add(const model::StepBlend& blend) {
  flush();
  send_frame(*send_, Content::blend, blend);
}

void FrameWriter::add(const model::ScheduledStep& step) {
  flush();
  const StepHead head{.not_before_s = step.not_before_s,
                      .segments = step.batch.segments.size(),
                      .cache = step.batch.cache.size(),
                      .places = step.batch.places.size(),
                      .ended = step.ended};
  std::vector<std::byte> bytes;
  const auto append = [&](Bytes more) { bytes.insert(bytes.end(), more.begin(), more.end()); };
  append(std::as_bytes(std::span(&head, 1)));
  append(std::as_bytes(std::span<const model::Segment>(step.batch.segments)));
  append(std::as_bytes(std::span<const model::CacheOp>(step.batch.cache)));
  append(std::as_bytes(std::span<const model::Place>(step.batch.places)));
  send_frame(*send_, Content::step, Bytes(bytes));
}

void FrameWriter::hand_on(std::span<const model::Span> spans) {
  send_frame(*send_, Content::spans, std::uint64_t{spans.size()});
}

void DirectOutput::add(const model::StepBlend& blend) {
  flush();
  reader_->blend(blend);
}

void DirectOutput::add(const model::ScheduledStep& step) {
  flush();
  reader_->step(step);
}

void read_frame(Bytes frame, SpanBlocks& blocks, const Reader& reader) {
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
      require(bytes.size() >= sizeof(StepHead), "simulation process: a frame of another size");
      const auto head = read_as<StepHead>(bytes.first(sizeof(StepHead)));
      model::ScheduledStep step{
          .not_before_s = head.not_before_s, .batch = {}, .ended = head.ended};
      Bytes rest = bytes.subspan(sizeof(StepHead));
      take(rest, head.segments, step.batch.segments);
      take(rest, head.cache, step.batch.cache);
      take(rest, head.places, step.batch.places);
      reader.step(step);
      return;
    }
  }
}

}  // namespace tandem::sim
