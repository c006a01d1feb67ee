// Text in and out of `tandem run`, by the tokenizer of the model's folder.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::tokenizer_command_test {
namespace {

using Words = std::vector<std::string>;

// A model of 700 tokens with weights, and a plan for one device.
class Study : public tandem::test::Kitchen {
 public:
  Study() {
    write("config.json", replaced(read("tiny.json"), "\"vocab_size\": 300", "\"vocab_size\": 700"));
    must({"model", "random", "--config", "config.json", "--out", "model", "--quiet"});
    must({"plan", "--platform", "pair.xml", "--model", "model", "--strategy", "local",
          "--prompt-tokens", "5", "--new-tokens", "4", "--out", "plan.json", "--quiet"});
  }
  void give(const std::string& file, const std::string& text) const {
    write("model/" + file, text);
  }
};

Words run_with(const Words& flags) {
  Words words{"run", "plan.json", "--weights", "model", "--cache", "cache", "--quiet"};
  words.insert(words.end(), flags.begin(), flags.end());
  return words;
}

TEST_CASE("cli/run: a prompt comes out as it went in, without its special tokens") {
  const Study bench;
  for (const char* folder : {"sp-bpe", "bpe-llama3"}) {
    CAPTURE(folder);
    const bool pieces = std::string(folder) == "sp-bpe";
    const char* const file = pieces ? "tokenizer.model" : "tokenizer.json";
    bench.give(file, source_file("tests/tokenizers/" + std::string(folder) + "/" + file));
    const std::string special = pieces ? "</s>" : "<|eot_id|>";
    const std::string out = bench.good(
        run_with({"--prompt", special + "Hello caf\xC3\xA9," + special + " 12\xE6\x97\xA5"}));
    CHECK(out.starts_with("Hello caf\xC3\xA9, 12\xE6\x97\xA5"));
    CHECK(bench.good({"model", "inspect", "model"})
              .find(pieces ? "SentencePiece BPE, 700 tokens" : "byte-level BPE, ") !=
          std::string::npos);
    std::filesystem::remove(bench.folder() / "model" / file);
  }
}

TEST_CASE("cli/run: what a user says stands where the model's chat template has it") {
  const Study bench;
  bench.give("tokenizer.json", source_file("tests/tokenizers/bpe-llama3/tokenizer.json"));
  const auto said = [&](const Words& flags) { return bench.good(run_with(flags)); };
  const std::string plain = said({"--prompt", "[be brief] user: Hello\nmodel:"});
  check_refused(bench, run_with({"--prompt", "Hello", "--chat"}), 1,
                "the model has no chat template");
  bench.give("chat_template.jinja",
             "<|begin_of_text|>{% for m in messages %}\n{% if m.role == 'system' %}\n"
             "{{ '[' ~ m.content ~ ']' -}}\n{% else %}\n {{ m.role }}: {{ m.content }}\n"
             "{% endif %}\n{% endfor %}\nmodel:\n");
  CHECK(said({"--prompt", "Hello", "--chat", "--system", "be brief"}) == plain);
  // It is there, and not used: said, but not with --quiet.
  const tandem::test::Outcome told = bench.run(
      {"run", "plan.json", "--weights", "model", "--cache", "cache", "--prompt", "Hello"});
  CHECK(told.err.find("has a chat template, which '--chat'") != std::string::npos);
  check_refused(bench, run_with({"--prompt", "Hello", "--system", "x"}), 2, "'--chat'");
  check_refused(bench, run_with({"--prompt", "Hello", "--chat", "--raw-prompt"}), 2,
                "'--raw-prompt'");
  bench.write("ids", "1 2 3");
  check_refused(bench, run_with({"--prompt-ids", "ids", "--chat"}), 2, "'--chat'");
  bench.give("chat_template.jinja", "{% if false %}a{% endif %}");
  check_refused(bench, run_with({"--prompt", "Hello", "--chat"}), 1, "makes no text");
}

TEST_CASE("cli/run: a token that only the tokenizer's files call the end ends the text") {
  const Study bench;
  bench.write("ids", "1 2 3 4 5");
  bench.must(run_with({"--prompt-ids", "ids", "--out", "result.json"}));
  const std::string result = bench.read("result.json");
  const std::size_t begin = result.find('[', result.find("\"tokens\"")) + 1;
  const std::string first = std::to_string(std::stoi(result.substr(begin)));
  bench.give("tokenizer.model", source_file("tests/tokenizers/sp-bpe/tokenizer.model"));
  bench.give("generation_config.json", "{\"eos_token_id\": " + first + "}");
  const auto tokens_of = [&](const Words& flags) {
    Words words{"--prompt-ids", "ids", "--out", "result.json"};
    words.insert(words.end(), flags.begin(), flags.end());
    bench.must(run_with(words));
    const std::string text = bench.read("result.json");
    const std::size_t from = text.find('[', text.find("\"tokens\""));
    return std::count(text.begin() + static_cast<std::ptrdiff_t>(from),
                      text.begin() + static_cast<std::ptrdiff_t>(text.find(']', from)), ',') +
           1;
  };
  CHECK(tokens_of({}) == 1);
  CHECK(tokens_of({"--ignore-eos"}) == 4);
}

TEST_CASE("cli/run: a tokenizer that cannot be read stops text, but not token ids") {
  const Study bench;
  bench.give("tokenizer.json", R"({"model": {"type": "WordPiece"}})");
  check_refused(bench, run_with({"--prompt", "Hello"}), 1, "model \"WordPiece\", expected BPE");
  bench.write("ids", "1 2 3 4 5");
  CHECK(bench.good(run_with({"--prompt-ids", "ids"})).starts_with("<1><2><3><4><5><"));
  CHECK(bench.good({"model", "inspect", "model"}).find("none: ") != std::string::npos);
}

}  // namespace
}  // namespace tandem::test::tokenizer_command_test
