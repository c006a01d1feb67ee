#include "exec/weights/shard_format.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "model/error.hpp"

namespace tandem::exec {
namespace {

// Eight bytes a line of the file's first 24: magic, magic, version and length of the JSON.
constexpr std::string_view kMagic("tandem-shard\0\0\0\0", 16);
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kPrefixBytes = 24;

nlohmann::ordered_json to_json(model::Range range) { return {range.begin, range.end}; }

std::string_view text_at(std::span<const std::byte> bytes, std::size_t at, std::size_t size) {
  const auto part = bytes.subspan(std::min(at, bytes.size()));
  return {reinterpret_cast<const char*>(part.data()), std::min(size, part.size())};
}

std::string printable(std::string_view text) {
  std::string out(text);
  std::ranges::replace_if(
      out, [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  return out;
}

std::string stored_name(const SafetensorsFolder& weights, const std::string& tensor) {
  if (weights.contains(tensor)) return tensor;
  for (const std::string& other : other_names(tensor)) {
    if (weights.contains(other)) return other;
  }
  return tensor;  // reading it says what is missing
}

}  // namespace

std::vector<std::byte> shard_header(const model::Transformer& transformer,
                                    const model::Share& share, const ShardLayout& layout) {
  model::Transformer unnamed = transformer;
  unnamed.name = "model";
  nlohmann::ordered_json header;
  header["config"] = nlohmann::ordered_json::parse(model::to_config_json(unnamed));
  header["share"] = {{"layers", to_json(share.layers)},
                     {"heads", to_json(share.heads)},
                     {"columns", to_json(share.columns)},
                     {"embedding", share.embedding},
                     {"head", share.head}};
  header["storage_bytes"] = layout.bytes;
  nlohmann::ordered_json blocks = nlohmann::ordered_json::array();
  for (const LayoutBlock& block : layout.blocks) {
    blocks.push_back({{"block", model::to_string(block.kind)},
                      {"layer", block.layer},
                      {"offset", block.offset},
                      {"bytes", block.bytes}});
  }
  header["blocks"] = std::move(blocks);
  const std::string text = header.dump();
  const auto length = static_cast<std::uint32_t>(text.size());

  const std::size_t used = kPrefixBytes + text.size();
  std::vector<std::byte> bytes((used + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment);
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  std::memcpy(bytes.data() + kMagic.size(), &kVersion, sizeof kVersion);
  std::memcpy(bytes.data() + kMagic.size() + sizeof kVersion, &length, sizeof length);
  std::memcpy(bytes.data() + kPrefixBytes, text.data(), text.size());
  return bytes;
}

void check_shard_header(std::span<const std::byte> actual, std::span<const std::byte> expected,
                        const std::string& source) {
  if (text_at(actual, 0, kMagic.size()) != kMagic) {
    throw Error(source + ": begins with \"" + printable(text_at(actual, 0, kMagic.size())) +
                "\", expected \"tandem-shard\"; not a shard file, remove it");
  }
  std::uint32_t version = 0;
  if (actual.size() >= kPrefixBytes) {
    std::memcpy(&version, actual.data() + kMagic.size(), sizeof version);
  }
  if (version != kVersion) {
    throw Error(source + ": shard version " + std::to_string(version) + ", expected " +
                std::to_string(kVersion) + "; run the same version of tandem on every device");
  }
  const auto [a, b] = std::ranges::mismatch(actual, expected);
  if (b == expected.end()) return;
  constexpr std::size_t kExcerpt = 48;
  const auto at = static_cast<std::size_t>(b - expected.begin());
  const std::size_t from = at - std::min(at - std::min(at, kPrefixBytes), kExcerpt / 2);
  throw Error(source + ": a shard of another model or share: header has \"" +
              printable(text_at(actual, from, kExcerpt)) + "\", expected \"" +
              printable(text_at(expected, from, kExcerpt)) + "\"; remove it and make it again");
}

namespace {

// Rows of `part` as f32, packed, from whatever the folder calls its tensor.
void read_rows(const SafetensorsFolder& weights, const TensorPart& part, model::Range rows,
               std::span<float> out) {
  const std::string tensor = stored_name(weights, part.tensor);
  if (!part.transposed) return weights.read(tensor, part.shape, rows, part.columns, out);
  std::vector<float> stored(out.size());
  weights.read(tensor, part.shape, part.columns, rows, stored);
  const auto height = static_cast<std::size_t>(rows.size());
  const auto width = static_cast<std::size_t>(part.columns.size());
  for (std::size_t row = 0; row < height; ++row) {
    for (std::size_t column = 0; column < width; ++column)
      out[row * width + column] = stored[column * height + row];
  }
}

}  // namespace

void slice_block(const SafetensorsFolder& weights, const LayoutBlock& block, std::span<float> out) {
  for (const TensorPart& part : block.parts)
    read_rows(weights, part, part.rows, out.subspan(part.offset / sizeof(float), part.elements()));
}

void stream_block(const SafetensorsFolder& weights, const LayoutBlock& block,
                  const std::function<void(std::span<const std::byte>)>& sink) {
  constexpr std::size_t kPieceFloats = std::size_t{1} << 18U;
  // Every piece of a transposed tensor reads all of the stored rows.
  constexpr std::size_t kTransposedPieceFloats = std::size_t{1} << 24U;
  const std::array<std::byte, kBlockAlignment> zeros{};
  std::vector<float> piece;
  std::uint64_t at = 0;
  const auto pad_to = [&](std::uint64_t offset) {
    sink(std::span(zeros).first(offset - at));
    at = offset;
  };
  for (const TensorPart& part : block.parts) {
    pad_to(part.offset);
    const auto width = static_cast<std::size_t>(part.columns.size());
    const std::size_t most = part.transposed ? kTransposedPieceFloats : kPieceFloats;
    const auto rows_at_once =
        static_cast<std::int32_t>(std::max<std::size_t>(1, most / std::max<std::size_t>(width, 1)));
    for (std::int32_t row = part.rows.begin; row < part.rows.end; row += rows_at_once) {
      const model::Range rows{row, std::min(row + rows_at_once, part.rows.end)};
      piece.resize(static_cast<std::size_t>(rows.size()) * width);
      read_rows(weights, part, rows, piece);
      sink(std::as_bytes(std::span(piece)));
    }
    at += part.elements() * sizeof(float);
  }
  pad_to((block.bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment);
}

}  // namespace tandem::exec
