#include "exec/weights/block_maker.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "exec/weights/model_folder.hpp"
#include "exec/weights/read_file.hpp"
#include "exec/weights/slicing.hpp"
#include "model/digest.hpp"
#include "model/error.hpp"

namespace tandem::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNameCharacters = 64;
constexpr std::uint64_t kTellBytes = std::uint64_t{16} << 20U;

bool is_name(const std::string& text) {
  return text.size() == kNameCharacters && std::ranges::all_of(text, [](char c) {
           return ('0' <= c && c <= '9') || ('a' <= c && c <= 'f');
         });
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

std::string text_of(model::Range range) {
  return std::to_string(range.begin) + "-" + std::to_string(range.end) + " ";
}

// The name that an index entry holds; nothing, and `fault` says why, if it holds none.
std::optional<std::string> name_in(const fs::path& entry, std::string& fault) {
  try {
    std::string name = read_text(entry, kNameCharacters);
    if (is_name(name)) return name;
    fault = "holds no digest";
  } catch (const Error& error) {
    fault = error.what();
  }
  return std::nullopt;
}

}  // namespace

BlockMaker::BlockMaker(const fs::path& weights, const model::Transformer& transformer,
                       BlockStore& store)
    : weights_(weights),
      transformer_(transformer),
      folder_(open_weights(weights, transformer)),
      store_(&store) {}

// What the bytes of a block depend on, without reading the weights: the files' names, sizes and
// times of change, what the model is, and which slices of which tensors the block is made of.
std::string BlockMaker::key_of(const LayoutBlock& block) const {
  model::Transformer unnamed = transformer_;
  unnamed.name = "model";
  std::string text = "tandem-block 1\n" + model::to_config_json(unnamed) + "\n" +
                     std::to_string(block.bytes) + "\n";
  for (const TensorSlice& slice : block.slices) {
    text += slice.tensor + " " + std::to_string(slice.offset) + " " + text_of(slice.rows) +
            text_of(slice.columns) + (slice.transposed ? "transposed\n" : "\n");
  }
  std::vector<fs::path> files = folder_.files();
  const fs::path index = weights_ / "model.safetensors.index.json";
  std::error_code ignored;
  if (fs::exists(index, ignored)) files.push_back(index);
  for (const fs::path& file : files) {
    std::error_code error;
    const fs::path real = fs::canonical(file, error);
    const auto changed = fs::last_write_time(file, error);
    const auto size = fs::file_size(file, error);
    if (error) {
      throw Error(file.string() + ": " + error.message() + "; check the path and its permissions");
    }
    text += real.string() + "\n" + std::to_string(size) + "\n" +
            std::to_string(changed.time_since_epoch().count()) + "\n";
  }
  return model::sha256_hex(text);
}

// The block of an earlier call that `entry` remembers, if it is sound.
std::optional<MadeBlock> BlockMaker::find(const fs::path& entry, const BlockPieces& pieces,
                                          const BlockMakerOptions& options) const {
  const auto damaged = [&](const fs::path& path, const std::string& fault) {
    if (options.on_damage) {
      options.on_damage("cache: " + path.string() + " was damaged (" + fault +
                        "), making it again");
    }
    return std::nullopt;
  };
  if (!is_there(entry)) return std::nullopt;
  std::string fault;
  const std::optional<std::string> name = name_in(entry, fault);
  if (!name) return damaged(entry, fault);
  const fs::path path = store_->folder() / "blocks" / *name;
  if (!is_there(path)) return std::nullopt;
  const fs::path its_label = store_->folder() / "labels" / *name;
  const auto label = store_->label_of(*name);
  if (!label) return damaged(its_label, "is not the label that its name says");
  if (label->pieces() != pieces) return damaged(entry, "names a block of another share");
  auto file = store_->find(*label);
  if (!file) return damaged(path, "not a file of " + std::to_string(pieces.bytes) + " bytes");
  if (options.verify && !store_->check(*file, *label, options.verifying)) {
    return damaged(path, "its bytes have another SHA-256 than its label says");
  }
  return MadeBlock{*label, std::move(*file)};
}

MadeBlock BlockMaker::make(const LayoutBlock& block, const BlockMakerOptions& options) const {
  const BlockPieces pieces = pieces_of(transformer_, block);
  const std::string key = key_of(block);
  const fs::path index = store_->folder() / "index";
  if (auto found = find(index / key, pieces, options)) return std::move(*found);

  BlockWriter writer(*store_, pieces);
  std::uint64_t told = 0;
  stream_block(folder_, block, [&](std::span<const std::byte> portion) {
    writer.append(portion);
    if (writer.written() - told < kTellBytes && writer.written() < pieces.bytes) return;
    told = writer.written();
    if (options.slicing) options.slicing(told, pieces.bytes);
  });
  BlockLabel label(pieces, writer.digests());
  // Weights that changed while they were read must not be remembered under their old fingerprint.
  if (key_of(block) != key) {
    throw Error(weights_.string() + ": the weights changed while they were read; start again");
  }
  BlockFile file = writer.commit(label);
  AtomicFile entry(index);
  entry.write(label.id());
  std::error_code ignored;
  if (fs::is_directory(index / key, ignored)) fs::remove_all(index / key, ignored);
  entry.commit(key);
  return {std::move(label), std::move(file)};
}

std::vector<MadeBlock> make_blocks(const BlockMaker& maker, const ShardLayout& layout,
                                   const BlockMakerOptions& options) {
  std::vector<MadeBlock> made;
  std::uint64_t before = 0;
  const auto of_all = [&](const WeightProgress& progress) -> WeightProgress {
    if (!progress) return {};
    return [&progress, &before, &layout](std::uint64_t done, std::uint64_t /*total*/) {
      progress(before + done, layout.bytes);
    };
  };
  BlockMakerOptions inner = options;
  inner.slicing = of_all(options.slicing);
  inner.verifying = of_all(options.verifying);
  for (const LayoutBlock& block : layout.blocks) {
    made.push_back(maker.make(block, inner));
    before = block.offset + made.back().file.bytes;
  }
  return made;
}

}  // namespace tandem::exec
