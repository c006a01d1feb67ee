#include <tandem/model.hpp>
#include <utility>

#include "api/data.hpp"
#include "exec/gguf/gguf_file.hpp"
#include "exec/weights/files/read_file.hpp"
#include "exec/weights/model_folder.hpp"
#include "exec/weights/random_weights.hpp"
#include "model/base/error.hpp"
#include "model/transformer/format_choice.hpp"

namespace tandem {

Model::Model(std::shared_ptr<const Data> data) : data_(std::move(data)) {
  require(data_ != nullptr, "a model needs data");
}

Model Model::read(const std::filesystem::path& path) {
  std::error_code fault;
  if (std::filesystem::is_directory(path, fault)) return read(path / "config.json");
  if (!exec::is_present(path))
    throw Error(path.string() +
                ": no such file, expected a Hugging Face folder, a config.json or a GGUF file; "
                "check the path");
  if (!exec::is_gguf(path)) return parse(exec::read_text(path, kLargestText), path.string());
  return Model(std::make_shared<const Data>(Data{exec::read_geometry(path)}));
}

Model Model::parse(std::string_view config_json, std::string_view source) {
  return Model(std::make_shared<const Data>(Data{model::parse_config_json(config_json, source)}));
}

Model Model::in_format(std::string_view format) const {
  const auto formats = model::chosen_formats(format, data_->transformer);
  if (!formats)
    throw Error("weight format '" + std::string(format) + "': unknown, expected " +
                model::format_choices_text());
  Data changed = *data_;
  changed.transformer.formats = *formats;
  return Model(std::make_shared<const Data>(std::move(changed)));
}

const std::string& Model::name() const { return data_->transformer.name; }
std::int64_t Model::layers() const { return data_->transformer.layers; }
std::int64_t Model::hidden() const { return data_->transformer.hidden; }
std::int64_t Model::vocabulary() const { return data_->transformer.vocab; }
std::int64_t Model::context() const { return data_->transformer.max_context; }
std::int64_t Model::parameters() const { return data_->transformer.parameters(); }
bool Model::generates() const { return data_->transformer.architecture().generates(); }

void write_random_weights(const Model& model, std::uint64_t seed,
                          const std::filesystem::path& folder) {
  exec::write_random_weights(model.data().transformer, seed, model::DType::f32, folder);
}

}  // namespace tandem
