// Any bytes are a GGUF file, a model's geometry, its weights' places and its tokenizer, or an
// Error.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "exec/gguf/gguf_file.hpp"
#include "exec/gguf/gguf_geometry.hpp"
#include "exec/gguf/gguf_weights.hpp"
#include "exec/tokenizer/gguf_tokenizer.hpp"
#include "exec/tokenizer/vocabulary.hpp"
#include "model/base/error.hpp"

namespace {

const std::filesystem::path& file_path() {
  static const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("tandem-fuzz-" + std::to_string(::getpid()));
  return path;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem::exec;
  {
    std::ofstream out(file_path(), std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  }
  try {
    const GgufFile file(file_path());
    std::filesystem::remove(file_path());
    for (const auto& [name, place] : file.tensors()) {
      const GgufTensor& tensor = place.tensor;
      if (tensor.offset > size || tensor.bytes > size - tensor.offset) std::abort();
    }
    try {
      const tandem::model::Transformer transformer = gguf_geometry(file);
      GgufWeights(file, transformer).check_tensors(transformer);
    } catch (const tandem::Error&) {
    }
    tandem::model::Transformer any;
    any.vocab = 1000;
    const auto tokenizer = make_tokenizer(gguf_vocabulary(file), any);
    for (const std::int32_t id : tokenizer->encode("a text, 12 </s>")) {
      if (id < 0 || id >= any.vocab) std::abort();
    }
  } catch (const tandem::Error&) {
  }
  return 0;
}
