#include "exec/weights/mapped_weights.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "exec/kernels/thread_pool.hpp"
#include "exec/weights/files/block_record.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

using model::WeightFormat;

// Bytes that one thread reads at a time.
constexpr std::uint64_t kChunkBytes = std::uint64_t{4} << 20U;
// Between two looks at whether the work is still wanted.
constexpr std::size_t kRound = 64;

// Numbers whose exponent has all bits set, anywhere.
template <class Word>
bool no_exponent(std::span<const std::byte> stored, Word exponent) {
  Word bad = 0;
  for (std::size_t at = 0; at + sizeof(Word) <= stored.size(); at += sizeof(Word)) {
    Word word = 0;
    std::memcpy(&word, stored.data() + at, sizeof word);
    bad = static_cast<Word>(bad | static_cast<Word>((word & exponent) == exponent));
  }
  return bad == 0;
}

// A block's numbers are finite if its scales are: every other factor is a small whole number.
bool scales_finite(WeightFormat format, std::span<const std::byte> stored) {
  constexpr std::uint16_t kExponent = 0x7c00;
  const model::FormatRow& row = model::row_of(format);
  require(row.scales > 0, "scales_finite: a format of blocks");
  const auto block = static_cast<std::size_t>(row.block.bytes);
  for (std::size_t at = 0; at + block <= stored.size(); at += block) {
    if (!no_exponent<std::uint16_t>(stored.subspan(at + row.scales_begin, 2 * row.scales),
                                    kExponent))
      return false;
  }
  return true;
}

std::size_t alignment_of(WeightFormat format) {
  return format == WeightFormat::f32 ? alignof(float) : alignof(std::uint16_t);
}

struct Chunk {
  const MappedPart* part = nullptr;
  std::span<const std::byte> bytes;
};

std::vector<Chunk> chunks_of(std::span<const MappedPart> parts) {
  std::vector<Chunk> chunks;
  for (const MappedPart& part : parts) {
    const auto block = static_cast<std::size_t>(model::block_of(part.format).bytes);
    const std::size_t most = kChunkBytes / block * block;
    for (std::size_t at = 0; at < part.bytes.size(); at += most)
      chunks.push_back({&part, part.bytes.subspan(at, std::min(most, part.bytes.size() - at))});
  }
  return chunks;
}

}  // namespace

bool all_finite(WeightFormat format, std::span<const std::byte> stored) {
  if (format == WeightFormat::f32) return no_exponent<std::uint32_t>(stored, 0x7f800000U);
  if (format == WeightFormat::f16) return no_exponent<std::uint16_t>(stored, 0x7c00);
  if (format == WeightFormat::bf16) return no_exponent<std::uint16_t>(stored, 0x7f80);
  return scales_finite(format, stored);
}

MappedWeights::MappedWeights(const WeightSource& weights)
    : opened_(weights.stamps()), fingerprint_(weights.fingerprint()) {
  for (const auto& file : weights.files())
    files_.push_back(std::make_unique<const MappedFile>(file));
}

std::optional<MappedPart> MappedWeights::find(const WeightSource& weights, const TensorSlice& slice,
                                              std::int32_t layer) const {
  const StoredPlace place = weights.place_of(slice, layer);
  if (!weights.contains(place.tensor)) return std::nullopt;
  weights.need_readable(place);
  const auto in_whole_heads = [&](std::int32_t row) {
    return place.paired_rows == 0 || row % place.paired_rows == 0;
  };
  const bool as_it_is = place.shape.size() == 2 && !place.transposed && !place.less_one &&
                        weights.format_of(place.tensor) == slice.format &&
                        slice.columns.begin == 0 && slice.columns.end == place.shape[1] &&
                        in_whole_heads(slice.rows.begin) && in_whole_heads(slice.rows.end);
  if (!as_it_is || slice.bytes() == 0) return std::nullopt;
  const StoredBytes stored = weights.bytes_of(place.tensor);
  const std::uint64_t offset =
      stored.offset + static_cast<std::uint64_t>(slice.rows.begin) * slice.row_bytes();
  const std::span<const std::byte> all = files_[stored.file]->bytes();
  require(offset <= all.size() && slice.bytes() <= all.size() - offset,
          "mapped weights: a tensor lies within its file");
  const std::span<const std::byte> bytes = all.subspan(offset, slice.bytes());
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment_of(slice.format) != 0)
    return std::nullopt;
  return MappedPart{.file = stored.file,
                    .tensor = place.tensor,
                    .format = slice.format,
                    .bytes = bytes,
                    .in_pairs = place.paired_rows > 0};
}

