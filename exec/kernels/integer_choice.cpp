#include "exec/kernels/integer_choice.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "exec/kernels/kernels_here.hpp"
#include "exec/weights/files/aligned_buffer.hpp"
#include "exec/weights/files/atomic_file.hpp"
#include "exec/weights/files/read_file.hpp"
#include "exec/weights/formats/block_codec.hpp"
#include "model/base/digest.hpp"
#include "model/base/error.hpp"
#include "model/base/json_value.hpp"

namespace tandem::exec {
namespace {

constexpr std::string_view kChoiceSchema = "tandem.kernels/1";

// Both sizes, whose weights a second-level cache holds. Of many tokens as many outputs that what is
// made of inputs once a product counts for as little as it does in a layer.
struct Size {
  std::int64_t tokens = 1;
  std::int64_t outputs = 256;
};
constexpr std::int64_t kDepth = 1024;
constexpr Size size_of(TokenCount count) {
  return count == TokenCount::few ? Size{1, 256} : Size{64, 256};
}

std::string_view name_of(TokenCount count) { return count == TokenCount::few ? "few" : "many"; }

// Every format and size there is a choice for, without times.
std::vector<KernelTimes> all_products() {
  std::vector<KernelTimes> products;
  for (const model::WeightFormat format : model::kWeightFormats) {
    if (!model::multiplies_integers(format)) continue;
    for (const TokenCount tokens : kTokenCounts)
      products.push_back({.format = format, .tokens = tokens});
  }
  return products;
}

// A product and its memory.
class Trial {
 public:
  Trial(model::WeightFormat format, TokenCount count)
      : format_(format),
        size_(size_of(count)),
        row_bytes_(model::row_bytes(format, kDepth)),
        x_(static_cast<std::size_t>(kDepth)),
        y_(static_cast<std::size_t>(size_.tokens * size_.outputs)),
        w_(static_cast<std::size_t>(size_.outputs * row_bytes_)),
        in_(static_cast<std::size_t>(IntegerInputs::bytes(size_.tokens, kBlocks))) {
    for (std::size_t i = 0; i < x_.size(); ++i)
      x_[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 64.0F;
    // One row for all, as making them takes longer than multiplying.
    const std::span<std::byte> first(w_.data(), static_cast<std::size_t>(row_bytes_));
    encode(format, x_, first);
    for (std::int64_t o = 1; o < size_.outputs; ++o)
      std::ranges::copy(first, w_.data() + o * row_bytes_);
  }

  void run(const IntegerKernels& kernels) {
    const IntegerInputs in = IntegerInputs::at(in_.data(), size_.tokens, kBlocks);
    for (std::int64_t t = 0; t < size_.tokens; ++t)
      kernels.quantise(x_.data(), kBlocks, in.token(t));
    const WeightProduct p{.w = w_.data(),
                          .w_stride = row_bytes_,
                          .format = format_,
                          .y = y_.data(),
                          .y_stride = size_.outputs,
                          .tokens = size_.tokens,
                          .outputs = size_.outputs,
                          .depth = kDepth};
    kernels.multiply({p, in, kBlocks});
  }

 private:
  static constexpr std::int64_t kBlocks = kDepth / kInputBlock;
  model::WeightFormat format_;
  Size size_;
  std::int64_t row_bytes_;
  std::vector<float> x_;
  std::vector<float> y_;
  AlignedBuffer w_;
  AlignedBuffer in_;
};

// What times are of, in words: those of other words are others.
std::string key_of(std::span<const IntegerKernels> kernels, const std::string& processor) {
  std::string key = processor + ", generation " + std::to_string(kKernelGeneration);
  for (const IntegerKernels& one : kernels) key += ", " + std::string(one.name);
  return key;
}

std::string to_json(const std::vector<KernelTimes>& times, const std::string& key) {
  nlohmann::ordered_json json{{"schema", kChoiceSchema}, {"key", key}};
  for (const KernelTimes& of : times)
    json["times_ns"][std::string(to_string(of.format))][std::string(name_of(of.tokens))] = of.ns;
  return model::to_text(json);
}

// Throws Error unless `text` has the times of `kernels` and that key.
std::vector<KernelTimes> parse_times(const std::string& text, const std::string& source,
                                     std::size_t kernels, const std::string& key) {
  constexpr double kMostNs = 1e12;
  const model::JsonDocument document(text, source, "remove it");
  const model::JsonValue root = document.root();
  expect_schema(root, kChoiceSchema);
  root.expect_keys({"schema", "key", "times_ns"});
  if (root.at("key").text() != key) root.at("key").fail("\"" + key + "\"");
  std::vector<KernelTimes> times = all_products();
  for (KernelTimes& of : times) {
    const model::JsonValue list =
        root.at("times_ns").at(to_string(of.format)).at(name_of(of.tokens));
    if (list.size(kernels) != kernels) list.fail("a time of each kernel");
    for (std::size_t i = 0; i < kernels; ++i) of.ns.push_back(list.at(i).number(0.0, kMostNs));
  }
  return times;
}

double time_on_the_wall(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  work();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

// What was chosen, by format and count; none: there was no choice.
struct Choice {
  std::vector<IntegerKernels> kernels{};
  std::array<std::array<std::uint8_t, kTokenCounts.size()>, model::kWeightFormats.size()> index{};
  std::string text{};
};

Choice& choice() {
  static Choice chosen;
  return chosen;
}

}  // namespace

std::size_t fastest(std::span<const double> ns) {
  constexpr double kGain = 0.05;
  const auto is_time = [](double one) { return one > 0.0 && std::isfinite(one); };
  if (ns.empty() || !std::ranges::all_of(ns, is_time)) return 0;
  const auto least = std::ranges::min_element(ns);
  return *least < (1.0 - kGain) * ns.front() ? static_cast<std::size_t>(least - ns.begin()) : 0;
}

std::vector<KernelTimes> measure_kernels(std::span<const IntegerKernels> kernels,
                                         const Stopwatch& stopwatch) {
  constexpr double kSlowNs = 20e6;   // after so long one round has to do
  constexpr double kHopeless = 1.5;  // times the least, after which one round has to do, too
  double all_ns = 0.0;
  std::vector<KernelTimes> times = all_products();
  for (KernelTimes& of : times) {
    Trial trial(of.format, of.tokens);
    of.ns.assign(kernels.size(), 0.0);
    const int rounds = of.tokens == TokenCount::few ? 8 : 4;
    // Another round before them wakes caches and vector units.
    for (int round = 0; round <= rounds; ++round) {
      if (round > 1 && all_ns > kSlowNs) break;
      const double least = round > 1 ? std::ranges::min(of.ns) : 0.0;
      for (std::size_t i = 0; i < kernels.size(); ++i) {
        if (round > 1 && of.ns[i] > kHopeless * least) continue;
        const double ns = stopwatch([&] { trial.run(kernels[i]); });
        all_ns += ns;
        of.ns[i] = round <= 1 ? ns : std::min(of.ns[i], ns);
      }
    }
  }
  return times;
}

std::vector<KernelTimes> kept_times(std::span<const IntegerKernels> kernels,
                                    const std::string& processor,
                                    const std::filesystem::path& folder,
                                    const Stopwatch& stopwatch) {
  if (processor.empty() || folder.empty()) return measure_kernels(kernels, stopwatch);
  constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 10U;
  constexpr std::size_t kNameLength = 32;
  const std::string key = key_of(kernels, processor);
  const std::filesystem::path file = model::sha256_hex(key).substr(0, kNameLength) + ".json";
  const std::filesystem::path path = folder / "kernels" / file;
  try {
    return parse_times(read_text(path, kMostBytes), path.string(), kernels.size(), key);
  } catch (const Error&) {  // not there, or of no use
  }
  std::vector<KernelTimes> times = measure_kernels(kernels, stopwatch);
  try {
    AtomicFile kept(folder / "kernels");
    kept.write(to_json(times, key));
    kept.commit(file);
  } catch (const Error&) {  // a folder that is not ours: the next process measures again
  }
  return times;
}

void choose_integer_kernels(const std::filesystem::path& folder) {
  static std::once_flag once;
  std::call_once(once, [&] {
    const std::span<const IntegerKernels> kernels =
        integer_kernels().first(integer_kernels().size() - 1);  // without plain code
    if (kernels.size() < 2) return;
    const std::vector<KernelTimes> times =
        kept_times(kernels, processor_here(), folder, time_on_the_wall);
    Choice& chosen = choice();
    for (const KernelTimes& of : times) {
      chosen.index.at(static_cast<std::size_t>(of.format)).at(static_cast<std::size_t>(of.tokens)) =
          static_cast<std::uint8_t>(fastest(of.ns));
    }
    chosen.text = choice_text(times, kernels);
    chosen.kernels.assign(kernels.begin(), kernels.end());
  });
}

const IntegerKernels& chosen_kernels(model::WeightFormat format, std::int64_t tokens) {
  const Choice& chosen = choice();
  if (chosen.kernels.empty()) return integer_kernels().front();
  return chosen.kernels[chosen.index[static_cast<std::size_t>(format)]
                                    [static_cast<std::size_t>(token_count(tokens))]];
}

std::string kernel_choice() { return choice().text; }

std::string choice_text(std::span<const KernelTimes> times,
                        std::span<const IntegerKernels> kernels) {
  std::string text;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    std::string products;
    std::size_t count = 0;
    for (const KernelTimes& of : times) {
      if (fastest(of.ns) != i) continue;
      products += (count++ == 0 ? " for " : ", ") + std::string(to_string(of.format)) + " of " +
                  std::string(name_of(of.tokens)) + " tokens";
    }
    if (count == 0) continue;
    if (i == 0 || count == times.size()) products.clear();  // where nothing else is said
    text += (text.empty() ? "" : "; ") + std::string(kernels[i].name) + products;
  }
  return text;
}

}  // namespace tandem::exec
