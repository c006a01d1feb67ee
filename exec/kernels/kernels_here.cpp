#include "exec/kernels/kernels_here.hpp"

#include <fstream>
#include <string_view>

#include "exec/kernels/kernel_table.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::exec {

std::string processor_here() {
  constexpr std::size_t kMost = 128;
  // Of the first processor, before its name; on Arm it has none. Virtual machines call several
  // makes by one name.
  std::string family;
  std::string number;
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t at = line.find_first_not_of(" \t", colon + 1);
    if (at == std::string::npos) continue;
    const std::string value = model::printable(line.substr(at), kMost);
    if (line.starts_with("cpu family")) family = value;
    if (line.starts_with("model\t")) number = value;
    if (line.starts_with("CPU implementer")) family = value;
    std::string name;
    if (line.starts_with("model name"))
      name.append(value).append(", family ").append(family).append(", model ").append(number);
    if (line.starts_with("CPU part")) name.append("Arm ").append(family).append(" ").append(value);
    if (!name.empty()) return name;
  }
  return "";
}

model::MeasuredKernels kernels_here(KernelSet set) {
  return {.generation = kKernelGeneration,
          .instruction_sets = kernels_of(set).instruction_sets(),
          .processor = processor_here()};
}

std::vector<model::MeasuredKernels> kernels_here() {
  std::vector<model::MeasuredKernels> all;
  all.reserve(kKernelSets.size());
  for (const KernelSet set : kKernelSets) all.push_back(kernels_here(set));
  return all;
}

}  // namespace tandem::exec
