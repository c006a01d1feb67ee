#include "exec/weights/random_weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "exec/weights/files/atomic_file.hpp"
#include "exec/weights/formats/convert.hpp"
#include "exec/weights/source/layout.hpp"
#include "exec/weights/source/safetensors.hpp"
#include "model/base/error.hpp"
#include "model/config/folder_config.hpp"

namespace tandem::exec {
namespace {

namespace fs = std::filesystem;

// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection that mixes well
// enough to turn a counter into random bits.
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

struct RandomTensor {
  TensorToWrite tensor;
  float mean = 0.0F;
  float deviation = 0.0F;
};

// Gains relative to 1 / sqrt(inputs). Query and key rows of gain 1.6 give attention scores of
// deviation 2.6, so that attention selects rather than averages and the text does not settle on one
// token; out and down share a residual stream whose variance grows to about 5 over all layers and
// outweighs the current token's embedding, which tied weights would otherwise repeat for ever.
float gain_of(WeightName weight, std::int64_t layers) {
  using enum WeightName;
  // The query also represents key and value if they are one tensor.
  if (weight == query || weight == key) return 1.6F;
  if (weight == out || weight == down) return 3.0F / std::sqrt(static_cast<float>(layers));
  if (weight == embedding || weight == head || weight == positions) return 3.0F;
  return 1.0F;
}

bool is_norm(WeightName weight) {
  return weight == WeightName::attention_norm || weight == WeightName::ffn_norm ||
         weight == WeightName::final_norm || weight == WeightName::query_norm ||
         weight == WeightName::key_norm || weight == WeightName::attention_sum_norm ||
         weight == WeightName::ffn_sum_norm;
}

// Every tensor of the model, once, in the order of the shards' blocks.
std::vector<RandomTensor> random_tensors_of(const model::Transformer& m) {
  const model::Share whole{{0, static_cast<std::int32_t>(m.layers)},
                           {0, static_cast<std::int32_t>(m.heads)},
                           {0, static_cast<std::int32_t>(m.intermediate)},
                           true,
                           true};
  std::vector<RandomTensor> tensors;
  for (const LayoutBlock& block : layout_of(m, whole).blocks) {
    for (const TensorSlice& slice : block.slices) {
      if (!tensors.empty() && tensors.back().tensor.name == slice.tensor) continue;  // fused
      RandomTensor t{{.name = slice.tensor, .shape = slice.shape}, 0.0F, 0.0F};
      if (slice.shape.size() == 1) {
        t.mean = is_norm(slice.weight) && !slice.less_one ? 1.0F : 0.0F;
        t.deviation = 0.1F;
      } else {
        const std::int64_t inputs = slice.shape[slice.transposed ? 0 : 1];
        t.deviation = gain_of(slice.weight, m.layers) / std::sqrt(static_cast<float>(inputs));
      }
      tensors.push_back(std::move(t));
    }
  }
  return tensors;
}

std::uint64_t elements_of(const RandomTensor& t) {
  return tensor_bytes(t.tensor.shape, 1, t.tensor.name);
}

// Consecutive runs of tensors, each within the limit unless one tensor alone exceeds it.
std::vector<std::span<const RandomTensor>> split(std::span<const RandomTensor> tensors,
                                                 std::uint64_t element_bytes, std::uint64_t limit) {
  std::vector<std::span<const RandomTensor>> files;
  std::size_t begin = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t next = elements_of(tensors[i]) * element_bytes;
    if (i > begin && bytes + next > limit) {
      files.push_back(tensors.subspan(begin, i - begin));
      begin = i;
      bytes = 0;
    }
    bytes += next;
  }
  files.push_back(tensors.subspan(begin));
  return files;
}

SafetensorsWriter write_file(const fs::path& folder, std::span<const RandomTensor> tensors,
                             std::uint64_t seed, model::DType dtype) {
  std::vector<TensorToWrite> entries;
  for (const RandomTensor& t : tensors) entries.push_back(t.tensor);
  SafetensorsWriter writer(folder, dtype, entries);
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 16U;  // elements; stays in the cache
  std::vector<float> values(kPiece);
  std::vector<std::byte> stored(kPiece * static_cast<std::size_t>(model::size_of(dtype)));
  for (const RandomTensor& t : tensors) {
    const std::uint64_t elements = elements_of(t);
    for (std::uint64_t first = 0; first < elements; first += kPiece) {
      const auto count = static_cast<std::size_t>(std::min(kPiece, elements - first));
      const auto some = std::span(values).first(count);
      const auto bytes =
          std::span(stored).first(count * static_cast<std::size_t>(model::size_of(dtype)));
      random_values(seed, t.tensor.name, first, t.mean, t.deviation, some);
      from_f32(dtype, some, bytes);
      writer.append(bytes);
    }
  }
  return writer;
}

std::string numbered(std::size_t i, std::size_t count) {
  const auto five = [](std::size_t n) {
    const std::string digits = std::to_string(n);
    return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
  };
  return "model-" + five(i + 1) + "-of-" + five(count) + ".safetensors";
}

}  // namespace

void random_values(std::uint64_t seed, std::string_view name, std::uint64_t first, float mean,
                   float deviation, std::span<float> out) {
  std::uint64_t key = mix(seed + kGolden);
  for (const char c : name) key = mix((key ^ static_cast<unsigned char>(c)) + kGolden);
  // The sum of four uniforms over 0 .. 65535 has mean 131070 and deviation sqrt(65536^2 - 1) /
  // sqrt 3.
  constexpr float kSumDeviation = 37837.227F;
  const float scale = deviation / kSumDeviation;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t bits = mix(key + (first + i) * kGolden);
    const auto sum = static_cast<std::int32_t>((bits & 0xffffU) + ((bits >> 16U) & 0xffffU) +
                                               ((bits >> 32U) & 0xffffU) + (bits >> 48U));
    // Two statements: a fused multiply-add would round once where other machines round twice.
    const float offset = static_cast<float>(sum - 131070) * scale;
    out[i] = mean + offset;
  }
}

void write_random_weights(const model::Transformer& transformer, std::uint64_t seed,
                          model::DType dtype, const fs::path& folder, std::uint64_t file_limit) {
  const std::vector<RandomTensor> tensors = random_tensors_of(transformer);
  const auto element_bytes = static_cast<std::uint64_t>(model::size_of(dtype));
  const auto groups = split(tensors, element_bytes, file_limit);

  AtomicFile config(folder);
  config.write(model::to_folder_config_json(transformer, dtype));
  std::vector<SafetensorsWriter> files;
  nlohmann::ordered_json index;
  std::uint64_t total = 0;
  for (const auto& group : groups) {
    files.push_back(write_file(folder, group, seed, dtype));
    for (const RandomTensor& t : group) {
      index["weight_map"][t.tensor.name] = numbered(files.size() - 1, groups.size());
      total += elements_of(t) * element_bytes;
    }
  }
  index["metadata"] = {{"total_size", total}};
  AtomicFile index_file(folder);
  index_file.write(index.dump(1) + "\n");

  // All bytes are on disk: only renames are left. Weights of an earlier call in the other form
  // would shadow these or be left beside them.
  const std::string single = "model.safetensors";
  const std::string index_name = "model.safetensors.index.json";
  std::error_code none;
  fs::remove(folder / (groups.size() == 1 ? index_name : single), none);
  for (std::size_t i = 0; i < files.size(); ++i) {
    files[i].commit(files.size() == 1 ? single : numbered(i, files.size()));
  }
  if (files.size() > 1) index_file.commit(index_name);
  config.commit("config.json");
}

}  // namespace tandem::exec
