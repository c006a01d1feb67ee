// How fast a mebibyte of text is encoded and decoded, by the small tokenizers of tests/tokenizers;
// and the worst case of byte-pair encoding: a text that is one word.

#include <benchmark/benchmark.h>

#include <filesystem>
#include <memory>
#include <string>

#include "exec/tokenizer/tokenizer.hpp"
#include "tests/support/source_tree.hpp"

namespace {

using namespace tandem::exec;

constexpr std::size_t kTextBytes = std::size_t{1} << 20U;
constexpr const char* kNames[] = {"sp-bpe", "sp-unigram-bytes", "bpe-gpt2", "bpe-llama3",
                                  "bpe-steps"};

std::unique_ptr<Tokenizer> load(benchmark::State& state) {
  const char* const name = kNames[state.range(0)];
  state.SetLabel(name);
  tandem::model::Transformer transformer;
  transformer.vocab = 1024;
  return load_tokenizer(tandem::testing::in_sources("tests/tokenizers") / name, transformer);
}

// Words of many lengths that seldom come twice, with numbers, accents and lines.
std::string varied_text() {
  std::string text;
  for (std::uint32_t i = 0; text.size() < kTextBytes; ++i) {
    std::uint32_t x = i * 2654435761U;
    for (std::uint32_t n = 2 + x % 9; n > 0; --n) {
      x = x * 1664525U + 1013904223U;
      text += static_cast<char>('a' + (x >> 24U) % 26);
    }
    text += i % 11 == 0 ? ".\n" : i % 7 == 0 ? " caf\xC3\xA9 123456 " : " ";
  }
  return text;
}

void encode(benchmark::State& state, const std::string& text) {
  const auto tokenizer = load(state);
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer->encode(text));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}

void encode_varied(benchmark::State& state) { encode(state, varied_text()); }
void encode_one_word(benchmark::State& state) { encode(state, std::string(kTextBytes, 'e')); }

void decode_varied(benchmark::State& state) {
  const auto tokenizer = load(state);
  const std::string text = varied_text();
  const auto ids = tokenizer->encode(text);
  for (auto _ : state) benchmark::DoNotOptimize(decode(*tokenizer, ids));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}

BENCHMARK(encode_varied)->DenseRange(0, 4)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_one_word)->DenseRange(0, 4)->Unit(benchmark::kMillisecond);
BENCHMARK(decode_varied)->DenseRange(0, 4)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
