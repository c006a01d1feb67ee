#pragma once

// Folders, models and damaged files for the tests of weights.

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.hpp"
#include "model/graph/memory.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::testing {

// A new folder, removed with everything in it at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tandem-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_text(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
}

inline std::string read_all(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A safetensors file of that header and `data_bytes` zeros.
inline std::string safetensors_text(std::string_view header, std::size_t data_bytes) {
  std::string text(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(text.data(), &length, sizeof length);
  text += header;
  return text + std::string(data_bytes, '\0');
}

// The message of the Error that `action` throws; fails the test unless it throws one and the
// message is one line.
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    std::string text = error.what();
    CHECK(text.find('\n') == std::string::npos);
    return text;
  }
  FAIL_CHECK("no Error was thrown");
  return "";
}

inline bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) names.push_back(entry.path().filename().string());
  }
  return names;
}

// A Llama of odd sizes: no size is a multiple of a vector's width.
inline model::Transformer small_llama() {
  model::Transformer t;
  t.name = "small";
  t.layers = 3;
  t.hidden = 30;
  t.heads = 6;
  t.kv_heads = 3;
  t.head_dim = 10;
  t.intermediate = 37;
  t.vocab = 259;
  t.max_context = 128;
  return t;
}

// For clusters of up to eight devices; most of them have more devices than it has key-value heads.
inline model::Transformer eight_heads() {
  model::Transformer t = small_llama();
  t.heads = 8;
  t.kv_heads = 2;
  t.head_dim = 6;
  t.hidden = 44;
  t.intermediate = 59;
  return t;
}

// `t` with sizes that every format's blocks divide, its weights in `format`.
inline model::Transformer in_blocks(model::Transformer t, model::WeightFormat format) {
  // Heads of 128 share blocks of 256.
  const bool longer = model::block_of(format).elements > 32;
  t.hidden = longer ? 256 : 64;
  t.head_dim = longer ? 128 : 32;
  t.intermediate = longer ? 1280 : 160;
  t.formats = model::WeightFormats(format);
  return t;
}

// `t` with a cache in `format`, and heads of whole blocks of it.
inline model::Transformer with_cache(model::Transformer t, model::CacheFormat format) {
  t.cache = format;
  const std::int64_t block = block_of(format).elements;
  t.head_dim = (t.head_dim + block - 1) / block * block;
  return t;
}

inline model::Share whole_share(const model::Transformer& t) {
  return {{0, static_cast<std::int32_t>(t.layers)},
          {0, static_cast<std::int32_t>(t.heads)},
          {0, static_cast<std::int32_t>(t.intermediate)},
          true,
          true};
}

}  // namespace tandem::testing
