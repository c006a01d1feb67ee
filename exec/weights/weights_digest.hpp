#pragma once

// The identity of a model's weights by content.

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>

#include "exec/weights/source/weight_source.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

struct DigestOptions {
  // Folder in which digests of certain tensors of certain files are remembered; empty: none.
  std::filesystem::path notes{};
  bool believe = true;  // trusts remembered digests; else the files are read again
  int threads = 1;
  const std::atomic<bool>* stop = nullptr;  // set by another thread to give up
};

// Returns the SHA-256, in hexadecimal, over the name, type, shape and SHA-256 of the stored bytes
// of every tensor that `transformer` uses. Independent of the files' names, order and metadata, and
// of how tensors are split into files. The same numbers in another type, or in a GGUF file, have
// another digest.
//
// Reads all these bytes, once: the digest is remembered by the files' paths and identities
// (WeightSource::fingerprint). Returns nothing if stopped, or if a file was written since it was
// opened. Throws Error if a file cannot be read.
[[nodiscard]] std::optional<std::string> weights_sha256(const WeightSource& weights,
                                                        const model::Transformer& transformer,
                                                        const DigestOptions& options = {});

}  // namespace tandem::exec
