#include "exec/gguf/conversion/model_conversion.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <set>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "exec/gguf/conversion/folder_files.hpp"
#include "exec/gguf/conversion/gguf_metadata.hpp"
#include "exec/gguf/conversion/gguf_writer.hpp"
#include "exec/gguf/gguf_geometry.hpp"
#include "exec/gguf/gguf_weights.hpp"
#include "exec/kernels/thread_pool.hpp"
#include "exec/tokenizer/gguf_tokenizer.hpp"
#include "exec/weights/formats/block_codec.hpp"
#include "exec/weights/model_folder.hpp"
#include "exec/weights/source/layout.hpp"
#include "exec/weights/source/safetensors.hpp"
#include "exec/weights/source/slicing.hpp"
#include "model/base/error.hpp"
#include "model/config/folder_config.hpp"

namespace tandem::exec {
namespace {

namespace fs = std::filesystem;
using model::Range;
using model::WeightFormat;

// A tensor to be written: one weight, or several fused ones.
struct Target {
  std::int32_t layer = -1;
  std::vector<TensorSlice> slices{};  // in the layout's order
  WeightFormat format = WeightFormat::f32;
  bool is_matrix = false;  // of those that have formats

  [[nodiscard]] std::int64_t rows() const {
    std::int64_t count = 0;
    for (const TensorSlice& slice : slices) count += slice.rows.size();
    return count;
  }
  [[nodiscard]] std::int64_t columns() const { return slices.front().columns.size(); }
  [[nodiscard]] bool is_vector() const { return slices.front().shape.size() == 1; }
  // In GGUF's order: [out, in].
  [[nodiscard]] std::vector<std::int64_t> shape() const {
    if (!is_vector()) return {rows(), columns()};
    std::int64_t size = 0;
    for (const TensorSlice& slice : slices) size += slice.columns.size();
    return {size};
  }
};

// The model's rows of whole heads, in the order in which GGUF has them.
std::vector<std::byte> paired(std::span<const std::byte> rows, std::size_t row_bytes,
                              std::int64_t of_head) {
  std::vector<std::byte> out(rows.size());
  const auto head = static_cast<std::size_t>(of_head);
  for (std::size_t row = 0; row < rows.size() / row_bytes; ++row) {
    const std::size_t within = row % head;
    const std::size_t from = row - within + within / 2 + within % 2 * (head / 2);
    std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(from * row_bytes), row_bytes,
                out.begin() + static_cast<std::ptrdiff_t>(row * row_bytes));
  }
  return out;
}

model::DType dtype_of(WeightFormat format) {
  if (format == WeightFormat::f16) return model::DType::f16;
  return format == WeightFormat::bf16 ? model::DType::bf16 : model::DType::f32;
}

bool fits_a_folder(WeightFormat format) { return model::block_of(format).elements == 1; }

Vocabulary read_vocabulary(const fs::path& weights) {
  return is_gguf(weights) ? gguf_vocabulary(GgufFile(weights)) : folder_vocabulary(weights);
}

std::vector<Target> targets_of(const model::Transformer& transformer) {
  model::Transformer plain = transformer;
  plain.formats = model::WeightFormats();
  const model::Share all{{0, static_cast<std::int32_t>(plain.layers)},
                         {0, static_cast<std::int32_t>(plain.heads)},
                         {0, static_cast<std::int32_t>(plain.intermediate)},
                         true,
                         true};
  std::vector<Target> targets;
  for (const LayoutBlock& block : layout_of(plain, all).blocks) {
    for (const TensorSlice& slice : block.slices) {
      const bool fused = !targets.empty() && targets.back().slices.front().tensor == slice.tensor;
      if (!fused) targets.push_back({.layer = block.layer});
      targets.back().slices.push_back(slice);
      targets.back().is_matrix = weight_matrix(slice.weight).has_value();
    }
  }
  return targets;
}

int cores_here() {
  constexpr unsigned kMost = 1024;  // of a ThreadPool
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kMost));
}

std::string format_name_of(WeightFormat format) { return std::string(model::to_string(format)); }

class Converter {
 public:
  explicit Converter(const Conversion& conversion)
      : conversion_(conversion),
        transformer_(read_geometry(conversion.weights)),
        source_(open_weights(conversion.weights, transformer_)),
        targets_(targets_of(transformer_)),
        pool_(conversion.threads > 0 ? conversion.threads : cores_here(),
              std::chrono::nanoseconds(0)),
        values_(static_cast<std::size_t>(pool_.threads())) {
    chat_template_ = is_gguf(conversion.weights)
                         ? GgufFile(conversion.weights).text("tokenizer.chat_template").value_or("")
                         : folder_chat_template(conversion.weights);
    vocabulary_ = read_vocabulary(conversion.weights);
    // Rejects a bad tokenizer before anything is written.
    static_cast<void>(make_tokenizer(read_vocabulary(conversion.weights), transformer_));
  }

