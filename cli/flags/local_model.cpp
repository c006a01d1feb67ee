#include "cli/flags/local_model.hpp"

#include <algorithm>
#include <system_error>
#include <thread>

#include "cli/files/scenarios.hpp"
#include "cli/flags/cache_type.hpp"
#include "cli/flags/dtype.hpp"
#include "exec/gguf/gguf_file.hpp"
#include "exec/machine/available_memory.hpp"
#include "exec/weights/model_folder.hpp"
#include "exec/weights/source/weight_source.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"

namespace tandem::cli {

model::Transformer local_model(const Options& options, const std::filesystem::path& weights) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(weights, ignored) && !exec::is_gguf(weights))
    throw Error("flag '--weights': " + weights.string() +
                ": neither a folder nor a GGUF file, expected a folder with config.json and "
                "weights (*.safetensors), or a GGUF file; check the path");
  model::Transformer transformer = load_model(weights.string());
  transformer.require_executable();
  const auto formats = dtype_of(options, transformer);
  transformer.formats =
      formats ? *formats
              : exec::stored_formats(*exec::open_weights(weights, transformer), transformer);
  transformer.cache = cache_type_of(options, transformer);
  return transformer;
}

std::optional<model::Bytes> memory_limit(const Options& options) {
  const auto text = options.text("memory-limit");
  if (!text) return std::nullopt;
  const model::Bytes limit = model::parse_bytes(*text, "flag '--memory-limit'");
  if (limit.value() > 0.0) return limit;
  throw Error("flag '--memory-limit': '" + *text +
              "', expected more than 0 bytes; give a size as 2GiB, or leave it out");
}

model::Bytes local_memory(const Options& options) {
  constexpr double kShare = 0.9;
  const model::Bytes here{kShare * exec::available_memory().bytes};
  return std::min(memory_limit(options).value_or(here), here);
}

int master_threads(const Options& options, const planner::Plan& plan, bool one_machine) {
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  const int measured = plan.profiles[static_cast<std::size_t>(plan.master)].threads;
  // A profile may be of a machine with more cores; the remark on threads says that fewer compute.
  const std::int64_t known = std::min<std::int64_t>(measured, cores);
  const std::int64_t usual = one_machine ? 1 : cores;
  return static_cast<int>(options.integer_or("threads", known > 0 ? known : usual, 1, 1024));
}

}  // namespace tandem::cli
