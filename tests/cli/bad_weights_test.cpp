// Weights that are not what their folder's config.json says: one clear line, exit code 1.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::bad_weights_test {
namespace {

using Json = nlohmann::ordered_json;

std::string little_endian(std::uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFFU);
  return bytes;
}

// A safetensors file: length, header, data.
std::string safetensors(const std::string& header, const std::string& data) {
  return little_endian(header.size()) + header + data;
}

struct Weights {
  Json header;
  std::string data;
};

Weights parse(const std::string& file) {
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8U | static_cast<unsigned char>(file[static_cast<std::size_t>(i)]);
  return {Json::parse(file.substr(8, length)), file.substr(8 + length)};
}

constexpr const char* kNorm = "model.norm.weight";

const struct {
  const char* name;
  std::string (*spoil)(Weights weights, const std::string& whole);
} kSpoilt[] = {
    {"an empty file", [](Weights, const std::string&) { return std::string(); }},
    {"7 bytes", [](Weights, const std::string&) { return std::string(7, 'x'); }},
    {"a length only", [](Weights, const std::string&) { return little_endian(10); }},
    {"a header of 2^64 - 1 bytes",
     [](Weights, const std::string& whole) { return little_endian(UINT64_MAX) + whole.substr(8); }},
    {"a header longer than the file",
     [](Weights, const std::string& whole) {
       return little_endian(whole.size()) + whole.substr(8);
     }},
    {"a header that is no JSON",
     [](Weights w, const std::string&) { return safetensors("{nonsense", w.data); }},
    {"a header that is a list",
     [](Weights w, const std::string&) { return safetensors("[]", w.data); }},
    {"a deeply nested header",
     [](Weights w, const std::string&) { return safetensors(std::string(100000, '['), w.data); }},
    {"data cut off",
     [](Weights w, const std::string&) {
       return safetensors(w.header.dump(), w.data.substr(0, w.data.size() / 2));
     }},
    {"a tensor is missing",
     [](Weights w, const std::string&) {
       w.header.erase(kNorm);
       return safetensors(w.header.dump(), w.data);
     }},
    {"another shape",
     [](Weights w, const std::string&) {
       w.header[kNorm]["shape"] = {32};
       return safetensors(w.header.dump(), w.data);
     }},
    {"a negative shape",
     [](Weights w, const std::string&) {
       w.header[kNorm]["shape"] = {-64};
       return safetensors(w.header.dump(), w.data);
     }},
    {"a shape that overflows",
     [](Weights w, const std::string&) {
       w.header[kNorm]["shape"] = {1LL << 62, 1LL << 62};
       return safetensors(w.header.dump(), w.data);
     }},
    {"an unknown dtype",
     [](Weights w, const std::string&) {
       w.header[kNorm]["dtype"] = "I64";
       return safetensors(w.header.dump(), w.data);
     }},
    {"offsets beyond the end",
     [](Weights w, const std::string&) {
       w.header[kNorm]["data_offsets"] = {w.data.size(), w.data.size() + 256};
       return safetensors(w.header.dump(), w.data);
     }},
    {"offsets reversed",
     [](Weights w, const std::string&) {
       w.header[kNorm]["data_offsets"] = {256, 0};
       return safetensors(w.header.dump(), w.data);
     }},
    {"offsets that are words",
     [](Weights w, const std::string&) {
       w.header[kNorm]["data_offsets"] = "everywhere";
       return safetensors(w.header.dump(), w.data);
     }},
};

}  // namespace

TEST_CASE("cli/bad input: weights") {
  const Kitchen bench;
  bench.must({"model", "random", "--config", "tiny.json", "--out", "tiny"});
  bench.plan();
  const std::string whole = bench.read("tiny/model.safetensors");
  const Weights weights = parse(whole);
  REQUIRE(weights.header.contains(kNorm));

  const auto check = [&](const std::string& folder) {
    const Outcome outcome = bench.run(
        {"model", "shard", "plan.json", "--weights", folder, "--out", "shards", "--quiet"});
    CAPTURE(outcome.err);
    CHECK(outcome.code == 1);
    CHECK(outcome.out.empty());
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    CHECK(outcome.err.rfind("tandem model: ", 0) == 0);
    CHECK(outcome.err.find(folder) != std::string::npos);
    CHECK(outcome.err.find("json.exception") == std::string::npos);
    for (const std::string& name : bench.listing()) {
      CHECK(name.find("partial") == std::string::npos);
    }
  };
  SUBCASE("files") {
    for (const auto& bad : kSpoilt) {
      CAPTURE(bad.name);
      bench.write("bad/config.json", bench.read("tiny/config.json"));
      bench.write("bad/model.safetensors", bad.spoil(weights, whole));
      check("bad");
    }
  }
  SUBCASE("folders") {
    check("absent");
    bench.write("bare/config.json", bench.read("tiny/config.json"));
    check("bare");
    bench.write("astray/config.json", bench.read("tiny/config.json"));
    bench.write("astray/model.safetensors.index.json",
                R"({"weight_map": {"model.norm.weight": "../tiny/model.safetensors"}})");
    check("astray");
  }
}

