#include "cli/flags/kernels_flag.hpp"

#include <string_view>
#include <vector>

namespace tandem::cli {

exec::KernelSet kernels_of(const Options& options) {
  std::vector<std::string_view> names;
  names.reserve(exec::kKernelSets.size());
  for (const exec::KernelSet set : exec::kKernelSets) names.push_back(to_string(set));
  return *exec::find_kernel_set(
      options.choice_or(kKernelsFlag.name, to_string(exec::default_kernel_set()), names));
}

}  // namespace tandem::cli
