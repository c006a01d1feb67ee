#include "exec/session/run_weights.hpp"

#include <atomic>
#include <utility>

#include "exec/weights/model_folder.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {

RunWeights::RunWeights(std::filesystem::path weights, const model::Transformer& transformer)
    : path_(std::move(weights)),
      transformer_(transformer),
      source_(open_weights(path_, transformer)) {}

std::optional<std::string> RunWeights::digest(
    DigestOptions options, Interrupt& interrupt,
    const std::function<void(const std::string&)>& warn) const {
  std::string fault = path_.string() + ": changed during the run";
  try {
    std::atomic<bool> stop = false;
    options.stop = &stop;
    const InterruptWatch watch(interrupt, [&stop] { stop = true; });
    if (open_weights(path_, transformer_)->fingerprint() == source_->fingerprint()) {
      if (auto digest = weights_sha256(*source_, transformer_, options)) return digest;
      if (stop) fault = "interrupted while the weights were hashed";
    }
  } catch (const Error& error) {
    fault = error.what();
  }
  if (warn) warn(fault + "; the result lacks their digest, weights_sha256");
  return std::nullopt;
}

}  // namespace tandem::exec