  std::string convert() {
    if (conversion_.out.filename().string().ends_with(".gguf")) {
      write_gguf();
    } else {
      write_folder();
    }
    return remark();
  }

 private:
  [[nodiscard]] WeightFormat stored_format(const Target& target) const {
    const StoredPlace stored = source_->place_of(target.slices.front(), target.layer);
    source_->need_readable(stored);
    return *source_->format_of(stored.tensor);
  }

  [[nodiscard]] std::optional<WeightFormat> wanted_format(const Target& target) const {
    const auto matrix = weight_matrix(target.slices.front().weight);
    if (!conversion_.formats || !matrix) return std::nullopt;
    return conversion_.formats->of(*matrix, target.layer);
  }

  void note(WeightFormat from, WeightFormat to) {
    if (from == to || to == WeightFormat::f32) return;
    changed_.insert(format_name_of(from) + " to " + format_name_of(to));
  }

  // A folder's numbers are the model's less 1.
  [[nodiscard]] bool writes_less_one(const TensorSlice& slice) const {
    return slice.less_one && to_folder_;
  }

  // Returns rows of a slice of the target in its format, in the order of the written file. Called
  // by several threads at once; `values` is the caller's scratch memory.
  [[nodiscard]] std::vector<std::byte> rows_of(const Target& target, const TensorSlice& slice,
                                               Range rows, std::vector<float>& values) const {
    TensorSlice wanted = slice;
    wanted.format = target.format;
    std::vector<std::byte> bytes(static_cast<std::size_t>(rows.size()) * wanted.row_bytes());
    if (writes_less_one(slice)) {
      std::vector<float> less(static_cast<std::size_t>(rows.size()) *
                              static_cast<std::size_t>(slice.columns.size()));
      read_slice_rows(*source_, slice, target.layer, rows, values,
                      std::as_writable_bytes(std::span(less)));
      for (float& value : less) value -= 1.0F;
      encode(target.format, less, bytes);
    } else {
      read_slice_rows(*source_, wanted, target.layer, rows, values, bytes);
    }
    const std::int64_t head = head_in_pairs(slice);
    return head == 0 ? bytes : paired(bytes, wanted.row_bytes(), head);
  }

  // Rows of a head, if the file that is written has them in pairs; else 0.
  [[nodiscard]] std::int64_t head_in_pairs(const TensorSlice& slice) const {
    return !to_folder_ && in_pairs(transformer_, slice.weight) ? transformer_.head_dim : 0;
  }

  // Consecutive rows of `slice` that are converted at once, in whole heads where these are paired.
  [[nodiscard]] std::vector<Range> pieces_of(const TensorSlice& slice) const {
    constexpr std::int64_t kPieceElements = std::int64_t{1} << 18U;
    const std::int64_t whole = std::max<std::int64_t>(head_in_pairs(slice), 1);
    const std::int64_t width = std::max<std::int64_t>(slice.columns.size(), 1);
    const std::int64_t step = std::max<std::int64_t>(1, kPieceElements / width / whole) * whole;
    const auto count = static_cast<std::int32_t>(std::min<std::int64_t>(step, slice.rows.size()));
    std::vector<Range> pieces;
    for (std::int32_t row = slice.rows.begin; row < slice.rows.end; row += count)
      pieces.push_back({row, std::min(row + count, slice.rows.end)});
    return pieces;
  }

  // Converts `target`, its pieces on all threads, and appends them to `writer` in their order. The
  // bytes, and the error if there are several, are those of one thread.
  template <class Writer>
  void write_rows(const Target& target, Writer& writer) {
    struct Piece {
      const TensorSlice* slice = nullptr;
      Range rows;
      std::vector<std::byte> bytes{};
      std::exception_ptr failure{};
    };
    constexpr std::size_t kPiecesOfThread = 4;  // so that threads end about together
    std::vector<Piece> pieces;
    for (const TensorSlice& slice : target.slices)
      for (const Range rows : pieces_of(slice)) pieces.push_back({&slice, rows});
    const std::size_t at_once = kPiecesOfThread * static_cast<std::size_t>(pool_.threads());
    for (std::size_t first = 0; first < pieces.size(); first += at_once) {
      const auto some = std::span(pieces).subspan(first, std::min(at_once, pieces.size() - first));
      pool_.parallel_for(
          static_cast<std::int64_t>(some.size()), 1,
          [&](std::int64_t begin, std::int64_t end, int thread) {
            for (Piece& piece : some.subspan(static_cast<std::size_t>(begin),
                                             static_cast<std::size_t>(end - begin))) {
              try {
                piece.bytes = rows_of(target, *piece.slice, piece.rows,
                                      values_[static_cast<std::size_t>(thread)]);
              } catch (...) {
                piece.failure = std::current_exception();
              }
            }
          });
      for (Piece& piece : some) {
        if (piece.failure) std::rethrow_exception(piece.failure);
        writer.append(std::exchange(piece.bytes, {}));
      }
    }
  }

