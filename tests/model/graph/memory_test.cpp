#include "model/graph/memory.hpp"

#include <doctest/doctest.h>

#include "tests/model/model_fixtures.hpp"
#include "tests/support/storage_fixture.hpp"

namespace tandem::model::memory_test {

TEST_CASE("model/memory: Llama 2-70B over 8 devices") {
  const Transformer t = test::named_model("llama-2-70b");
  const Share share{.layers = {0, 80}, .heads = {0, 8}, .columns = {0, 3584}};
  SUBCASE(
      "a worker's weights: 80 * 4 * (8192 * (2 * 1024 + 2 * 128) + 3 * 8192 * 3584 + 2 * 8192)") {
    CHECK(weight_bytes(t, share) == 80.0 * 4 * (18874368.0 + 88080384 + 16384));
  }
  SUBCASE("eight workers, the embedding and the head are the model, 7 copies of the norms more") {
    double sum = 0.0;
    for (std::int32_t d = 0; d < 8; ++d) {
      Share s = share;
      s.heads = {8 * d, 8 * d + 8};
      s.columns = {3584 * d, 3584 * d + 3584};
      s.embedding = s.head = d == 0;
      sum += weight_bytes(t, s);
    }
    CHECK(sum == 4.0 * static_cast<double>(t.parameters()) + 7 * 4.0 * 80 * 2 * 8192);
  }
  SUBCASE("prompt of 64, 164 positions, 2 slots") {
    const MemoryUse use = tandem::test::memory_of(t, share, 64, 164, 2);
    CHECK(use.kv_cache == 80.0 * 2 * 192 * 128 * 4);  // 3 blocks of 64 positions
    CHECK(use.activations == 4.0 * 64 * (3 * 8192 + 2 * 1024 + 2 * 3584 + 128));
    CHECK(use.buffers == 2.0 * 64 * 8192 * 4);
    CHECK(use.program == 0.0);
    CHECK(use.total() == use.weights + use.kv_cache + use.activations + use.buffers + use.program);
  }
  SUBCASE("the master adds the embedding, the head, token ids (16 in a line) and a row of logits") {
    Share master = share;
    master.embedding = master.head = true;
    CHECK(weight_bytes(t, master) - weight_bytes(t, share) == 4.0 * (2.0 * 32000 * 8192 + 8192));
    CHECK(tandem::test::memory_of(t, master, 1, 1).activations -
              tandem::test::memory_of(t, share, 1, 1).activations ==
          4.0 * (32000 + 16));
  }
}

TEST_CASE("model/memory: more devices than key/value heads hold copies") {
  const Transformer t = test::small_llama();  // 6 heads, 3 key/value heads
  double kv = 0.0;
  for (std::int32_t d = 0; d < 6; ++d) {
    kv += tandem::test::memory_of(t, {.layers = {0, 2}, .heads = {d, d + 1}}, 1, 10).kv_cache;
  }
  CHECK(kv ==
        2.0 * tandem::test::memory_of(t, {.layers = {0, 2}, .heads = {0, 6}}, 1, 10).kv_cache);
}

TEST_CASE("model/memory: a tied matrix is held once") {
  Transformer t = test::small_llama();
  t.tied_embeddings = true;
  const double matrix = 4.0 * 50 * 24;
  const double norm = 4.0 * 24;
  CHECK(weight_bytes(t, {.embedding = true}) == matrix);
  CHECK(weight_bytes(t, {.head = true}) == matrix + norm);
  CHECK(weight_bytes(t, {.embedding = true, .head = true}) == matrix + norm);
  t.tied_embeddings = false;
  CHECK(weight_bytes(t, {.embedding = true, .head = true}) == 2 * matrix + norm);
}

TEST_CASE(
    "model/memory: no layers, no heads, no bytes, families without a gate hold one row less") {
  Transformer t = test::small_llama();
  CHECK(weight_bytes(t, {}) == 0.0);
  CHECK(weight_bytes(t, {.layers = {0, 2}}) == 0.0);
  CHECK(tandem::test::memory_of(t, {}, 5, 7) == MemoryUse{});
  CHECK_THROWS_AS((void)tandem::test::memory_of(t, {}, -1, 0), std::logic_error);
  const Share ffn{.layers = {0, 2}, .columns = {0, 40}};
  const auto of = [&t](const Share& share, BufferKind kind) {
    const std::vector<BufferDeclaration> buffers = share_buffers(t, share);
    const BufferDeclaration* const found = find_buffer(buffers, {kind});
    return found == nullptr ? 0 : found->columns;
  };
  CHECK(of(ffn, BufferKind::activation) == 40);
  CHECK(of(ffn, BufferKind::gated) == 40);
  CHECK(of(ffn, BufferKind::key_value) == 0);
  CHECK(of(ffn, BufferKind::angles) == 0);
  const Share heads{.layers = {0, 2}, .heads = {0, 6}};
  CHECK(of(heads, BufferKind::angles) == t.head_dim);
  t.family = Family::gpt2;
  CHECK(of(ffn, BufferKind::activation) == 40);
  CHECK(of(ffn, BufferKind::gated) == 0);
  CHECK(of(heads, BufferKind::angles) == 0);
  CHECK(of(heads, BufferKind::normed) == t.hidden);
  t.family = Family::bert;  // normed in place
  CHECK(of(heads, BufferKind::normed) == 0);
}

}  // namespace tandem::model::memory_test
