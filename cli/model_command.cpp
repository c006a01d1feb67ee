// tandem model: geometries, their sizes and work, and random weights for them.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <system_error>

#include "cli/files/files.hpp"
#include "cli/files/model_context.hpp"
#include "cli/files/scenarios.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/device_flags.hpp"
#include "cli/flags/dtype.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/options.hpp"
#include "cli/views/generation_view.hpp"
#include "cli/views/model_view.hpp"
#include "cli/views/stored_view.hpp"
#include "exec/gguf/conversion/model_conversion.hpp"
#include "exec/gguf/gguf_file.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "exec/weights/model_folder.hpp"
#include "exec/weights/random_weights.hpp"
#include "exec/weights/store/block_maker.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "model/graph/memory.hpp"
#include "model/graph/work.hpp"
#include "model/transformer/format_choice.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;
using model::Range;
using model::TaskKind;
using model::Transformer;

constexpr std::array kDTypes{model::DType::f32, model::DType::f16, model::DType::bf16};

Range whole(std::int64_t size) { return {0, static_cast<std::int32_t>(size)}; }

model::Share everything(const Transformer& transformer) {
  return {.layers = whole(transformer.layers),
          .heads = whole(transformer.heads),
          .columns = whole(transformer.intermediate),
          .embedding = true,
          .head = true};
}

// Floating-point operations of one step of one sequence on one device: `rows` tokens after `past`.
double step_flops(const Transformer& transformer, std::int32_t past, std::int32_t rows) {
  const model::Batch batch{{{.sequence = 0, .past = past, .rows = rows}}};
  const auto flops = [&](TaskKind kind, Range columns, Range of_rows, std::int32_t layer = -1) {
    model::Task task;
    task.kind = kind;
    task.layer = layer;
    task.rows = of_rows;
    task.columns = columns;
    return model::work_of(transformer, batch, task).flops;
  };
  const Range all{0, rows};
  const Range last{rows - 1, rows};
  const Range heads = whole(transformer.heads);
  const Range columns = whole(transformer.intermediate);
  const Range hidden = whole(transformer.hidden);
  const auto of_layer = [&](std::int32_t layer) {
    return 2.0 * flops(TaskKind::norm, hidden, all) +
           flops(TaskKind::project_qkv, heads, all, layer) +
           flops(TaskKind::attend, heads, all, layer) +
           flops(TaskKind::project_out, heads, all, layer) +
           flops(TaskKind::ffn_up, columns, all, layer) +
           flops(TaskKind::ffn_down, columns, all, layer) + 2.0 * flops(TaskKind::add, hidden, all);
  };
  double layers = flops(TaskKind::embed, hidden, all);
  if (!transformer.experts && !transformer.latent) {
    layers = static_cast<double>(transformer.layers) * of_layer(0) + layers;
  } else {
    for (std::int32_t layer = 0; layer < transformer.layers; ++layer) layers += of_layer(layer);
  }
  if (!transformer.architecture().generates()) return layers + flops(TaskKind::norm, hidden, all);
  return layers + flops(TaskKind::norm, hidden, last) +
         flops(TaskKind::lm_head, whole(transformer.vocab), last);
}

