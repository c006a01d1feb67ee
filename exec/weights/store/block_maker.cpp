#include "exec/weights/store/block_maker.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "exec/weights/files/read_file.hpp"
#include "exec/weights/model_folder.hpp"
#include "exec/weights/source/slicing.hpp"
#include "model/base/digest.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNameCharacters = 64;
constexpr std::uint64_t kReportedBytes = std::uint64_t{16} << 20U;

bool is_name(const std::string& text) {
  return text.size() == kNameCharacters && std::ranges::all_of(text, [](char c) {
           return ('0' <= c && c <= '9') || ('a' <= c && c <= 'f');
         });
}

bool block_is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

std::string text_of(model::Range range) {
  return std::to_string(range.begin) + "-" + std::to_string(range.end) + " ";
}

// Returns an entry of the index: the block made from the weights of `key`. It carries its own
// digest, as the block's bytes do not show which weights they belong to: blocks of two layers have
// equal forms.
std::string entry_of(const std::string& key, const std::string& name) {
  return name + "\n" + model::sha256_hex(key + "\n" + name) + "\n";
}

// Returns the name in an index entry; nothing, with the reason in `fault`, if it has none.
std::optional<std::string> name_in(const fs::path& entry, std::string& fault) {
  try {
    constexpr std::size_t kCharacters = 2 * (kNameCharacters + 1);
    const std::string text = read_text(entry, kCharacters);
    const std::string name = text.substr(0, kNameCharacters);
    if (is_name(name) && text == entry_of(entry.filename().string(), name)) return name;
    fault = is_name(name) ? "is an entry of other weights" : "holds no digest";
  } catch (const Error& error) {
    fault = error.what();
  }
  return std::nullopt;
}

}  // namespace

BlockMaker::BlockMaker(const fs::path& weights, const model::Transformer& transformer,
                       BlockStore& store)
    : transformer_(transformer), source_(open_weights(weights, transformer)), store_(&store) {}

// Returns what the bytes of a block depend on, without reading the weights: the files' fingerprint,
// the model, and the slices of tensors that the block is made of.
std::string BlockMaker::key_of(const LayoutBlock& block) const {
  model::Transformer unnamed = transformer_;
  unnamed.name = "model";
  std::string text = "tandem-block 3\n" + model::to_config_json(unnamed) + "\n" +
                     std::to_string(block.bytes) + "\n";
  for (const TensorSlice& slice : block.slices) {
    text += slice.tensor + " " + std::to_string(slice.offset) + " " + text_of(slice.rows) +
            text_of(slice.columns) + std::string(model::to_string(slice.format)) +
            (slice.transposed ? " transposed\n" : "\n");
  }
  return model::sha256_hex(text + source_->fingerprint());
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
  if (!block_is_there(entry)) return std::nullopt;
  std::string fault;
  const std::optional<std::string> name = name_in(entry, fault);
  if (!name) return damaged(entry, fault);
  const fs::path path = store_->folder() / "blocks" / *name;
  if (!block_is_there(path)) return std::nullopt;
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
  // The record belongs to the weights as they were when this maker was constructed.
  source_->check_unchanged();
  if (auto found = find(index / key, pieces, options)) return std::move(*found);

  BlockWriter writer(*store_, pieces);
  std::uint64_t reported = 0;
  stream_block(*source_, block, [&](std::span<const std::byte> portion) {
    writer.append(portion);
    if (writer.written() - reported < kReportedBytes && writer.written() < pieces.bytes) return;
    reported = writer.written();
    if (options.slicing) options.slicing(reported, pieces.bytes);
  });
  BlockLabel label(pieces, writer.digests());
  // Weights that changed while they were read must not be remembered under their old fingerprint.
  source_->check_unchanged();
  BlockFile file = writer.commit(label);
  AtomicFile entry(index);
  entry.write(entry_of(key, label.id()));
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