void MappedWeights::read(std::span<const MappedPart> parts, const PartsToRead& how) const {
  const std::vector<Chunk> chunks = chunks_of(parts);
  std::string claim = "finite\n" + fingerprint_;
  for (const MappedPart& part : parts) {
    claim += part.tensor + " " + std::string(model::to_string(part.format)) + " " +
             std::to_string(part.bytes.data() - files_[part.file]->bytes().data()) + " " +
             std::to_string(part.bytes.size()) + "\n";
  }
  const bool noted = how.believe && is_noted(how.notes, claim);
  std::uint64_t total = 0;
  for (const Chunk& chunk : chunks) total += chunk.bytes.size();
  std::uint64_t done = 0;
  ThreadPool pool(how.threads, std::chrono::nanoseconds(0));
  for (std::size_t first = 0; first < chunks.size(); first += kRound) {
    const auto some = std::span(chunks).subspan(first, std::min(kRound, chunks.size() - first));
    std::atomic<const MappedPart*> bad = nullptr;
    pool.parallel_for(static_cast<std::int64_t>(some.size()), 1,
                      [&](std::int64_t begin, std::int64_t end, int) {
                        for (std::int64_t i = begin; i < end; ++i) {
                          const Chunk& chunk = some[static_cast<std::size_t>(i)];
                          files_[chunk.part->file]->populate(chunk.bytes);
                          if (!noted && !all_finite(chunk.part->format, chunk.bytes))
                            bad = chunk.part;
                        }
                      });
    check();  // what a file lost reads as zeros
    if (const MappedPart* const part = bad.load()) {
      throw Error(files_[part->file]->file().path().string() + ": " + part->tensor +
                  ": holds NaN or infinity, expected finite numbers; the file is damaged, "
                  "copy or download it again");
    }
    for (const Chunk& chunk : some) done += chunk.bytes.size();
    if (how.progress) how.progress(done, total);
  }
  if (noted) return;
  std::int64_t latest = 0;
  for (const FileStamp& stamp : opened_) latest = std::max(latest, stamp.changed_ns);
  note(how.notes, claim, latest);
}

const MappedFile* MappedWeights::file_of(const std::byte* bytes) const {
  const auto found = std::ranges::find_if(files_, [bytes](const auto& file) {
    const std::span<const std::byte> all = file->bytes();
    return std::less_equal<>()(all.data(), bytes) && std::less<>()(bytes, all.data() + all.size());
  });
  return found == files_.end() ? nullptr : found->get();
}

void MappedWeights::check() const {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const MappedFile& mapped = *files_[i];
    const FileStamp now = mapped.file().stamp();
    const FileStamp& then = opened_[i];
    // Not the time of change: a file that is linked, or replaced by another, keeps its bytes.
    if (now.bytes == then.bytes && now.modified_ns == then.modified_ns && mapped.is_sound())
      continue;
    const std::string subject = mapped.file().path().string();
    if (now.bytes != then.bytes) {
      throw Error(subject + ": " + std::to_string(now.bytes) +
                  " bytes while its weights are in use, " + std::to_string(then.bytes) +
                  " when it was opened, expected a file that stays as it is; start again");
    }
    if (now.modified_ns != then.modified_ns) {
      throw Error(subject +
                  ": written while its weights are in use, expected a file that stays as it is; "
                  "start again");
    }
    throw Error(
        subject +
        ": cannot be read while its weights are in use; check the disk, or copy or download "
        "the file again");
  }
}

}  // namespace tandem::exec
