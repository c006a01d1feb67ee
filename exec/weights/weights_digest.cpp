#include "exec/weights/weights_digest.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "exec/kernels/thread_pool.hpp"
#include "exec/weights/files/block_record.hpp"
#include "exec/weights/source/layout.hpp"
#include "model/base/digest.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

// Names of the tensors that the model computes with.
std::set<std::string> used_tensors(const WeightSource& weights,
                                   const model::Transformer& transformer) {
  model::Transformer plain = transformer;
  plain.formats = model::WeightFormats();  // which tensors there are depends on no format
  const model::Share all{{0, static_cast<std::int32_t>(plain.layers)},
                         {0, static_cast<std::int32_t>(plain.heads)},
                         {0, static_cast<std::int32_t>(plain.intermediate)},
                         true,
                         true};
  std::set<std::string> names;
  for (const LayoutBlock& block : layout_of(plain, all).blocks)
    for (const TensorSlice& slice : block.slices)
      names.insert(weights.place_of(slice, block.layer).tensor);
  return names;
}

// A text that no other tensor has: of known length, so that names may hold anything.
std::string tensor_line(const WeightSource& weights, const std::string& tensor) {
  const std::string& dtype = weights.dtype_of(tensor);
  return std::to_string(tensor.size()) + " " + tensor + " " + std::to_string(dtype.size()) + " " +
         dtype + " " + shape_text(weights.shape_of(tensor)) + "\n";
}

bool is_stopped(const DigestOptions& options) {
  return options.stop != nullptr && options.stop->load(std::memory_order_relaxed);
}

// Returns the digest of the stored bytes, in hexadecimal; empty if stopped.
std::string bytes_sha256(const WeightSource& weights, const std::string& tensor,
                         const DigestOptions& options) {
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 20U;
  const StoredBytes stored = weights.bytes_of(tensor);
  const ReadFile& file = *weights.files()[stored.file];
  std::vector<std::byte> piece(std::min(kPiece, stored.bytes));
  model::DigestStream stream;
  for (std::uint64_t at = 0; at < stored.bytes; at += piece.size()) {
    if (is_stopped(options)) return {};
    const auto some =
        std::span(piece).first(std::min<std::uint64_t>(piece.size(), stored.bytes - at));
    file.read_at(stored.offset + at, some);
    stream.update(some);
  }
  return model::to_hex(stream.digest());
}

bool is_unchanged(const WeightSource& weights) {
  for (std::size_t i = 0; i < weights.files().size(); ++i)
    if (weights.files()[i]->stamp() != weights.stamps()[i]) return false;
  return true;
}

// Returns the digests of the tensors `names`, by several threads, largest tensors first.
std::vector<std::string> digests_of(const WeightSource& weights, std::span<const std::string> names,
                                    const DigestOptions& options) {
  std::vector<std::size_t> order(names.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return weights.bytes_of(names[i]).bytes; });
  std::vector<std::string> digests(names.size());
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  ThreadPool pool(options.threads, std::chrono::nanoseconds(0));
  pool.parallel_for(pool.threads(), 1, [&](std::int64_t, std::int64_t, int) {
    try {
      for (std::size_t i = next++; i < order.size(); i = next++)
        digests[order[i]] = bytes_sha256(weights, names[order[i]], options);
    } catch (...) {
      next = order.size();
      const std::scoped_lock lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
  return digests;
}

}  // namespace

std::optional<std::string> weights_sha256(const WeightSource& weights,
                                          const model::Transformer& transformer,
                                          const DigestOptions& options) {
  const std::set<std::string> sorted = used_tensors(weights, transformer);
  const std::vector<std::string> names(sorted.begin(), sorted.end());
  std::string claim = "tandem-weights 1\n";
  for (const std::string& name : names) {
    weights.need(name);
    claim += tensor_line(weights, name);
  }
  claim += weights.fingerprint();
  if (!is_unchanged(weights)) return std::nullopt;
  if (options.believe) {
    if (auto noted = noted_digest(options.notes, claim)) return noted;
  }
  const std::vector<std::string> digests = digests_of(weights, names, options);
  if (is_stopped(options) || !is_unchanged(weights)) return std::nullopt;
  std::string text = "tandem-weights 1\n";
  for (std::size_t i = 0; i < names.size(); ++i)
    text += tensor_line(weights, names[i]) + digests[i] + "\n";
  std::string digest = model::sha256_hex(text);
  std::int64_t latest = 0;
  for (const FileStamp& stamp : weights.stamps()) latest = std::max(latest, stamp.changed_ns);
  note_digest(options.notes, claim, digest, latest);
  return digest;
}

}  // namespace tandem::exec
