// Answers of a model that knows nothing, for tests/grammar/check_answers.py: reads a line of JSON
// each ({"schema", "seed", "tokens", "hurry", "temperature"}) and writes one ({"text", "finished"}
// or {"error", "place"}). usage: tandem_grammar_answers TOKENIZER_FOLDER VOCABULARY

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "exec/compute/sampling.hpp"
#include "exec/grammar/json_schema.hpp"
#include "exec/grammar/token_grammars.hpp"
#include "exec/serve/answer_text.hpp"
#include "exec/tokenizer/tokenizer.hpp"

namespace {

using nlohmann::json;
using namespace tandem::exec;

struct Model {
  const Tokenizer& tokenizer;
  std::int32_t stop;  // the last id
};

// Random logits. With `hurry` tokens that close something are the more likely the longer it takes.
json answer(const Model& model, TokenGrammars& grammars, const json& asked) {
  const auto grammar = grammars.of_schema(asked.at("schema").get<std::string>(), "schema");
  std::mt19937 random(asked.at("seed").get<std::uint32_t>());
  const auto vocab = static_cast<std::size_t>(model.tokenizer.vocab());
  Sampler sampler({.temperature = asked.at("temperature").get<double>(), .seed = random()}, {},
                  grammar);
  AnswerText text(model.tokenizer, {}, {});
  std::string all;
  std::vector<float> logits(vocab);
  const auto tokens = asked.at("tokens").get<int>();
  for (int step = 0; step < tokens; ++step) {
    const float bonus = asked.at("hurry").get<float>() * static_cast<float>(step);
    for (std::size_t id = 0; id < vocab; ++id) {
      logits[id] = static_cast<float>(random() % 4096) / 512.0F;
      const std::string bytes = grammar->trie().bytes_of(static_cast<std::int32_t>(id));
      const bool closes = !bytes.empty() && std::string("\"}]").find(bytes[0]) != std::string::npos;
      if (closes || static_cast<std::int32_t>(id) == model.stop) logits[id] += bonus;
    }
    const std::int32_t token = sampler.sample(logits);
    if (token == model.stop) return {{"text", all + text.finish()}, {"finished", true}};
    all += text.push(token);
  }
  return {{"text", all + text.finish()}, {"finished", false}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  tandem::model::Transformer transformer;
  transformer.vocab = std::atoi(argv[2]);
  const auto tokenizer = load_tokenizer(argv[1], transformer);
  const Model model{*tokenizer, static_cast<std::int32_t>(transformer.vocab - 1)};
  TokenGrammars grammars(*tokenizer, {model.stop}, transformer.vocab);
  std::string line;
  while (std::getline(std::cin, line)) {
    json reply;
    try {
      reply = answer(model, grammars, json::parse(line));
    } catch (const SchemaError& error) {
      reply = {{"error", error.what()}, {"place", error.place}};
    } catch (const std::exception& error) {
      reply = {{"error", error.what()}, {"place", ""}};
    }
    std::cout << reply.dump(-1, ' ', true, json::error_handler_t::replace) << std::endl;
  }
}