  void tell(std::size_t done) {
    if (conversion_.progress) conversion_.progress(done, targets_.size());
  }

  // Returns the factors of the rotation that GGUF stores as tensors.
  [[nodiscard]] std::vector<std::pair<std::string_view, std::vector<float>>> factor_tensors()
      const {
    if (!transformer_.rope_scaling) return {};
    const model::RopeScaling& scaling = *transformer_.rope_scaling;
    if (scaling.kind == model::RopeScaling::Kind::longrope)
      return {{kLongFactorsTensor, scaling.long_factors},
              {kShortFactorsTensor, scaling.short_factors}};
    if (scaling.kind != model::RopeScaling::Kind::llama3) return {};
    return {{kRopeFactorsTensor, rope_factors(transformer_)}};
  }

  // Copies the vocabulary of a GGUF file with its name, by which some tokenizers are recognised.
  void add_vocabulary(GgufEntries& entries) {
    VocabularyEntries words;
    if (is_gguf(conversion_.weights)) {
      const GgufFile file(conversion_.weights);
      words.entries = carried_vocabulary(file);
      words.name = file.text("general.name").value_or("");
    } else {
      words = vocabulary_entries(vocabulary_, transformer_, chat_template_);
    }
    lost_ = words.lost;
    std::erase_if(entries, [&](auto& entry) {
      if (entry.first == "general.name") entry.second = words.name;
      return entry.first == "general.name" && words.name.empty();
    });
    for (auto& entry : words.entries) entries.push_back(std::move(entry));
  }

