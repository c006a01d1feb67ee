#include "exec/discovery/kept_profile.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <span>
#include <string_view>
#include <vector>

#include "exec/kernels/kernels_here.hpp"
#include "exec/profiling/machine_profile.hpp"
#include "exec/weights/files/atomic_file.hpp"
#include "model/base/digest.hpp"
#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::exec {
namespace {

// Enough for its rate, little enough for a memory card.
constexpr std::uint64_t kDiskBytes = std::uint64_t{64} << 20U;

std::vector<model::WeightFormat> formats_of(const ProfileOrder& order,
                                            const model::Transformer& transformer) {
  std::vector<model::WeightFormat> formats;
  for (const std::string& name : order.formats) {
    const auto format = model::find_weight_format(name);
    if (!format || *format == model::WeightFormat::f32 ||
        std::ranges::find(formats, *format) != formats.end())
      throw Error("profile order: format '" + model::printable(name, kMaxFormatBytes) +
                  "', expected one of weights besides f32, each once; install the same tandem on "
                  "every device");
    model::Transformer in_format = transformer;
    in_format.formats = model::WeightFormats(*format);
    in_format.validate();
    formats.push_back(*format);
  }
  return formats;
}

std::vector<model::CacheFormat> caches_of(const ProfileOrder& order,
                                          model::Transformer transformer) {
  std::vector<model::CacheFormat> caches;
  for (const std::string& name : order.caches) {
    const auto format = model::find_cache_format(name);
    if (!format || *format == model::CacheFormat::f32 ||
        std::ranges::find(caches, *format) != caches.end())
      throw Error(
          "profile order: cache type '" + model::printable(name, kMaxFormatBytes) +
          "', expected one other than f32, each once; install the same tandem on every device");
    transformer.cache = *format;
    transformer.validate();
    caches.push_back(*format);
  }
  return caches;
}

// A line of the names, in order.
std::string line_of(std::vector<std::string> names, std::string_view after_each) {
  std::ranges::sort(names);
  std::string line;
  for (const std::string& name : names) line.append(name).append(after_each);
  return line + '\n';
}

std::string key_of(const WorkerMachine& machine, const ProfileOrder& order,
                   const model::Transformer& transformer) {
  const model::MeasuredKernels kernels = kernels_here(machine.kernels);
  const std::string key = "tandem kept profile 1\n" + kernels.processor + '\n' +
                          kernels.instruction_sets + '\n' + std::to_string(kernels.generation) +
                          '\n' + machine.program + '\n' + std::to_string(machine.threads) + '\n' +
                          line_of(order.caches, " cache");
  return key + line_of(order.formats, " ") + to_config_json(transformer);
}

std::optional<model::DeviceProfile> kept(const std::filesystem::path& path, int threads) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  try {
    model::DeviceProfile profile = model::parse_profile_json(text, path.string());
    if (profile.threads == threads) return profile;
  } catch (const Error&) {  // of no use: measured again
  }
  return std::nullopt;
}

}  // namespace

model::DeviceProfile machine_profile(const WorkerMachine& machine, const ProfileOrder& order,
                                     const std::function<void()>& check) {
  const model::Transformer transformer = model::parse_config_json(order.model, "profile order");
  ProfileOptions options;
  options.threads = {machine.threads};
  options.kernels = machine.kernels;
  options.seconds = static_cast<double>(order.milliseconds) / 1000.0;
  options.formats = formats_of(order, transformer);
  options.caches = caches_of(order, transformer);
  options.check = check;
  constexpr std::size_t kNameLength = 32;
  const std::filesystem::path folder = machine.cache_dir / "profiles";
  const std::string name =
      model::sha256_hex(key_of(machine, order, transformer)).substr(0, kNameLength) + ".json";
  if (!order.measure) {
    if (auto profile = kept(folder / name, machine.threads)) return *profile;
  }
  model::DeviceProfile profile =
      measure_machine(transformer, options,
                      DiskProfileOptions{.folder = machine.cache_dir,
                                         .file_bytes = kDiskBytes,
                                         .read_bytes = streamed_block_bytes(transformer),
                                         .seconds = kDiskPart * options.seconds})
          .front();
  try {
    AtomicFile file(folder);
    file.write(to_json(profile));
    file.commit(name);
  } catch (const Error&) {  // a folder that is full or not ours: measured again next time
  }
  return profile;
}

}  // namespace tandem::exec
