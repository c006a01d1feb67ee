#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>

#include "exec/kernels/attention.hpp"
#include "model/base/error.hpp"
#include "tests/exec/compute/compute_fixture.hpp"
#include "tests/support/storage_fixture.hpp"

namespace tandem::exec::compute_errors_test {

using namespace testing;
using model::Batch;
using model::BufferKind;
using model::BufferRef;
using model::Range;
using model::Share;
using model::Task;
using model::TaskKind;
using model::Transformer;
using model::WeightBlock;

TEST_CASE("compute: allocates what is declared, to the byte") {
  const Transformer t = tiny();
  const Share part{{0, 2}, {1, 5}, {3, 40}, false, true};
  for (const Share& share : {whole(t), part}) {
    const Compute c = make(
        t, share,
        {.max_rows = 13, .cache_positions = 37, .buffers = tandem::test::buffers_of(t, share, 2)});
    model::MemoryUse got = c.allocated();
    const double weights = model::weight_bytes(t, share);
    CHECK(got.weights >= weights);
    CHECK(got.weights <= weights + 4096.0 * (2.0 + 2.0 * static_cast<double>(t.layers)));
    got.weights = 0.0;  // whose blocks begin at pages
    CHECK(got == tandem::test::memory_of(t, share, 13, 37, 2));
    CHECK(got.buffers >= 4.0 * 2 * 13 * 44);
  }
}

TEST_CASE("compute: a task that needs weights of another share is an Error") {
  const Transformer t = tiny();
  Compute c = make(t, {{0, 1}, {0, 3}, {5, 20}, false, false}, {8, 8});
  const Batch batch{{{0, 0, 2}}};
  const Range rows{0, 2};
  const Task lacking[] = {
      {.kind = TaskKind::embed, .rows = rows, .output = kHidden},
      {.kind = TaskKind::norm,
       .block = WeightBlock::head,
       .rows = rows,
       .input = kHidden,
       .output = kNormed},
      {.kind = TaskKind::norm,
       .block = WeightBlock::ffn,
       .layer = 1,
       .rows = rows,
       .input = kHidden,
       .output = kNormed},
      {.kind = TaskKind::project_qkv,
       .layer = 0,
       .rows = rows,
       .columns = {2, 4},
       .input = kNormed,
       .output = kQuery},
      {.kind = TaskKind::attend,
       .layer = 0,
       .rows = rows,
       .columns = {3, 4},
       .input = kQuery,
       .output = kAttention},
      {.kind = TaskKind::project_out,
       .layer = -1,
       .rows = rows,
       .columns = {0, 3},
       .input = kAttention,
       .output = kPartial},
      {.kind = TaskKind::ffn_up,
       .layer = 0,
       .rows = rows,
       .columns = {4, 20},
       .input = kNormed,
       .output = kActivation},
      {.kind = TaskKind::ffn_down,
       .layer = 0,
       .rows = rows,
       .columns = {5, 21},
       .input = kActivation,
       .output = kPartial},
      {.kind = TaskKind::lm_head,
       .rows = {1, 2},
       .columns = {0, 53},
       .input = kNormed,
       .output = kLogits},
  };
  for (const Task& task : lacking) {
    CAPTURE(to_string(task.kind));
    CHECK_THROWS_AS(c.execute(batch, task), Error);
  }
}

TEST_CASE("compute: tasks beyond the limits or ill-formed are logic errors") {
  const Transformer t = tiny();
  Compute c = make(t, whole(t), {.max_rows = 4, .cache_positions = 6});
  c.set_tokens(std::vector<std::int32_t>{1, 2});
  const Task norm{.kind = TaskKind::norm,
                  .block = WeightBlock::ffn,
                  .layer = 0,
                  .rows = {0, 2},
                  .input = kHidden,
                  .output = kNormed};
  const Batch batch{{{0, 0, 2}}};
  CHECK_NOTHROW(c.execute(batch, norm));
  const auto refuses = [&](const Batch& b, const Task& task) {
    CHECK_THROWS_AS(c.execute(b, task), std::logic_error);
  };
  SUBCASE("5 rows where 4 fit") { refuses({{{0, 0, 5}}}, norm); }
  SUBCASE("positions beyond 2^31") { refuses({{{0, 2147483647, 2}}}, norm); }
  SUBCASE("keys and values of positions that the cache has not") {
    const Task project{.kind = TaskKind::project_qkv,
                       .layer = 0,
                       .rows = {0, 2},
                       .columns = {0, 6},
                       .input = kNormed,
                       .output = kQuery};
    const Task attend{.kind = TaskKind::attend,
                      .layer = 0,
                      .rows = {0, 2},
                      .columns = {0, 6},
                      .input = kQuery,
                      .output = kAttention};
    refuses(batch, project);
    refuses(batch, attend);
    c.begin(batch);
    CHECK_NOTHROW(c.execute(batch, project));
    CHECK_NOTHROW(c.execute(batch, attend));
    refuses({{{0, 2, 2}}}, project);  // a step that did not begin
    refuses({{{1, 0, 2}}}, project);  // another sequence
    c.reset();
    refuses(batch, attend);
  }
  SUBCASE("a sequence that begins anew, or elsewhere, without having been freed") {
    c.begin(batch);
    CHECK_THROWS_WITH_AS(c.begin({{{0, 0, 3}}}),
                         "sequence 0: positions from 0, but the cache has 2; free, truncate or "
                         "compute them first",
                         std::logic_error);
    CHECK_THROWS_AS(c.begin({{{0, 3, 1}}}), std::logic_error);
    CHECK_NOTHROW(c.begin({{{0, 0, 3}}, {{.kind = model::CacheOpKind::free, .sequence = 0}}}));
  }
  SUBCASE("a negative past") { refuses({{{0, -1, 2}}}, norm); }
  SUBCASE("rows outside the batch") {
    Task task = norm;
    task.rows = {0, 3};
    refuses(batch, task);
    task.rows = {-1, 1};
    refuses(batch, task);
  }
  SUBCASE("another lane, and kinds of other lanes") {
    Task task = norm;
    task.lane = model::LaneKind::disk;
    refuses(batch, task);
    for (const TaskKind kind :
         {TaskKind::sample, TaskKind::load, TaskKind::release, TaskKind::transfer}) {
      task = norm;
      task.kind = kind;
      refuses(batch, task);
    }
  }
  SUBCASE("operands of another width, no buffer, no such slot") {
    for (const BufferRef ref : {kQuery, kLogits, BufferRef{}, BufferRef{BufferKind::key_value},
                                BufferRef{BufferKind::receive, 0}}) {
      Task task = norm;
      task.output = ref;
      refuses(batch, task);
    }
  }
  SUBCASE("more embedded rows than tokens were set") {
    refuses({{{0, 0, 3}}}, {.kind = TaskKind::embed, .rows = {0, 3}, .output = kHidden});
  }
  SUBCASE("columns outside the vocabulary, the buffers") {
    refuses(batch, {.kind = TaskKind::lm_head,
                    .rows = {1, 2},
                    .columns = {0, 54},
                    .input = kNormed,
                    .output = kLogits});
    refuses(batch, {.kind = TaskKind::add,
                    .rows = {0, 2},
                    .columns = {0, 45},
                    .input = kPartial,
                    .output = kHidden});
  }
  SUBCASE("logits of all rows of a prompt at once") {
    refuses(batch, {.kind = TaskKind::lm_head,
                    .rows = {0, 2},
                    .columns = {0, 53},
                    .input = kNormed,
                    .output = kLogits});
  }
  SUBCASE("rows and columns of transfers") {
    std::vector<float> packed(44);
    CHECK_NOTHROW(c.read_rows(kHidden, {3, 4}, {0, 44}, packed));
    CHECK_THROWS_AS(c.read_rows(kHidden, {4, 5}, {0, 44}, packed), std::logic_error);
    CHECK_THROWS_AS(c.read_rows(kHidden, {3, 4}, {1, 45}, packed), std::logic_error);
    CHECK_THROWS_AS(c.read_rows(kHidden, {3, 4}, {0, 43}, packed), std::logic_error);
    CHECK_THROWS_AS(c.write_rows(kHidden, {-1, 0}, {0, 44}, packed), std::logic_error);
    CHECK_THROWS_AS(c.write_rows({BufferKind::receive, 1}, {0, 1}, {0, 44}, packed),
                    std::logic_error);
  }
}

TEST_CASE("compute: a cache with too few blocks is an Error that says which sequence lacks them") {
  const Transformer t = tiny();
  Compute c = make(t, whole(t), {.max_rows = 4, .cache_positions = 65});  // two blocks
  c.begin({{{7, 0, 4}}});
  c.begin({{{9, 0, 4}}});
  CHECK_THROWS_WITH_AS(c.begin({{{5, 0, 1}}}),
                       "key/value cache: sequence 5 needs 1 more blocks of 64 positions, expected "
                       "at most the 0 of 2 that are free; plan for more positions, or serve fewer "
                       "requests at once",
                       Error);
  c.begin({{{5, 0, 1}}, {{.kind = model::CacheOpKind::free, .sequence = 7}}});
}

TEST_CASE("compute: tokens outside the vocabulary and models it cannot run are Errors") {
  const Transformer t = tiny();
  Compute c = make(t, whole(t), {4, 4});
  CHECK_THROWS_AS(c.set_tokens(std::vector<std::int32_t>{1, 53}), Error);
  CHECK_THROWS_AS(c.set_tokens(std::vector<std::int32_t>{-1}), Error);
  CHECK_THROWS_AS(c.set_tokens(std::vector<std::int32_t>(5, 1)), std::logic_error);
  CHECK_THROWS_AS(static_cast<void>(c.logits()), std::logic_error);
  Transformer other = t;
  other.family = model::Family::glm;
  CHECK_THROWS_AS(make(other, whole(t), {4, 4}), Error);
}

TEST_CASE("compute: read_rows returns what write_rows wrote, a block of any buffer") {
  const Transformer t = tiny();
  Compute c = make(
      t, whole(t),
      {.max_rows = 5, .cache_positions = 8, .buffers = tandem::test::buffers_of(t, whole(t), 2)});
  std::uint32_t seed = 1;
  for (const BufferRef ref :
       {kHidden, kNormed, kQuery, kAttention, kActivation, kPartial,
        BufferRef{BufferKind::receive, 0}, BufferRef{BufferKind::receive, 1}}) {
    const auto all = testing::random_floats(std::int64_t{5} * 44, ++seed);
    c.write_rows(ref, {0, 5}, {0, 44}, all);
    std::vector<float> block(std::size_t{2} * 9);
    c.read_rows(ref, {2, 4}, {7, 16}, block);
    for (std::size_t row = 0; row < 2; ++row) {
      for (std::size_t column = 0; column < 9; ++column) {
        CHECK(block[row * 9 + column] == all[(row + 2) * 44 + column + 7]);
      }
    }
  }
}

}  // namespace tandem::exec::compute_errors_test