bool is_valid(const Transformer& transformer) {
  try {
    transformer.validate();
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Nothing if heads are not whole blocks of `type`.
std::optional<double> kv_bytes_per_token(Transformer transformer, model::CacheFormat type) {
  transformer.cache = type;
  if (!is_valid(transformer)) return std::nullopt;
  return static_cast<double>(model::cache_block_bytes(transformer, everything(transformer))) /
         model::kCacheBlock;
}

void add_cache(const Transformer& t, Json& json) {
  for (const model::CacheFormat type : model::kCacheFormats) {
    std::string key = "kv_bytes_per_token";
    if (type != model::CacheFormat::f32) key.append("_").append(to_string(type));
    const auto bytes = t.architecture().generates() ? kv_bytes_per_token(t, type) : std::nullopt;
    json[key] = bytes ? Json(*bytes) : Json(nullptr);
  }
}

std::string cache_text(const Transformer& t) {
  std::string text;
  for (const model::CacheFormat type : model::kCacheFormats) {
    const auto bytes = kv_bytes_per_token(t, type);
    if (!bytes) continue;
    text += (text.empty() ? "" : ", ") + to_text(model::Bytes{*bytes}) +
            (text.empty() ? " a token (" : " (") + std::string(to_string(type)) + ')';
  }
  return text;
}

// What the weights take in memory in what `--dtype` calls `format`; nothing if rows of them are not
// whole blocks.
std::optional<double> bytes_in(Transformer transformer, std::string_view format) {
  const auto formats = model::chosen_formats(format, transformer);
  require(formats.has_value(), "a format that was chosen among names");
  transformer.formats = *formats;
  if (!is_valid(transformer)) return std::nullopt;
  return model::weight_bytes(transformer, everything(transformer));
}

struct Part {
  std::string name;
  std::int64_t parameters;
};

std::vector<Part> parts(const Transformer& transformer) {
  std::int64_t attention = 0;
  std::int64_t ffn = 0;
  for (std::int32_t layer = 0; layer < transformer.layers; ++layer) {
    attention += transformer.attention_parameters(whole(transformer.heads), layer);
    ffn += transformer.ffn_parameters(whole(transformer.intermediate), layer);
  }
  return {{"embedding", transformer.embedding_parameters()},
          {"attention", attention},
          {"ffn", ffn},
          {"head", transformer.head_parameters()},
          {"total", transformer.parameters()}};
}

Json geometry_json(const Transformer& t) {
  return {{"name", t.name},
          {"family", model::to_string(t.family)},
          {"layers", t.layers},
          {"hidden", t.hidden},
          {"heads", t.heads},
          {"kv_heads", t.kv_heads},
          {"head_dim", t.head_dim},
          {"intermediate", t.intermediate},
          {"vocab", t.vocab},
          {"max_context", t.max_context},
          {"tied_embeddings", t.tied_embeddings},
          {"parameters", t.parameters()}};
}

// What tandem supports of the context that a model's file states.
std::string context_text(const Transformer& t, std::int64_t stated) {
  const std::string most = std::to_string(t.max_context);
  return stated == t.max_context ? most : most + " of " + std::to_string(stated);
}

int list_models(const Arguments& arguments, std::ostream& out) {
  Options options({.command = "model list",
                   .summary = "Lists the models that come with tandem.",
                   .positionals = {},
                   .flags = {{"json", "", "print JSON"}}},
                  arguments);
  const bool as_json = options.has("json");
  options.settle();
  Json all = Json::array();
  model::Table table({"model", "family", "layers", "hidden", "heads", "kv heads", "ffn", "vocab",
                      "context", "parameters", "active"});
  for (const std::string& name : known_models()) {
    const Transformer t = load_model(name);
    all.push_back(geometry_json(t));
    all.back()["active_parameters"] = t.active_parameters();
    const std::int64_t stated = stated_context(name);
    all.back()["stated_context"] = stated;
    table.add({name, std::string(model::to_string(t.family)), std::to_string(t.layers),
               std::to_string(t.hidden), std::to_string(t.heads), std::to_string(t.kv_heads),
               std::to_string(t.intermediate), std::to_string(t.vocab), context_text(t, stated),
               billions(t.parameters()), billions(t.active_parameters())});
  }
  if (as_json) {
    out << all.dump(2) << '\n';
  } else {
    table.print(out);
  }
  return 0;
}

// The folder or GGUF file of model `name`; empty if it is a geometry alone.
std::filesystem::path files_of(const std::string& name) {
  std::filesystem::path files = find_weights(name);
  std::error_code ignored;
  if (!std::filesystem::is_directory(files, ignored) && !exec::is_gguf(files)) files.clear();
  return files;
}

// What kind of tokenizer `folder` has; empty: no folder. One that cannot be read is no obstacle to
// the sizes.
std::string tokenizer_text(const std::filesystem::path& folder, const Transformer& transformer) {
  if (folder.empty()) return "";
  try {
    return exec::load_tokenizer(folder, transformer)->description();
  } catch (const Error& error) {
    return std::string("none: ") + error.what();
  }
}

int inspect_model(const Arguments& arguments, std::ostream& out) {
  Options options(
      {.command = "model inspect",
       .summary = "Prints geometry, sizes and work of M: a Hugging Face folder, a GGUF file, a\n"
                  "config.json, or a name of 'tandem model list'.",
       .positionals = {"M"},
       .flags = {{"prompt-tokens", "N", "length of the prompt that work is stated for [512]"},
                 {"json", "", "print JSON"}}},
      arguments);
  const std::string& name = options.positional(0);
  const Transformer t = load_model(name);
  const std::filesystem::path weights = files_of(name);
  const std::string tokenizer = tokenizer_text(weights, t);
  const auto prompt = static_cast<std::int32_t>(
      options.integer_or("prompt-tokens", std::min<std::int64_t>(512, t.max_context), 1,
                         std::min<std::int64_t>(t.max_context, 1 << 30)));
  const bool as_json = options.has("json");
  options.settle();
  std::optional<StoredTensors> stored;
  std::string unread;  // a folder without weights, or with others, is no obstacle to the sizes
  try {
    if (!weights.empty()) stored = stored_tensors(weights, t);
  } catch (const Error& error) {
    unread = std::string("unknown: ") + error.what();
  }
  const double prompt_flops = step_flops(t, 0, prompt);
  const bool generates = t.architecture().generates();
  const double decode_flops = generates ? step_flops(t, prompt, 1) : 0.0;

  if (as_json) {
    Json json = geometry_json(t);
    if (!t.architecture().learned()) json["rope_theta"] = t.rope_theta;
    json["window"] = t.window;
    json["windowed_layers"] = std::ranges::count(t.windowed, true);
    add_experts(t, prompt, json);
    for (const Part& part : parts(t)) json["parameters_by_part"][part.name] = part.parameters;
    for (const model::DType dtype : kDTypes)
      json["weight_bytes"][std::string(to_string(dtype))] = t.parameters() * size_of(dtype);
    for (const std::string_view format : model::format_choices()) {
      const auto bytes = bytes_in(t, format);
      json["memory_bytes"][std::string(format)] = bytes ? Json(*bytes) : Json(nullptr);
    }
    json["substitutions"] = Json::object();
    for (const std::string_view format : model::format_choices())
      if (std::string remark = substitution_remark(format, t); !remark.empty())
        json["substitutions"][std::string(format)] = std::move(remark);
    add_stored(stored ? &*stored : nullptr, json);
    add_cache(t, json);
    json["prompt_tokens"] = prompt;
    json["prompt_flops_per_token"] = prompt_flops / prompt;
    json["decode_flops_per_token"] = generates ? Json(decode_flops) : Json(nullptr);
    if (!tokenizer.empty()) json["tokenizer"] = tokenizer;
    out << json.dump(2) << '\n';
    return 0;
  }
  out << t.name << ": " << to_string(t.family) << ", " << t.layers << " layers, hidden " << t.hidden
      << ", " << t.heads << " heads of " << t.head_dim << " (" << t.kv_heads << " key/value), FFN "
      << t.intermediate << ", vocabulary " << t.vocab << ", context "
      << context_text(t, stated_context(name)) << (t.tied_embeddings ? ", tied embeddings" : "")
      << "\n";
  if (const std::int64_t windowed = std::ranges::count(t.windowed, true); windowed > 0)
    out << "attention of " << windowed << " layers sees the last " << t.window << " positions\n";
  out << model_remarks(t, prompt);
  out << '\n';
  model::Table table({"part", "parameters", "F32", "F16 or BF16"});
  for (const Part& part : parts(t)) {
    const double count = static_cast<double>(part.parameters);
    table.add({part.name, std::to_string(part.parameters), to_text(model::Bytes{4.0 * count}),
               to_text(model::Bytes{2.0 * count})});
  }
  table.print(out);
  out << '\n';
  if (stored)
    out << "stored           " << stored_text(*stored) << "\nmatrices         "
        << matrices_text(*stored, t) << '\n';
  if (!unread.empty()) out << "stored           " << unread << '\n';
  out << "in memory        ";
  for (const std::string_view format : model::format_choices()) {
    const auto bytes = bytes_in(t, format);
    out << (format == "f32" ? "" : ", ") << format << ' '
        << (bytes ? to_text(model::Bytes{*bytes}) : "impossible (rows are not whole blocks)");
  }
  out << '\n';
  for (const std::string_view format : model::format_choices())
    if (const std::string remark = substitution_remark(format, t); !remark.empty())
      out << "                 " << format << ": " << remark << '\n';
  if (generates) {
    out << "key/value cache  " << cache_text(t) << '\n'
        << "prompt           " << model::fixed(prompt_flops / prompt * 1e-9, 3)
        << " Gflop a token (mean of " << prompt << " tokens)\n"
        << "new token        " << model::fixed(decode_flops * 1e-9, 3) << " Gflop after " << prompt
        << " tokens\n";
  } else {
    out << "encoder          " << model::fixed(prompt_flops / prompt * 1e-9, 3)
        << " Gflop a token, in a pass of " << prompt << " tokens\n";
  }
  if (!tokenizer.empty()) out << "tokenizer        " << tokenizer << '\n';
  return 0;
}

int random_model(const Arguments& arguments, std::ostream& out) {
  Options options(
      {.command = "model random",
       .summary = "Writes a model folder with deterministic random weights.",
       .positionals = {},
       .flags = {{"config", "C", "geometry: a model folder, a config.json, or a name (required)"},
                 {"seed", "S", "seed of the weights [0]"},
                 {"dtype", "TYPE", "F32, F16 or BF16, as stored [F32]"},
                 {"out", "DIR", "folder to write (required)"},
                 {"quiet", "", "print nothing"}}},
      arguments);
  const std::string config = options.required("config");
  const std::string folder = options.required("out");
  const std::int64_t seed =
      options.integer_or("seed", 0, 0, std::numeric_limits<std::int64_t>::max());
  const std::string wanted = options.choice_or("dtype", "F32", {"F32", "F16", "BF16"});
  const bool quiet = options.has("quiet");
  FileRoles files;
  files.reads_model("flag '--config'", find_weights(config));
  files.reads("flag '--config'", find_config(config));
  files.writes_folder("flag '--out'", folder);
  files.writes_in("flag '--out'", folder, {"config.json", "model.safetensors"});
  files.check();
  options.settle();
  const Transformer transformer = load_model(config);
  for (const model::DType dtype : kDTypes) {
    if (to_string(dtype) != wanted) continue;
    exec::write_random_weights(transformer, static_cast<std::uint64_t>(seed), dtype, folder);
    if (!quiet)
      out << folder << ": " << transformer.parameters() << " parameters, "
          << to_text(model::Bytes{static_cast<double>(transformer.parameters() * size_of(dtype))})
          << " " << wanted << ", seed " << seed << '\n';
  }
  return 0;
}

int convert_model(const Arguments& arguments, std::ostream& out) {
  Options options(
      {.command = "model convert",
       .summary = "Writes a model as a GGUF file (if FILE ends in .gguf) or as a Hugging Face "
                  "folder, its\n"
                  "tokenizer included, in another format if one is given.",
       .positionals = {},
       .flags =
           {kWeightsFlag,
            {"out", "FILE", "GGUF file or folder to write (required)"},
            {"dtype", "TYPE",
             "matrices in f32, f16, bf16, and in GGUF q8_0, q4_0, q5_0, q5_1, q4_k, q5_k, q6_k "
             "or a mix, q4_k_m or q5_k_m [as stored]"},
            {"quiet", "", "print nothing"}}},
      arguments);
  const std::filesystem::path weights = weights_of(options.required("weights"));
  const std::filesystem::path path = options.required("out");
  const auto formats =
      options.has("dtype") ? dtype_of(options, load_model(weights.string())) : std::nullopt;
  const bool quiet = options.has("quiet");
  const bool is_file = path.filename().string().ends_with(".gguf");
  FileRoles files;
  files.reads_model("flag '--weights'", weights);
  if (is_file) {
    files.writes("flag '--out'", path);
  } else {
    files.writes_folder("flag '--out'", path);
    files.writes_in("flag '--out'", path, {"config.json", "model.safetensors"});
  }
  files.check();
  options.settle();
  GenerationView view(out, quiet);
  exec::Conversion conversion{.weights = weights, .out = path, .formats = formats};
  conversion.progress = [&](std::uint64_t done, std::uint64_t total) {
    view.stage("converting: " + std::to_string(done * 100 / total) + "%");
  };
  const std::string remark = exec::convert_model(conversion);
  if (!remark.empty()) view.remark(remark);
  view.finish();
  if (!quiet)
    out << path.string() << ": " << load_model(path.string()).parameters() << " parameters\n";
  return 0;
}

int shard_model(const Arguments& arguments, std::ostream& out) {
  Options options(
      {.command = "model shard",
       .summary =
           "Slices the weights of a model folder for the devices of a plan. DIR has the layout of\n"
           "a worker's cache: a worker that is given it need not be sent its weights.",
       .positionals = {"plan.json"},
       .flags = {kWeightsFlag,
                 {"out", "DIR", "folder to write (required)"},
                 {"quiet", "", "print nothing"}}},
      arguments);
  const std::string& path = options.positional(0);
  const std::string name = options.required("weights");
  const std::string folder = options.required("out");
  const bool quiet = options.has("quiet");
  FileRoles files;
  files.reads("argument plan.json", path);
  files.reads_model("flag '--weights'", find_weights(name));
  files.writes_folder("flag '--out'", folder);
  files.check();
  options.settle();
  const planner::Plan plan = planner::parse_plan_json(read_file(path), path);
  const std::filesystem::path weights = weights_for(name, plan.model);
  model::Table table({"device", "bytes", "blocks"});
  GenerationView view(out, quiet);
  exec::BlockStore store(folder);
  const exec::BlockMaker maker(weights, plan.model, store);
  if (const std::string remark = exec::rounding_remark(maker.weights(), plan.model);
      !remark.empty())
    view.remark(remark);
  for (std::size_t i = 0; i < plan.devices.size(); ++i) {
    const std::string& device = plan.cluster.devices()[i].name;
    const auto progress = [&](const char* what) {
      return [&view, text = what + device](std::uint64_t done, std::uint64_t total) {
        view.stage(text + ": " + std::to_string(done * 100 / total) + "%");
      };
    };
    const exec::ShardLayout layout = exec::layout_of(plan.model, plan.devices[i].share);
    const std::vector<exec::MadeBlock> blocks =
        exec::make_blocks(maker, layout,
                          {.verify = true,
                           .slicing = progress("slicing the weights of "),
                           .verifying = progress("checking the weights of "),
                           .on_damage = [&](const std::string& warning) { view.remark(warning); }});
    table.add({device, std::to_string(layout.bytes), std::to_string(blocks.size())});
  }
  view.finish();
  if (!quiet) table.print(out);
  return 0;
}

}  // namespace

int model_command(const Arguments& arguments, std::ostream& out) {
  constexpr std::array kActions{Command{"list", "the models that come with tandem", list_models},
                                Command{"inspect", "sizes and work of a model", inspect_model},
                                Command{"random", "write random weights", random_model},
                                Command{"convert", "between folder and GGUF", convert_model},
                                Command{"shard", "slice weights for a plan", shard_model}};
  return run_subcommand("model", kActions, arguments, out);
}

}  // namespace tandem::cli