TEST_CASE("cli/bad input: weights of another model than the plan's, by field") {
  const Kitchen bench;
  bench.must({"model", "random", "--config", "tiny.json", "--out", "tiny"});
  bench.plan();
  const std::string config = bench.read("tiny/config.json");
  bench.write("text.jsonl", "{\"text\": \"a\"}\n");
  bench.write("other/model.safetensors", bench.read("tiny/model.safetensors"));
  const auto check = [&](const std::string& expected) {
    tandem::test::check_refused(
        bench, {"run", "plan.json", "--emulate", "--weights", "other", "--cache", "cache"}, 1,
        expected);
    tandem::test::check_refused(bench,
                                {"eval", "--plan", "plan.json", "--emulate", "--weights", "other",
                                 "--text", "text.jsonl", "--cache", "cache"},
                                1, expected);
    tandem::test::check_refused(
        bench, {"model", "shard", "plan.json", "--weights", "other", "--out", "shards"}, 1,
        expected);
  };
  SUBCASE("a field that no size shows") {
    const Json whole = Json::parse(config);
    const struct {
      const char* field;
      Json value;
    } changes[] = {{"rope_theta", 500000.0},
                   {"rms_norm_eps", 1e-3},
                   {"num_hidden_layers", 1},
                   {"num_attention_heads", whole.at("num_attention_heads").get<int>() / 2},
                   {"num_key_value_heads", 1},
                   {"max_position_embeddings", 77},
                   {"eos_token_id", Json::array({3})},
                   {"tie_word_embeddings", !whole.at("tie_word_embeddings").get<bool>()}};
    for (const auto& change : changes) {
      CAPTURE(change.field);
      Json changed = whole;
      REQUIRE(changed.value(change.field, Json()) != change.value);
      changed[change.field] = change.value;
      bench.write("other/config.json", changed.dump());
      check(std::string(change.field) + " " + change.value.dump() + " where the plan has " +
            whole.value(change.field, Json()).dump());
    }
  }
  SUBCASE("no config.json") { check("other: folder without config.json"); }
  SUBCASE("a config.json that is none") {
    bench.write("other/config.json", "{}");
    check("other/config.json");
  }
  SUBCASE("weights that were sliced before the config.json changed are not used") {
    bench.write("other/config.json", config);
    bench.must({"model", "shard", "plan.json", "--weights", "other", "--out", "shards", "--quiet"});
    bench.write("other/config.json",
                tandem::test::replaced(config, "\"rms_norm_eps\": ", "\"rms_norm_eps\": 0.1"));
    check("rms_norm_eps");
  }
}

// An interrupted download leaves a folder of links to files that are not there yet.
TEST_CASE(
    "cli/bad weights: a link that leads nowhere is named, and no file is said to be missing") {
  namespace fs = std::filesystem;
  const Kitchen bench;
  bench.must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
  const std::vector<std::string> words{"run",   "--weights", "tiny",  "--prompt",
                                       "hello", "--cache",   "cache", "--new-tokens",
                                       "1",     "--quiet"};
  bench.must(words);
  const std::string blob = "../../blobs/0123abcd";
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json",
                           "tokenizer_config.json", "model.safetensors.index.json"}) {
    CAPTURE(name);
    const fs::path link = bench.folder() / "tiny" / name;
    const fs::path aside = bench.folder() / "aside";
    const bool had = fs::exists(link);
    if (had) fs::rename(link, aside);
    const bool whole_file = std::string(name) == "model.safetensors.index.json";
    const fs::path weights = bench.folder() / "tiny" / "model.safetensors";
    if (whole_file) fs::rename(weights, bench.folder() / "weights");
    fs::create_symlink(blob, link);
    check_refused(bench, words, 1,
                  "tiny/" + std::string(name) + ": a link to " + blob + ", which does not exist");
    fs::remove(link);
    if (had) fs::rename(aside, link);
    if (whole_file) fs::rename(bench.folder() / "weights", weights);
  }
  bench.must(words);
  fs::create_symlink("nowhere", bench.folder() / "gone");
  fs::create_symlink("nowhere.gguf", bench.folder() / "gone.gguf");
  for (const char* name : {"gone", "gone.gguf"}) {
    check_refused(bench, {"run", "--weights", name, "--prompt", "hello"}, 1,
                  std::string(name) + ": a link to nowhere");
    check_refused(bench, {"model", "inspect", name}, 1, std::string(name) + ": a link to nowhere");
  }
}

}  // namespace tandem::test::bad_weights_test
