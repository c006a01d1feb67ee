// Greedy tokens of a GGUF file or a folder, and every step's logits, for check_llama.py to compare
// with llama.cpp:
//   tandem_gguf_logits [--half-cache] WEIGHTS TOKENS OUT ID...
// prints the tokens and writes OUT, [TOKENS, vocab], little-endian f32.

#include <algorithm>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "exec/weights/model_folder.hpp"
#include "model/base/error.hpp"
#include "tests/support/serial_executor.hpp"

int main(int argc, char** argv) try {
  using namespace tandem;
  const bool half = argc > 1 && std::string(argv[1]) == "--half-cache";
  if (half) {
    --argc;
    ++argv;
  }
  if (argc < 5) {
    std::cerr << "usage: tandem_gguf_logits [--half-cache] WEIGHTS TOKENS OUT ID...\n";
    return 2;
  }
  model::Transformer transformer = exec::read_geometry(argv[1]);
  if (half) transformer.cache = model::CacheFormat::f16;
  const int count = std::stoi(argv[2]);
  std::vector<std::int32_t> prompt;
  for (int i = 4; i < argc; ++i) prompt.push_back(std::stoi(argv[i]));
  const planner::Plan plan = testing::plan_for(transformer, "local", 1, "equal",
                                               static_cast<std::int64_t>(prompt.size()), count);
  std::vector<std::vector<float>> logits;
  testing::SerialExecutor executor(plan, argv[1]);
  for (const std::int32_t token : executor.generate(prompt, count, logits))
    std::cout << token << '\n';
  std::ofstream out(argv[3], std::ios::binary);
  for (const std::vector<float>& row : logits)
    out.write(reinterpret_cast<const char*>(row.data()),
              static_cast<std::streamsize>(row.size() * sizeof(float)));
  out.close();
  if (!out) throw Error(std::string(argv[3]) + ": cannot write; check the folder");
  return 0;
} catch (const std::exception& e) {
  std::cerr << "tandem_gguf_logits: " << e.what() << '\n';
  return 1;
}
