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
  // Where the digest of certain tensors of certain files is remembered; empty: nowhere.
  std::filesystem::path notes{};
  bool believe = true;  // what is remembered; else the files are read again
  int threads = 1;
  const std::atomic<bool>* stop = nullptr;  // set by another thread: gives up
};

// Returns the SHA-256, as hexadecimal, over the name, type, shape and SHA-256 of the stored bytes
// of every tensor that `transformer` computes with. It depends on no file's name, order or
// metadata, nor on how tensors are split into files. The same numbers in another type, or as a GGUF
// file, have another digest.
//
// Reads all these bytes, once: the digest is remembered by the files' paths and identities
// (WeightSource::fingerprint). Returns nothing if it was stopped, or if a file was written since it
// was opened. Throws Error if a file cannot be read.
[[nodiscard]] std::optional<std::string> weights_sha256(const WeightSource& weights,
                                                        const model::Transformer& transformer,
                                                        const DigestOptions& options = {});

}  // namespace tandem::exec