  void write_gguf() {
    if (is_gguf_part(conversion_.out))
      throw Error(conversion_.out.string() +
                  ": is named as a part of a split model, expected another name for a whole one");
    std::vector<GgufTensorToWrite> tensors;
    std::set<WeightFormat> used;
    for (Target& target : targets_) {
      if (target.is_matrix) {
        const WeightFormat stored = stored_format(target);
        target.format = wanted_format(target).value_or(stored);
        note(stored, target.format);
        used.insert(target.format);
      }
      const std::string name =
          gguf_tensor(transformer_, target.slices.front().weight, target.layer);
      const std::int64_t block = model::block_of(target.format).elements;
      if (target.shape().back() % block != 0)
        throw Error(conversion_.weights.string() + ": " + name + ": rows of " +
                    std::to_string(target.shape().back()) + ", expected multiples of " +
                    std::to_string(block) + " in " + format_name_of(target.format) +
                    "; give another --dtype");
      tensors.push_back({.name = name, .shape = target.shape(), .format = target.format});
    }
    const auto factors = factor_tensors();
    for (const auto& [name, values] : factors)
      tensors.push_back(
          {.name = std::string(name), .shape = {static_cast<std::int64_t>(values.size())}});
    GgufEntries entries = geometry_entries(
        transformer_, used.size() == 1 ? std::optional(*used.begin()) : std::nullopt);
    add_vocabulary(entries);

    const fs::path parent = conversion_.out.has_parent_path() ? conversion_.out.parent_path() : ".";
    GgufWriter writer(parent, entries, std::move(tensors));
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      write_rows(targets_[i], writer);
      tell(i + 1);
    }
    for (const auto& [name, values] : factors) writer.append(std::as_bytes(std::span(values)));
    source_->check_unchanged();
    writer.commit(conversion_.out.filename().string());
  }

  // Returns all of a target as f32, [out, in], with the slices' rows in order.
  std::vector<float> values_of(const Target& target) {
    std::vector<float> all;
    for (const TensorSlice& slice : target.slices) {
      const std::size_t before = all.size();
      all.resize(before + slice.elements());
      std::vector<float> unused;
      const auto values = std::span(all).subspan(before);
      read_slice_rows(*source_, slice, target.layer, slice.rows, unused,
                      std::as_writable_bytes(values));
      if (!writes_less_one(slice)) continue;
      for (float& value : values) value -= 1.0F;
    }
    return all;
  }

  static bool says_exactly(WeightFormat format, std::span<const float> values) {
    std::vector<std::byte> stored(static_cast<std::size_t>(
        model::row_bytes(format, static_cast<std::int64_t>(values.size()))));
    std::vector<float> back(values.size());
    encode(format, values, stored);
    decode(format, stored, back);
    return std::ranges::equal(values, back);
  }

  // Formats of a folder's tensors. Norms and the like follow the matrices where they can.
  void choose_for_folder() {
    std::set<WeightFormat> used;
    for (Target& target : targets_) {
      if (!target.is_matrix) continue;
      const WeightFormat stored = stored_format(target);
      target.format =
          wanted_format(target).value_or(fits_a_folder(stored) ? stored : WeightFormat::f32);
      note(stored, target.format);
      used.insert(target.format);
    }
    if (used.size() != 1 || *used.begin() == WeightFormat::f32) return;
    for (Target& target : targets_) {
      if (!target.is_matrix && says_exactly(*used.begin(), values_of(target)))
        target.format = *used.begin();
    }
  }

  // Returns the type of all matrices; nothing if they have several.
  [[nodiscard]] std::optional<model::DType> dtype_of_all() const {
    std::set<WeightFormat> used;
    for (const Target& target : targets_)
      if (target.is_matrix) used.insert(target.format);
    return used.size() == 1 ? std::optional(dtype_of(*used.begin())) : std::nullopt;
  }

  void write_folder() {
    to_folder_ = true;
    for (const Target& target : targets_) {
      const auto format = wanted_format(target);
      if (format && !fits_a_folder(*format))
        throw Error("flag '--dtype': " + conversion_.formats->text() +
                    ", expected f32, f16 or bf16 in a folder; give a file that ends in .gguf");
    }
    choose_for_folder();
    std::vector<TensorToWrite> tensors;
    for (const Target& target : targets_)
      tensors.push_back({.name = target.slices.front().tensor,
                         .shape = target.slices.front().shape,
                         .dtype = dtype_of(target.format)});
    const fs::path& folder = conversion_.out;
    SafetensorsWriter writer(folder, model::DType::f32, tensors);
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      write_target(targets_[i], writer);
      tell(i + 1);
    }
    source_->check_unchanged();
    AtomicFile config(folder);
    config.write(model::to_folder_config_json(transformer_, dtype_of_all()));
    const auto small = tokenizer_files(vocabulary_, chat_template_);
    // Files of another model would be mistaken for this one's.
    for (const char* const name :
         {"model.safetensors.index.json", "generation_config.json", "tokenizer.model",
          "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
          "vocab.txt", "vocab.json", "merges.txt", "chat_template.jinja"}) {
      std::error_code none;
      fs::remove(folder / name, none);
    }
    for (const auto& [name, text] : small) {
      AtomicFile file(folder);
      file.write(text);
      file.commit(name);
    }
    writer.commit("model.safetensors");
    config.commit("config.json");
  }

  void write_target(const Target& target, SafetensorsWriter& writer) {
    const TensorSlice& first = target.slices.front();
    if (!first.transposed) return write_rows(target, writer);
    const std::vector<float> values = values_of(target);
    const auto rows = static_cast<std::size_t>(target.rows());
    const auto columns = static_cast<std::size_t>(target.columns());
    std::vector<float> line(rows);
    std::vector<std::byte> stored(
        rows * static_cast<std::size_t>(model::size_of(dtype_of(target.format))));
    for (std::size_t column = 0; column < columns; ++column) {
      for (std::size_t row = 0; row < rows; ++row) line[row] = values[row * columns + column];
      encode(target.format, line, stored);
      writer.append(stored);
    }
  }

  [[nodiscard]] std::string remark() const {
    std::string text;
    for (const std::string& change : changed_) text += (text.empty() ? "" : ", ") + change;
    if (!text.empty()) text = "weights are rounded, which changes results: " + text;
    return text + (text.empty() || lost_.empty() ? "" : "; ") + lost_;
  }

  const Conversion& conversion_;
  model::Transformer transformer_;
  std::unique_ptr<const WeightSource> source_;
  std::vector<Target> targets_;
  Vocabulary vocabulary_;
  std::string chat_template_;
  bool to_folder_ = false;
  ThreadPool pool_;
  std::vector<std::vector<float>> values_;  // of each thread, for what it reads
  std::set<std::string> changed_;
  std::string lost_;  // of the tokenizer
};

}  // namespace

std::string convert_model(const Conversion& conversion) { return Converter(conversion).convert(); }

}  // namespace tandem::exec
