#include "cli/flags/outcome.hpp"

#include <bit>

#include "model/error.hpp"

namespace tandem::cli {

namespace {

constexpr const char* kEncoder = ", which is an encoder and generates no tokens";

}  // namespace

std::int64_t new_tokens(const Options& options, const model::Transformer& transformer,
                        std::int64_t absent) {
  if (transformer.architecture().generates())
    return options.integer_or("new-tokens", absent, 1, 1 << 30);
  options.refuse({"new-tokens"}, "with " + transformer.name + kEncoder);
  return 0;
}

void check_outcome(const Options& options, const model::Transformer& transformer) {
  if (transformer.architecture().generates()) {
    options.refuse({"hidden"}, "with " + transformer.name + ", which is not an encoder");
  } else {
    options.refuse({"new-tokens", "ignore-eos", "temperature", "top-p", "seed"},
                   "with " + transformer.name + kEncoder);
  }
}

std::string to_text(const planner::Workload& workload) {
  const std::string prompt = std::to_string(workload.prompt_tokens);
  if (workload.new_tokens == 0) return prompt + " tokens, one pass";
  return prompt + " prompt and " + std::to_string(workload.new_tokens) + " new tokens";
}

std::string to_npy(std::span<const float> values, std::int64_t rows, std::int64_t columns) {
  static_assert(std::endian::native == std::endian::little);
  require(static_cast<std::int64_t>(values.size()) == rows * columns, "npy: rows times columns");
  constexpr std::size_t kPrefix = 10;  // magic, version, length of the description
  constexpr std::size_t kAlignment = 64;
  std::string description = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                            std::to_string(rows) + ", " + std::to_string(columns) + "), }";
  while ((kPrefix + description.size() + 1) % kAlignment != 0) description += ' ';
  description += '\n';
  std::string file = "\x93NUMPY";
  file += '\x01';
  file += '\0';
  file += static_cast<char>(description.size() % 256);
  file += static_cast<char>(description.size() / 256);
  file += description;
  file.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return file;
}

}  // namespace tandem::cli
