#pragma once

// Which weights a run computed with, for its result.

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "exec/session/interrupt.hpp"
#include "exec/weights/weights_digest.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

// Made before a run, asked after it.
class RunWeights {
 public:
  // Opens `weights`. Throws Error unless they are of `transformer`, which outlives this.
  RunWeights(std::filesystem::path weights, const model::Transformer& transformer);

  // Returns weights_sha256() of what was opened. Returns nothing, and calls `warn` with the reason,
  // if `interrupt` is tripped, if a file cannot be read, or if a file was written or replaced since
  // then, so that the run may have read another one.
  [[nodiscard]] std::optional<std::string> digest(
      DigestOptions options, Interrupt& interrupt,
      const std::function<void(const std::string&)>& warn) const;

 private:
  std::filesystem::path path_;
  const model::Transformer& transformer_;
  std::unique_ptr<const WeightSource> source_;
};

}  // namespace tandem::exec
