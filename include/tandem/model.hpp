#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace tandem {

// The geometry of a transformer, and the formats of its weights in memory; no weights.
class Model {
 public:
  // Of a Hugging Face folder, a config.json, or a GGUF file. Weights of a GGUF file keep their
  // formats, others are f32. Throws std::runtime_error for a file that is not there or a model
  // that tandem does not compute.
  [[nodiscard]] static Model read(const std::filesystem::path& path);
  // Of the text of a config.json; `source` names it in errors.
  [[nodiscard]] static Model parse(std::string_view config_json,
                                   std::string_view source = "config.json");

  // The same with its weights in `format`: a value of `tandem plan --dtype`, as "f16" or "q4_k_m".
  // Throws std::runtime_error with the known formats.
  [[nodiscard]] Model in_format(std::string_view format) const;

  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] std::int64_t layers() const;
  [[nodiscard]] std::int64_t hidden() const;
  [[nodiscard]] std::int64_t vocabulary() const;
  [[nodiscard]] std::int64_t context() const;  // tokens
  [[nodiscard]] std::int64_t parameters() const;
  [[nodiscard]] bool generates() const;  // false: an encoder, whose plans have no new tokens

  // Defined in the library.
  struct Data;
  explicit Model(std::shared_ptr<const Data> data);
  [[nodiscard]] const Data& data() const { return *data_; }

 private:
  std::shared_ptr<const Data> data_;
};

// Writes a Hugging Face folder of random weights in F32, without a tokenizer: for tests. Equal
// geometry and seed give equal bytes on every machine. Throws std::runtime_error, and leaves no
// partial file, if `folder` cannot be written.
void write_random_weights(const Model& model, std::uint64_t seed,
                          const std::filesystem::path& folder);

}  // namespace tandem
