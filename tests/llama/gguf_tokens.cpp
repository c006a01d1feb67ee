// Tokens of texts by a GGUF file's tokenizer, for check_tokens.py to compare with llama.cpp:
//   tandem_gguf_tokens FILE VOCABULARY < TEXTS
// Texts end in a NUL each; what is in front of one says what special tokens in it are: '+' tokens,
// '-' text. Prints a line of ids for each.

#include <algorithm>
#include <iostream>
#include <iterator>
#include <string>

#include "exec/tokenizer/tokenizer.hpp"

int main(int argc, char** argv) try {
  using namespace tandem;
  if (argc != 3) {
    std::cerr << "usage: tandem_gguf_tokens FILE VOCABULARY < TEXTS\n";
    return 2;
  }
  model::Transformer transformer;
  transformer.vocab = std::stoll(argv[2]);
  const auto tokenizer = exec::load_tokenizer(argv[1], transformer);
  const std::string all(std::istreambuf_iterator<char>(std::cin), {});
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\0', at), all.size());
    const auto written = all[at] == '+' ? exec::WrittenTokens::tokens : exec::WrittenTokens::text;
    for (const std::int32_t id : tokenizer->encode(all.substr(at + 1, end - at - 1), written))
      std::cout << id << ' ';
    std::cout << '\n';
    at = end + 1;
  }
  return 0;
} catch (const std::exception& e) {
  std::cerr << "tandem_gguf_tokens: " << e.what() << '\n';
  return 1;
}
